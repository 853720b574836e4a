// Package takeover decides when the lease of an owner that ends may be released, and waits for its successor.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// BindTimeout is for how long the holder of a lease is asked for before the step gives up: an election may just be
// under way.
const BindTimeout = 45 * time.Second

// BindOwners binds each lease of the step that the process about to end holds, and waits until another manager can take
// over. What is bound is written into the record. So after a crash right after the end of the old process, the next run
// still releases its leases.
func BindOwners(ctx context.Context, e *step.Env, s v1.Step, rec *v1.StepRecord) error {
	var bound []v1.HandoverRecord // what the record says stays in it until all are bound
	for _, lease := range s.Leases {
		var b *handover.Binding
		var last error
		var silence handover.Silence
		err := e.WaitFor(
			ctx,
			s,
			BindTimeout,
			step.SettleInterval,
			func() string { return fmt.Sprintf("who holds lease %s is not proven: %v", lease, last) },
			func(ctx context.Context) (bool, error) {
				candidates, err := manager.Candidates(ctx, e)
				if err != nil {
					return false, err
				}
				b, last = e.LeaseClient.Bind(ctx, lease, candidates)
				if handover.IsUnclaimed(last) && isAbandoned(ctx, e, s, lease, &silence) {
					last = nil
				}
				if handover.IsUnbound(last) || last != nil && retry.IsTransient(last) {
					return false, nil
				}
				return true, last
			},
		)
		if errors.Is(err, step.ErrTimedOut) {
			return &step.WaitError{
				Waited: BindTimeout,
				Reason: fmt.Sprintf("which manager leads was not proven, so that none was restarted: %v; repair the access to it, and run the same command again", last),
			}
		} else if err != nil {
			return err
		}
		if b == nil || s.Host != "" && b.Host != s.Host || b.Component != s.Component {
			continue
		}
		if err := successor(ctx, e, s, *b); err != nil {
			return err
		}
		bound = append(bound, recordOf(*b))
		e.Proofs.NoteBound(bound[len(bound)-1])
	}
	rec.Handovers = bound
	return nil
}

// recordOf is what a record says of a process that holds a lease; see bindingOf.
func recordOf(b handover.Binding) v1.HandoverRecord {
	return v1.HandoverRecord{
		Lease:       b.Lease,
		Holder:      b.Holder,
		PID:         b.PID,
		StartTicks:  b.StartTicks,
		Component:   b.Component,
		Host:        b.Host,
		Transitions: b.Transitions,
		AcquireTime: b.AcquireTime,
	}
}

// isAbandoned reports whether a lease that names a holder is free. Every manager has answered that it does not lead by
// it, and it was not renewed for longer than it lasts. A holder that died by itself may leave the migration lease so.
// That happens when the manager that took its other lease over did not want this one. A main lease always has a manager
// that takes it, and is waited for, unless the last of its kind is to go. A manager that crashes whenever it has won
// would block the rollback for as long as it crashes, and no manager would run the loops.
func isAbandoned(ctx context.Context, e *step.Env, s v1.Step, lease string, silence *handover.Silence) bool {
	if lease != e.Plan.Options.LeaseName && !removesComponent(s) {
		return false
	}
	expired, err := e.LeaseClient.Expired(ctx, lease, silence)
	if err != nil || !expired {
		return false
	}
	e.Report(
		s,
		step.EventProgress,
		fmt.Sprintf("lease %s has no holder: the last one is gone, and every manager says that it does not lead by it", lease),
	)
	return true
}

// removesComponent reports whether a step takes its component off a host, and does not end before no process of it is
// left.
func removesComponent(s v1.Step) bool {
	return s.Kind == v1.StepRemoveManifest || s.Kind == v1.StepStopUnit
}

// successor waits until a manager is ready to take the lease over. For a component's own lease, that is a process of it
// on another host that answers. For the migration lease, it is a manager that already leads its main lease and has
// reached the cloud.
func successor(ctx context.Context, e *step.Env, s v1.Step, b handover.Binding) error {
	if removesComponent(s) && b.Lease == s.Component {
		return nil // the last of its kind goes; no manager is to take this lease over
	}
	if e.IsInSeed(s.Ref) && b.Lease == s.Component {
		return nil // the pods that take it over come with the step
	}
	reason := ""
	err := e.WaitFor(
		ctx,
		s,
		BindTimeout,
		step.SettleInterval,
		func() string { return "no manager is ready to take lease " + b.Lease + " over: " + reason },
		func(ctx context.Context) (bool, error) {
			managers, err := manager.Ask(ctx, e, s.Successors...)
			if err != nil {
				return false, err
			}
			reason = takeover(managers, s, b)
			return reason == "", nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.WaitError{
			Waited: BindTimeout,
			Reason: fmt.Sprintf(
				"the owner %s on host %s was not stopped, since no manager is ready to take lease %s over: %s",
				b.Component,
				b.Host,
				b.Lease,
				reason,
			),
		}
	}
	return err
}

// takeover says why no manager can take the lease over; empty when one can.
func takeover(managers []v1.Manager, s v1.Step, b handover.Binding) string {
	reason := "no other manager runs"
	for _, m := range managers {
		if m.Host == b.Host && m.Component == b.Component {
			continue
		}
		if m.Error != "" {
			reason = fmt.Sprintf("%s on %s does not answer: %s", m.Component, m.Host, m.Error)
			continue
		}
		if m.Component == b.Component {
			// A standby of the same component takes the main lease first and the migration lease right after it.
			if b.Lease == b.Component || len(s.Successors) == 1 {
				return ""
			}
			continue
		}
		if b.Lease == b.Component {
			continue
		}
		switch {
		case !slices.Contains(m.Leads, m.Component):
			reason = fmt.Sprintf("%s on %s has not got its main lease", m.Component, m.Host)
		case m.CloudCalls != nil && *m.CloudCalls == 0:
			reason = fmt.Sprintf("%s on %s has not reached the cloud yet", m.Component, m.Host)
		default:
			return ""
		}
	}
	return reason
}
