package takeover

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// endTimeout is for how long an old process may take to end: a kubelet's grace of 30 s, and some.
const endTimeout = 75 * time.Second

// endInterval is how often the process table is looked at while an owner ends; each look is a part of the gap.
const endInterval = 20 * time.Millisecond

// ReleaseLeases waits until each bound process has ended and gives its leases up. It runs after every write and again
// after a crash.
func ReleaseLeases(ctx context.Context, e *step.Env, s v1.Step, rec *v1.StepRecord) error {
	if !IsReleased(*rec) {
		if err := e.CommitChanges(ctx, s.Host); err != nil { // the process ends when the change was made
			return err
		}
	}
	for i := range rec.Handovers {
		if r := &rec.Handovers[i]; r.Released == nil && r.Note == "" {
			if err := releaseOne(ctx, e, s, r); err != nil {
				return err
			}
			if err := e.Journal.Save(ctx, *rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// bindingOf is what a record says of the process that holds a lease.
func bindingOf(r *v1.HandoverRecord) handover.Binding {
	return handover.Binding{
		Lease:       r.Lease,
		Holder:      r.Holder,
		Transitions: r.Transitions,
		AcquireTime: r.AcquireTime,
		Component:   r.Component,
		Host:        r.Host,
		PID:         r.PID,
		StartTicks:  r.StartTicks,
	}
}

func releaseOne(ctx context.Context, e *step.Env, s v1.Step, r *v1.HandoverRecord) error {
	if e.Seed != nil {
		return releasePod(ctx, e, s, r)
	}
	b := bindingOf(r)
	h, err := e.Host(r.Host)
	if err != nil {
		return err
	}
	processes := func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, r.Component) }
	interval, isOwn := endInterval, e.Proofs.IsBound(*r)
	if !isOwn {
		interval = step.SettleInterval
	}
	var last error
	var unrenewed, silence handover.Silence
	err = e.WaitFor(ctx, s, endTimeout, interval, func() string {
		if last != nil {
			return fmt.Sprintf("lease %s is left to run out: %v", r.Lease, last)
		}
		return fmt.Sprintf(
			"%s on host %s (process %d), which holds lease %s, has not ended",
			r.Component,
			r.Host,
			r.PID,
			r.Lease,
		)
	}, func(ctx context.Context) (bool, error) {
		var gone bool
		if gone, last = handover.Gone(ctx, b, processes); !gone || isOwn {
			return gone, nil
		}
		if last = unheld(ctx, e, *r, &unrenewed); last == nil {
			return true, nil
		}
		return taken(ctx, e, r, last, &silence)
	})
	if errors.Is(err, step.ErrTimedOut) {
		if last != nil {
			return &step.WaitError{
				Waited: endTimeout,
				Reason: fmt.Sprintf(
					"whether the old manager has ended is unknown, so that its lease %s is left to expire: %v; look on its host, and run the same command again",
					r.Lease,
					last,
				),
			}
		}
		return &step.WaitError{
			Waited: endTimeout,
			Reason: fmt.Sprintf("the old owner (process %d of %s on host %s) did not end; its lease %s was left alone: "+
				"find out what keeps the process, then run the same command again", r.PID, r.Component, r.Host, r.Lease),
		}
	} else if err != nil {
		return err
	}
	if r.Note != "" {
		e.Report(s, step.EventProgress, fmt.Sprintf("lease %s was left alone: %s", r.Lease, r.Note))
		return nil
	}
	ended := e.Clock.Now().UTC()
	r.Ended = &ended
	var out handover.Outcome
	err = retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		var err error
		out, err = e.LeaseClient.Release(ctx, b, processes)
		return err
	})
	if err != nil {
		return err
	}
	r.NextHolder = out.Holder
	if !out.Released {
		r.Note = out.Reason
		e.Report(s, step.EventProgress, fmt.Sprintf("lease %s was left alone: %s", r.Lease, out.Reason))
		return nil
	}
	now := e.Clock.Now().UTC()
	r.Released = &now
	e.Report(s, step.EventProgress, released(*r))
	return nil
}

// AwaitTakeover waits until the leases that were given up have new holders, so that the process that gave them up comes
// back as a standby. If no manager takes one over within the time of its holder's lease, that is no reason to leave the
// host without its manager.
func AwaitTakeover(ctx context.Context, e *step.Env, s v1.Step, rec v1.StepRecord) {
	for _, r := range rec.Handovers {
		if r.Lease != s.Component {
			// who takes the component's own lease takes the migration lease, too; after the migration there is none
			continue
		}
		seen := ""
		reason := func() string {
			return fmt.Sprintf("lease %s is held by %s; a manager other than %q has to take it", r.Lease, seen, r.Holder)
		}
		err := e.WaitFor(ctx, s, takeoverTimeout, endInterval, reason, func(ctx context.Context) (bool, error) {
			holder, err := e.LeaseClient.Holder(ctx, r.Lease)
			switch {
			case err != nil:
				seen = "a holder that is not known: " + err.Error()
			case holder == "":
				seen = "no manager"
			default:
				seen = strconv.Quote(holder)
			}
			return err == nil && holder != "" && holder != r.Holder, nil
		})
		if err != nil {
			e.Report(s, step.EventProgress, fmt.Sprintf(
				"no manager has taken lease %s over for %s: it is held by %s",
				r.Lease,
				takeoverTimeout,
				seen,
			))
		}
	}
}

// takeoverTimeout is a lease's duration and the longest wait of a standby between two looks at it.
const takeoverTimeout = 20 * time.Second

// IsReleased reports whether nothing is owed for the handovers of a step.
func IsReleased(rec v1.StepRecord) bool {
	for _, r := range rec.Handovers {
		if r.Released == nil && r.Note == "" {
			return false
		}
	}
	return true
}

// BindPods binds the leases of a step that edits a Deployment in the seed to the pods of it that hold them, before
// these end.
func BindPods(ctx context.Context, e *step.Env, s v1.Step, rec *v1.StepRecord) error {
	if !e.IsInSeed(s.Ref) || len(s.Leases) == 0 {
		return nil
	}
	if err := BindOwners(ctx, e, s, rec); err != nil {
		return err
	}
	for i := range rec.Handovers {
		r := &rec.Handovers[i]
		pod, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).Get(ctx, r.Host, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading pod %s/%s in the seed: %w", e.Seed.Namespace, r.Host, err)
		}
		r.Node = pod.Spec.NodeName
	}
	return nil
}

// releasePod waits until a bound pod has ended and gives its lease up. Where the end is not proven it waits until the
// lease has run out by itself.
func releasePod(ctx context.Context, e *step.Env, s v1.Step, r *v1.HandoverRecord) error {
	b := bindingOf(r)
	isOwn := e.Proofs.IsBound(*r)
	var unrenewed, silence handover.Silence
	watch := watchPodEnd(ctx, e, r)
	watch.proven = e.Proofs.HasEnded(r.StartTicks) // of another lease of the pod, which may be gone since
	defer watch.stop()
	var last error
	more := step.Explanation{Since: e.Clock.Now()}
	err := e.WaitFor(ctx, s, step.RolloutTimeout, step.SettleInterval, func() string {
		if last != nil {
			return fmt.Sprintf("lease %s is left to run out: %v", r.Lease, last)
		}
		return fmt.Sprintf("pod %s, which holds lease %s, has not ended", r.Host, r.Lease) +
			more.Of(e, func(time.Time) string { return whyPod(ctx, e, r.Host) })
	}, func(ctx context.Context) (bool, error) {
		var gone bool
		gone, last = watch.hasEnded(ctx)
		if gone && last == nil && !isOwn {
			last = unheld(ctx, e, *r, &unrenewed)
		}
		if gone && last == nil {
			e.Proofs.NoteEnded(r.StartTicks)
			return true, nil
		}
		return taken(ctx, e, r, last, &silence)
	})
	if errors.Is(err, step.ErrTimedOut) {
		return &step.WaitError{
			Waited: step.RolloutTimeout,
			Reason: fmt.Sprintf(
				"pod %s (%s), which holds lease %s, did not end, and the lease was left alone; find out what keeps it, or what keeps the new pods from "+
					"getting ready, then run the same again",
				r.Host,
				r.Component,
				r.Lease,
			),
		}
	} else if err != nil || r.Note != "" {
		return err
	}
	ended := e.Clock.Now().UTC()
	r.Ended = &ended
	var out handover.Outcome
	err = retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		var err error
		// that it ended is proven, for good
		out, err = e.LeaseClient.Release(ctx, b, func(context.Context) ([]v1.Process, error) { return nil, nil })
		return err
	})
	if err != nil {
		return err
	}
	if r.NextHolder = out.Holder; !out.Released {
		r.Note = out.Reason
		e.Report(s, step.EventProgress, fmt.Sprintf("lease %s was left alone: %s", r.Lease, out.Reason))
		return nil
	}
	now := e.Clock.Now().UTC()
	r.Released = &now
	e.Report(s, step.EventProgress, fmt.Sprintf("pod %s (%s) has ended; released lease %s", r.Host, r.Component, r.Lease))
	return nil
}

// whyPod says how a pod of the seed ends, or does not, as the end of a sentence.
func whyPod(ctx context.Context, e *step.Env, name string) string {
	pod, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	if why := step.WhyPod(ctx, e, pod); why != "" {
		return ": " + why
	}
	return ""
}

// taken reports whether a lease has another holder, while the end of the one that it had is not known. It notes why.
func taken(
	ctx context.Context,
	e *step.Env,
	r *v1.HandoverRecord,
	unknown error,
	silence *handover.Silence,
) (bool, error) {
	holder, err := e.LeaseClient.Holder(ctx, r.Lease)
	switch {
	case apierrors.IsNotFound(err):
		r.Note = "the lease is gone"
	case err != nil:
		return false, nil //nolint:nilerr // asked again
	case holder != r.Holder:
		r.Note, r.NextHolder = "it has another holder or term already", holder
	default:
		expired, err := e.LeaseClient.Expired(ctx, r.Lease, silence)
		if err != nil || !expired || unknown == nil {
			return false, nil //nolint:nilerr // asked again
		}
		r.Note = "it ran out: " + unknown.Error()
	}
	return true, nil
}
