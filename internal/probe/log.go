package probe

import (
	"errors"
	"io"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/jsonlines"
)

// logName is what errors call a disruption log.
const logName = "the disruption log"

// ReadLog reads a disruption log. A last line that was cut off, as by a crash while it was written, is left out. Any
// other line that cannot be read is an error that names it.
func ReadLog(r io.Reader) ([]v1.ProbeEvent, error) {
	return jsonlines.Read(r, logName, func(e v1.ProbeEvent) error {
		if e.Time.IsZero() || e.Event == "" {
			return errors.New("it has no time or no event")
		}
		return nil
	})
}

// OpenLog opens a disruption log for appending, as a prober's sink. Only its owner can read one that it makes.
func OpenLog(path string) (*jsonlines.File[v1.ProbeEvent], error) {
	return jsonlines.Open[v1.ProbeEvent](path, logName)
}
