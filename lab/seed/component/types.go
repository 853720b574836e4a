package component

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
)

// The kinds of machine-controller.
var (
	Group              = schema.GroupVersion{Group: "cluster.k8s.io", Version: "v1alpha1"}
	Machines           = Group.WithResource("machines")
	MachineSets        = Group.WithResource("machinesets")
	MachineDeployments = Group.WithResource("machinedeployments")
)

// MachineNamespace is where machine-controller looks, SettingsNamespace where operating-system-manager writes.
const (
	MachineNamespace  = metav1.NamespaceSystem
	SettingsNamespace = "cloud-init-settings"
)

// AnnotationExternal is what the webhook stamps on a new Machine: what the webhook was started with.
const AnnotationExternal = "v1.kubelet-flags.machine-controller.kubermatic.io/ExternalCloudProvider"

// AnnotationGates is the prefix of a feature gate of a Machine's kubelet.
const AnnotationGates = "v1.kubelet-featuregates.machine-controller.kubermatic.io/"

const (
	annotationRevision = "machinedeployment.clusters.k8s.io/revision"
	annotationTemplate = "lab.transplant.dev/template"
	labelTemplate      = "machine-template-hash"
	finalizerMachine   = "machine-delete-finalizer"
)

// Machine is one machine, as far as the simulation reads it.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              MachineSpec   `json:"spec"`
	Status            MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what becomes of it.
type MachineSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Taints            []corev1.Taint   `json:"taints,omitempty"`
	ProviderID        *string          `json:"providerID,omitempty"`
	Versions          *MachineVersions `json:"versions,omitempty"`
}

// MachineVersions are those of the kubelet.
type MachineVersions struct {
	Kubelet string `json:"kubelet,omitempty"`
}

// MachineStatus is what it is.
type MachineStatus struct {
	NodeRef   *corev1.ObjectReference `json:"nodeRef,omitempty"`
	Addresses []corev1.NodeAddress    `json:"addresses,omitempty"`
	Phase     *string                 `json:"phase,omitempty"`
}

// Set stands for MachineSets and MachineDeployments, which have nearly the same shape. Template stays as it was read,
// so that nothing in it is lost.
type Set struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              SetSpec   `json:"spec"`
	Status            SetStatus `json:"status,omitempty"`

	Template map[string]any `json:"-"`
}

// SetSpec is what it should be.
type SetSpec struct {
	Replicas *int32       `json:"replicas,omitempty"`
	Paused   bool         `json:"paused,omitempty"`
	Strategy *SetStrategy `json:"strategy,omitempty"`
}

// SetStrategy is how machines are replaced.
type SetStrategy struct {
	RollingUpdate *struct {
		MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
		MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
	} `json:"rollingUpdate,omitempty"`
}

// SetStatus counts machines.
type SetStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Replicas           int32 `json:"replicas"`
	UpdatedReplicas    int32 `json:"updatedReplicas,omitempty"`
	ReadyReplicas      int32 `json:"readyReplicas,omitempty"`
	AvailableReplicas  int32 `json:"availableReplicas,omitempty"`
	Unavailable        int32 `json:"unavailableReplicas,omitempty"`
}

// hash names a template: any change of it makes another MachineSet.
func (s *Set) hash() string {
	data, err := json.Marshal(s.Template)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:5])
}

func (s *Set) replicas() int32 {
	if s.Spec.Replicas == nil {
		return 1
	}
	return *s.Spec.Replicas
}

func listSets(ctx context.Context, dyn dynamic.Interface, kind schema.GroupVersionResource) ([]*Set, error) {
	list, err := dyn.Resource(kind).Namespace(MachineNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	var out []*Set
	for i := range list.Items {
		s := &Set{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, s); err != nil {
			return nil, fmt.Errorf("reading %s %q: %w", kind.Resource, list.Items[i].GetName(), err)
		}
		s.Template, _, _ = unstructured.NestedMap(list.Items[i].Object, "spec", "template")
		out = append(out, s)
	}
	return out, nil
}

func listMachines(ctx context.Context, dyn dynamic.Interface) ([]*Machine, error) {
	list, err := dyn.Resource(Machines).Namespace(MachineNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var out []*Machine
	for i := range list.Items {
		m := &Machine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, m); err != nil {
			return nil, fmt.Errorf("reading machine %q: %w", list.Items[i].GetName(), err)
		}
		out = append(out, m)
	}
	return out, nil
}

// merge patches an object, or its status.
func merge(
	ctx context.Context,
	dyn dynamic.Interface,
	kind schema.GroupVersionResource,
	name string,
	body map[string]any,
	sub ...string,
) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding patch of %s %q: %w", kind.Resource, name, err)
	}
	if _, err := dyn.Resource(kind).
		Namespace(MachineNamespace).
		Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, sub...); err != nil {
		return fmt.Errorf("patching %s %q: %w", kind.Resource, name, err)
	}
	return nil
}

func ownerOf(refs []metav1.OwnerReference, kind string) string {
	for _, r := range refs {
		if r.Kind == kind {
			return r.Name
		}
	}
	return ""
}

// SettingsSecret is the Secret that operating-system-manager writes for a MachineDeployment.
func SettingsSecret(deployment string) string {
	return deployment + "-" + MachineNamespace + "-provisioning-config"
}
