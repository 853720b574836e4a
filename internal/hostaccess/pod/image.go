package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	// AccessTry is the label of a pod that tries an image; nothing of the host is mounted in it.
	AccessTry = "try"
	// pullBudget is how long a machine may take to pull an image that it does not have.
	pullBudget = 5 * time.Minute
)

var _ hostaccess.ImageTrier = (*host)(nil)

// hopelessImage are what a kubelet says of an image or a container that waiting does not make better.
var hopelessImage = append([]string{"StartError"}, hostaccess.StuckReasons...)

// notStarted are the reasons with which a container ends that never ran.
var notStarted = []string{"StartError", "ContainerCannotRun", "ContainerStatusUnknown"}

// TryImage makes a pod of the image, pinned to the node, and takes it away again.
func (h *host) TryImage(ctx context.Context, image string, command []string) error {
	name := h.a.name(AccessTry)
	ctx, cancel := context.WithTimeoutCause(ctx, pullBudget, fmt.Errorf("it was not started in %s", pullBudget))
	defer cancel()
	uid, err := h.a.make(ctx, h.tried(name, image, command))
	if err != nil {
		return fmt.Errorf("trying image %s on host %s: creating pod %s/%s: %w", image, h.name, h.a.Namespace, name, err)
	}
	defer func() {
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		_ = h.a.deletePod(clean, name) // else it goes with its Job
	}()
	return h.awaitTried(ctx, name, uid, image)
}

func (h *host) awaitTried(ctx context.Context, name string, uid types.UID, image string) error {
	toldAt, told, last := time.Now(), "", ""
	var since time.Time
	for {
		p, err := h.reader.get1(ctx, name, uid)
		if lost, ok := errors.AsType[*lostError](err); ok {
			return fmt.Errorf("trying image %s on host %s: pod %s/%s: %w", image, h.name, h.a.Namespace, name, lost)
		}
		if err == nil {
			started, why, certain := Verdict(p)
			if started {
				return nil
			}
			if why != last {
				last, since = why, time.Now()
			}
			if why != "" && (certain || time.Since(since) > persistent) {
				return &hostaccess.ImageError{Host: h.name, Image: image, Why: why}
			}
		}
		if time.Since(toldAt) > impatience {
			toldAt = time.Now()
			text := ""
			if err == nil {
				why, _ := h.a.reasons.Explain(ctx, h.a.Kube, p)
				text = ": " + why.String()
			}
			if text = "waiting until host " + h.name + " has image " + image + text; text != told {
				told = text
				hostaccess.Progress(ctx, "%s", text)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("trying image %s on host %s: %w", image, h.name, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// NeverRan reports whether the reason with which a container ended says that it never ran.
func NeverRan(reason string) bool { return slices.Contains(notStarted, reason) }

// Verdict says whether a pod's container was started, or else what stands in its way; certain where that does not pass
// by itself.
func Verdict(p *corev1.Pod) (started bool, why string, certain bool) {
	for _, s := range p.Status.ContainerStatuses {
		switch t, w := s.State.Terminated, s.State.Waiting; {
		case s.State.Running != nil:
			return true, "", false
		case t != nil && NeverRan(t.Reason):
			return false, strings.TrimSpace(t.Reason + " " + t.Message), true
		case t != nil:
			return true, "", false // what it ended with is its own affair: it was there to be started
		case w != nil && slices.Contains(hopelessImage, w.Reason):
			return false, strings.TrimSpace(
					w.Reason + ": " + w.Message,
				), w.Reason == "InvalidImageName" ||
					w.Reason == "ImagePullBackOff"
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return false, strings.TrimSpace(p.Status.Reason + " " + p.Status.Message), true
	}
	return false, "", false
}

// tried is a pod of an image that may do nothing.
func (h *host) tried(name, image string, command []string) *corev1.Pod {
	h.reader.mu.Lock()
	s := h.reader.spec
	h.reader.mu.Unlock()
	s.Name = name
	h.a.mu.Lock()
	s.Job = h.a.job
	h.a.mu.Unlock()
	p := build(s)
	p.Labels[LabelAccess] = AccessTry
	p.Annotations = map[string]string{AnnotationPurpose: "try image " + image}
	p.Spec.HostPID, p.Spec.Volumes = false, nil
	p.Spec.TerminationGracePeriodSeconds, p.Spec.ActiveDeadlineSeconds = ptr.To[int64](
		1,
	), ptr.To(
		int64(pullBudget/time.Second),
	)
	p.Spec.Containers = []corev1.Container{{
		Name: "try", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(
				false,
			),
			ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:         &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}
	return p
}
