package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of a container that does not run, as kubectl shows them.
const (
	reasonCreating  = "ContainerCreating"
	reasonImage     = "ErrImagePull"
	reasonConfig    = "CreateContainerConfigError"
	reasonRun       = "RunContainerError"
	reasonCrashLoop = "CrashLoopBackOff"
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonPorts     = "NodePorts" // of a pod that is not admitted
)

// status describes the pod as a kubelet does. Times have whole seconds, as the API keeps them, so that a status that
// was written and read back equals itself.
func (p *pod) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	address := p.address
	s := corev1.PodStatus{
		HostIP: address, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		StartTime: &p.created,
		QOSClass:  qosOf(&p.static.pod.Spec),
	}
	ready, begun, over, failed := true, false, true, false
	for _, c := range p.containers {
		cs := c.status()
		s.ContainerStatuses = append(s.ContainerStatuses, cs)
		ready = ready && cs.Ready
		begun = begun || c.proc != nil
		if cs.State.Terminated == nil || restarts(p.static.pod.Spec.RestartPolicy, c.proc) {
			over = false
		} else {
			failed = failed || cs.State.Terminated.ExitCode != 0
		}
	}
	switch {
	case over && failed:
		s.Phase = corev1.PodFailed
	case over:
		s.Phase = corev1.PodSucceeded
	case begun:
		s.Phase = corev1.PodRunning
	default:
		s.Phase = corev1.PodPending
	}
	if ready != p.ready || p.readySince.IsZero() {
		p.ready, p.readySince = ready, seconds(metav1.Now())
	}
	condition := func(t corev1.PodConditionType, ok bool, since metav1.Time) corev1.PodCondition {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: since}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ContainersNotReady", "containers with unready status"
		}
		return c
	}
	s.Conditions = []corev1.PodCondition{
		condition(corev1.PodInitialized, true, p.created),
		condition(corev1.PodReady, ready, p.readySince),
		condition(corev1.ContainersReady, ready, p.readySince),
		condition(corev1.PodScheduled, true, p.created),
	}
	return s
}

// status describes one container. The pod's lock is held.
func (c *container) status() corev1.ContainerStatus {
	started := c.started
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts, Ready: c.ready, Started: &started,
	}
	if c.last != nil {
		s.LastTerminationState.Terminated = c.last
	}
	if c.proc != nil {
		s.ContainerID = containerIDScheme + c.proc.id
		s.ImageID = containerIDScheme + c.proc.program
	}
	switch {
	case c.proc != nil && c.proc.running():
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: seconds(metav1.NewTime(c.proc.started))}
		return s
	case c.waiting.Reason != "":
		waiting := c.waiting
		s.State.Waiting = &waiting
		if c.proc != nil {
			s.LastTerminationState.Terminated = terminated(c.proc)
		}
	default:
		s.State.Terminated = terminated(c.proc)
	}
	s.Ready = false
	*s.Started = false
	return s
}

func terminated(proc *process) *corev1.ContainerStateTerminated {
	code, ended, reason := proc.exit()
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(code), //nolint:gosec // at most 255
		Reason:   reasonCompleted, Message: reason,
		StartedAt: seconds(metav1.NewTime(proc.started)), FinishedAt: seconds(metav1.NewTime(ended)),
		ContainerID: containerIDScheme + proc.id,
	}
	if code != 0 {
		t.Reason = reasonError
	}
	return t
}

func seconds(t metav1.Time) metav1.Time { return t.Rfc3339Copy() }

// qosOf is the pod's class: guaranteed if all containers limit what they request, best effort if none asks for
// anything.
func qosOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	guaranteed, asked := true, false
	for i := range spec.Containers {
		r := spec.Containers[i].Resources
		asked = asked || len(r.Requests) > 0 || len(r.Limits) > 0
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := r.Limits[name]
			request, requested := r.Requests[name]
			guaranteed = guaranteed && limited && (!requested || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !asked:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
