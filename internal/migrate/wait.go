package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
)

// reachTimeout is for how long an unreachable host is waited for before a step on it. One that is rebooted is back by
// then.
const reachTimeout = 2 * time.Minute

// waitForHost waits until a step's host can be looked at. If an earlier run changed the host's kubelet and lost the
// connection, the kubelet may be the cause. How to put it back by hand is said at once, and not only when the wait has
// timed out.
func (e *Engine) waitForHost(ctx context.Context, s v1.Step) error {
	if s.Host == "" {
		return nil
	}
	h, err := e.env.Host(s.Host)
	if err != nil {
		return err
	}
	var last error
	told := false
	err = e.env.WaitFor(
		ctx,
		s,
		reachTimeout,
		step.SettleInterval,
		func() string { return "the host is out of reach: " + last.Error() },
		func(ctx context.Context) (bool, error) {
			if _, last = h.List(ctx, "/etc/kubernetes"); !hostaccess.IsUnreachable(last) {
				return true, nil
			}
			if how := kubelet.RepairByHand(s, e.env.Journal.Record(s.ID)); how != "" && !told {
				told = true
				e.env.Report(s, step.EventProgress, how)
			}
			return false, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		e.env.NoteUnreachable(last)
		return fmt.Errorf(
			"waiting %s for the host: %w",
			reachTimeout,
			kubelet.CutOffError(s, e.env.Journal.Record(s.ID), last),
		)
	}
	return err
}

// answerTimeout is for how long an API server that does not answer is asked again before a step is given up. A minute
// without an answer is survived.
const answerTimeout = 90 * time.Second

// retryTransient asks again while the API server does not answer, and tells so. This try of the step has changed
// nothing yet: it is no harm to wait.
func (e *Engine) retryTransient(ctx context.Context, s v1.Step, ask func(context.Context) error) error {
	var last error
	err := e.env.WaitFor(
		ctx,
		s,
		answerTimeout,
		step.SettleInterval,
		func() string { return "the API server does not answer: " + last.Error() },
		func(ctx context.Context) (bool, error) {
			if last = ask(ctx); last != nil && !retry.IsTransient(last) {
				return false, last
			}
			return last == nil, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.WaitError{
			Waited: answerTimeout,
			Reason: fmt.Sprintf("the API server does not answer: %v; nothing was changed meanwhile", last),
		}
	}
	return err
}
