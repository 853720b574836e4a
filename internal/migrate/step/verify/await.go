package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

const (
	// awaitInterval is how often the cluster is looked at while people work.
	awaitInterval = 5 * time.Second
	// ownerInterval is how often it is looked whether a manager has ended that holds a lease.
	ownerInterval = time.Second
	// awaitReminder is how often a line says that the wait goes on.
	awaitReminder = 5 * time.Minute
)

// Await tells the operator what to create or to take down, and waits until the cluster shows it. It changes nothing. It
// waits for people, and so for as long as they need; Ctrl-C ends the wait, and the same command goes on with it.
type Await struct{ Env *step.Env }

// Done reports whether what is waited for is there.
func (x Await) Done(ctx context.Context, s v1.Step) (bool, error) {
	why, err := x.Missing(ctx, s)
	return err == nil && why == "", step.PendingIf(why, err)
}

// Do waits for people or controllers to change the cluster.
func (x Await) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if s.Await == nil {
		return noAwait(s)
	}
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	for _, line := range s.Await.Instructions {
		x.Env.Report(s, step.EventProgress, line)
	}
	told, at, owners := "", x.Env.Clock.Now(), takeover.WatchOwners(x.Env)
	for {
		owners.Bind(ctx)
		why, err := x.Missing(ctx, s)
		if err != nil && !retry.IsTransient(err) {
			return err
		}
		if err == nil && why == "" {
			return x.settle(ctx, s, owners)
		}
		if err != nil {
			why = err.Error()
		}
		if now := x.Env.Clock.Now(); why != told || now.Sub(at) >= awaitReminder {
			told, at = why, now
			x.Env.Report(s, step.EventProgress, step.WaitingPrefix+why)
		}
		if err := x.pause(ctx, s, owners); err != nil {
			return err
		}
	}
}

// settle waits, once every manager has leader migration, until it is known which process owns the loops. The managers
// that come later cannot be asked.
func (x Await) settle(ctx context.Context, s v1.Step, owners *takeover.Owners) error {
	if x.Env.Plan.Direction == planstep.Forward && s.Await.Component == component.KCM && isOn(s.Await.Flags) {
		return owners.Settle(ctx, s)
	}
	return nil
}

// pause waits for the next look. An owner may end meanwhile.
func (x Await) pause(ctx context.Context, s v1.Step, owners *takeover.Owners) error {
	for range awaitInterval / ownerInterval {
		select {
		case <-x.Env.Stopping:
			return step.ErrInterrupted
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.Env.Clock.After(ownerInterval):
			owners.Release(ctx, s)
		}
	}
	return nil
}

// noAwait says that a step, which may come from a journal, lacks what its kind needs.
func noAwait(s v1.Step) error { return fmt.Errorf("step %s does not say what it waits for", s.ID) }

// Missing says what the cluster does not show yet; empty when it shows everything.
func (x Await) Missing(ctx context.Context, s v1.Step) (string, error) {
	a := s.Await
	if a == nil {
		return "", noAwait(s)
	}
	if a.NodeGone != "" {
		if why, err := x.nodeStays(ctx, s, a.NodeGone); err != nil || why != "" {
			return why, err
		}
	}
	if a.Component == "" {
		return "", nil
	}
	have, not, owner, err := x.classify(ctx, a)
	if err != nil {
		return "", err
	}
	if owner != "" {
		return fmt.Sprintf("%s on node %s runs the loops under its own lease", component.KCM, owner), nil
	}
	if a.Nodes == 0 && len(have) > 0 || len(have) < a.Nodes {
		sort.Strings(not)
		detail := ""
		if len(not) > 0 && a.Nodes > 0 {
			detail = " (" + strings.Join(not, "; ") + ")"
		}
		return fmt.Sprintf("%d of %d nodes run %s%s%s", len(have), a.Nodes, a.Component, version(a), detail), nil
	}
	return "", nil
}

// IsOvertaken reports whether a later wait of the plan shows what it waits for, at least in part. The hosts that this
// one has counted before may then be gone, or have other flags. A manager that owns the loops under its own lease is
// waited for all the same, unless the later wait is for such. So is a host that was gone and may be back.
func (x Await) IsOvertaken(ctx context.Context, s, later v1.Step) (bool, error) {
	if isBack, err := x.mayBeBack(ctx, s); err != nil || isBack {
		return false, err
	}
	if node := later.Await.NodeGone; node != "" {
		if why, err := x.nodeStays(ctx, later, node); err != nil || why != "" {
			return false, err
		}
	} else if have, _, _, err := x.classify(ctx, later.Await); err != nil || len(have) == 0 {
		return false, err
	}
	if later.Await.NodeGone == "" && later.Await.Component == component.KCM && isOff(later.Await.Flags) {
		return true, nil
	}
	_, _, owner, err := x.classify(ctx, s.Await)
	return owner == "", err
}

// mayBeBack reports whether the host that a wait has seen go may be there again, with its manager. That one would take
// the loops as soon as no other manager holds their lease. A new host may have the name of an old one. Its
// kube-controller-manager shows that it is new.
func (x Await) mayBeBack(ctx context.Context, s v1.Step) (bool, error) {
	node := s.Await.NodeGone
	if node == "" {
		return false, nil
	}
	if why, err := x.nodeStays(ctx, s, node); err != nil || why == "" {
		return false, err
	}
	pods, err := x.Env.Kube.CoreV1().Pods(component.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing the pods of %s: %w", component.Namespace, err)
	}
	isNew := false
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != node {
			continue
		}
		for j := range pods.Items[i].Spec.Containers {
			c := &pods.Items[i].Spec.Containers[j]
			if workloads.SeedComponent(c) != component.KCM {
				continue
			}
			isExternal := workloads.FlagsOf(c)["cloud-provider"] == "external"
			if isExternal != (x.Env.Plan.Direction != planstep.Rollback) {
				return true, nil
			}
			isNew = true
		}
	}
	return !isNew, nil
}

// classify looks at the pods of the cluster; see classifyPods.
func (x Await) classify(
	ctx context.Context,
	a *v1.Await,
) (have map[string]bool, not []string, owner string, err error) {
	pods, err := x.Env.Kube.CoreV1().Pods(component.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, "", fmt.Errorf("listing the pods of %s: %w", component.Namespace, err)
	}
	counts, err := x.Env.ControlPlaneNodes(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	explain := func(p *corev1.Pod) string { return step.WhyPod(ctx, x.Env, p) }
	have, not, owner = classifyPods(pods.Items, a, counts, explain)
	return have, not, owner, nil
}

// classifyPods returns the nodes whose pods are as it is waited for, and why others do not count. The owner is a node
// whose manager knows no migration lease, where that is waited for.
func classifyPods(
	pods []corev1.Pod,
	a *v1.Await,
	counts func(node string) string,
	explain func(*corev1.Pod) string,
) (have map[string]bool, not []string, owner string) {
	have = map[string]bool{}
	for i := range pods {
		p := pods[i]
		fit, why := matches(p, a)
		if why == notReady {
			why = cmp.Or(explain(&p), why)
		}
		if fit && why == "" && a.Nodes > 0 {
			why = counts(p.Spec.NodeName)
		}
		switch {
		case !fit:
		case why == "":
			have[p.Spec.NodeName] = true
		default:
			not = append(not, p.Spec.NodeName+" "+why)
		}
		if a.Component == component.KCM && isOn(a.Flags) && ownsLoops(p) {
			owner = p.Spec.NodeName
		}
	}
	return have, not, owner
}

// notReady is why a pod does not count that is as it is waited for, and is not Ready.
const notReady = "is not Ready"

// isOn reports whether leader migration is waited for.
func isOn(flags map[string]string) bool { return flags["enable-leader-migration"] == "true" }

// isOff reports whether it is waited for that in-tree managers run without leader migration.
func isOff(flags map[string]string) bool {
	value, isAsked := flags["enable-leader-migration"]
	return isAsked && value == "" && flags["cloud-provider"] != "external"
}

// ownsLoops reports whether a pod is a kube-controller-manager in tree without leader migration. While there is one, no
// other manager may begin.
func ownsLoops(p corev1.Pod) bool {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		flags := workloads.FlagsOf(c)
		provider := flags["cloud-provider"]
		if workloads.SeedComponent(c) == component.KCM && provider != "" && provider != "external" && !isOn(flags) {
			return true
		}
	}
	return false
}

// nodeStays says why a node that has to be gone may still be there, or what ran on it; empty when it is gone.
func (x Await) nodeStays(ctx context.Context, s v1.Step, node string) (string, error) {
	_, err := x.Env.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return x.stillLeads(ctx, s, node)
	case err != nil:
		return "", fmt.Errorf("reading node %s: %w", node, err)
	}
	return fmt.Sprintf("node %s is still there", node), nil
}

// stillLeads says which lease a manager on a node that is gone may hold. It is empty when none is held in the name of
// its host, or each has expired. A Node that was deleted does not end the processes of its machine.
func (x Await) stillLeads(ctx context.Context, s v1.Step, node string) (string, error) {
	names := []string{node}
	for _, h := range trust.BeforeHosts(x.Env.Before) {
		if h.NodeName == node {
			names = append(names, h.Name)
		}
	}
	for _, lease := range []string{component.KCM, component.CCM, x.Env.Plan.Options.LeaseName} {
		if lease == "" {
			continue
		}
		holder, err := x.Env.LeaseClient.Holder(ctx, lease)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(names, func(name string) bool { return trust.IsHostOf(name, holder) }) {
			continue
		}
		expired, err := isSilent(ctx, x.Env, s, lease)
		if err != nil {
			return "", err
		}
		if !expired {
			return fmt.Sprintf(
				"node %s is gone, and %q holds lease %s: shut its machine down, a manager on it may still run",
				node,
				holder,
				lease,
			), nil
		}
	}
	return "", nil
}

func version(a *v1.Await) string {
	if a.Version == "" {
		return ""
	}
	return " of version " + a.Version
}

// matches reports whether a pod runs the component at all, and says why it is not as it is waited for.
func matches(p corev1.Pod, a *v1.Await) (runs bool, why string) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if workloads.SeedComponent(c) != a.Component {
			continue
		}
		_, tag, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
		tag = strings.TrimPrefix(tag, "v")
		want := strings.TrimPrefix(a.Version, "v")
		if want != "" && tag != want && !strings.HasPrefix(tag, want+".") && !strings.HasPrefix(tag, want+"-") {
			return a.Nodes > 0, "runs version " + tag
		}
		flags := workloads.FlagsOf(c)
		for _, name := range slices.Sorted(maps.Keys(a.Flags)) {
			have, set := flags[name]
			switch wanted := a.Flags[name]; {
			case wanted == "" && set:
				return a.Nodes > 0, "runs with --" + name + "=" + have
			case wanted != "" && have != wanted:
				return a.Nodes > 0, fmt.Sprintf("runs with --%s=%q, not %q", name, have, wanted)
			}
		}
		if a.Nodes > 0 && !object.IsReady(&p) {
			return true, notReady
		}
		return true, ""
	}
	return false, ""
}
