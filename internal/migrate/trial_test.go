package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// managerToCome is a Deployment of a cloud-controller-manager, as a plan has it.
func managerToCome(t *testing.T) string {
	t.Helper()
	labels := map[string]string{"app": "ccm"}
	data, err := json.Marshal(appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: component.CCM, Namespace: component.Namespace},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: layout.CCMAccount, HostNetwork: true, NodeSelector: map[string]string{"role": "cp"},
				Containers: []corev1.Container{{
					Name: component.CCM, Image: "registry.example/ccm:v1.26.0", Command: []string{"/aws-cloud-controller-manager", "--cloud-provider=aws"},
					Ports: []corev1.ContainerPort{{ContainerPort: 10258, HostPort: 10258}}, LivenessProbe: &corev1.Probe{}, StartupProbe: &corev1.Probe{},
				}},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// triedWorld is a world whose kube-controller-manager is a Deployment, with a kubelet that shows a trial as a test wants it.
func triedWorld(t *testing.T, status corev1.PodStatus) (*world, *v1.Plan, *[]corev1.Pod) {
	w := newWorld(t, 1)
	w.remove("cp-1", manifests+component.KCM+".yaml")
	w.deployed(2)
	p := w.given(
		v1.Step{
			ID:        "external/" + component.KCM,
			Phase:     "p",
			Kind:      v1.StepEditWorkload,
			Ref:       "Deployment/kube-system/" + component.KCM,
			Component: component.KCM,
			Leases:    []string{"deployed"},
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
		},
		v1.Step{
			ID:        "create/" + component.CCM,
			Phase:     "q",
			Kind:      v1.StepEnsureObject,
			Ref:       "Deployment/kube-system/" + component.CCM,
			Component: component.CCM,
			Object:    managerToCome(t),
		},
	)
	tried := &[]corev1.Pod{}
	w.more = func() {
		w.rollOut()
		var d appsv1.Deployment
		if w.api.Get(t, "/apis/apps/v1/namespaces/kube-system/deployments/"+component.CCM, &d) && d.Status.ReadyReplicas == 0 {
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, UpdatedReplicas: 2, ReadyReplicas: 2}
			w.api.Put(t, &d)
		}
		pod, err := w.kube.CoreV1().Pods(component.Namespace).Get(context.Background(), workloads.TrialPod, metav1.GetOptions{})
		if err != nil || pod.Status.Phase != "" {
			return
		}
		if c := w.deployment().Spec.Template.Spec.Containers[0]; !strings.Contains(fmt.Sprint(c.Command), "--cloud-provider=aws") {
			t.Error("the old manager was changed before the new one was tried")
		}
		*tried = append(*tried, *pod.DeepCopy())
		pod.Status = *status.DeepCopy()
		w.api.Put(t, pod)
	}
	return w, p, tried
}

func endedWith(code int32, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
	}}}}
}

func TestTheManagerOfADeploymentIsTriedBeforeTheOldOneIsStopped(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]corev1.PodStatus{
		"it says its version":       endedWith(0, "Completed", ""),
		"it does not know the flag": endedWith(1, "Error", "Error: unknown flag: --version"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p, tried := triedWorld(t, status)
			if err := w.engine().Run(t.Context(), p, nil); err != nil {
				t.Fatal(err)
			}
			if len(*tried) != 1 {
				t.Fatalf("the manager was tried %d times", len(*tried))
			}
			trial := (*tried)[0]
			c := trial.Spec.Containers[0]
			if have := strings.Join(c.Command, " "); have != "/aws-cloud-controller-manager --cloud-provider=aws --version" {
				t.Errorf("it was tried with %q", have)
			}
			if c.LivenessProbe != nil || c.StartupProbe != nil || c.Ports != nil || trial.Spec.RestartPolicy != corev1.RestartPolicyNever ||
				trial.Labels["app"] == "ccm" {
				t.Errorf("the pod would be taken for one of the Deployment's, or started again: %+v", trial)
			}
			if trial.Spec.NodeSelector["role"] != "cp" || !trial.Spec.HostNetwork || trial.Spec.ServiceAccountName != layout.CCMAccount {
				t.Errorf("it was tried in another place than it runs in: %+v", trial.Spec)
			}
			if _, err := w.kube.CoreV1().Pods(component.Namespace).Get(t.Context(), workloads.TrialPod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the trial is left: %v", err)
			}
		})
	}
}

func TestAManagerOfADeploymentThatCannotStartLeavesTheOldOneAlone(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}}
	}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"the program is not in the image": {endedWith(128, "StartError", `exec: "cloud-controller-manager": executable file not found in $PATH`), "executable file not found"},
		"it does not know a flag":         {endedWith(1, "Error", "Error: unknown flag: --node-monitor-period"), "exit code 1: Error: unknown flag: --node-monitor-period"},
		"the image cannot be pulled":      {waiting("ImagePullBackOff", "no such host"), "ImagePullBackOff: no such host"},
		"the pull fails for long":         {waiting("ErrImagePull", "timeout"), "ErrImagePull: timeout"},
		"no node takes it": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available",
		}}}, "cannot be scheduled: 0/3 nodes are available"},
		"nothing comes of it": {corev1.PodStatus{Phase: corev1.PodPending}, "was not started in 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p, _ := triedWorld(t, c.status)
			err := w.engine().Run(t.Context(), p, nil)
			says(t, err, c.want, "The old manager still runs, and this step changed nothing", "transplant rollback")
			if _, ok := errors.AsType[*precondition.ImageError](err); !ok {
				t.Errorf("the error is %T", err)
			}
			if have := fmt.Sprint(w.deployment().Spec.Template.Spec.Containers[0].Command); have != "[kube-controller-manager --cloud-provider=aws]" {
				t.Errorf("the old manager was changed: %s", have)
			}
			if _, err := w.kube.CoreV1().Pods(component.Namespace).Get(t.Context(), workloads.TrialPod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the trial is left: %v", err)
			}
		})
	}
}
