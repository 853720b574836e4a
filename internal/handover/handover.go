// Package handover decides whether a lease may be released for a holder that has ended, and releases it.
//
// A lease names its holder by an identity that says nothing about a process (host name and a random id). So the
// identity is bound to a process while that process is alive. The lease is read, every candidate is asked for its
// leader_election_master_status, and the lease is read again. The process behind the claim is the holder only if
// exactly one candidate claims the lease and every other one denies it. The lease must also have the same holder and
// term before and after. Later that very process (pid and start time) may be gone from its host, and the lease still be
// in that term of that holder. Then no process can act under it. It is released with a resourceVersion precondition, as
// the holder itself would have done. In every other case it is left to expire:
//
//	holder alive            the process is still there                      untouched
//	restarted, same name    renewed since the new process began             untouched
//	restarted, random name  the process is gone, and its name with it       released
//	paused                  the process is there (state T)                  untouched
//	unreachable             a failed look is unknown, never "ended"         untouched
//	lease changed between   another holder or term                          untouched
//
// All of that rests on the binding. One that was read from a journal is a claim: an account that may write the journal
// can name any process as the holder. The caller then asks every manager again before it releases (see FindClaim and
// SilentFor).
package handover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// startTolerance is by how much process_start_time_seconds (computed from the boot time in whole seconds) may differ
// from what /proc says.
const startTolerance = 2 * time.Second

// Candidate is a manager that may hold a lease.
type Candidate struct {
	Component string
	Host      string
	// Look scrapes the manager.
	Look func(context.Context) (v1.Manager, error)
	// Processes lists the component's processes on the host.
	Processes func(context.Context) ([]v1.Process, error)
}

// Binding says which process a lease's holder is.
type Binding struct {
	Lease       string
	Holder      string
	Transitions int32
	AcquireTime time.Time
	Component   string
	Host        string
	PID         int
	StartTicks  uint64
}

// UnboundError says why a lease could not be bound to a process. It is no failure of the migration: the lease is left
// to expire.
type UnboundError struct {
	Lease  string
	Reason string
	// Unclaimed reports whether every candidate has answered, and that none of them leads.
	Unclaimed bool
}

func (e *UnboundError) Error() string {
	return fmt.Sprintf("lease %s is not bound to a process: %s", e.Lease, e.Reason)
}

// IsUnbound reports whether the error says that a lease could not be bound.
func IsUnbound(err error) bool {
	var u *UnboundError
	return errors.As(err, &u)
}

// IsUnclaimed reports whether the error says that every manager was asked and none leads by the lease.
func IsUnclaimed(err error) bool {
	var u *UnboundError
	return errors.As(err, &u) && u.Unclaimed
}

// Leases reads and releases leases of one namespace.
type Leases struct {
	Client coordinationclient.LeaseInterface
	Now    func() time.Time
}

// Bind finds the process that holds the lease among the candidates. It returns nil without an error when the lease is
// free.
func (l Leases) Bind(ctx context.Context, lease string, candidates []Candidate) (*Binding, error) {
	before, err := l.Client.Get(ctx, lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading lease %s: %w", lease, err)
	}
	if ptr.Deref(before.Spec.HolderIdentity, "") == "" {
		return nil, nil
	}
	holder, err := claimant(ctx, lease, candidates)
	if err != nil {
		return nil, err
	}
	after, err := l.Client.Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading lease %s again: %w", lease, err)
	}
	b := binding(before)
	if b != binding(after) {
		return nil, &UnboundError{Lease: lease, Reason: "its holder changed while the managers were asked"}
	}
	b.Component, b.Host, b.PID, b.StartTicks = holder.Component, holder.Host, holder.PID, holder.StartTicks
	return &b, nil
}

func binding(l *coordinationv1.Lease) Binding {
	b := Binding{
		Lease:       l.Name,
		Holder:      ptr.Deref(l.Spec.HolderIdentity, ""),
		Transitions: ptr.Deref(l.Spec.LeaseTransitions, 0),
	}
	if l.Spec.AcquireTime != nil {
		b.AcquireTime = l.Spec.AcquireTime.UTC()
	}
	return b
}

// claimant is the one candidate that says that it leads; every other one must have said that it does not.
func claimant(ctx context.Context, lease string, candidates []Candidate) (Binding, error) {
	var found []Binding
	for _, c := range candidates {
		procs, err := c.Processes(ctx)
		if err != nil {
			return Binding{}, &UnboundError{
				Lease:  lease,
				Reason: fmt.Sprintf("processes of %s on host %s are unknown: %v", c.Component, c.Host, err),
			}
		}
		if len(procs) == 0 {
			continue // it certainly does not run
		}
		m, err := c.Look(ctx)
		if err != nil {
			return Binding{}, &UnboundError{
				Lease:  lease,
				Reason: fmt.Sprintf("%s on host %s did not answer: %v", c.Component, c.Host, err),
			}
		}
		if !holdsLease(m, lease) {
			continue
		}
		if len(procs) != 1 {
			return Binding{}, &UnboundError{
				Lease:  lease,
				Reason: fmt.Sprintf("%d processes of %s run on host %s", len(procs), c.Component, c.Host),
			}
		}
		if m.ProcessStarted != nil && !procs[0].Started.IsZero() {
			if d := m.ProcessStarted.Sub(procs[0].Started).Abs(); d > startTolerance {
				return Binding{}, &UnboundError{
					Lease:  lease,
					Reason: fmt.Sprintf("%s on host %s was restarted while it was asked", c.Component, c.Host),
				}
			}
		}
		found = append(
			found,
			Binding{
				Component:  c.Component,
				Host:       c.Host,
				PID:        procs[0].PID,
				StartTicks: procs[0].StartTicks,
			},
		)
	}
	switch len(found) {
	case 0:
		return Binding{}, &UnboundError{Lease: lease, Reason: "no manager that was asked says that it leads", Unclaimed: true}
	case 1:
		return found[0], nil
	}
	return Binding{}, &UnboundError{
		Lease:  lease,
		Reason: fmt.Sprintf("%d managers say that they lead: a paused one may have been resumed", len(found)),
	}
}

// FindClaim returns which candidate says that it leads by a lease, and nil when all have answered and none does. An
// error says who could not be asked.
func FindClaim(ctx context.Context, lease string, candidates []Candidate) (*Binding, error) {
	holder, err := claimant(ctx, lease, candidates)
	if IsUnclaimed(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return &holder, nil
}

func holdsLease(m v1.Manager, lease string) bool {
	for _, l := range m.Leads {
		if l == lease {
			return true
		}
	}
	return false
}

// Gone reports whether the bound process has ended. An error means that it is unknown.
func Gone(ctx context.Context, b Binding, processes func(context.Context) ([]v1.Process, error)) (bool, error) {
	procs, err := processes(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for process %d of %s on host %s: %w", b.PID, b.Component, b.Host, err)
	}
	for _, p := range procs {
		if p.PID == b.PID && p.StartTicks == b.StartTicks {
			return false, nil
		}
	}
	return true, nil
}

// isOfOneProcess reports whether no other process can have the holder's identity. A kube-controller-manager makes its
// identity of the host's name and of a random UUID. So a successor on the same host has another one.
func isOfOneProcess(b Binding) bool {
	id := b.Holder[strings.LastIndex(b.Holder, "_")+1:]
	parsed, err := uuid.Parse(id)
	return b.Component == component.KCM && err == nil && parsed.Version() == 4 && parsed.String() == id
}

// mayHold says why a process that runs now may be the holder; empty when none may. A successor of the same identity
// goes on renewing the lease in the same term. Only the time of the last renewal tells it from the one before.
func mayHold(b Binding, lease *coordinationv1.Lease, procs []v1.Process) string {
	for _, p := range procs {
		if p.PID == b.PID && p.StartTicks == b.StartTicks {
			return fmt.Sprintf("process %d of %s on host %s has not ended", b.PID, b.Component, b.Host)
		}
		if isOfOneProcess(b) {
			continue
		}
		renewed := lease.Spec.RenewTime
		if renewed == nil || !renewed.Time.Before(p.Started.Add(-startTolerance)) {
			return fmt.Sprintf(
				"%s was restarted on host %s (process %d), and the lease was renewed since: it may have it under the same name",
				b.Component,
				b.Host,
				p.PID,
			)
		}
	}
	return ""
}

// Outcome is what became of a release.
type Outcome struct {
	Released bool
	// Holder is who holds the lease now; empty after a release.
	Holder string
	// Reason says why the lease was left alone.
	Reason string
}

// Release gives up the lease for a holder whose process is gone. It asks once more, right before the write, and leaves
// a lease alone that is not in the bound term any longer.
func (l Leases) Release(
	ctx context.Context,
	b Binding,
	processes func(context.Context) ([]v1.Process, error),
) (Outcome, error) {
	lease, err := l.Client.Get(ctx, b.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Outcome{Reason: "the lease is gone"}, nil
	} else if err != nil {
		return Outcome{}, fmt.Errorf("reading lease %s: %w", b.Lease, err)
	}
	if now := binding(
		lease,
	); now.Holder != b.Holder || now.Transitions != b.Transitions ||
		!now.AcquireTime.Equal(b.AcquireTime) {
		if now.Holder == "" {
			return Outcome{Reason: "its holder gave it up itself"}, nil
		}
		return Outcome{Holder: now.Holder, Reason: "it has another holder or term already"}, nil
	}
	procs, err := processes(ctx)
	if err != nil {
		return Outcome{
				Holder: b.Holder,
			}, fmt.Errorf(
				"looking for process %d of %s on host %s: %w",
				b.PID,
				b.Component,
				b.Host,
				err,
			)
	}
	if why := mayHold(b, lease, procs); why != "" {
		return Outcome{Holder: b.Holder, Reason: why}, nil
	}
	released := lease.DeepCopy() // keeps the resourceVersion: a renewal in between makes this a conflict
	now := metav1.NewMicroTime(l.Now())
	released.Spec.HolderIdentity = ptr.To("")
	released.Spec.LeaseDurationSeconds = ptr.To[int32](1)
	released.Spec.RenewTime, released.Spec.AcquireTime = &now, &now
	if _, err := l.Client.Update(
		ctx,
		released,
		metav1.UpdateOptions{FieldManager: "transplant"},
	); apierrors.IsConflict(
		err,
	) {
		return Outcome{Holder: b.Holder, Reason: "it was written in between: its holder may be alive"}, nil
	} else if err != nil {
		return Outcome{Holder: b.Holder}, fmt.Errorf("releasing lease %s: %w", b.Lease, err)
	}
	return Outcome{Released: true}, nil
}

// Holder is who holds the lease; empty when the lease is free.
func (l Leases) Holder(ctx context.Context, lease string) (string, error) {
	live, err := l.Client.Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading lease %s: %w", lease, err)
	}
	return ptr.Deref(live.Spec.HolderIdentity, ""), nil
}
