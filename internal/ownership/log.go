package ownership

import (
	"errors"
	"fmt"
	"io"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/jsonlines"
)

// logName is what errors call an ownership log.
const logName = "the ownership log"

// ReadLog reads an ownership log. A last line that was cut off, as by a crash while it was written, is left out. Any
// other line that cannot be read is an error that names it. A log with holes proves less than it seems to.
func ReadLog(r io.Reader) ([]v1.OwnershipEvent, error) {
	return jsonlines.Read(r, logName, func(e v1.OwnershipEvent) error {
		switch {
		case e.Time.IsZero():
			return errors.New("it has no time")
		case e.Source != v1.SourceLease && e.Source != v1.SourceScrape && e.Source != v1.SourceProcess:
			return fmt.Errorf("source %q is not known", e.Source)
		}
		return nil
	})
}

// ReadCalls reads a cloud audit log, as ReadLog does. An empty log gives an empty slice that is not nil: there was a
// log, and it has no calls.
func ReadCalls(r io.Reader) ([]v1.CloudCall, error) {
	calls, err := jsonlines.Read(r, "the cloud audit log", func(c v1.CloudCall) error {
		if c.Arrived.IsZero() || c.Action == "" {
			return errors.New("it has no arrival or no action")
		}
		return nil
	})
	if calls == nil && err == nil {
		calls = []v1.CloudCall{}
	}
	return calls, err
}

// WriteLog writes events as an ownership log.
func WriteLog(w io.Writer, events []v1.OwnershipEvent) error {
	for _, e := range events {
		if err := jsonlines.Write(w, e); err != nil {
			return fmt.Errorf("writing %s: %w", logName, err)
		}
	}
	return nil
}

// OpenLog opens an ownership log for appending, as a recorder's sink. Only its owner can read one that it makes.
func OpenLog(path string) (*jsonlines.File[v1.OwnershipEvent], error) {
	return jsonlines.Open[v1.OwnershipEvent](path, logName)
}
