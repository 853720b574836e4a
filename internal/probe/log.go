package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/jsonlines"
)

// ReadLog reads a disruption log. A last line that was cut off, as by a crash while it was written, is left out. Any
// other line that cannot be read is an error that names it.
func ReadLog(r io.Reader) ([]v1.ProbeEvent, error) {
	var events []v1.ProbeEvent
	err := jsonlines.Each(r, func(line []byte) error {
		var e v1.ProbeEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Time.IsZero() || e.Event == "" {
			return errors.New("it has no time or no event")
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the disruption log: %w", err)
	}
	return events, nil
}

// LogFile is a disruption log that is appended to.
type LogFile struct{ file *jsonlines.File }

// OpenLog opens a disruption log for appending, or makes one that only its owner can read.
func OpenLog(path string) (*LogFile, error) {
	f, err := jsonlines.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the disruption log: %w", err)
	}
	return &LogFile{f}, nil
}

// Append writes one line. An error is kept and returned by Close as well, so that it can serve as a prober's sink.
func (l *LogFile) Append(e v1.ProbeEvent) error {
	if err := l.file.Append(e); err != nil {
		return fmt.Errorf("writing the disruption log: %w", err)
	}
	return nil
}

// Close closes the file and returns the first error that writing it met.
func (l *LogFile) Close() error { return l.file.Close() }
