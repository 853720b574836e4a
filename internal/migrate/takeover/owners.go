package takeover

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// Owners gives up the leases of managers that people end, once their processes are seen to have ended. No
// kube-controller-manager does so itself: for 15 s no manager would run its loops. What is not proven is left to run
// out.
type Owners struct {
	env *step.Env
	// tried is when the holder of a lease was last looked for without success.
	tried map[string]time.Time
	// silent is when a host was last asked that did not answer.
	silent map[string]time.Time
}

// WatchOwners watches the owners for as long as a step waits for people.
func WatchOwners(e *step.Env) *Owners {
	return &Owners{env: e, tried: map[string]time.Time{}, silent: map[string]time.Time{}}
}

const (
	// ownerLook bounds a look at the processes of a host. One that was lost may answer after a minute, or never, and its
	// lease has run out by then.
	ownerLook = 5 * time.Second
	// silentFor is for how long a host that did not answer is not asked again.
	silentFor = 15 * time.Second
)

// rebindInterval is how often the holder of a lease is looked for that is not known. Each time, every manager is asked.
const rebindInterval = 30 * time.Second

// canWatch reports whether there is a process that could be seen to end.
func (o *Owners) canWatch() bool { return o.env.Seed == nil && len(o.env.Hosts) > 0 }

func (o *Owners) leases() []string {
	return []string{component.KCM, component.CCM, o.env.Plan.Options.LeaseName}
}

// Bind finds the processes that hold the leases. It is to be called before managers come that cannot be asked: with one
// of these, no holder is proven. What was proven stays so until the lease has another holder.
func (o *Owners) Bind(ctx context.Context) {
	if !o.canWatch() {
		return
	}
	for _, lease := range o.leases() {
		holder, err := o.env.LeaseClient.Holder(ctx, lease)
		if err != nil || holder == "" {
			continue
		}
		if r, isBound := o.env.Proofs.HolderOf(lease); isBound && r.Holder == holder {
			continue
		}
		o.env.Proofs.Forget(lease)
		if now := o.env.Clock.Now(); now.Sub(o.tried[lease]) >= rebindInterval {
			o.tried[lease] = now
			o.bind(ctx, lease)
		}
	}
}

// Settle waits until the holders of both leases are proven, once every manager knows the migration lease and can still
// be asked. Without that it goes on: the lease of a manager that ends then runs out by itself.
func (o *Owners) Settle(ctx context.Context, s v1.Step) error {
	if !o.canWatch() {
		return nil
	}
	missing := ""
	err := o.env.WaitFor(ctx, s, BindTimeout, time.Second, func() string {
		return "which process holds lease " + missing + " is not proven yet"
	}, func(ctx context.Context) (bool, error) {
		clear(o.tried)
		o.Bind(ctx)
		for _, lease := range []string{component.KCM, o.env.Plan.Options.LeaseName} {
			if _, isBound := o.env.Proofs.HolderOf(lease); !isBound {
				missing = lease
				return false, nil
			}
		}
		return true, nil
	})
	if errors.Is(err, step.ErrTimedOut) {
		o.env.Report(s, step.EventProgress, "not proven: which process holds lease "+missing+"; it runs out by itself once that has ended")
		return nil
	}
	return err
}

func (o *Owners) bind(ctx context.Context, lease string) {
	candidates, err := manager.Candidates(ctx, o.env)
	if err != nil {
		return
	}
	b, err := o.env.LeaseClient.Bind(ctx, lease, candidates)
	if err != nil || b == nil || o.isNamedForAnother(b) {
		return
	}
	delete(o.tried, lease)
	o.env.Proofs.NoteBound(recordOf(*b))
}

// isNamedForAnother reports whether a lease's holder has the name of another host than the one whose manager says that
// it leads. That one may have been paused, and the holder may be on a host whose Node is gone.
func (o *Owners) isNamedForAnother(b *handover.Binding) bool {
	owns, others := false, false
	note := func(host, node string) {
		if !trust.IsHostOf(host, b.Holder) && !trust.IsHostOf(node, b.Holder) {
			return
		}
		if host == b.Host {
			owns = true
		} else {
			others = true
		}
	}
	for _, h := range trust.BeforeHosts(o.env.Before) {
		note(h.Name, h.NodeName)
	}
	for _, h := range o.env.Hosts {
		note(h.Name(), o.env.NodeOf(h.Name()))
	}
	return others && !owns
}

// Release looks once whether a process has ended that holds a lease, and gives the lease up.
func (o *Owners) Release(ctx context.Context, s v1.Step) {
	if !o.canWatch() {
		return
	}
	for _, lease := range o.leases() {
		select {
		case <-o.env.Stopping:
			return
		default:
		}
		if r, isBound := o.env.Proofs.HolderOf(lease); isBound {
			o.release(ctx, s, lease, r)
		}
	}
}

func (o *Owners) release(ctx context.Context, s v1.Step, lease string, r v1.HandoverRecord) {
	h, isOpen := o.env.HostsByName[r.Host]
	if !isOpen || o.env.Clock.Since(o.silent[r.Host]) < silentFor {
		return
	}
	processes := func(ctx context.Context) ([]v1.Process, error) {
		ctx, cancel := context.WithTimeout(ctx, ownerLook)
		defer cancel()
		return h.Processes(ctx, r.Component)
	}
	b := bindingOf(&r)
	gone, err := handover.Gone(ctx, b, processes)
	if err != nil { // a host that cannot be reached proves nothing
		o.silent[r.Host] = o.env.Clock.Now()
		if holder, err := o.env.LeaseClient.Holder(ctx, lease); err == nil && holder != r.Holder {
			o.env.Proofs.Forget(lease)
		}
		return
	}
	if !gone {
		return
	}
	out, err := o.env.LeaseClient.Release(ctx, b, processes)
	if err != nil {
		return // looked at again
	}
	o.env.Proofs.Forget(lease)
	delete(o.tried, lease)
	if out.Released {
		o.env.Report(s, step.EventProgress, released(r))
	}
}

// released says that a lease was given up for a process that has ended.
func released(r v1.HandoverRecord) string {
	return fmt.Sprintf("%s on %s has ended (pid %d); released lease %s", r.Component, r.Host, r.PID, r.Lease)
}
