package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
)

// endedProcess names a process for good.
type endedProcess struct {
	host       string
	pid        int
	startTicks uint64
}

// rolloutEnds releases the lease of a Deployment's component each time that a process of its old pods has ended which
// held it. Without that the next pod waits until the lease has run out, and no manager runs the loops meanwhile.
//
// Nothing of it is in the journal: what this process has not seen itself is left to expire.
type rolloutEnds struct {
	env   *step.Env
	step  v1.Step
	lease string
	// old are the processes from before the change.
	old map[endedProcess]bool
	// bound is the old process that holds the lease; nil when none is known to.
	bound *handover.Binding
}

// bindRollout binds the lease of the step's component before its pods are replaced; nil when their processes cannot be
// seen.
func (x Workload) bindRollout(ctx context.Context, s v1.Step) (*rolloutEnds, error) {
	if x.Env.Plan.Cluster.Seed != "" || s.Component != component.KCM || !slices.Contains(s.Leases, component.KCM) ||
		!slices.Contains(manager.ManagerDeployments(x.Env.Plan), s.Ref) {
		return nil, nil
	}
	targets, err := manager.DeployedManagers(ctx, x.Env, []string{component.KCM})
	if err != nil {
		return nil, err
	}
	r := &rolloutEnds{
		env:   x.Env,
		step:  s,
		lease: s.Component,
		old:   map[endedProcess]bool{},
	}
	for _, t := range targets {
		if strings.Contains(t.Host, "/") {
			x.Env.Report(
				s,
				step.EventProgress,
				fmt.Sprintf(
					"lease %s is left to run out when its holder ends: the processes of %s are on no host that is reached",
					r.lease,
					t.Host,
				),
			)
			return nil, nil
		}
		processes, err := processesOn(ctx, x.Env, t.Host)
		if err != nil {
			x.Env.Report(s, step.EventProgress, fmt.Sprintf("lease %s is left to run out when its holder ends: %v", r.lease, err))
			return nil, nil
		}
		for _, p := range processes {
			r.old[endedProcess{t.Host, p.PID, p.StartTicks}] = true
		}
	}
	var last error
	err = x.Env.WaitFor(
		ctx,
		s,
		takeover.BindTimeout,
		step.SettleInterval,
		func() string { return fmt.Sprintf("who holds lease %s is not proven: %v", r.lease, last) },
		func(ctx context.Context) (bool, error) {
			last = r.bind(ctx)
			return last == nil, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		x.Env.Report(s, step.EventProgress, fmt.Sprintf("lease %s is left to run out when its holder ends: %v", r.lease, last))
		return nil, nil
	}
	return r, err
}

func processesOn(ctx context.Context, e *step.Env, host string) ([]v1.Process, error) {
	list, err := manager.ProcessesOf(e, component.KCM, host)
	if err != nil {
		return nil, err
	}
	return list(ctx)
}

// bind notes which of the old processes holds the lease. It returns an error while the holder is not proven.
func (r *rolloutEnds) bind(ctx context.Context) error {
	candidates, err := manager.Candidates(ctx, r.env)
	if err != nil {
		return err
	}
	b, err := r.env.LeaseClient.Bind(ctx, r.lease, candidates)
	if err != nil {
		return err
	}
	if b != nil && r.old[endedProcess{b.Host, b.PID, b.StartTicks}] {
		r.bound = b
	}
	return nil
}

// rolloutInterval is how often is looked while pods are replaced: the next holder has to be bound before it ends, too.
const rolloutInterval = 100 * time.Millisecond

// release follows the old pods to their ends. It fails for nothing: a lease that it does not release runs out.
func (r *rolloutEnds) release(ctx context.Context) error {
	if r == nil {
		return nil
	}
	more := step.Explanation{Since: r.env.Clock.Now()}
	err := r.env.WaitFor(
		ctx,
		r.step,
		step.RolloutTimeout,
		rolloutInterval,
		func() string { return r.waitsFor(ctx, &more) },
		func(ctx context.Context) (bool, error) {
			if r.bound != nil {
				r.releaseBound(ctx)
				return false, nil
			}
			left, err := r.oldLeft(ctx)
			if err == nil && !left {
				return true, nil
			}
			_ = r.bind(ctx) //nolint:errcheck // asked again; what is never bound runs out
			return false, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return nil // the wait for the rollout names what keeps it
	}
	return err
}

// waitsFor names the old processes that have not ended, and why the pods that take their place are not Ready.
func (r *rolloutEnds) waitsFor(ctx context.Context, more *step.Explanation) string {
	var left []string
	for p := range r.old {
		left = append(left, fmt.Sprintf("process %d on host %s", p.pid, p.host))
	}
	slices.Sort(left)
	out := fmt.Sprintf(
		"the old pods of %s have not all ended (of %s, lease %s)",
		r.step.Ref,
		english.FirstOf(3, left),
		r.lease,
	)
	why := more.Of(r.env, func(time.Time) string {
		live, err := object.ReadLive(ctx, r.env, r.step.Ref)
		if err != nil {
			return ""
		}
		return object.WhyPods(ctx, r.env, live)
	})
	if why != "" {
		out += "; " + why
	}
	return out
}

// releaseBound gives the lease up once its bound holder has ended.
func (r *rolloutEnds) releaseBound(ctx context.Context) {
	b := *r.bound
	processes := func(ctx context.Context) ([]v1.Process, error) { return processesOn(ctx, r.env, b.Host) }
	if gone, err := handover.Gone(ctx, b, processes); err != nil || !gone {
		return
	}
	out, err := r.env.LeaseClient.Release(ctx, b, processes)
	if err != nil && retry.IsTransient(err) {
		return // the process is gone for good: tried again
	}
	r.bound = nil
	switch {
	case err != nil:
		r.env.Report(r.step, step.EventProgress, fmt.Sprintf("lease %s was left alone: %v", r.lease, err))
	case !out.Released:
		r.env.Report(r.step, step.EventProgress, fmt.Sprintf("lease %s was left alone: %s", r.lease, out.Reason))
	default:
		r.env.Report(
			r.step,
			step.EventProgress,
			fmt.Sprintf("%s on %s has ended (pid %d); released lease %s", b.Component, b.Host, b.PID, r.lease),
		)
	}
}

// oldLeft reports whether one of the old processes still runs.
func (r *rolloutEnds) oldLeft(ctx context.Context) (bool, error) {
	for p := range r.old {
		processes, err := processesOn(ctx, r.env, p.host)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(processes, func(n v1.Process) bool { return n.PID == p.pid && n.StartTicks == p.startTicks }) {
			return true, nil
		}
	}
	return false, nil
}
