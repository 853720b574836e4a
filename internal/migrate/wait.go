package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// waitFor is poll for a wait that may take longer than somebody sits still: each look that is in vain tells what it waits for.
func (e *Engine) waitFor(ctx context.Context, s v1.Step, limit, interval time.Duration, reason func() string, f func(context.Context) (bool, error)) error {
	begun := e.Clock.Now()
	return e.poll(ctx, limit, interval, func(ctx context.Context) (bool, error) {
		ok, err := f(ctx)
		if !ok && err == nil {
			e.waiting(s, reason(), begun)
		}
		return ok, err
	})
}

// watched hands on who is told what a host is waited for, and whether the operator has asked to stop.
func (e *Engine) watched(ctx context.Context, s v1.Step) context.Context {
	ctx = hostaccess.WithProgress(ctx, func(message string) { e.tell(s, "progress", message) })
	return hostaccess.WithStopping(ctx, e.stopping)
}

// commit has the changes of a host made that were asked for. It comes before each wait for their effect: people may make them, and take their time.
func (e *Engine) commit(ctx context.Context, host string) error {
	if host == "" {
		return nil
	}
	h, err := e.host(host)
	if err != nil {
		return err
	}
	return hostaccess.Commit(ctx, h)
}

// reachBudget is for how long a host that is out of reach is waited for before a step on it: one that is started anew is back by then.
const reachBudget = 2 * time.Minute

// reach waits until a step's host can be looked at. Where an earlier run changed the host's kubelet and lost the way to it, the kubelet may be what took the
// way with it: how it is put back by hand is said at once, and not only when the wait has ended in vain.
func (e *Engine) reach(ctx context.Context, s v1.Step) error {
	if s.Host == "" {
		return nil
	}
	h, err := e.host(s.Host)
	if err != nil {
		return err
	}
	var last error
	told := false
	err = e.waitFor(ctx, s, reachBudget, settleInterval, func() string { return "the host is out of reach: " + last.Error() }, func(ctx context.Context) (bool, error) {
		if _, last = h.List(ctx, "/etc/kubernetes"); !hostaccess.IsUnreachable(last) {
			return true, nil
		}
		if how := byHand(s, e.journal.Record(s.ID)); how != "" && !told {
			told = true
			e.tell(s, "progress", how)
		}
		return false, nil
	})
	if errors.Is(err, errWaited) {
		e.missed(last)
		return fmt.Errorf("waiting %s for the host: %w", reachBudget, cutOff(s, e.journal.Record(s.ID), last))
	}
	return err
}

// answerBudget is for how long an API server that does not answer is asked again before a step is given up: a minute without any is survived.
const answerBudget = 90 * time.Second

// steady asks again while the API server does not answer, and tells so. Nothing of a step was begun yet: it is no harm to wait.
func (e *Engine) steady(ctx context.Context, s v1.Step, ask func(context.Context) error) error {
	var last error
	err := e.waitFor(ctx, s, answerBudget, settleInterval, func() string { return "the API server does not answer: " + last.Error() }, func(ctx context.Context) (bool, error) {
		if last = ask(ctx); last != nil && !Transient(last) {
			return false, last
		}
		return last == nil, nil
	})
	if errors.Is(err, errWaited) {
		return &WaitError{Waited: answerBudget, Reason: fmt.Sprintf("the API server does not answer: %v; nothing was changed meanwhile", last)}
	}
	return err
}
