package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// isReplacedByHand reports whether a workload's pods keep their template until a client deletes them.
func isReplacedByHand(o *unstructured.Unstructured) bool {
	strategy, _, err := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	return err == nil && strategy == string(appsv1.OnDeleteDaemonSetStrategyType)
}

// replacePod has the pod of a DaemonSet on one host start again from the present template.
type replacePod struct{ env *step.Env }

// podsOfSet are the pods of a DaemonSet: those on the step's host, and the others.
type podsOfSet struct {
	here, others []corev1.Pod
	// revision is the hash of the present template, which pods of it have as a label.
	revision string
}

// outdated is the first of some pods that is of an earlier template; nil when there is none.
func (p podsOfSet) outdated(pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		if pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] != p.revision {
			return &pods[i]
		}
	}
	return nil
}

// look reads the DaemonSet and its pods on the step's host. The error is a step.PendingError while its controller has
// not seen the present template. A pod that is deleted before that may come back as it was.
func (x replacePod) look(ctx context.Context, s v1.Step) (podsOfSet, error) {
	set, err := object.ReadLive(ctx, x.env, s.Ref)
	if err != nil {
		return podsOfSet{}, err
	}
	if why := object.UnseenChange(set); why != "" {
		return podsOfSet{}, step.PendingError(why)
	}
	revision, err := x.revisionOf(ctx, set)
	if err != nil {
		return podsOfSet{}, err
	}
	pods, err := object.PodsOf(ctx, x.env, set)
	if err != nil {
		return podsOfSet{}, err
	}
	out, node := podsOfSet{revision: revision}, x.env.NodeOf(s.Host)
	for _, p := range pods {
		switch {
		case !metav1.IsControlledBy(&p, set):
		case podreason.NodeOf(&p) == node:
			out.here = append(out.here, p)
		default:
			out.others = append(out.others, p)
		}
	}
	return out, nil
}

// revisionOf is the hash of a DaemonSet's present template: that of its newest ControllerRevision.
func (x replacePod) revisionOf(ctx context.Context, set *unstructured.Unstructured) (string, error) {
	all, err := x.env.KubeOf(set.GetNamespace()).
		AppsV1().
		ControllerRevisions(set.GetNamespace()).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing the revisions of DaemonSet %s/%s: %w", set.GetNamespace(), set.GetName(), err)
	}
	newest, hash := int64(-1), ""
	for i := range all.Items {
		if r := &all.Items[i]; metav1.IsControlledBy(r, set) && r.Revision > newest {
			newest, hash = r.Revision, r.Labels[appsv1.ControllerRevisionHashLabelKey]
		}
	}
	if hash == "" {
		return "", step.Pending("DaemonSet %s/%s has no revision yet", set.GetNamespace(), set.GetName())
	}
	return hash, nil
}

// Done reports whether one pod of the present template is ready on the host, and no other one is left there. Pods on
// Nodes for which no step is must be of that template as well.
func (x replacePod) Done(ctx context.Context, s v1.Step) (bool, error) {
	live, err := x.look(ctx, s)
	if err != nil {
		return false, err
	}
	old := live.outdated(live.here)
	switch {
	case old != nil && old.DeletionTimestamp != nil:
		return false, step.Pending("pod %s/%s on host %s still ends", old.Namespace, old.Name, s.Host)
	case old != nil:
		return false, step.Pending("pod %s/%s on host %s is of an earlier template", old.Namespace, old.Name, s.Host)
	case len(live.here) != 1:
		return false, step.Pending("%d pods of %s are on host %s, not one", len(live.here), s.Ref, s.Host)
	case !object.IsReady(&live.here[0]):
		return false, step.Pending("pod %s/%s on host %s is not Ready", live.here[0].Namespace, live.here[0].Name, s.Host)
	}
	if stray := live.outdated(x.withoutStep(live.others)); stray != nil {
		return false, step.Pending(
			"pod %s/%s on Node %s is of an earlier template, and the plan does not know its Node: delete the pod",
			stray.Namespace,
			stray.Name,
			podreason.NodeOf(stray),
		)
	}
	if !x.respectsLease(s) || live.outdated(live.others) != nil {
		return true, nil
	}
	return x.isLed(ctx, s, x.env.Plan.Options.LeaseName)
}

// isLed reports whether a manager of the step's component leads by a lease, as it says itself.
func (x replacePod) isLed(ctx context.Context, s v1.Step, lease string) (bool, error) {
	managers, err := manager.Ask(ctx, x.env, s.Component)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(managers, func(m v1.Manager) bool { return slices.Contains(m.Leads, lease) }) {
		return true, nil
	}
	return false, step.Pending(
		"no pod of %s says that it leads by lease %s: see that its template has --enable-leader-migration again",
		s.Ref,
		lease,
	)
}

// withoutStep are the pods on Nodes for which the plan has no step.
func (x replacePod) withoutStep(pods []corev1.Pod) []corev1.Pod {
	nodes := map[string]bool{}
	for _, s := range x.env.Plan.Steps {
		if s.Kind == v1.StepReplacePod {
			nodes[x.env.NodeOf(s.Host)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return nodes[podreason.NodeOf(&p)] })
}

// respectsLease reports whether a pod has to lead by the migration lease once all are replaced. So it is on the way
// back, until a kube-controller-manager may have it. A pod whose template was not put back has no such lease: it would
// run the loops next to that manager.
func (x replacePod) respectsLease(s v1.Step) bool {
	if x.env.Plan.Direction != planstep.Rollback {
		return false
	}
	at := slices.IndexFunc(x.env.Plan.Steps, func(o v1.Step) bool { return o.ID == s.ID })
	return !slices.ContainsFunc(x.env.Plan.Steps[at+1:], func(o v1.Step) bool {
		return o.Component == component.KCM && x.env.Journal.Record(o.ID).Result != ""
	})
}

// Do deletes the pod and gives up the leases that it held. What it leads is bound to its process before. So another
// manager takes over as soon as that process has ended, and not when its leases have run out.
func (x replacePod) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	old, err := x.awaitOutdated(ctx, s)
	if err != nil {
		return err
	}
	if old != nil && old.DeletionTimestamp == nil { // else an earlier try has bound what it leads
		if err := takeover.BindOwners(ctx, x.env, s, rec); err != nil {
			return err
		}
	}
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	if old != nil {
		if err := x.deletePod(ctx, old); err != nil {
			return err
		}
	}
	if err := takeover.ReleaseLeases(ctx, x.env, s, rec); err != nil {
		return err
	}
	takeover.AwaitTakeover(ctx, x.env, s, *rec)
	return nil
}

// awaitOutdated returns the pod of an earlier template on the host; nil when there is none. It waits until the
// DaemonSet's controller has seen the present template.
func (x replacePod) awaitOutdated(ctx context.Context, s v1.Step) (*corev1.Pod, error) {
	var old *corev1.Pod
	var pending step.PendingError
	err := x.env.WaitFor(
		ctx,
		s,
		step.TimeoutOf(s),
		step.SettleInterval,
		func() string { return pending.Error() },
		func(ctx context.Context) (bool, error) {
			live, err := x.look(ctx, s)
			if errors.As(err, &pending) {
				return false, nil
			} else if err != nil {
				return false, err
			}
			old = live.outdated(live.here)
			return true, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return nil, &step.WaitError{
			Waited: step.TimeoutOf(s),
			Reason: fmt.Sprintf(
				"no pod was replaced: %v; find out what keeps the DaemonSet's controller, "+
					"then run the same command again",
				pending,
			),
		}
	}
	return old, err
}

// deletePod deletes one pod, and none that has come in its place.
func (x replacePod) deletePod(ctx context.Context, pod *corev1.Pod) error {
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		return x.env.KubeOf(pod.Namespace).CoreV1().Pods(pod.Namespace).
			Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone
	} else if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
