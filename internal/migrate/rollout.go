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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// DeployedTargets are the managers of the components in the pods of the Deployments that a plan changes or makes. They have no
// file on a host that would name them. The hosts are by the names of their nodes.
func DeployedTargets(ctx context.Context, kube kubernetes.Interface, p *v1.Plan, hosts map[string]hostaccess.Host, components ...string) ([]Target, error) {
	if p == nil || p.Cluster.Seed != "" {
		return nil, nil
	}
	names := map[string]string{}
	for node, h := range hosts {
		names[node] = h.Name()
	}
	var out []Target
	for _, ref := range managerDeployments(p) {
		pods, err := podsOfDeployment(ctx, kube, ref)
		if err != nil {
			return nil, err
		}
		for _, pod := range snapshot.SeedPods(pods, components...) {
			pod.Workload = ref
			if h, known := hosts[pod.Node]; known {
				pod = pod.RunningAs(ctx, h)
			}
			host, address := pod.Place(names)
			if pod.RunsNow() && address != "" { // an old pod may end on the same host
				out = AddTargets(out, Target{Component: pod.Component, Host: host, Address: address})
			}
		}
	}
	return out, nil
}

// podsOfDeployment are the pods that a Deployment selects; none when it is not there.
func podsOfDeployment(ctx context.Context, kube kubernetes.Interface, ref string) ([]corev1.Pod, error) {
	parts := strings.Split(ref, "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%s is no Deployment in a namespace", ref)
	}
	d, err := kube.AppsV1().Deployments(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of %s: %w", ref, err)
	}
	pods, err := kube.CoreV1().Pods(parts[1]).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", ref, err)
	}
	// A server may hand out more than it was asked for.
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) }), nil
}

// managerDeployments are the Deployments of managers that a plan changes, makes or deletes.
func managerDeployments(p *v1.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		isManager := s.Component == kcm || s.Component == ccm
		isDeployment := strings.HasPrefix(s.Ref, "Deployment/")
		if isManager && isDeployment && !slices.Contains(out, s.Ref) {
			out = append(out, s.Ref)
		}
	}
	return out
}

func (e *Engine) deployedTargets(ctx context.Context, components []string) ([]Target, error) {
	if e.Seed != nil {
		return nil, nil
	}
	hosts := map[string]hostaccess.Host{}
	for _, h := range e.Hosts {
		hosts[e.nodeOf(h.Name())] = h
	}
	return DeployedTargets(ctx, e.Kube, e.plan, hosts, components...)
}

// endedProcess names a process for good.
type endedProcess struct {
	host       string
	pid        int
	startTicks uint64
}

// rolloutEnds releases the lease of a Deployment's component each time that a process of its old pods has ended which
// held it. Without that the next pod waits until the lease has run out, and nobody runs the loops meanwhile.
//
// Nothing of it is in the journal: what this process has not seen itself is left to expire.
type rolloutEnds struct {
	*Engine
	step  v1.Step
	lease string
	// old are the processes from before the change.
	old map[endedProcess]bool
	// bound is the old process that holds the lease; nil when none is known to.
	bound *handover.Binding
}

// bindRollout binds the lease of the step's component before its pods are replaced; nil when their processes cannot be seen.
func (x workload) bindRollout(ctx context.Context, s v1.Step) (*rolloutEnds, error) {
	if x.plan.Cluster.Seed != "" || s.Component != kcm || !slices.Contains(s.Leases, kcm) || !slices.Contains(managerDeployments(x.plan), s.Ref) {
		return nil, nil
	}
	targets, err := x.deployedTargets(ctx, []string{kcm})
	if err != nil {
		return nil, err
	}
	r := &rolloutEnds{Engine: x.Engine, step: s, lease: s.Component, old: map[endedProcess]bool{}}
	for _, t := range targets {
		if strings.Contains(t.Host, "/") {
			x.tell(s, "progress", fmt.Sprintf("lease %s is left to run out when its holder ends: the processes of %s are on no host that is reached", r.lease, t.Host))
			return nil, nil
		}
		processes, err := x.processesOn(ctx, t.Host)
		if err != nil {
			x.tell(s, "progress", fmt.Sprintf("lease %s is left to run out when its holder ends: %v", r.lease, err))
			return nil, nil
		}
		for _, p := range processes {
			r.old[endedProcess{t.Host, p.PID, p.StartTicks}] = true
		}
	}
	var last error
	err = x.waitFor(ctx, s, bindBudget, settleInterval, func() string { return fmt.Sprintf("who holds lease %s is not proven: %v", r.lease, last) }, func(ctx context.Context) (bool, error) {
		last = r.bind(ctx)
		return last == nil, nil
	})
	if errors.Is(err, errWaited) {
		x.tell(s, "progress", fmt.Sprintf("lease %s is left to run out when its holder ends: %v", r.lease, last))
		return nil, nil
	}
	return r, err
}

func (e *Engine) processesOn(ctx context.Context, host string) ([]v1.Process, error) {
	list, err := e.processesOf(kcm, host)
	if err != nil {
		return nil, err
	}
	return list(ctx)
}

// bind notes which of the old processes holds the lease. It returns an error while the holder is not proven.
func (r *rolloutEnds) bind(ctx context.Context) error {
	candidates, err := r.candidates(ctx)
	if err != nil {
		return err
	}
	b, err := r.leases.Bind(ctx, r.lease, candidates)
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
	err := r.waitFor(ctx, r.step, rolloutBudget, rolloutInterval, func() string { return "old pods of " + r.step.Ref + " have not ended" }, func(ctx context.Context) (bool, error) {
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
	})
	if errors.Is(err, errWaited) {
		return nil // the wait for the rollout names what keeps it
	}
	return err
}

// releaseBound gives the lease up once its bound holder has ended.
func (r *rolloutEnds) releaseBound(ctx context.Context) {
	b := *r.bound
	processes := func(ctx context.Context) ([]v1.Process, error) { return r.processesOn(ctx, b.Host) }
	if gone, err := handover.Gone(ctx, b, processes); err != nil || !gone {
		return
	}
	out, err := r.leases.Release(ctx, b, processes)
	if err != nil && Transient(err) {
		return // the process is gone for good: tried again
	}
	r.bound = nil
	switch {
	case err != nil:
		r.tell(r.step, "progress", fmt.Sprintf("lease %s was left alone: %v", r.lease, err))
	case !out.Released:
		r.tell(r.step, "progress", fmt.Sprintf("lease %s was left alone: %s", r.lease, out.Reason))
	default:
		r.tell(r.step, "progress", fmt.Sprintf("%s on %s has ended (pid %d); released lease %s", b.Component, b.Host, b.PID, r.lease))
	}
}

// oldLeft reports whether one of the old processes still runs.
func (r *rolloutEnds) oldLeft(ctx context.Context) (bool, error) {
	for p := range r.old {
		processes, err := r.processesOn(ctx, p.host)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(processes, func(n v1.Process) bool { return n.PID == p.pid && n.StartTicks == p.startTicks }) {
			return true, nil
		}
	}
	return false, nil
}
