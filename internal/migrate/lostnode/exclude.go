package lostnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// StayError says why a host may not be excluded from a migration.
type StayError struct {
	Host    string
	Reasons []string
}

func (e *StayError) Error() string {
	return fmt.Sprintf("host %s stays in the migration: %s; nothing was changed", e.Host, strings.Join(e.Reasons, "; "))
}

// Exclude removes hosts from a migration that was begun: their steps are skipped from then on, and they are not read. A
// host may be excluded that is certainly gone: out of reach, its kubelet silent, its leases held by others. A majority
// of the control plane must be left. The options are those of an engine.
func Exclude(ctx context.Context, o step.Options, j *journal.Journal, names []string, by string) error {
	e := step.NewEnv(o, j)
	doc := j.Doc()
	e.Plan = &doc.Plan
	if doc.Phase == v1.RunRollingBack && doc.Rollback != nil {
		e.Plan = doc.Rollback
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return journal.IsExcluded(doc, name) })
	var out []v1.HostOut
	for _, name := range names {
		lost, reasons, err := canExclude(ctx, e, doc, name, names)
		if err != nil {
			return fmt.Errorf("excluding host %s: %w", name, err)
		}
		if len(reasons) > 0 {
			return &StayError{Host: name, Reasons: reasons}
		}
		out = append(
			out,
			v1.HostOut{
				Name:     name,
				Node:     lost.Node,
				At:       e.Clock.Now().UTC(),
				By:       by,
				Evidence: append([]string{lost.Why}, lost.Evidence...),
			},
		)
	}
	if len(out) == 0 {
		return nil
	}
	return j.Exclude(ctx, out)
}

// canExclude says why a host may not be excluded; no reason when it may.
func canExclude(ctx context.Context, e *step.Env, doc v1.Journal, name string, with []string) (Host, []string, error) {
	hosts := journal.PlanHosts(doc)
	if !slices.Contains(hosts, name) {
		return Host{}, []string{fmt.Sprintf("the plan has no host of that name (it has %s)", strings.Join(hosts, ", "))}, nil
	}
	why := e.WhyUnreachable(ctx, name)
	if why == nil {
		return Host{}, []string{"it can be reached: run the same command without --without-host"}, nil
	}
	lost := evidence(ctx, e, name, why)
	if alive, err := listen(ctx, e, lost.Node); err != nil || alive != "" {
		return lost, []string{alive}, err
	}
	var reasons []string
	if why := majority(e, doc, with); why != "" {
		reasons = append(reasons, why)
	}
	for _, lease := range []string{component.KCM, component.CCM, e.Plan.Options.LeaseName} {
		why, err := mayHold(ctx, e, lease, with)
		if err != nil {
			return lost, nil, err
		}
		if why != "" {
			reasons = append(reasons, why)
		}
	}
	return lost, reasons, nil
}

// mayHold says why one of the hosts that are to be excluded may hold a lease. It is empty when another host certainly
// has it, or when it is free.
func mayHold(ctx context.Context, e *step.Env, lease string, out []string) (string, error) {
	if lease == "" {
		return "", nil
	}
	rest := &step.Env{
		Options:          e.Options,
		HostsByName:      e.HostsByName,
		Journal:          e.Journal,
		Plan:             e.Plan,
		UnreachableHosts: e.UnreachableHosts,
	}
	rest.Hosts = slices.DeleteFunc(
		slices.Clone(e.Hosts),
		func(h hostaccess.Host) bool { return slices.Contains(out, h.Name()) },
	)
	var last error
	sub := v1.Step{}
	err := e.WaitFor(
		ctx,
		sub,
		takeover.BindTimeout,
		step.SettleInterval,
		func() string { return fmt.Sprintf("who holds lease %s is not proven: %v", lease, last) },
		func(ctx context.Context) (bool, error) {
			candidates, err := manager.Candidates(ctx, rest)
			if err != nil {
				return false, err
			}
			_, last = e.LeaseClient.Bind(ctx, lease, candidates)
			if handover.IsUnbound(last) || last != nil && retry.IsTransient(last) {
				return false, nil
			}
			return true, last
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return fmt.Sprintf("it may hold lease %s, and so own the loops: %v", lease, last), nil
	}
	return "", err
}

// majority says why too few control planes would be left; empty when enough are.
func majority(e *step.Env, doc v1.Journal, out []string) string {
	all, left := 0, 0
	for _, h := range trust.BeforeHosts(e.Before) {
		if !h.ControlPlane {
			continue
		}
		all++
		if !slices.Contains(out, h.Name) && !journal.IsExcluded(doc, h.Name) {
			left++
		}
	}
	if all == 0 || !slices.ContainsFunc(out, func(name string) bool { return !e.IsWorker(name) }) || 2*left > all {
		return ""
	}
	return fmt.Sprintf(
		"%d of %d control-plane hosts would be left, which is no majority; etcd on them has no quorum, and an owner has no manager to hand over to; bring one back, or restore etcd first",
		left,
		all,
	)
}

// RejectReturnedHosts refuses to continue next to an excluded host that is back. Its manager is the old one, and may
// run the loops next to the new owner. Which hosts were excluded is in a ConfigMap, so machine, node and leases are
// asked.
func RejectReturnedHosts(ctx context.Context, e *step.Env) error {
	doc := e.Journal.Doc()
	for _, h := range doc.Without {
		why, err := returned(ctx, e, h, e.Plan.Direction != planstep.Forward && !journal.HasChanged(doc, h.Name))
		if err != nil {
			return fmt.Errorf("looking whether host %s is back: %w", h.Name, err)
		}
		if why != "" {
			return &step.VerifyError{
				Reason: fmt.Sprintf(
					"host %s was excluded from this migration, and %s. %s; then run the same command again",
					h.Name,
					why,
					removal(h),
				),
			}
		}
	}
	return nil
}

// returned says why a host that was excluded may run a manager; empty when nothing shows that it does. asBefore says
// that what it ran before is what everybody goes back to: then only a new manager is one too many.
func returned(ctx context.Context, e *step.Env, h v1.HostOut, asBefore bool) (string, error) {
	managers, leases := []string{
		component.KCM,
		component.CCM,
	}, []string{
		component.KCM,
		component.CCM,
		e.Plan.Options.LeaseName,
	}
	if asBefore {
		managers, leases = []string{component.CCM}, []string{component.CCM}
	}
	if component := runsManager(ctx, e, h.Name, managers); component != "" {
		return component + " runs on it: it may take the loops next to their owner", nil
	}
	names := []string{h.Node, e.NodeOf(h.Name)}
	for _, node := range names {
		if asBefore || node == "" {
			continue
		}
		state, err := readNodeState(ctx, e, node)
		if err != nil {
			return "", err
		}
		if !state.gone && state.ready == corev1.ConditionTrue {
			return fmt.Sprintf(
				"it is back: its node %s is Ready, and it runs again what it ran before: a manager from before or after the migration, "+
					"which may run the loops next to their owner, or hold their lease and run none",
				node,
			), nil
		}
	}
	lease, holder, err := HeldLease(ctx, e, append(names, h.Name), leases)
	if err != nil || lease == "" {
		return "", err
	}
	return fmt.Sprintf("lease %s is held by %s, which is named after it and has not let it run out", lease, holder), nil
}

// HeldLease returns a lease whose holder is named after a host, and that was renewed while it was looked at; empty for
// none.
func HeldLease(ctx context.Context, e *step.Env, names, leases []string) (lease, holder string, err error) {
	for _, lease := range leases {
		if lease == "" {
			continue
		}
		var silence handover.Silence
		isSaid := false
		err := e.Poll(ctx, takeover.BindTimeout, step.SettleInterval, func(ctx context.Context) (bool, error) {
			var err error
			holder, err = e.LeaseClient.Holder(ctx, lease)
			isOf := func(name string) bool { return trust.IsHostOf(name, holder) }
			if apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(names, isOf) {
				return true, nil
			} else if err != nil {
				return false, err
			}
			expired, err := e.LeaseClient.Expired(ctx, lease, &silence)
			if !expired && err == nil && !isSaid {
				isSaid = true
				e.Report(v1.Step{}, step.EventProgress, fmt.Sprintf(
					"lease %s is held by %s, which is named after a host that was excluded: looking for up to %s whether it runs out",
					lease,
					holder,
					takeover.BindTimeout,
				))
			}
			return expired, err
		})
		if errors.Is(err, step.ErrTimedOut) {
			return lease, holder, nil
		} else if err != nil {
			return "", "", err
		}
	}
	return "", "", nil
}

// runsManager returns one of the managers that runs on a host that was excluded; empty for none, and where the host
// does not answer.
func runsManager(ctx context.Context, e *step.Env, host string, managers []string) string {
	at := slices.IndexFunc(e.ExcludedHosts, func(h hostaccess.Host) bool { return h.Name() == host })
	if at < 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, step.LookTimeout)
	defer cancel()
	for _, component := range managers {
		if found, err := e.ExcludedHosts[at].Processes(ctx, component); err == nil && len(found) > 0 {
			return component
		}
	}
	return ""
}

func removal(h v1.HostOut) string {
	return fmt.Sprintf(
		"Take it down for good: kubeadm reset on it, or delete its machine, and kubectl delete node %s; a new host joins with the new flags",
		h.Node,
	)
}

// Remaining are sentences about the hosts that were excluded from a migration and could still come back with what they
// ran before. Each fails a verification.
func Remaining(ctx context.Context, kube kubernetes.Interface, doc v1.Journal) ([]string, error) {
	back := doc.Phase == v1.RunRollingBack || doc.Phase == v1.RunRolledBack
	e := &step.Env{Options: step.Options{Kube: kube, Clock: clock.RealClock{}}}
	var out []string
	for _, h := range doc.Without {
		flags := "from before"
		if back {
			flags = "of the migration"
		}
		if back && !journal.HasChanged(doc, h.Name) {
			continue // what it ran before is what everybody runs
		}
		state, err := readNodeState(ctx, e, h.Node)
		if err != nil {
			return nil, err
		}
		if !state.gone {
			out = append(
				out,
				fmt.Sprintf(
					"host %s was excluded from the migration, and its node %s is still there with the flags %s. %s",
					h.Name,
					h.Node,
					flags,
					removal(h),
				),
			)
		}
	}
	return out, nil
}
