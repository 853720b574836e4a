package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fieldowner"
)

// StepError is an error of one step.
type StepError struct {
	Step v1.Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step.ID, e.Err) }

func (e *StepError) Unwrap() error { return e.Err }

// StaleError says that the cluster is no longer as it was when the plan was made.
type StaleError struct{ Changed []v1.ChangedFact }

// NewStale returns an error about one thing that has changed.
func NewStale(format string, args ...any) *StaleError {
	return &StaleError{Changed: []v1.ChangedFact{{Message: fmt.Sprintf(format, args...)}}}
}

func (e *StaleError) Error() string {
	texts := make([]string, len(e.Changed))
	for i, c := range e.Changed {
		texts[i] = c.Message + LastWrite(c)
	}
	return "the plan is stale: " + strings.Join(texts, "; ")
}

// LastWrite says who wrote what has changed, and when; empty where that is not known.
func LastWrite(c v1.ChangedFact) string {
	const minute = "2006-01-02 15:04 MST"
	switch {
	case c.ChangedAt == nil:
		return ""
	case c.ChangedBy != "":
		return fmt.Sprintf(", last written by %s at %s", c.ChangedBy, c.ChangedAt.UTC().Format(minute))
	}
	return ", last modified at " + c.ChangedAt.UTC().Format(minute)
}

// NameWriter adds to what has changed in an object who wrote one of its fields last since a moment, where the API
// server says so. This program's own writes do not count.
func NameWriter(
	c *v1.ChangedFact,
	object string,
	managed []metav1.ManagedFieldsEntry,
	since time.Time,
	fields ...[]string,
) {
	c.Object = object
	if last, known := fieldowner.LastWrite(fieldowner.WithoutOurs(managed), since, fields...); known {
		c.ChangedBy, c.ChangedAt = last.Manager, &last.At
	}
}

// VerifyError says that a step was executed and its effect did not show.
type VerifyError struct {
	Waited time.Duration
	Reason string
	// Undo says what still holds and how to go back; it may be empty.
	Undo string

	PutBack bool // the host itself put back what it had found before the step
}

func (e *VerifyError) Error() string {
	out := "not verified: " + e.Reason
	if e.Waited > 0 {
		out = fmt.Sprintf("not verified after %s: %s", e.Waited, e.Reason)
	}
	if e.Undo != "" {
		out += "\n" + e.Undo
	}
	return out
}

// WaitError says that a wait for something other than the step's own effect took too long. The same command goes on.
type WaitError struct {
	Waited time.Duration
	Reason string
}

func (e *WaitError) Error() string { return fmt.Sprintf("waited for %s: %s", e.Waited, e.Reason) }

// Is reports whether the time was up, without being an error of the network.
func (e *WaitError) Is(
	target error,
) bool {
	return target == context.DeadlineExceeded
} //nolint:errorlint // this is what errors.Is asks

// RegressionError says that a node did not come back as it was before its kubelet was changed, and what became of its
// host.
type RegressionError struct {
	Host, Node string
	// Reason is what was not as before, with the kubelet's last words where they could be had.
	Reason string
	// Still is why the kubelet does not come back with its old flags either; empty when it did.
	Still string
}

func (e *RegressionError) Error() string {
	if e.Still == "" {
		return fmt.Sprintf(
			"%s. The kubelet on host %s has its old flags again and node %s is Ready; no other node was touched. Find the cause, and run the same command again, or go back with transplant rollback",
			e.Reason,
			e.Host,
			e.Node,
		)
	}
	return fmt.Sprintf(
		"%s. Its files were put back, and the kubelet on host %s does not come back with them either: %s. No other node was touched. Look on that host at systemctl status kubelet and "+
			"journalctl -u kubelet; when it runs and node %s is Ready, run the same command again",
		e.Reason,
		e.Host,
		e.Still,
		e.Node,
	)
}

// Unwrap reports whether it is a verification that failed.
func (e *RegressionError) Unwrap() error { return &VerifyError{Reason: e.Reason} }

// PendingError says why a step is not done. It is worth waiting for, where another error of a look is not.
type PendingError string

func (e PendingError) Error() string { return string(e) }
