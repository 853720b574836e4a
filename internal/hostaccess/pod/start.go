package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/visible"
)

const (
	// unnoticed is for how long a kubelet may not have noticed a pod before its node is looked at.
	unnoticed = 20 * time.Second
	// persistent is for how long what may pass by itself is waited for, such as a registry that does not answer once.
	persistent = 8 * time.Second
)

// startError says why no pod runs on a host, and that waiting does not help.
type startError struct {
	node string
	err  error
}

func (e *startError) Error() string {
	return fmt.Sprintf("starting a pod on node %s: %v", e.node, e.err)
}

func (e *startError) Unwrap() error { return e.err }

// lostError says that a pod is no longer there, or of no use.
type lostError struct{ reason string }

func (e *lostError) Error() string { return "the pod is lost: " + e.reason }

// create makes the next pod.
func (c *podSession) create(ctx context.Context) (string, types.UID, error) {
	c.mu.Lock()
	s := c.spec
	c.mu.Unlock()
	s.Name = c.a.name(c.kind)
	s.Job = c.a.owner()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	uid, err := c.a.make(ctx, build(s))
	switch {
	case err == nil:
	case errors.Is(err, errNotOurs):
		return "", "", &lostError{err.Error()}
	case apierrors.IsForbidden(err),
		apierrors.IsInvalid(err),
		apierrors.IsBadRequest(err),
		apierrors.IsNotFound(err),
		apierrors.IsUnauthorized(err):
		return "", "", &startError{c.node, explainRefusal(err)}
	default:
		return "", "", fmt.Errorf("creating pod %s/%s: %w", s.Namespace, s.Name, err)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.pod, c.uid, c.running, c.job = s.Name, uid, false, s.Job
		c.generation++
	}
	c.mu.Unlock()
	if closed { // meanwhile, by a client that did not know of this pod
		err := c.a.discard(s.Name) //nolint:contextcheck // it is deleted also when its caller has gone
		return "", "", errors.Join(errClosed, err)
	}
	return s.Name, uid, nil
}

// errNotOurs says that a pod has the name of one of this command and was made by others.
var errNotOurs = errors.New(
	"a pod with its name was not made by this command: look at who makes pods in that namespace",
)

// make makes a pod, and returns its UID: what has its name later may be another one, on another node. A pod that is
// there already is one that an attempt has made whose answer was lost, if it is as that would be.
func (a *access) make(ctx context.Context, want *corev1.Pod) (types.UID, error) {
	pods := a.Kube.CoreV1().Pods(want.Namespace)
	made, err := pods.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if made, err = pods.Get(ctx, want.Name, metav1.GetOptions{}); err == nil && !isOf(made, want) {
			return "", fmt.Errorf("%s/%s: %w", want.Namespace, want.Name, errNotOurs)
		}
	}
	if err != nil {
		return "", err
	}
	return made.UID, nil
}

// isOf reports whether a pod is the one that was to be made. A kubelet makes mirror pods alone, on its own node, and
// such a pod has no other owner than the Node.
func isOf(p, want *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && p.Spec.NodeName == want.Spec.NodeName && p.Labels[LabelRun] == want.Labels[LabelRun] &&
		equality.Semantic.DeepEqual(p.OwnerReferences, want.OwnerReferences)
}

// get1 reads the pod that was made. One that is gone, and another one of its name, is a lostError.
func (c *podSession) get1(ctx context.Context, name string, uid types.UID) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p, err := c.a.Kube.CoreV1().Pods(c.a.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &lostError{"it was deleted"}
	case err != nil:
		return nil, err
	case p.UID != uid:
		return nil, &lostError{"another pod has its name"}
	}
	return p, nil
}

// explainRefusal says who refused a pod, and the way out.
func explainRefusal(err error) error {
	const otherwise = ", or reach the hosts otherwise (--host-access=manual or local:...), or not at all (--host-access=none)"
	text := err.Error()
	switch {
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
		return err
	case strings.Contains(text, "violates PodSecurity"):
		return fmt.Errorf(
			"%w: Pod Security admission refuses it: label the namespace pod-security.kubernetes.io/enforce=privileged while you migrate%s",
			err,
			otherwise,
		)
	case strings.Contains(text, "exceeded quota"):
		return fmt.Errorf("%w: a ResourceQuota refuses it: make room in it%s", err, otherwise)
	case strings.Contains(text, "admission webhook"), strings.Contains(text, "ValidatingAdmissionPolicy"):
		return fmt.Errorf(
			"%w: an admission policy of the cluster refuses it: exempt pods with the label %s in this namespace%s",
			err,
			LabelAccess,
			otherwise,
		)
	case strings.Contains(text, "cannot create resource"):
		return fmt.Errorf("%w: you may not: ask for the rights in deploy/rbac/host-access.yaml%s", err, otherwise)
	}
	return fmt.Errorf("%w: the API server refuses the pod%s", err, otherwise)
}

// await waits until the agent's container runs.
func (c *podSession) await(ctx context.Context, name string, uid types.UID) error {
	begun := time.Now()
	var since time.Time // since when it has been waiting for the same reason
	reason := ""
	var why podreason.Reason
	for pause := 100 * time.Millisecond; ; pause = min(pause*5/4, time.Second) {
		p, err := c.get1(ctx, name, uid)
		if lost, ok := errors.AsType[*lostError](err); ok {
			return lost
		}
		if err == nil {
			if why := endReason(p); why != "" {
				if time.Since(p.CreationTimestamp.Time) < c.a.Start && p.DeletionTimestamp == nil {
					return c.refusedByNode(p, why)
				}
				return &lostError{why}
			}
			if isRunning(p) {
				return nil
			}
			waiting := waitingFor(p)
			if waiting.Reason != reason {
				reason, since = waiting.Reason, time.Now()
			}
			why, _ = c.a.reasons.Explain(ctx, c.a.Kube, p)
			c.recordWaitReason(why.String())
			if err := c.hopeless(ctx, p, waiting, why.Why, time.Since(since), time.Since(begun)); err != nil {
				return err
			}
		}
		if time.Since(begun) > c.a.Start {
			if err != nil {
				return fmt.Errorf("reading pod %s/%s: %w", c.a.Namespace, name, err)
			}
			return &startError{
				c.node,
				fmt.Errorf(
					"pod %s/%s does not run after %s: %s%s",
					c.a.Namespace,
					name,
					c.a.Start,
					why,
					securityHint(why.Why),
				),
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// recordWaitReason remembers what the pod is waited for, for those who wait.
func (c *podSession) recordWaitReason(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
}

// waitsFor says what a session with the pod waits for.
func (c *podSession) waitsFor() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pod == "" || c.why == "" {
		return "the pod on host " + c.node
	}
	return c.why
}

// whyLost says why a pod with which no session can be opened is of no use. It is nil when it may be, or that is not
// known.
func (c *podSession) whyLost(ctx context.Context, name string, uid types.UID) error {
	p, err := c.get1(ctx, name, uid)
	if lost, ok := errors.AsType[*lostError](err); ok {
		return lost
	}
	if err != nil {
		return nil
	}
	if why := endReason(p); why != "" {
		return &lostError{why}
	}
	return nil
}

// endReason says why a pod does not run any longer; empty when it does, or is about to.
func endReason(p *corev1.Pod) string {
	var words []string
	for _, w := range []string{p.Status.Reason, p.Status.Message} {
		if w != "" {
			words = append(words, w)
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			words = append(
				words,
				strings.TrimSpace(fmt.Sprintf("%s with exit code %d %s", t.Reason, t.ExitCode, strings.TrimSpace(t.Message))),
			)
		}
	}
	text := visible.Line(strings.Join(words, ": ")) // who has the kubelet's credentials writes it
	switch {
	case p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		if text == "" {
			text = "it ended"
		}
		return text
	case p.DeletionTimestamp != nil:
		return "it is being deleted"
	}
	return ""
}

func isRunning(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container && s.State.Running != nil {
			return true
		}
	}
	return false
}

func waitingFor(p *corev1.Pod) corev1.ContainerStateWaiting {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return *s.State.Waiting
		}
	}
	return corev1.ContainerStateWaiting{}
}

// refusedByNode is about a pod that ended before it could be asked: evicted, or refused by the kubelet, or its program
// could not go on.
func (c *podSession) refusedByNode(p *corev1.Pod, why string) error {
	if p.Status.Reason == "Evicted" || p.Status.Reason == "Preempting" {
		return &lostError{why}
	}
	return &startError{c.node, fmt.Errorf("pod %s/%s ended at once: %s", p.Namespace, p.Name, why)}
}

// hopeless reports whether a pod will not start, and why. same is for how long it has been waiting for this reason, all
// since it was made; why is what its events say.
func (c *podSession) hopeless(
	ctx context.Context,
	p *corev1.Pod,
	w corev1.ContainerStateWaiting,
	why string,
	same, all time.Duration,
) error {
	fail := func(format string, args ...any) error { return &startError{c.node, fmt.Errorf(format, args...)} }
	image := p.Spec.Containers[0].Image
	switch w.Reason {
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return fail("image %s cannot be used (%s: %s): name another one with --host-image", image, w.Reason, w.Message)
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable":
		if same > persistent || w.Reason == "ImagePullBackOff" {
			return fail(
				"image %s cannot be pulled (%s: %s): name one that this node can pull, or has, with --host-image",
				image,
				w.Reason,
				w.Message,
			)
		}
	case "CreateContainerError", "CreateContainerConfigError", "RunContainerError", "StartError":
		if strings.Contains(w.Message, "shared or slave mount") {
			c.mu.Lock()
			c.spec.Frozen = true
			c.mu.Unlock()
			return &lostError{"the host's own mounts are private, so later ones are not followed"}
		}
		if same > persistent {
			return fail("the container runtime refuses it (%s: %s)%s", w.Reason, w.Message, securityHint(w.Message))
		}
	}
	if w.Reason == "" || w.Reason == "ContainerCreating" {
		if all > persistent && strings.Contains(why, "no space left on device") {
			return &startError{
				c.node,
				fmt.Errorf(
					"no space left on host %s for a pod: free some space there and run the same command again; nothing was changed (%w)",
					c.node,
					syscall.ENOSPC,
				),
			}
		}
	}
	if p.Status.StartTime == nil && all > unnoticed {
		if why := c.deadNode(ctx); why != "" {
			return fail("%s", why)
		}
	}
	return nil
}

// securityHint names who may refuse a container on the host.
func securityHint(message string) string {
	for _, w := range []string{"permission denied", "operation not permitted", "apparmor", "selinux", "avc:"} {
		if strings.Contains(strings.ToLower(message), w) {
			return ": SELinux or AppArmor of the host may be what refuses it: look for a denial in its audit log or journal, or use --host-access=manual"
		}
	}
	return ""
}

// deadNode says that a node's kubelet does not report. A node that is NotReady for another reason, such as its network,
// starts pods of the host's network.
func (c *podSession) deadNode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n, err := c.a.Kube.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "the node is gone"
	}
	if err != nil {
		return ""
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
			return fmt.Sprintf(
				"its kubelet has not reported since %s (%s): look at it on that host",
				condition.LastHeartbeatTime.UTC().Format(time.RFC3339),
				condition.Reason,
			)
		}
	}
	return ""
}
