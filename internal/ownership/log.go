package ownership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/jsonlines"
)

// ReadLog reads an ownership log. A last line that was cut off, as by a crash while it was written, is left out. Any
// other line that cannot be read is an error that names it. A log with holes proves less than it seems to.
func ReadLog(r io.Reader) ([]v1.OwnershipEvent, error) {
	var events []v1.OwnershipEvent
	err := jsonlines.Each(r, func(line []byte) error {
		var e v1.OwnershipEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		switch {
		case e.Time.IsZero():
			return errors.New("it has no time")
		case e.Source != v1.SourceLease && e.Source != v1.SourceScrape && e.Source != v1.SourceProcess:
			return fmt.Errorf("source %q is not known", e.Source)
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ownership log: %w", err)
	}
	return events, nil
}

// ReadCalls reads a cloud audit log, as ReadLog does. An empty log gives an empty slice that is not nil: there was a
// log, and it has no calls.
func ReadCalls(r io.Reader) ([]v1.CloudCall, error) {
	calls := []v1.CloudCall{}
	err := jsonlines.Each(r, func(line []byte) error {
		var c v1.CloudCall
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if c.Arrived.IsZero() || c.Action == "" {
			return errors.New("it has no arrival or no action")
		}
		calls = append(calls, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the cloud audit log: %w", err)
	}
	return calls, nil
}

// WriteLog writes events as an ownership log.
func WriteLog(w io.Writer, events []v1.OwnershipEvent) error {
	for _, e := range events {
		if err := jsonlines.Write(w, e); err != nil {
			return fmt.Errorf("writing the ownership log: %w", err)
		}
	}
	return nil
}

// LogFile is an ownership log that is appended to, safe for use by several goroutines.
type LogFile struct{ file *jsonlines.File }

// OpenLog opens an ownership log for appending, or makes one that only its owner can read. A line that a crash cut off
// is taken out first, so that the log stays readable.
func OpenLog(path string) (*LogFile, error) {
	f, err := jsonlines.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the ownership log: %w", err)
	}
	return &LogFile{f}, nil
}

// Append writes one event. An error is kept and returned by Close as well, so that it can serve as a recorder's sink.
func (l *LogFile) Append(e v1.OwnershipEvent) error {
	if err := l.file.Append(e); err != nil {
		return fmt.Errorf("writing the ownership log: %w", err)
	}
	return nil
}

// Close closes the file and returns the first error that writing it met.
func (l *LogFile) Close() error { return l.file.Close() }
