package agent

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestAnErrorOfAHostIsShort: the root of a host could send megabytes, which would be logged and kept in the journal.
func TestAnErrorOfAHostIsShort(t *testing.T) {
	e := &Error{Message: strings.Repeat("ä", 1<<20), Is: []string{"not-exist"}}
	err := e.Err()
	if n := len(err.Error()); n > maxMessage+len("...") || !strings.HasSuffix(err.Error(), "ä...") {
		t.Errorf("%d bytes, which end in %q", n, err.Error()[n-20:])
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("it is another error now")
	}
	if err := (&Error{Message: "short"}).Err(); err.Error() != "short" {
		t.Errorf("a short one became %q", err)
	}
}
