package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// Seed is the cluster in which the control plane runs of the one that is migrated. References to objects of Namespace are the seed's; all others are the
// migrated cluster's.
type Seed struct {
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Namespace string
}

// rolloutBudget is for how long the old pods of a Deployment in the seed may take to end: new ones are scheduled, pull their image, wait for the API server
// and get ready before, and the old ones have their grace period.
const rolloutBudget = 6 * time.Minute

// inSeed tells that an object is the seed's.
func (e *Engine) inSeed(namespace string) bool { return e.Seed != nil && namespace == e.Seed.Namespace }

// refInSeed tells that a reference is to an object of the seed.
func (e *Engine) refInSeed(ref string) bool {
	parts := strings.Split(ref, "/")
	return len(parts) == 3 && e.inSeed(parts[1])
}

// kubeOf is the API that has a namespace.
func (e *Engine) kubeOf(namespace string) kubernetes.Interface {
	if e.inSeed(namespace) {
		return e.Seed.Kube
	}
	return e.Kube
}

func (e *Engine) dynamicOf(namespace string) dynamic.Interface {
	if e.inSeed(namespace) {
		return e.Seed.Dynamic
	}
	return e.Dynamic
}

// seedPods are the pods of the control plane that run one of the components.
func (e *Engine) seedPods(ctx context.Context, components ...string) ([]snapshot.SeedPod, error) {
	pods, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s in the seed: %w", e.Seed.Namespace, err)
	}
	return snapshot.SeedPods(pods.Items, components...), nil
}

// seedTargets are the managers' pods that may run. One whose container was never started does not; one that has no address is unknown.
func (e *Engine) seedTargets(ctx context.Context, components ...string) ([]Target, []v1.Manager, error) {
	pods, err := e.seedPods(ctx, components...)
	if err != nil {
		return nil, nil, err
	}
	var out []Target
	var unknown []v1.Manager
	for _, p := range pods {
		switch {
		case p.Ended || p.Container == "" && !p.Running:
		case p.Address == "":
			unknown = append(unknown, v1.Manager{Component: p.Component, Host: p.Name, Error: "its pod has no address"})
		default:
			out = append(out, Target{p.Component, p.Name, p.Address, ""})
		}
	}
	return out, unknown, nil
}

// processesOf lists the processes of a component on a host, or in a pod of the seed.
func (e *Engine) processesOf(component, host string) (func(context.Context) ([]v1.Process, error), error) {
	if e.Seed != nil {
		return func(ctx context.Context) ([]v1.Process, error) { return e.podProcesses(ctx, component, host) }, nil
	}
	h, err := e.host(host)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, component) }, nil
}

// podProcesses is the container of a component in a pod, as a process: its id names one life of it. None when the kubelet says that it has ended for good.
// A pod that is gone is an error: whether its process ended first can no longer be read, see podEnd.
func (e *Engine) podProcesses(ctx context.Context, component, name string) ([]v1.Process, error) {
	pod, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading pod %s/%s in the seed: %w", e.Seed.Namespace, name, err)
	}
	for _, p := range snapshot.SeedPods([]corev1.Pod{*pod}, component) {
		if !p.Ended {
			return []v1.Process{processOf(p)}, nil
		}
	}
	return nil, nil
}

func processOf(p snapshot.SeedPod) v1.Process {
	return v1.Process{PID: int(p.Restarts) + 1, StartTicks: containerSum(p.UID, p.Container), State: "S"}
}

// containerSum names one life of a container: no other container, and no other pod of that name, has it.
func containerSum(uid, container string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uid + "/" + container)) // a hash's Write never fails
	return h.Sum64()
}

// bindPods binds the leases of a step that edits a Deployment in the seed to the pods of it that hold them, before these end.
func (e *Engine) bindPods(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if !e.refInSeed(s.Ref) || len(s.Leases) == 0 {
		return nil
	}
	if err := e.bindOwners(ctx, s, rec); err != nil {
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

// releasePod waits until a bound pod has ended and gives its lease up. Where the end is not proven it waits until the lease has run out by itself.
func (e *Engine) releasePod(ctx context.Context, s v1.Step, r *v1.HandoverRecord) error {
	b := handover.Binding{Lease: r.Lease, Holder: r.Holder, Transitions: r.Transitions, AcquireTime: r.AcquireTime, Component: r.Component, Host: r.Host, PID: r.PID, StartTicks: r.StartTicks}
	isOwn := e.proofs.isBound(*r)
	var quiet, silence handover.Silence
	watch := e.watchPodEnd(ctx, r)
	watch.proven = e.proofs.hasEnded(r.StartTicks) // of another lease of the pod, which may be gone since
	defer watch.stop()
	var last error
	err := e.waitFor(ctx, s, rolloutBudget, settleInterval, func() string {
		if last != nil {
			return fmt.Sprintf("lease %s is left to run out: %v", r.Lease, last)
		}
		return fmt.Sprintf("pod %s, which holds lease %s, has not ended", r.Host, r.Lease)
	}, func(ctx context.Context) (bool, error) {
		var gone bool
		gone, last = watch.hasEnded(ctx)
		if gone && last == nil && !isOwn {
			last = e.unheld(ctx, *r, &quiet)
		}
		if gone && last == nil {
			e.proofs.noteEnded(r.StartTicks)
			return true, nil
		}
		return e.taken(ctx, r, last, &silence)
	})
	if errors.Is(err, errWaited) {
		return &WaitError{Waited: rolloutBudget, Reason: fmt.Sprintf("pod %s (%s), which holds lease %s, did not end, and the lease was left alone: find out what keeps it, or what keeps the new pods from "+
			"getting ready, then run the same again", r.Host, r.Component, r.Lease)}
	} else if err != nil || r.Note != "" {
		return err
	}
	ended := e.Clock.Now().UTC()
	r.Ended = &ended
	var out handover.Outcome
	err = Retry(ctx, writeBudget, func(ctx context.Context) error {
		var err error
		out, err = e.leases.Release(ctx, b, func(context.Context) ([]v1.Process, error) { return nil, nil }) // that it ended is proven, for good
		return err
	})
	if err != nil {
		return err
	}
	if r.NextHolder = out.Holder; !out.Released {
		r.Note = out.Reason
		e.tell(s, "progress", fmt.Sprintf("lease %s was left alone: %s", r.Lease, out.Reason))
		return nil
	}
	now := e.Clock.Now().UTC()
	r.Released = &now
	e.tell(s, "progress", fmt.Sprintf("pod %s (%s) has ended; released lease %s", r.Host, r.Component, r.Lease))
	return nil
}

// taken tells, while the end of a holder is not known, that its lease is not its any longer, and notes why.
func (e *Engine) taken(ctx context.Context, r *v1.HandoverRecord, unknown error, silence *handover.Silence) (bool, error) {
	holder, err := e.leases.Holder(ctx, r.Lease)
	switch {
	case apierrors.IsNotFound(err):
		r.Note = "the lease is gone"
	case err != nil:
		return false, nil //nolint:nilerr // asked again
	case holder != r.Holder:
		r.Note, r.NextHolder = "it has another holder or term already", holder
	default:
		expired, err := e.leases.Expired(ctx, r.Lease, silence)
		if err != nil || !expired || unknown == nil {
			return false, nil //nolint:nilerr // asked again
		}
		r.Note = "it ran out: " + unknown.Error()
	}
	return true, nil
}

// leadsBy says why none of the present pods of a workload in the seed leads by a lease, as they say themselves; empty when exactly one does.
func (e *Engine) leadsBy(ctx context.Context, component, lease string, among []corev1.Pod) (string, error) {
	managers, err := e.managers(ctx, component)
	if err != nil {
		return "", err
	}
	var leaders []string
	for _, m := range managers {
		if m.Error != "" {
			return fmt.Sprintf("%s in pod %s did not answer: %s", m.Component, m.Host, m.Error), nil
		}
		if slices.Contains(m.Leads, lease) {
			leaders = append(leaders, m.Host)
		}
	}
	switch {
	case len(leaders) == 0:
		return fmt.Sprintf("no pod of %s leads by lease %s yet", component, lease), nil
	case len(leaders) > 1:
		return fmt.Sprintf("%s all say that they lead by lease %s", strings.Join(leaders, " and "), lease), nil
	case !slices.ContainsFunc(among, func(p corev1.Pod) bool { return p.Name == leaders[0] }):
		return fmt.Sprintf("pod %s, which leads by lease %s, is none of the Deployment's", leaders[0], lease), nil
	}
	return "", nil
}
