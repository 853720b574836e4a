package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhatComesOfAnImageThatIsTried(t *testing.T) {
	of := func(s corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: s}}}}
	}
	waiting := func(reason string) *corev1.Pod {
		return of(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}})
	}
	ended := func(reason string, code int32) *corev1.Pod {
		return of(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}})
	}
	for name, c := range map[string]struct {
		pod              *corev1.Pod
		started, certain bool
		why              string
	}{
		"nothing is known yet":           {pod: &corev1.Pod{}},
		"it is being made":               {pod: waiting("ContainerCreating")},
		"it runs":                        {pod: of(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), started: true},
		"it has ended":                   {pod: ended("Completed", 0), started: true},
		"it does not know the flag":      {pod: ended("Error", 1), started: true},
		"the program is not in it":       {pod: ended("StartError", 128), why: "StartError", certain: true},
		"the pull failed once":           {pod: waiting("ErrImagePull"), why: "ErrImagePull: why"},
		"the pull fails again and again": {pod: waiting("ImagePullBackOff"), why: "ImagePullBackOff: why", certain: true},
		"no image can have that name":    {pod: waiting("InvalidImageName"), why: "InvalidImageName: why", certain: true},
		"the kubelet refuses the pod": {
			pod:     &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "no room"}},
			why:     "OutOfpods no room",
			certain: true,
		},
		"the runtime refuses its security": {pod: waiting("CreateContainerError"), why: "CreateContainerError: why"},
	} {
		t.Run(name, func(t *testing.T) {
			if started, why, certain := Verdict(c.pod); started != c.started || why != c.why || certain != c.certain {
				t.Errorf("started %v, %q, certain %v; want %v, %q, %v", started, why, certain, c.started, c.why, c.certain)
			}
		})
	}
}

func TestAPodThatTriesAnImageMayDoNothing(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0].(*host)
	p := h.tried("try-1", "example.com/ccm:v1", []string{"/ccm", "--version"})
	s := p.Spec.Containers[0].SecurityContext
	if len(p.Spec.Containers) != 1 || len(p.Spec.Volumes)+len(p.Spec.Containers[0].VolumeMounts) > 0 || p.Spec.HostPID || *p.Spec.AutomountServiceAccountToken ||
		s.Privileged != nil || *s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 {
		t.Errorf("it may do more than start: %+v", p.Spec)
	}
	if p.Spec.NodeName != "cp-1" || p.Labels[LabelAccess] != AccessTry || len(p.OwnerReferences) != 1 {
		t.Errorf("it is nowhere, or of nobody: %+v", p.ObjectMeta)
	}
}
