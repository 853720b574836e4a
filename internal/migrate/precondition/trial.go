package precondition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess/pod"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

const (
	// trialBudget is how long a node may take to pull an image that it does not have.
	trialBudget = 5 * time.Minute
	// trialPatience is how long a pod may be refused by the scheduler or fail to be pulled before that counts.
	trialPatience = 30 * time.Second
)

// tryDeployment starts the manager of a planned Deployment once, before the first manager is stopped. It is a pod of
// its template, with all of its flags followed by --version. So faults are found while the old manager runs. Such
// faults are a pod that cannot be scheduled, an image that cannot be pulled, a missing program, an unknown flag. The
// pod runs no loop: its program ends when it has said its version. Returns why it does not start; empty when it does.
func tryDeployment(ctx context.Context, e *step.Env, s v1.Step) (string, error) {
	i := slices.IndexFunc(e.Plan.Steps, func(o v1.Step) bool {
		return o.Component == component.CCM && o.Kind == v1.StepEnsureObject && strings.HasPrefix(o.Ref, "Deployment/")
	})
	if i < 0 {
		return "", nil
	}
	start := e.Plan.Steps[i]
	d, err := deploymentOf(ctx, e, start)
	if err != nil {
		return "", err
	}
	p := trialOf(d)
	pods := e.KubeOf(p.Namespace).CoreV1().Pods(p.Namespace)
	kube := e.KubeOf(p.Namespace)
	if err := removeTrial(ctx, e, s, kube, p.Namespace); err != nil { // of an earlier try that died
		return "", err
	}
	_, err = pods.Create(ctx, p, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		e.Report(
			s,
			step.EventProgress,
			fmt.Sprintf(
				"whether the manager of %s starts is not proven: no pod may be made in namespace %s to try it (%v). The old manager still runs; if the new one does not start, no manager runs the loops",
				start.Ref,
				p.Namespace,
				err,
			),
		)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("trying the manager of %s: creating pod %s/%s: %w", start.Ref, p.Namespace, p.Name, err)
	}
	defer func() {
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		_ = pods.Delete(clean, p.Name, metav1.DeleteOptions{}) // else the next try does it, and its deadline has ended it
	}()
	why, err := awaitTrial(ctx, e, s, kube, p)
	if err != nil || why != "" {
		return why, err
	}
	e.Report(
		s,
		step.EventProgress,
		fmt.Sprintf("the manager of %s starts: image %s is there and knows its flags", start.Ref, p.Spec.Containers[0].Image),
	)
	return "", nil
}

// deploymentOf is the Deployment that a step makes, with what is derived when it is made.
func deploymentOf(ctx context.Context, e *step.Env, s v1.Step) (*appsv1.Deployment, error) {
	want, err := object.DecodeObject(s)
	if err != nil {
		return nil, err
	}
	if want, err = (object.EnsureObject{Env: e}).Complete(ctx, s, want); err != nil {
		return nil, err
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &d); err != nil {
		return nil, fmt.Errorf("object of step %s: %w", s.ID, err)
	}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("object of step %s has no container", s.ID)
	}
	return &d, nil
}

// trialOf is the pod that tries the manager of a Deployment. It has other labels than the Deployment's pods, which
// would take it for one of theirs.
func trialOf(d *appsv1.Deployment) *corev1.Pod {
	spec := *d.Spec.Template.Spec.DeepCopy()
	c := &spec.Containers[0]
	if len(c.Command) > 0 && len(c.Args) == 0 {
		c.Command = append(c.Command, "--version")
	} else {
		c.Args = append(c.Args, "--version")
	}
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Ports = nil, nil, nil, nil
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.TerminationGracePeriodSeconds, spec.ActiveDeadlineSeconds = ptr.To[int64](
		1,
	), ptr.To(
		int64(trialBudget/time.Second),
	)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      workloads.TrialPod,
			Namespace: d.Namespace,
			Labels: map[string]string{
				"app.kubernetes.io/name":       workloads.TrialPod,
				"app.kubernetes.io/managed-by": "transplant",
			},
		},
		Spec: spec,
	}
}

// removeTrial waits until no trial is left.
func removeTrial(ctx context.Context, e *step.Env, s v1.Step, kube kubernetes.Interface, ns string) error {
	reason := func() string { return "pod " + ns + "/" + workloads.TrialPod + " of an earlier try has not gone" }
	err := e.WaitFor(ctx, s, time.Minute, step.SettleInterval, reason, func(ctx context.Context) (bool, error) {
		err := kube.CoreV1().Pods(ns).Delete(ctx, workloads.TrialPod, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // where it may not be deleted it was not made
			return true, nil
		}
		return false, err
	})
	if errors.Is(err, step.ErrTimedOut) {
		return &step.WaitError{
			Waited: time.Minute,
			Reason: fmt.Sprintf(
				"pod %s/%s of an earlier try does not go; delete it and run the same command again",
				ns,
				workloads.TrialPod,
			),
		}
	} else if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", ns, workloads.TrialPod, err)
	}
	return nil
}

// awaitTrial waits until the program has ended, and returns why it was not started or did not end well.
func awaitTrial(ctx context.Context, e *step.Env, s v1.Step, kube kubernetes.Interface, p *corev1.Pod) (string, error) {
	verdict, since, last, explained := "", e.Clock.Now(), "", ""
	err := e.WaitFor(
		ctx,
		s,
		trialBudget,
		step.SettleInterval,
		func() string { return "the manager is tried in pod " + p.Namespace + "/" + p.Name + explained },
		func(ctx context.Context) (bool, error) {
			live, err := kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return false, fmt.Errorf("trying the manager: reading pod %s/%s: %w", p.Namespace, p.Name, err)
			}
			explained = ""
			if why := step.WhyPod(ctx, e, live); why != "" {
				explained = ": " + why
			}
			ended, why, certain := trialVerdict(live)
			if why != last {
				last, since = why, e.Clock.Now()
			}
			if ended {
				verdict = why
				return true, nil
			}
			if why != "" && (certain || e.Clock.Since(since) > trialPatience) {
				verdict = why
				return true, nil
			}
			return false, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return fmt.Sprintf(
			"the new manager was not started in %s: pod %s/%s has not run%s",
			trialBudget,
			p.Namespace,
			p.Name,
			cmp.Or(explained, ": "+last),
		), nil
	}
	if verdict != "" {
		verdict = fmt.Sprintf("the new manager does not start with image %s: %s", p.Spec.Containers[0].Image, verdict)
	}
	return verdict, err
}

// longestReason is how much of what a program said is shown.
const longestReason = 300

// trialVerdict says whether the program of a trial has ended, and what is wrong with it or stands in its way.
func trialVerdict(p *corev1.Pod) (ended bool, why string, certain bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return false, "its pod cannot be scheduled: " + c.Message, false
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		t := c.State.Terminated
		if t == nil || pod.NeverRan(t.Reason) {
			continue
		}
		// --version is the last flag: a program that minds nothing else has taken all the others.
		if t.ExitCode == 0 || strings.Contains(t.Message, "unknown flag: --version") {
			return true, "", true
		}
		said := strings.TrimSpace(t.Message)
		if len(said) > longestReason {
			said = "..." + said[len(said)-longestReason:]
		}
		return true, strings.TrimSpace(fmt.Sprintf("its program ended with exit code %d: %s", t.ExitCode, said)), true
	}
	if running, why, certain := pod.Verdict(p); !running {
		return false, why, certain
	}
	return false, "", false
}
