package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/pages"
)

// The resources of machine-controller.
var (
	MachinesResource = schema.GroupVersionResource{Group: "cluster.k8s.io", Version: "v1alpha1", Resource: "machines"}
	SetsResource     = schema.GroupVersionResource{
		Group:    "cluster.k8s.io",
		Version:  "v1alpha1",
		Resource: "machinesets",
	}
	DeploymentsResource = schema.GroupVersionResource{
		Group:    "cluster.k8s.io",
		Version:  "v1alpha1",
		Resource: "machinedeployments",
	}
)

const (
	// AnnotationExternal is what machine-controller's webhook writes into a machine that it lets in: whether the kubelet
	// is meant to be external. It is the webhook's flag at that moment, and says nothing of the userdata that the machine
	// gets.
	AnnotationExternal = "v1.kubelet-flags.machine-controller.kubermatic.io/ExternalCloudProvider"

	ownedBy         = "machine-controller/owned-by"
	migratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"
)

// Bounds of what is kept of a user cluster. Its administrator may write anything, and the operator's memory is for all
// clusters.
const (
	// maxObjects is twice the nodes of the largest supported cluster, for each kind.
	maxObjects = 10_000
	// maxName is that of Kubernetes; maxText bounds other texts.
	maxName, maxText = 253, 512
	// maxDrivers is more CSI drivers, and plugins, than any node has.
	maxDrivers = 16
	// maxFacts bounds what is kept of all machines and nodes of a cluster together. Those of 5,000 nodes take a third.
	maxFacts = 16 << 20
	// maxFields bounds the list of the fields that one manager has of a node. Decoded it takes ten times as much.
	maxFields = 256 << 10
	// maxError bounds why something could not be listed: an API server says so at any length.
	maxError = 4 << 10
)

// Gather lists machines, nodes and what belongs to them. Everything that is in Facts and not in the user cluster
// (CCMReady, Volumes, Record) is the caller's to fill in. It fails when ctx ends; whatever else could not be listed is
// in Unknown.
func Gather(ctx context.Context, kube kubernetes.Interface, dyn dynamic.Interface, now time.Time) (Facts, error) {
	f := Facts{Time: now}
	g := gatherer{kube: kube, dyn: dyn, facts: &f}
	g.machines(ctx)
	g.nodes(ctx)
	return f, ctx.Err()
}

type gatherer struct {
	kube  kubernetes.Interface
	dyn   dynamic.Interface
	facts *Facts
	taken int64 // what is kept, in bytes
}

// count counts what is kept of an object, and says where that is too much of all together.
func (g *gatherer) count(kept any) error {
	if g.taken += answerlimit.Size(kept); g.taken > maxFacts {
		return fmt.Errorf("what is looked at of machines and nodes takes more than %d MiB: look at what that API server runs",
			maxFacts>>20)
	}
	return nil
}

// keep appends what is kept of an object to the others of its kind.
func keep[T any](g *gatherer, all *[]T, one T) error {
	if err := g.count(one); err != nil {
		return err
	}
	*all = append(*all, one)
	return nil
}

func (g *gatherer) recordUnknown(what string, err error) {
	if err != nil {
		g.facts.Unknown = append(g.facts.Unknown, cut(fmt.Sprintf("listing %s: %v", what, err), maxError))
	}
}

// machines lists what machine-controller knows. A cluster without its resources has no machines; that is so only when
// none of the three is there.
func (g *gatherer) machines(ctx context.Context) {
	absent := 0
	for _, r := range []struct {
		resource schema.GroupVersionResource
		add      func(u *unstructured.Unstructured) error
	}{
		{MachinesResource, func(u *unstructured.Unstructured) error { return keep(g, &g.facts.Machines, machineOf(u)) }},
		{SetsResource, func(u *unstructured.Unstructured) error { return keep(g, &g.facts.Sets, setOf(u)) }},
		{
			DeploymentsResource,
			func(u *unstructured.Unstructured) error { return keep(g, &g.facts.Deployments, DeploymentOf(u)) },
		},
	} {
		err := each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return g.dyn.Resource(r.resource).List(ctx, o)
		}, func(o runtime.Object) error {
			if u, ok := o.(*unstructured.Unstructured); ok {
				return r.add(u)
			}
			return nil
		})
		if apierrors.IsNotFound(err) {
			absent++
			continue
		}
		g.recordUnknown(r.resource.Resource, err)
	}
	switch absent {
	case 0:
	case 3:
		g.facts.NoMachineAPI = true
	default:
		g.facts.Unknown = append(
			g.facts.Unknown,
			"the user cluster serves only some of machines, machinesets and machinedeployments: install the CRDs of machine-controller whole",
		)
	}
}

func (g *gatherer) nodes(ctx context.Context) {
	csi := map[string]csiNode{}
	g.recordUnknown("csinodes", each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return g.kube.StorageV1().CSINodes().List(ctx, o)
	}, func(o runtime.Object) error {
		c, ok := o.(*storagev1.CSINode)
		if !ok {
			return nil
		}
		one := csiNodeOf(c)
		csi[cut(c.Name, maxName)] = one
		return g.count(one)
	}))
	exists := map[string]bool{}
	err := each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return g.kube.CoreV1().Nodes().List(ctx, o)
	}, func(o runtime.Object) error {
		n, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		node := NodeOf(n)
		exists[node.Name] = true
		if err := g.count(node); err != nil { // without its drivers, which its CSINode counts
			return err
		}
		node.Drivers, node.Plugins = csi[node.Name].drivers, csi[node.Name].plugins
		g.facts.Nodes = append(g.facts.Nodes, node)
		return nil
	})
	if err != nil {
		g.recordUnknown("nodes", err)
		return
	}
	g.recordUnknown("volumeattachments", each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return g.kube.StorageV1().VolumeAttachments().List(ctx, o)
	}, func(o runtime.Object) error {
		a, ok := o.(*storagev1.VolumeAttachment)
		if !ok || exists[cut(a.Spec.NodeName, maxName)] {
			return nil
		}
		volume := a.Name
		if a.Spec.Source.PersistentVolumeName != nil {
			volume = *a.Spec.Source.PersistentVolumeName
		}
		return keep(g, &g.facts.Attachments, Attachment{
			Name:   cut(a.Name, maxName),
			Node:   cut(a.Spec.NodeName, maxName),
			Volume: cut(volume, maxName),
		})
	}))
}

func each(ctx context.Context, list pages.List, visit func(runtime.Object) error) error {
	n := 0
	err := pages.Each(ctx, list, func(o runtime.Object) error {
		if n++; n > maxObjects {
			return fmt.Errorf("there are more than %d: delete those that are not needed", maxObjects)
		}
		return visit(o)
	})
	if err == nil && ctx.Err() != nil {
		return errors.New("the look was given up before it ended")
	}
	return err
}

// NodeOf reads a Node. What its CSINode says is not in it.
func NodeOf(n *corev1.Node) Node {
	out := Node{
		Name:          cut(n.Name, maxName),
		UID:           cut(string(n.UID), maxName),
		ProviderID:    cut(n.Spec.ProviderID, maxText),
		Created:       n.CreationTimestamp.Time,
		OwnedBy:       cut(n.Labels[ownedBy], maxName),
		Virtual:       nodemanager.IsVirtual(n.Labels),
		NotReadySince: n.CreationTimestamp.Time,
	}
	out.ProviderIDBy, out.ProviderIDAt = providerIDBy(n.ManagedFields)
	for _, t := range n.Spec.Taints {
		out.Uninitialized = out.Uninitialized || t.Key == component.TaintUninitialized
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
			out.NotReadySince = c.LastTransitionTime.Time
		}
	}
	if out.Ready {
		out.NotReadySince = time.Time{}
	}
	return out
}

// csiNode is what is kept of a CSINode.
type csiNode struct{ drivers, plugins []string }

func csiNodeOf(c *storagev1.CSINode) (out csiNode) {
	for _, d := range c.Spec.Drivers[:min(len(c.Spec.Drivers), maxDrivers)] {
		out.drivers = append(out.drivers, cut(d.Name, maxName))
	}
	for p := range strings.SplitSeq(c.Annotations[migratedPlugins], ",") {
		if p = strings.TrimSpace(p); p != "" && len(out.plugins) < maxDrivers {
			out.plugins = append(out.plugins, cut(p, maxName))
		}
	}
	return out
}

// cut is the beginning of a text, in memory of its own, so that a long one is not kept for it.
func cut(s string, most int) string {
	if len(s) <= most {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(strings.Clone(s[:most]), "")
}

// revisionAnnotation is machine-controller's, on MachineSets.
const revisionAnnotation = "machinedeployment.clusters.k8s.io/revision"

// providerIDBy is the field manager that set spec.providerID, and when it last wrote; the last one when there are
// several.
func providerIDBy(fields []metav1.ManagedFieldsEntry) (manager string, at time.Time) {
	for _, e := range fields {
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		if len(e.FieldsV1.GetRawBytes()) > maxFields {
			continue // no manager has as many fields of a node
		}
		var set struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) != nil {
			continue // what cannot be read is no evidence
		}
		if _, ok := set.Spec["f:providerID"]; !ok {
			continue
		}
		if when := timeOf(e.Time); manager == "" || when.After(at) {
			manager, at = cut(e.Manager, maxName), when
		}
	}
	return manager, at
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// controllerOf is the uid of the object's controller of a kind.
func controllerOf(u *unstructured.Unstructured, kind string) string {
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == kind && strings.HasPrefix(o.APIVersion, MachinesResource.Group+"/") {
			return cut(string(o.UID), maxName)
		}
	}
	return ""
}

func fieldText(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return cut(s, maxText)
}

// message is the beginning of what machine-controller says of a Machine. It is not masked yet.
func message(u *unstructured.Unstructured) string {
	s, _, _ := unstructured.NestedString(u.Object, "status", "errorMessage")
	return strings.Clone(mask.Beginning(s, maxText))
}

func number(u *unstructured.Unstructured, path ...string) int {
	n, _, _ := unstructured.NestedInt64(u.Object, path...)
	return int(n)
}

// replicas that an object wants: one when it does not say, as machine-controller defaults it.
func replicas(u *unstructured.Unstructured) int {
	n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return int(n)
}

func machineOf(u *unstructured.Unstructured) Machine {
	return Machine{
		Namespace: cut(u.GetNamespace(), maxName),
		Name:      cut(u.GetName(), maxName),
		UID:       cut(string(u.GetUID()), maxName),
		Created:   u.GetCreationTimestamp().Time,
		Deleting:  timeOf(u.GetDeletionTimestamp()),
		Owner: controllerOf(
			u,
			"MachineSet",
		),
		External:   cut(u.GetAnnotations()[AnnotationExternal], maxText),
		ProviderID: fieldText(u, "spec", "providerID"),
		NodeName:   fieldText(u, "status", "nodeRef", "name"),
		NodeUID:    fieldText(u, "status", "nodeRef", "uid"),
		Error:      strings.Trim(fieldText(u, "status", "errorReason")+": "+message(u), ": "),
	}
}

func setOf(u *unstructured.Unstructured) MachineSet {
	revision, err := strconv.Atoi(u.GetAnnotations()[revisionAnnotation])
	if err != nil {
		revision = 0
	}
	return MachineSet{
		Namespace: cut(u.GetNamespace(), maxName),
		Name:      cut(u.GetName(), maxName),
		UID:       cut(string(u.GetUID()), maxName),
		Created:   u.GetCreationTimestamp().Time,
		Owner:     controllerOf(u, "MachineDeployment"),
		Replicas:  replicas(u),
		Revision:  revision,
		Deleting:  u.GetDeletionTimestamp() != nil,
	}
}

// DeploymentOf reads a MachineDeployment.
func DeploymentOf(u *unstructured.Unstructured) Deployment {
	paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	return Deployment{
		Namespace:       cut(u.GetNamespace(), maxName),
		Name:            cut(u.GetName(), maxName),
		UID:             cut(string(u.GetUID()), maxName),
		ResourceVersion: cut(u.GetResourceVersion(), maxName),
		Generation:      u.GetGeneration(),
		ObservedGeneration: int64(
			number(u, "status", "observedGeneration"),
		),
		Deleting: u.GetDeletionTimestamp() != nil,
		Paused:   paused,
		Replicas: replicas(u),
		Updated: number(
			u,
			"status",
			"updatedReplicas",
		),
		Total:     number(u, "status", "replicas"),
		Ready:     number(u, "status", "readyReplicas"),
		Available: number(u, "status", "availableReplicas"),
		MaxUnavailable: intOrPercent(
			u,
			"spec",
			"strategy",
			"rollingUpdate",
			"maxUnavailable",
		),
		MaxSurge:     intOrPercent(u, "spec", "strategy", "rollingUpdate", "maxSurge"),
		ForceRestart: fieldText(u, "spec", "template", "metadata", "annotations", kubermatic.ForceRestart),
	}
}

func intOrPercent(u *unstructured.Unstructured, path ...string) *intstr.IntOrString {
	value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !found || err != nil {
		return nil
	}
	switch v := value.(type) {
	case int64:
		out := intstr.FromInt32(int32(max(0, min(v, 1<<30))))
		return &out
	case string:
		out := intstr.Parse(cut(v, maxText))
		return &out
	}
	return nil
}
