package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// deletionBudget bounds the wait for the watch event of a deletion that a read has shown already.
const deletionBudget = 10 * time.Second

// podEnd decides whether the process that a lease was bound to has ended. The proof is a terminated status of that very
// container, and nothing else.
//
// A kubelet writes that status when the containers of a deleted pod have ended, and takes the object away right after
// it. Reads would miss it, so the pod is watched. An object that disappears without it proves nothing. It was deleted
// by force, or by the garbage collector of a control plane that has lost the node. The process may run then.
type podEnd struct {
	engine *step.Env
	ctx    context.Context //nolint:containedctx // of the watch, which lasts longer than one look
	cancel context.CancelFunc
	record *v1.HandoverRecord

	events watch.Interface // nil while the pod is not watched
	// proven says that the bound container was seen terminated.
	proven bool
	// failed is why the pod could not be watched.
	failed error
}

func watchPodEnd(ctx context.Context, e *step.Env, r *v1.HandoverRecord) *podEnd {
	ctx, cancel := context.WithCancel(ctx)
	return &podEnd{
		engine: e,
		ctx:    ctx,
		cancel: cancel,
		record: r,
	}
}

func (p *podEnd) stop() {
	p.cancel()
	p.stopWatch()
}

// hasEnded reports whether the bound process has ended. Its error says why that cannot be known any longer.
func (p *podEnd) hasEnded(ctx context.Context) (bool, error) {
	namespace, r := p.engine.Seed.Namespace, p.record
	pod, err := p.engine.Seed.Kube.CoreV1().Pods(namespace).Get(ctx, r.Host, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return false, fmt.Errorf("reading pod %s/%s in the seed: %w", namespace, r.Host, err)
	}
	if gone {
		p.readUntilDeleted()
	} else {
		p.observePod(pod)
		p.readSeen()
	}
	switch {
	case p.proven:
		return true, nil
	case gone:
		return false, p.unproven(fmt.Sprintf("pod %s is gone", r.Host))
	case !isBoundPod(pod, r):
		return false, p.unproven(fmt.Sprintf("pod %s runs another container", r.Host))
	}
	p.startWatch(pod.ResourceVersion)
	return false, nil
}

// unproven says that the bound container ended unseen, if it has ended.
func (p *podEnd) unproven(what string) error {
	where := ""
	if p.record.Node != "" {
		where = " on node " + p.record.Node
	}
	err := fmt.Errorf(
		"%s, and its kubelet was not seen to say that the container had terminated: it may run%s",
		what,
		where,
	)
	if p.failed != nil {
		err = fmt.Errorf("%w (%w)", err, p.failed)
	}
	return err
}

func (p *podEnd) observePod(pod *corev1.Pod) { p.proven = p.proven || isTerminated(pod, p.record) }

func (p *podEnd) startWatch(version string) {
	if p.events != nil {
		return
	}
	p.events, p.failed = p.engine.Seed.Kube.CoreV1().Pods(p.engine.Seed.Namespace).Watch(p.ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, p.record.Host).String(), ResourceVersion: version,
	})
	if p.failed != nil {
		p.events, p.failed = nil, fmt.Errorf("watching it: %w", p.failed)
	}
}

func (p *podEnd) stopWatch() {
	if p.events != nil {
		p.events.Stop()
		p.events = nil
	}
}

// readSeen takes in what the watch has brought by now.
func (p *podEnd) readSeen() {
	for p.events != nil {
		select {
		case e, open := <-p.events.ResultChan():
			p.handleEvent(e, open)
		default:
			return
		}
	}
}

// readUntilDeleted takes in what the watch brings up to the deletion, which a read has shown already.
func (p *podEnd) readUntilDeleted() {
	timer := time.NewTimer(deletionBudget)
	defer timer.Stop()
	for p.events != nil && !p.proven {
		select {
		case e, open := <-p.events.ResultChan():
			p.handleEvent(e, open)
		case <-timer.C:
			p.failed = errors.New("the watch did not bring its deletion")
			p.stopWatch()
		case <-p.ctx.Done():
			p.stopWatch()
		}
	}
}

// handleEvent takes one event in. A watch that has ended is begun again with the next look, as long as the pod is
// there.
func (p *podEnd) handleEvent(e watch.Event, open bool) {
	pod, ok := e.Object.(*corev1.Pod)
	if ok {
		p.observePod(pod)
	}
	if !open || !ok || e.Type == watch.Deleted {
		p.stopWatch()
	}
}

// isTerminated reports whether the status of a pod says that the bound container has terminated. A kubelet that has
// lost a container names no ID. A runtime that has lost one names it, and may be wrong about its end.
func isTerminated(pod *corev1.Pod, r *v1.HandoverRecord) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return slices.ContainsFunc(
			[]corev1.ContainerState{s.State, s.LastTerminationState},
			func(state corev1.ContainerState) bool {
				t := state.Terminated
				return testimony.WasSeenToEnd(t) && t.ContainerID != "" &&
					manager.ContainerSum(string(pod.UID), t.ContainerID) == r.StartTicks
			},
		)
	})
}

// isBoundPod reports whether a pod still shows the container that was bound, so that its end is yet to be seen.
func isBoundPod(pod *corev1.Pod, r *v1.HandoverRecord) bool {
	for _, p := range workloads.SeedPods([]corev1.Pod{*pod}, r.Component) {
		if now := manager.ProcessOf(p); now.PID == r.PID && now.StartTicks == r.StartTicks {
			return true
		}
	}
	return false
}
