package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// SettleInterval is the time between two looks at a step's effect.
const SettleInterval = 200 * time.Millisecond

// TimeoutOf bounds the wait for a step; a real kubelet was measured to take 30 s for a manager and 75 s for a
// kube-apiserver.
func TimeoutOf(s v1.Step) time.Duration {
	if changesImage(s) {
		return 180*time.Second + pullBudget
	}
	switch {
	case s.Component == component.KAS:
		return 180 * time.Second
	case s.Component != "":
		return 120 * time.Second
	}
	return 60 * time.Second
}

// ErrTimedOut says that what was waited for did not come in time.
var ErrTimedOut = errors.New("timed out")

// Poll calls f until it is true; ErrTimedOut when the limit passes first.
func (e *Env) Poll(ctx context.Context, limit, interval time.Duration, f func(context.Context) (bool, error)) error {
	end := e.Clock.Now().Add(limit)
	for {
		ok, err := f(ctx)
		if err != nil || ok {
			return err
		}
		if e.Clock.Now().After(end) {
			return ErrTimedOut
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.Clock.After(interval):
		}
	}
}

// ReportWaiting tells what a step that was begun waits for. It is told at every look; who listens says it when it
// changes.
func (e *Env) ReportWaiting(s v1.Step, reason string, since time.Time) {
	if e.Clock.Since(since) >= SettleInterval { // the first look of a step that is done at once is not worth a word
		e.Report(s, EventWaiting, reason)
	}
}

// Explanation is why a wait goes on where that takes requests of its own, which are sent seldom.
type Explanation struct {
	// Since is when the wait began.
	Since time.Time

	asked time.Time
	text  string
}

// A short wait is not explained. A longer one is explained again after a pause.
const (
	explainAfter = time.Second
	explainPause = time.Second
)

// Of is what ask said last; empty where the wait is short, or where there is nothing to say.
func (x *Explanation) Of(e *Env, ask func(since time.Time) string) string {
	now := e.Clock.Now()
	if now.Sub(x.Since) >= explainAfter && now.Sub(x.asked) >= explainPause {
		x.text, x.asked = ask(x.Since), now
	}
	return x.text
}

// WhyPod says why a pod does not run or is not Ready; empty where it is.
func WhyPod(ctx context.Context, e *Env, p *corev1.Pod) string {
	if why, is := e.Pods.Explain(ctx, e.KubeOf(p.Namespace), p); is {
		return why.String()
	}
	return ""
}

// WhyWorkload is WhyPod without what the pod's containers have written. Pods of the control plane's namespace are no
// workload.
func WhyWorkload(ctx context.Context, e *Env, p *corev1.Pod) string {
	if p.Namespace == component.Namespace {
		return WhyPod(ctx, e, p)
	}
	if why, is := e.Pods.ExplainWorkload(ctx, e.KubeOf(p.Namespace), p); is {
		return why.String()
	}
	return ""
}

// Note keeps a sentence in a step's record and tells it, once.
func (e *Env) Note(s v1.Step, rec *v1.StepRecord, sentence string) {
	if slices.Contains(rec.Notes, sentence) {
		return
	}
	rec.Notes = append(rec.Notes, sentence)
	e.Report(s, EventProgress, sentence)
}

const opImage = "setImage"

// pullBudget is what a step with a new image may take longer than any other. A kubelet that does not have it pulls 30
// to 130 MB first.
const pullBudget = 3 * time.Minute

// changesImage reports whether a step gives its component another image.
func changesImage(s v1.Step) bool {
	return slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == opImage })
}

// WaitFor is poll for a long wait: each check without success reports what it waits for.
func (e *Env) WaitFor(
	ctx context.Context,
	s v1.Step,
	limit, interval time.Duration,
	reason func() string,
	f func(context.Context) (bool, error),
) error {
	begun := e.Clock.Now()
	return e.Poll(ctx, limit, interval, func(ctx context.Context) (bool, error) {
		ok, err := f(ctx)
		if !ok && err == nil {
			e.ReportWaiting(s, reason(), begun)
		}
		return ok, err
	})
}

// WithProgress hands on who is told what a host is waited for, and whether the operator has asked to stop.
func (e *Env) WithProgress(ctx context.Context, s v1.Step) context.Context {
	ctx = hostaccess.WithProgress(ctx, func(message string) { e.Report(s, EventProgress, message) })
	return hostaccess.WithStopping(ctx, e.Stopping)
}

// Pending returns why a step is not done: the object, what is seen of it, and what is wanted.
func Pending(format string, args ...any) error { return PendingError(fmt.Sprintf(format, args...)) }

// PendingIf returns why a step is not done, as an error that is worth waiting for.
func PendingIf(why string, err error) error {
	if err != nil || why == "" {
		return err
	}
	return PendingError(why)
}
