package ccmtrial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/poll"
)

// nodeOfPods is the node of all managers that run in pods.
const nodeOfPods = "node-a"

// inPod makes the pod of a manager, and returns the flags and the environment that it has there. A process of this
// machine is its container, so that it is not the first one.
func (w *world) inPod(ctx context.Context, name string) (flags, env []string, err error) {
	message := w.message(name)
	if err := os.WriteFile(message, nil, 0o600); err != nil {
		return nil, nil, fmt.Errorf("making the termination message of %s: %w", name, err)
	}
	if err := w.makePod(ctx, name); err != nil {
		return nil, nil, err
	}
	return []string{"--pod-testimony=always", "--termination-message-path=" + message},
		[]string{"POD_NAME=" + name, "NODE_NAME=" + nodeOfPods}, nil
}

func (w *world) message(name string) string { return filepath.Join(w.dir, name+"-termination-log") }

// makePod makes the pod of a manager as a kubelet makes that of a manifest.
func (w *world) makePod(ctx context.Context, name string) error {
	_, err := w.admin.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec: corev1.PodSpec{
			NodeName: nodeOfPods, HostNetwork: true,
			Containers: []corev1.Container{{Name: "manager", Image: "manager"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the pod of %s: %w", name, err)
	}
	return nil
}

// deletePodByForce deletes the pod of a manager, whose process goes on.
func (w *world) deletePodByForce(ctx context.Context, name string) error {
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	return w.admin.CoreV1().Pods(metav1.NamespaceSystem).Delete(ctx, name, atOnce)
}

// testify is what a kubelet writes when the container of a manager has ended.
func (w *world) testify(ctx context.Context, name string) error {
	return w.say(ctx, name, 137, "Error")
}

// say writes that the container of a manager has ended, as the kubelet does by what its runtime says.
func (w *world) say(ctx context.Context, name string, code int32, reason string) error {
	message, err := os.ReadFile(w.message(name))
	if err != nil {
		return fmt.Errorf("reading the termination message of %s: %w", name, err)
	}
	pods := w.admin.CoreV1().Pods(metav1.NamespaceSystem)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the pod of %s: %w", name, err)
	}
	return w.writeStatus(ctx, pod, corev1.ContainerStatus{
		Name: "manager",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: string(message), FinishedAt: metav1.Now(), ContainerID: "containerd://" + name,
		}},
	})
}

// writeStatus writes what is known of the containers of a pod.
func (w *world) writeStatus(ctx context.Context, pod *corev1.Pod, containers ...corev1.ContainerStatus) error {
	pod.Status.ContainerStatuses = containers
	pods := w.admin.CoreV1().Pods(metav1.NamespaceSystem)
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of the pod of %s: %w", pod.Name, err)
	}
	return nil
}

// kubeletStarts is how long a kubelet that was restarted knows nothing of its containers.
const kubeletStarts = 500 * time.Millisecond

// restartKubelet does to the pod of a manager what a kubelet does that starts again: for a while it knows of no
// container. It makes the mirror pod again, and then says that the container runs. The process goes on all the time.
func (w *world) restartKubelet(ctx context.Context, name string) error {
	pods := w.admin.CoreV1().Pods(metav1.NamespaceSystem)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the pod of %s: %w", name, err)
	}
	if err := w.writeStatus(ctx, pod); err != nil {
		return err
	}
	if !poll.Pause(ctx, kubeletStarts) {
		return ctx.Err()
	}
	if err := errors.Join(w.deletePodByForce(ctx, name), w.makePod(ctx, name)); err != nil {
		return err
	}
	if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("reading the mirror pod of %s that was made again: %w", name, err)
	}
	return w.writeStatus(ctx, pod, corev1.ContainerStatus{
		Name: "manager", Ready: true, ContainerID: "containerd://" + name,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	})
}

// keeps stops a leader for a time in which its pod is deleted by force and made again, and returns an error if another
// process has got its lease.
func (w *world) keeps(ctx context.Context, leader *ccmlab.Manager, stopped time.Duration) error {
	before, err := w.term(ctx, mainLease)
	if err != nil {
		return err
	}
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer leader.Signal(syscall.SIGCONT) //nolint:errcheck // it has ended otherwise, which is seen below
	if err := w.deletePodByForce(ctx, leader.Name()); err != nil {
		return err
	}
	if err := w.makePod(ctx, leader.Name()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopped):
	}
	after, err := w.term(ctx, mainLease)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("%s lives, and %s took its lease", leader.Name(), after.holder)
	}
	return nil
}
