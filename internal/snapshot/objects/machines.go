package objects

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// machineKinds are the kinds by which machines come and go while a migration runs. Which version of a group to ask in,
// discovery tells.
var machineKinds = []struct{ group, kind, resource string }{
	{"cluster.k8s.io", "Machine", "machines"},
	{"cluster.k8s.io", "MachineSet", "machinesets"},
	{"cluster.k8s.io", "MachineDeployment", "machinedeployments"},
	{"cluster.x-k8s.io", "Machine", "machines"},
	{"cluster.x-k8s.io", "MachineSet", "machinesets"},
	{"cluster.x-k8s.io", "MachineDeployment", "machinedeployments"},
	{"cluster.x-k8s.io", "MachineHealthCheck", "machinehealthchecks"},
	{"controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes"},
}

// GatherMachines lists the objects of machine-controller and Cluster API, where the cluster has them.
func GatherMachines(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("machines", collect.NoAPI)
		return
	}
	for _, k := range machineKinds {
		version := findVersion(g, k.group)
		if version == "" {
			continue
		}
		fact := "machines/" + k.group
		if g.Dynamic == nil {
			g.Unknown(fact, "listing "+k.resource+"."+k.group+": there is no client for kinds that are not built in")
			continue
		}
		resource := g.Dynamic.Resource(schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource})
		items, err := collect.ListPages(
			ctx,
			g,
			resource.List,
			func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items },
		)
		if apierrors.IsNotFound(err) {
			continue // the group is there, this kind of it is not installed
		}
		if err != nil {
			g.Unknown(fact, g.Describe("listing "+k.resource+"."+k.group, err))
			continue
		}
		for i := range items {
			g.Snap.Machines = append(g.Snap.Machines, machine(k.kind+"."+k.group, &items[i]))
		}
	}
	slices.SortFunc(g.Snap.Machines, func(a, b v1.MachineObject) int { return strings.Compare(a.Ref, b.Ref) })
}

// findVersion is the version of a group to ask in: the most stable and newest that is served, as the API servers
// themselves rank them. It is empty when the group is not served, or not known to be.
func findVersion(g *collect.Collector, group string) string {
	best := ""
	for _, gv := range g.Snap.APIGroups {
		if name, version, _ := strings.Cut(gv, "/"); name == group && (best == "" || versionRank(version) > versionRank(best)) {
			best = version
		}
	}
	return best
}

// versionRank orders v1alpha3 < v1beta1 < v1beta2 < v1 < v2.
func versionRank(version string) int {
	rest := strings.TrimPrefix(version, "v")
	for stage, word := range []string{"alpha", "beta"} {
		if major, minor, ok := strings.Cut(rest, word); ok {
			return 10000*stage + 100*number(major) + number(minor)
		}
	}
	return 20000 + 100*number(rest)
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // what is no number ranks lowest
	return n
}

const (
	autoscalerPrefix = "cluster-api-autoscaler-node-group-" // below cluster.k8s.io/ or cluster.x-k8s.io/
	// KubeletFlag is how machine-controller remembers that a machine's kubelet was made external.
	KubeletFlag = "v1.kubelet-flags.machine-controller.kubermatic.io/ExternalCloudProvider"
	// Paused is the annotation of a Cluster API object that its controllers leave alone.
	Paused = "cluster.x-k8s.io/paused"
)

func machine(kind string, o *unstructured.Unstructured) v1.MachineObject {
	out := v1.MachineObject{
		Ref: kind + "/" + o.GetNamespace() + "/" + o.GetName(), Deleting: o.GetDeletionTimestamp() != nil,
		Replicas: integer(o, "spec", "replicas"), Ready: integer(o, "status", "readyReplicas"),
	}
	out.Node, _, _ = unstructured.NestedString(o.Object, "status", "nodeRef", "name")
	out.Paused, _, _ = unstructured.NestedBool(o.Object, "spec", "paused")
	for key, value := range o.GetAnnotations() {
		_, name, _ := strings.Cut(key, "/")
		switch {
		case key == Paused:
			out.Paused = true // its presence is what counts
		case key == KubeletFlag:
			out.External, _ = strconv.ParseBool(value)
		case strings.HasPrefix(name, autoscalerPrefix+"max-size"), strings.HasPrefix(name, autoscalerPrefix+"min-size"):
			out.Autoscaled = true
		}
	}
	return out
}

func integer(o *unstructured.Unstructured, fields ...string) *int32 {
	n, ok, err := unstructured.NestedInt64(o.Object, fields...)
	if !ok || err != nil {
		return nil
	}
	short := int32(n)
	return &short
}
