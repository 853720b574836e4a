package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deploymentsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// usualGates are what the machine components give kubelets when nothing is said.
const usualGates = "RotateKubeletServerCertificate=true"

// machineComponent is a machine component: what makes machines, or decides what they start with.
type machineComponent struct {
	deployment string
	// external is the switch by which new kubelets become external.
	external string
	// gates is the flag with the feature gates of new kubelets; empty when it has none.
	gates string
}

// components in the order in which they are changed. What writes userdata is changed before what stamps machines. So no
// machine with older userdata is stamped external. Sources: cmd of kubermatic/machine-controller and
// kubermatic/operating-system-manager.
var components = []machineComponent{
	{"operating-system-manager", "external-cloud-provider", "node-kubelet-feature-gates"},
	{"machine-controller", "node-external-cloud-provider", ""},
	{"machine-controller-webhook", "node-external-cloud-provider", "node-kubelet-feature-gates"},
}

// machineComponents patches them one by one, each when those before it have rolled out, and looks at them. A component
// that is not there is not needed: a cluster of static nodes has none, and an old one no operating-system-manager.
func (p Parts) machineComponents(ctx context.Context, r *Result, gates []string) error {
	done := true
	var errs []error
	for _, c := range components {
		d, err := p.Seed.Dynamic.Resource(deploymentsResource).
			Namespace(p.Namespace).
			Get(ctx, c.deployment, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading Deployment %s/%s: %w", p.Namespace, c.deployment, err))
			done = false
			continue
		}
		ready, err := p.component(ctx, c, d, gates, done && p.CCMReady, r)
		if err != nil {
			errs = append(errs, err)
		}
		done = done && ready && err == nil
	}
	r.MachinesReady = done
	return errors.Join(errs...)
}

// component reports whether a component runs with its flags, and changes it where it may.
func (p Parts) component(
	ctx context.Context,
	c machineComponent,
	d *unstructured.Unstructured,
	gates []string,
	may bool,
	r *Result,
) (bool, error) {
	changed, err := c.edit(d, gates)
	if err != nil {
		return false, fmt.Errorf("reading the command of Deployment %s/%s: %w", p.Namespace, c.deployment, err)
	}
	if changed && !may {
		r.wait("%s makes in-tree machines until what comes before it is ready", c.deployment)
		return false, nil
	}
	if changed {
		if d, err = p.Seed.Dynamic.Resource(deploymentsResource).
			Namespace(p.Namespace).
			Update(ctx, d, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
			return false, fmt.Errorf("changing Deployment %s/%s: %w", p.Namespace, c.deployment, err)
		}
		r.did("%s makes external machines from now on (-%s)", c.deployment, c.external)
	}
	if why := unready(d); why != "" {
		r.wait("Deployment %s %s", c.deployment, why)
		return false, nil
	}
	return true, nil
}

// edit changes the component's container and reports whether there was anything to change. Everything else of the
// object stays, also what this program does not know.
func (c machineComponent) edit(d *unstructured.Unstructured, gates []string) (bool, error) {
	path := []string{"spec", "template", "spec", "containers"}
	list, found, err := unstructured.NestedSlice(d.Object, path...)
	if err != nil || !found || len(list) == 0 {
		return false, errors.New("it has no containers")
	}
	i := max(0, slices.IndexFunc(list, func(e any) bool {
		m, ok := e.(map[string]any)
		return ok && m["name"] == c.deployment
	}))
	container, ok := list[i].(map[string]any)
	if !ok {
		return false, errors.New("its container cannot be read")
	}
	command, _, err := unstructured.NestedStringSlice(container, "command")
	if err != nil {
		return false, err
	}
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return false, err
	}
	line := readCommandLine(command, args)
	changed := line.setSwitch(c.external)
	if c.gates != "" && line.setGates(c.gates, usualGates, gates) {
		changed = true
	}
	if !changed {
		return false, nil
	}
	newCommand, newArgs, err := line.result()
	if err != nil {
		return false, err
	}
	set(container, "command", newCommand)
	set(container, "args", newArgs)
	list[i] = container
	return true, unstructured.SetNestedSlice(d.Object, list, path...)
}

func set(container map[string]any, name string, list []string) {
	if len(list) == 0 {
		return
	}
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	container[name] = out
}

// unready is why a Deployment has not rolled out, a clause; empty when it has, its old pods gone.
func unready(d *unstructured.Unstructured) string {
	number := func(usual int64, path ...string) int64 {
		n, found, err := unstructured.NestedInt64(d.Object, path...)
		if !found || err != nil {
			return usual
		}
		return n
	}
	wanted := number(1, "spec", "replicas")
	updated, all, available := number(
		0,
		"status",
		"updatedReplicas",
	), number(
		0,
		"status",
		"replicas",
	), number(
		0,
		"status",
		"availableReplicas",
	)
	switch {
	case wanted == 0:
		return "has no replicas"
	case number(0, "status", "observedGeneration") < d.GetGeneration():
		return "was changed and not looked at yet"
	case updated < wanted || all > updated || available < wanted:
		if isStuck(d) {
			return fmt.Sprintf(
				"does not roll out: %d of %d pods are new and %d are available (ProgressDeadlineExceeded)",
				updated,
				wanted,
				available,
			)
		}
		return fmt.Sprintf("rolls out: %d of %d pods are new, %d are available", updated, wanted, available)
	}
	return ""
}

func isStuck(d *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Progressing" && m["reason"] == "ProgressDeadlineExceeded"
	})
}

// podOf is the pod of a Deployment of the control plane and its first container, or the one of a name.
func podOf(d *unstructured.Unstructured, name string) (corev1.PodSpec, corev1.Container, error) {
	m, _, err := unstructured.NestedMap(d.Object, "spec", "template", "spec")
	if err != nil {
		return corev1.PodSpec{}, corev1.Container{}, err
	}
	var pod corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &pod); err != nil {
		return corev1.PodSpec{}, corev1.Container{}, err
	}
	if len(pod.Containers) == 0 {
		return corev1.PodSpec{}, corev1.Container{}, errors.New("it has no containers")
	}
	i := max(0, slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == name }))
	return pod, pod.Containers[i], nil
}
