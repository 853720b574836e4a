package kubelet

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod whose host port another pod has is not started: its scheduler has not seen the other one yet.
func TestAPodWhosePortIsTakenIsRejected(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) {
		o.Client = api
		o.Pods = &PodOptions{
			HostNetwork: true,
			Address:     func() (string, error) { return "127.0.0.1", nil },
			Program:     func(*corev1.Container) (Program, error) { return Program{Path: "/bin/sleep"}, nil },
		}
	}).start()
	bind := func(name string, port int32) {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{NodeName: testNode, RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
				Name: "c", Image: "sleep", Command: []string{"sleep", "1000"},
				Ports: []corev1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: corev1.ProtocolTCP}},
			}}},
		}
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await := func(name string, phase corev1.PodPhase, reason string) {
		t.Helper()
		eventually(t, name+" is "+string(phase), func() (bool, any) {
			p, err := api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
			return err == nil && p.Status.Phase == phase && p.Status.Reason == reason, p
		})
	}
	bind("first", 6443)
	await("first", corev1.PodRunning, "")
	bind("second", 6443)
	await("second", corev1.PodFailed, reasonPorts)
	bind("other-port", 6444)
	await("other-port", corev1.PodRunning, "")

	if err := api.CoreV1().Pods("default").Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the first one", func() (bool, any) { return len(h.Exits()) == 1, h.Exits() })
	// A kubelet gives the ports of a pod away some time after the process has ended. Until then it rejects the next pod, and
	// a Deployment makes another one.
	for deadline, i := time.Now().Add(time.Minute), 0; ; i++ {
		name, status := fmt.Sprintf("third-%d", i), corev1.PodStatus{}
		bind(name, 6443)
		eventually(t, name+" is admitted or rejected", func() (bool, any) {
			p, err := api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
			if err == nil {
				status = p.Status
			}
			return status.Phase == corev1.PodRunning || status.Phase == corev1.PodFailed, p
		})
		if status.Phase == corev1.PodRunning {
			break
		}
		if status.Reason != reasonPorts || time.Now().After(deadline) {
			t.Fatalf("the port of a pod that has ended is not given to the next one: %s %s", status.Reason, status.Message)
		}
	}
	if exits := h.Exits(); len(exits) != 1 {
		t.Errorf("more than the first one was started and ended: %+v", exits)
	}
}
