package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/holder"
)

// ownerLabel selects the Jobs.
const ownerLabel = labelManaged + "=" + managed + "," + LabelAccess + "=owner"

func jobName(run string) string { return "transplant-hosts-" + run }

// job is what all pods of one command belong to. It asks for no pod, and so is complete at once. From then on its time
// to live runs; when it ends, everything that belongs to it is deleted. The command that made it makes that time longer
// for as long as it lives.
func job(namespace, run, image, owner string, ttl time.Duration) *batchv1.Job {
	labels := map[string]string{labelManaged: managed, LabelAccess: "owner", LabelRun: run}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        jobName(run),
			Namespace:   namespace,
			Labels:      labels,
			Annotations: map[string]string{AnnotationHolder: owner},
		},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](0), Parallelism: ptr.To[int32](0), TTLSecondsAfterFinished: ptr.To(ceilSeconds(ttl)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
				Containers: []corev1.Container{{Name: "none", Image: image, Command: []string{program, "version"}}}, // never run
			}},
		},
	}
}

func ceilSeconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// own makes the Job.
func (a *access) own(ctx context.Context) error {
	j, err := a.Kube.BatchV1().
		Jobs(a.Namespace).
		Create(ctx, job(a.Namespace, a.run, a.Image, a.self.String(), a.TTL), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // an attempt whose answer was lost made it: no other process uses the name
		j, err = a.renew(ctx, a.TTL)
	}
	if err != nil {
		return fmt.Errorf("creating job %s/%s, which the pods on the hosts belong to: %w", a.Namespace, jobName(a.run), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job, a.born, a.bornHere = j.UID, j.CreationTimestamp.Time, time.Now()
	return nil
}

// owner is the Job that new pods belong to.
func (a *access) owner() types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.job
}

// ownAgain makes the Job live for another TTL from now, and makes it again when it is gone. It was deleted, or its time
// has passed while it could not be renewed. The garbage collector takes every pod whose owner is gone, also those that
// are made later. was is the Job that the caller's pods belong to; with another one by now there is nothing to do.
func (a *access) ownAgain(ctx context.Context, was types.UID) error {
	a.owning.Lock()
	defer a.owning.Unlock()
	if a.owner() != was {
		return nil
	}
	a.mu.Lock()
	ttl := time.Since(a.bornHere) + a.TTL // it has been complete since it was made, or later
	a.mu.Unlock()
	j, err := a.renew(ctx, ttl)
	if apierrors.IsNotFound(err) || err == nil && j.UID != was {
		return a.own(ctx)
	}
	return err
}

func (a *access) renew(ctx context.Context, ttl time.Duration) (*batchv1.Job, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ttlSecondsAfterFinished": ceilSeconds(ttl)}})
	if err != nil {
		return nil, err
	}
	return a.Kube.BatchV1().Jobs(a.Namespace).Patch(ctx, jobName(a.run), mergePatch, patch, metav1.PatchOptions{})
}

// removeLeftovers takes away what dead commands have left. The pods of a live one are never touched. It is dead when it
// was a process of this machine that has ended. It is also dead when its Job should have been gone for a minute by the
// API server's own times.
func (a *access) removeLeftovers(ctx context.Context) error {
	jobs, err := a.Kube.BatchV1().Jobs(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: ownerLabel})
	if err != nil {
		return fmt.Errorf("looking for what earlier commands left: %w", err)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if j.UID == a.job || !a.self.Dead(j.Annotations[AnnotationHolder]) && !isExpired(j, a.born) {
			continue
		}
		a.Tell(
			fmt.Sprintf("taking away the pods that an earlier command (%s) left", holder.Words(j.Annotations[AnnotationHolder])),
		)
		if err := a.remove(ctx, j.Labels[LabelRun]); err != nil {
			return err
		}
	}
	return nil
}

// isExpired reports whether a Job's time had passed a minute before now.
func isExpired(j *batchv1.Job, now time.Time) bool {
	if j.Spec.TTLSecondsAfterFinished == nil || now.IsZero() {
		return false
	}
	ended := j.CreationTimestamp.Time
	if j.Status.CompletionTime != nil {
		ended = j.Status.CompletionTime.Time
	}
	return ended.Add(time.Duration(*j.Spec.TTLSecondsAfterFinished)*time.Second + time.Minute).Before(now)
}

// remove takes a run's pods and Job away. The pods are named one by one, so that none stays where no controller runs
// that would follow the Job.
func (a *access) remove(ctx context.Context, run string) error {
	pods, err := a.Kube.CoreV1().
		Pods(a.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: LabelRun + "=" + run + "," + labelManaged + "=" + managed})
	if err != nil {
		return fmt.Errorf("looking for the pods on the hosts: %w", err)
	}
	err = a.each(
		ctx,
		len(pods.Items),
		func(ctx context.Context, i int) error { return a.deletePod(ctx, pods.Items[i].Name) },
	)
	if err != nil {
		return err
	}
	err = a.Kube.BatchV1().
		Jobs(a.Namespace).
		Delete(ctx, jobName(run), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting job %s/%s: %w", a.Namespace, jobName(run), err)
	}
	return nil
}

func (a *access) deletePod(ctx context.Context, name string) error {
	err := a.Kube.CoreV1().Pods(a.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](5)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", a.Namespace, name, err)
	}
	return nil
}
