package agent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Error carries an error over the wire: its words, and what it is.
type Error struct {
	Message string   `json:"message"`
	Is      []string `json:"is,omitempty"`
}

// identities are the errors that a caller may ask for, under the names that they have on the wire.
var identities = []struct {
	name string
	err  error
}{
	{"not-exist", fs.ErrNotExist},
	{"exist", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"no-space", syscall.ENOSPC},
	{"quota", syscall.EDQUOT},
	{"read-only", syscall.EROFS},
	{"too-many-links", syscall.ELOOP},
	{"io", syscall.EIO},
	{"refused", syscall.ECONNREFUSED},
	{"no-route", syscall.EHOSTUNREACH},
	{"not-regular", local.ErrNotRegular},
	{"outside", local.ErrOutside},
	{"not-granted", ErrNotGranted},
	{"put-back", hostaccess.ErrPutBack},
	{"lock-lost", hostaccess.ErrLockLost},
	{"deadline", context.DeadlineExceeded},
	{"canceled", context.Canceled},
}

// ErrNotGranted says that an agent was asked for more than it was started for.
var ErrNotGranted = errors.New("this access was not opened for that")

// encodeError leaves out where the host is mounted: paths in messages are the host's.
func encodeError(err error, root string) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Message: err.Error()}
	if root != "/" {
		e.Message = strings.ReplaceAll(e.Message, root+"/", "/")
	}
	for _, i := range identities {
		if errors.Is(err, i.err) {
			e.Is = append(e.Is, i.name)
		}
	}
	return e
}

// Err is the error again; nil for nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	// The root of the host wrote it, or could have.
	out := &hostError{message: visible.Line(visible.Cut(e.Message, maxMessage))}
	for _, name := range e.Is[:min(len(e.Is), len(identities))] {
		for _, i := range identities {
			if i.name == name {
				out.is = append(out.is, i.err)
			}
		}
	}
	return out
}

// maxMessage is how long, in bytes, the words of an error of a host may be: they are logged, and kept in the journal.
const maxMessage = 4 << 10

// hostError is an error of a host, with the words that it has there.
type hostError struct {
	message string
	is      []error
}

func (e *hostError) Error() string { return e.message }

func (e *hostError) Unwrap() []error { return e.is }
