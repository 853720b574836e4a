package precondition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
)

// missingInSeed says which files of --ccm-env the manager that a step starts in a seed would mount, and the Secret or
// ConfigMap does not have. The volumes are those of the kube-controller-manager. A file on no volume may be in the
// image: it is not judged. Neither is one of an object that may not be read.
func missingInSeed(ctx context.Context, e *step.Env, s v1.Step) (problems []string) {
	if s.Derive != layout.DeriveSeedManager || e.Seed == nil || len(layout.EnvFiles(e.Plan.Options)) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, step.LookTimeout)
	defer cancel()
	pod := mountedFromSource(ctx, e, s)
	if pod == nil {
		return nil // the step itself says why
	}
	for _, variable := range e.Plan.Options.Env {
		name, at, _ := strings.Cut(variable, "=")
		if !path.IsAbs(at) {
			continue
		}
		_, err := hosted.Mounted(ctx, e.Seed.Kube, e.Seed.Namespace, pod, &pod.Containers[0], path.Clean(at))
		if apierrors.IsNotFound(err) || errors.Is(err, hosted.ErrNoKey) {
			problems = append(problems, fmt.Sprintf("%s (--ccm-env %s) is not in the volume of %s that %s mounts: %s",
				at, name, s.Source, component.CCM, mask.Error(err)))
		}
	}
	return problems
}

// mountedFromSource is the pod of the manager that a step derives, with the mounts of its source alone. What the step
// adds itself is made by other steps of the plan. It is nil where it cannot be known now.
func mountedFromSource(ctx context.Context, e *step.Env, s v1.Step) *corev1.PodSpec {
	want := &unstructured.Unstructured{}
	var own, made appsv1.Deployment
	if json.Unmarshal([]byte(s.Object), &want.Object) != nil || json.Unmarshal([]byte(s.Object), &own) != nil {
		return nil
	}
	derived, err := object.EnsureObject{Env: e}.Derived(ctx, s, want)
	if err != nil || derived == nil {
		return nil
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(derived.Object, &made) != nil {
		return nil
	}
	pod := &made.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return nil
	}
	pod.Containers[0].VolumeMounts = slices.DeleteFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return slices.ContainsFunc(own.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	})
	return pod
}
