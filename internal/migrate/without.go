package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan"
)

// StayError says why a host may not be taken out of a migration.
type StayError struct {
	Host    string
	Reasons []string
}

func (e *StayError) Error() string {
	return fmt.Sprintf("host %s stays in the migration: %s; nothing was changed", e.Host, strings.Join(e.Reasons, "; "))
}

// TakeOut takes hosts out of a migration that was begun: their steps are skipped from then on, and nobody looks at them. A host may go that is certainly
// gone: out of reach, its kubelet silent, its leases with others, and a majority of the control plane left. The options are those of an engine.
func TakeOut(ctx context.Context, o Options, j *Journal, names []string, by string) error {
	e := New(o, j)
	doc := j.Doc()
	e.plan = &doc.Plan
	if doc.Phase == v1.RunRollingBack && doc.Rollback != nil {
		e.plan = doc.Rollback
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isOut(doc, name) })
	var out []v1.HostOut
	for _, name := range names {
		lost, reasons, err := e.mayLeave(ctx, doc, name, names)
		if err != nil {
			return fmt.Errorf("taking host %s out: %w", name, err)
		}
		if len(reasons) > 0 {
			return &StayError{Host: name, Reasons: reasons}
		}
		out = append(out, v1.HostOut{Name: name, Node: lost.Node, At: e.Clock.Now().UTC(), By: by, Evidence: append([]string{lost.Why}, lost.Evidence...)})
	}
	if len(out) == 0 {
		return nil
	}
	return j.takeOut(ctx, out)
}

// mayLeave says why a host may not be taken out; no reason when it may.
func (e *Engine) mayLeave(ctx context.Context, doc v1.Journal, name string, with []string) (LostHost, []string, error) {
	hosts := planHosts(doc)
	if !slices.Contains(hosts, name) {
		return LostHost{}, []string{fmt.Sprintf("the plan has no host of that name (it has %s)", strings.Join(hosts, ", "))}, nil
	}
	why := e.unreachable(ctx, name)
	if why == nil {
		return LostHost{}, []string{"it can be reached: run the same command without --without-host"}, nil
	}
	lost := e.evidence(ctx, name, why)
	if alive, err := e.listen(ctx, lost.Node); err != nil || alive != "" {
		return lost, []string{alive}, err
	}
	var reasons []string
	if why := e.majority(doc, with); why != "" {
		reasons = append(reasons, why)
	}
	for _, lease := range []string{kcm, ccm, e.plan.Options.LeaseName} {
		why, err := e.elsewhere(ctx, lease, with)
		if err != nil {
			return lost, nil, err
		}
		if why != "" {
			reasons = append(reasons, why)
		}
	}
	return lost, reasons, nil
}

// elsewhere says why a lease may be held by one of the hosts that are to be taken out; empty when somebody else has it for certain, or nobody.
func (e *Engine) elsewhere(ctx context.Context, lease string, out []string) (string, error) {
	if lease == "" {
		return "", nil
	}
	rest := &Engine{Options: e.Options, hosts: e.hosts, journal: e.journal, plan: e.plan, away: e.away}
	rest.Hosts = slices.DeleteFunc(slices.Clone(e.Hosts), func(h hostaccess.Host) bool { return slices.Contains(out, h.Name()) })
	var last error
	sub := v1.Step{}
	err := e.waitFor(ctx, sub, bindBudget, settleInterval, func() string { return last.Error() }, func(ctx context.Context) (bool, error) {
		candidates, err := rest.candidates(ctx)
		if err != nil {
			return false, err
		}
		_, last = e.leases.Bind(ctx, lease, candidates)
		if handover.IsUnbound(last) || last != nil && Transient(last) {
			return false, nil
		}
		return true, last
	})
	if errors.Is(err, errWaited) {
		return fmt.Sprintf("it may hold lease %s, and so own the loops: %v", lease, last), nil
	}
	return "", err
}

// majority says why too few control planes would be left; empty when enough are.
func (e *Engine) majority(doc v1.Journal, out []string) string {
	all, left := 0, 0
	for _, h := range beforeHosts(e.Before) {
		if !h.ControlPlane {
			continue
		}
		all++
		if !slices.Contains(out, h.Name) && !isOut(doc, h.Name) {
			left++
		}
	}
	if all == 0 || !slices.ContainsFunc(out, func(name string) bool { return !e.worker(name) }) || 2*left > all {
		return ""
	}
	return fmt.Sprintf("%d of %d control-plane hosts would be left, which is no majority: an etcd on them has no quorum, and an owner nobody to hand over to; bring one back, or restore etcd first", left, all)
}

func beforeHosts(s *v1.Snapshot) []v1.Host {
	if s == nil {
		return nil
	}
	return s.Hosts
}

// planHosts are the hosts that a migration's steps are on, sorted.
func planHosts(doc v1.Journal) []string {
	var out []string
	for _, s := range append(slices.Clone(doc.Plan.Steps), rollbackSteps(doc)...) {
		if s.Host != "" {
			out = append(out, s.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isOut tells that a host was taken out of a migration.
func isOut(doc v1.Journal, host string) bool {
	return slices.ContainsFunc(doc.Without, func(h v1.HostOut) bool { return h.Name == host })
}

// Staying are the hosts that were not taken out of a migration.
func Staying(doc v1.Journal, hosts []hostaccess.Host) []hostaccess.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h hostaccess.Host) bool { return isOut(doc, h.Name()) })
}

// takenOut tells that a step has nothing to act on any longer: its host, or its node.
func (e *Engine) takenOut(s v1.Step) (v1.HostOut, bool) {
	for _, h := range e.journal.Doc().Without {
		if s.Host == h.Name || s.Kind == v1.StepInitializeNode && s.Ref == "Node/"+h.Node {
			return h, true
		}
	}
	return v1.HostOut{}, false
}

// skip writes down that a step is not to be done any longer. What an earlier try of it has done is kept in its record.
func (e *Engine) skip(ctx context.Context, s v1.Step, h v1.HostOut) error {
	rec := e.journal.Record(s.ID)
	if rec.Result == "done" || rec.Result == "already-done" || rec.Result == "skipped" {
		return nil
	}
	now := e.Clock.Now().UTC()
	if rec.Result == "" {
		rec = v1.StepRecord{ID: s.ID, Started: now}
	}
	why := fmt.Sprintf("host %s was taken out of the migration by %s at %s", h.Name, h.By, h.At.Format(time.RFC3339))
	rec.Result, rec.Ended = "skipped", &now
	rec.Notes = append(rec.Notes, why)
	if err := e.journal.Save(ctx, rec); err != nil {
		return err
	}
	e.tell(s, "skipped", why)
	return nil
}

// rejectReturnedHosts refuses to go on beside a host that was taken out and is back: its manager is the old one, and may run
// the loops beside the new owner. Which hosts were taken out is in a ConfigMap, so machine, node and leases are asked.
func (e *Engine) rejectReturnedHosts(ctx context.Context) error {
	doc := e.journal.Doc()
	for _, h := range doc.Without {
		why, err := e.returned(ctx, h, e.plan.Direction != plan.Forward && !changedOn(doc, h.Name))
		if err != nil {
			return fmt.Errorf("looking whether host %s is back: %w", h.Name, err)
		}
		if why != "" {
			return &VerifyError{Reason: fmt.Sprintf("host %s was taken out of this migration, and %s. %s; then run the same command again", h.Name, why, removal(h))}
		}
	}
	return nil
}

// returned says why a host that was taken out may run a manager; empty when nothing shows that it does. asBefore says that
// what it ran before is what everybody goes back to: then only a new manager is one too many.
func (e *Engine) returned(ctx context.Context, h v1.HostOut, asBefore bool) (string, error) {
	managers, leases := []string{kcm, ccm}, []string{kcm, ccm, e.plan.Options.LeaseName}
	if asBefore {
		managers, leases = []string{ccm}, []string{ccm}
	}
	if component := e.runsManager(ctx, h.Name, managers); component != "" {
		return component + " runs on it: it may take the loops beside their owner", nil
	}
	names := []string{h.Node, e.nodeOf(h.Name)}
	for _, node := range names {
		if asBefore || node == "" {
			continue
		}
		state, err := e.nodeState(ctx, node)
		if err != nil {
			return "", err
		}
		if !state.gone && state.ready == corev1.ConditionTrue {
			return fmt.Sprintf("it is back: its node %s is Ready, and what it ran when it went, it runs again: a manager of before or after, "+
				"which may take the loops beside their owner, or hold a lease of theirs and run none", node), nil
		}
	}
	lease, holder, err := e.heldLease(ctx, append(names, h.Name), leases)
	if err != nil || lease == "" {
		return "", err
	}
	return fmt.Sprintf("lease %s is held by %s, which is named after it and has not let it run out", lease, holder), nil
}

// heldLease returns a lease whose holder is named after a host, and that was renewed while it was looked at; empty for none.
func (e *Engine) heldLease(ctx context.Context, names, leases []string) (lease, holder string, err error) {
	for _, lease := range leases {
		if lease == "" {
			continue
		}
		var silence handover.Silence
		err := e.poll(ctx, bindBudget, settleInterval, func(ctx context.Context) (bool, error) {
			var err error
			holder, err = e.leases.Holder(ctx, lease)
			isOf := func(name string) bool { return isHostOf(name, holder) }
			if apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(names, isOf) {
				return true, nil
			} else if err != nil {
				return false, err
			}
			return e.leases.Expired(ctx, lease, &silence)
		})
		if errors.Is(err, errWaited) {
			return lease, holder, nil
		} else if err != nil {
			return "", "", err
		}
	}
	return "", "", nil
}

// runsManager returns one of the managers that runs on a host that was taken out; empty for none, and where the host does not
// answer.
func (e *Engine) runsManager(ctx context.Context, host string, managers []string) string {
	at := slices.IndexFunc(e.without, func(h hostaccess.Host) bool { return h.Name() == host })
	if at < 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, lookBudget)
	defer cancel()
	for _, component := range managers {
		if found, err := e.without[at].Processes(ctx, component); err == nil && len(found) > 0 {
			return component
		}
	}
	return ""
}

func removal(h v1.HostOut) string {
	return fmt.Sprintf("Take it down for good: kubeadm reset on it, or delete its machine, and kubectl delete node %s; a new host joins with the new flags", h.Node)
}

// Remains are sentences about the hosts that were taken out of a migration and could still come back with what they ran before. Each fails a verification.
func Remains(ctx context.Context, kube kubernetes.Interface, doc v1.Journal) ([]string, error) {
	back := doc.Phase == v1.RunRollingBack || doc.Phase == v1.RunRolledBack
	e := &Engine{Options: Options{Kube: kube, Clock: clock.RealClock{}}}
	var out []string
	for _, h := range doc.Without {
		flags := "from before"
		if back {
			flags = "of the migration"
		}
		if back && !changedOn(doc, h.Name) {
			continue // what it ran before is what everybody runs
		}
		state, err := e.nodeState(ctx, h.Node)
		if err != nil {
			return nil, err
		}
		if !state.gone {
			out = append(out, fmt.Sprintf("host %s was taken out of the migration, and its node %s is still there with the flags %s. %s", h.Name, h.Node, flags, removal(h)))
		}
	}
	return out, nil
}

// changedOn tells that a step of the way there has changed a component on a host, which no step of the way back reaches once the host was taken out.
func changedOn(doc v1.Journal, host string) bool {
	changed := map[string]bool{}
	for _, rec := range doc.Records {
		changed[rec.ID] = rec.Result == "started" || rec.Result == "done" || rec.AfterSHA256 != "" // half done, and skipped since
	}
	return slices.ContainsFunc(doc.Plan.Steps, func(s v1.Step) bool { return s.Host == host && s.Component != "" && changed[s.ID] })
}

func (j *Journal) takeOut(ctx context.Context, out []v1.HostOut) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doc.Without = append(slices.Clone(j.doc.Without), out...)
	return j.write(ctx)
}

// nodeIsOut tells that a node's host was taken out of the migration.
func (e *Engine) nodeIsOut(node string) bool {
	return slices.ContainsFunc(e.journal.Doc().Without, func(h v1.HostOut) bool { return h.Node == node })
}
