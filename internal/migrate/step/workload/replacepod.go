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
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// isReplacedByHand reports whether a workload's pods keep their template until a client deletes them.
func isReplacedByHand(o *unstructured.Unstructured) bool {
	strategy, _, err := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	return err == nil && strategy == string(appsv1.OnDeleteDaemonSetStrategyType)
}

// replacePod has the pod of a DaemonSet on one host start again from the present template.
type replacePod struct{ env *step.Env }

// podOnHost is what runs of a DaemonSet on a host.
type podOnHost struct {
	set  *unstructured.Unstructured
	pods []corev1.Pod
	// revision is the hash of the present template, which pods of it have as a label.
	revision string
}

// outdated is the first pod of an earlier template; nil when there is none.
func (p podOnHost) outdated() *corev1.Pod {
	for i := range p.pods {
		if p.pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] != p.revision {
			return &p.pods[i]
		}
	}
	return nil
}

// look reads the DaemonSet and its pods on the step's host. The error is a step.PendingError while its controller has
// not seen the present template. A pod that is deleted before that may come back as it was.
func (x replacePod) look(ctx context.Context, s v1.Step) (podOnHost, error) {
	set, err := object.ReadLive(ctx, x.env, s.Ref)
	if err != nil {
		return podOnHost{}, err
	}
	if why := object.UnseenChange(set); why != "" {
		return podOnHost{}, step.PendingError(why)
	}
	revision, err := x.revisionOf(ctx, set)
	if err != nil {
		return podOnHost{}, err
	}
	pods, err := object.PodsOf(ctx, x.env, set)
	if err != nil {
		return podOnHost{}, err
	}
	node := x.env.NodeOf(s.Host)
	return podOnHost{
		set: set,
		pods: slices.DeleteFunc(pods, func(p corev1.Pod) bool {
			return !metav1.IsControlledBy(&p, set) || podreason.NodeOf(&p) != node
		}),
		revision: revision,
	}, nil
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

// Done reports whether one pod of the present template is ready on the host, and no other one is left there.
func (x replacePod) Done(ctx context.Context, s v1.Step) (bool, error) {
	live, err := x.look(ctx, s)
	if err != nil {
		return false, err
	}
	old := live.outdated()
	switch {
	case old != nil && old.DeletionTimestamp != nil:
		return false, step.Pending("pod %s/%s on host %s still ends", old.Namespace, old.Name, s.Host)
	case old != nil:
		return false, step.Pending("pod %s/%s on host %s is of an earlier template", old.Namespace, old.Name, s.Host)
	case len(live.pods) != 1:
		return false, step.Pending("%d pods of %s are on host %s, not one", len(live.pods), s.Ref, s.Host)
	case !object.IsReady(&live.pods[0]):
		return false, step.Pending("pod %s/%s on host %s is not Ready", live.pods[0].Namespace, live.pods[0].Name, s.Host)
	}
	return true, nil
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
			old = live.outdated()
			return true, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return nil, &step.WaitError{
			Waited: step.TimeoutOf(s),
			Reason: fmt.Sprintf("no pod was replaced: %v; find out what keeps the DaemonSet's controller, then run the same command again", pending),
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
