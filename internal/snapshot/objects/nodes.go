package objects

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherNodes lists the nodes.
func GatherNodes(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("nodes", collect.NoAPI)
		return
	}
	items, ok := collect.List(
		ctx,
		g,
		"nodes",
		"nodes",
		g.Kube.CoreV1().Nodes().List,
		func(l *corev1.NodeList) []corev1.Node { return l.Items },
	)
	if !ok {
		return
	}
	out := make([]v1.Node, 0, len(items))
	for i := range items {
		out = append(out, Node(&items[i]))
	}
	slices.SortFunc(out, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	g.Snap.Nodes = out
	g.Count("nodes", len(out))
}

// steering are the annotations of a Node, or the beginnings of their names, that cloud controllers, kubelets, CSI
// drivers and machine controllers go by. Others (a CNI's, an operator's notes) are left out: there may be dozens on
// each of many nodes.
var steering = []string{
	"alpha.kubernetes.io/provided-node-ip",
	"cluster-autoscaler.kubernetes.io/",
	"cluster.k8s.io/",
	"cluster.x-k8s.io/",
	"csi.volume.kubernetes.io/nodeid",
	"kubeadm.alpha.kubernetes.io/cri-socket",
	"node.alpha.kubernetes.io/ttl",
	"node.cloudprovider.kubernetes.io/",
	"node.kubernetes.io/",
	"node.openstack.org/",
	"storage.alpha.kubernetes.io/",
	"volumes.kubernetes.io/",
}

// Node returns the facts of a Node object.
func Node(n *corev1.Node) v1.Node {
	out := v1.Node{
		Name:               n.Name,
		UID:                string(n.UID),
		ProviderID:         n.Spec.ProviderID,
		Labels:             n.Labels,
		PodCIDRs:           n.Spec.PodCIDRs,
		KubeletVersion:     n.Status.NodeInfo.KubeletVersion,
		Created:            n.CreationTimestamp.UTC(),
		Unschedulable:      n.Spec.Unschedulable,
		SystemUUID:         n.Status.NodeInfo.SystemUUID,
		OS:                 n.Status.NodeInfo.OperatingSystem,
		OSImage:            n.Status.NodeInfo.OSImage,
		ContainerRuntime:   n.Status.NodeInfo.ContainerRuntimeVersion,
		Annotations:        steeringOf(n.Annotations),
		Registries:         registries(n.Status.Images),
		Attachable:         attachable(n.Status.Allocatable),
		ControlPlaneImages: controlPlaneImages(n.Status.Images),
	}
	for _, a := range n.Status.Addresses {
		out.Addresses = append(out.Addresses, string(a.Type)+"="+a.Address)
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	slices.Sort(out.Taints)
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			out.NetworkUnavailable = string(c.Status)
		}
		if c.Type != corev1.NodeReady {
			continue
		}
		out.Ready = string(c.Status)
		if !c.LastTransitionTime.IsZero() {
			since := c.LastTransitionTime.UTC()
			out.ReadySince = &since
		}
	}
	for _, v := range n.Status.VolumesInUse {
		out.VolumesInUse = append(out.VolumesInUse, string(v))
	}
	slices.Sort(out.VolumesInUse)
	return out
}

func steeringOf(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range annotations {
		if slices.ContainsFunc(steering, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			kept[key] = value
		}
	}
	return mask.Annotations(kept)
}

func attachable(resources corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, quantity := range resources {
		if strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix) {
			out[string(name)] = quantity.String()
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// controlPlaneImages are the images of a control plane's components, by their tags.
func controlPlaneImages(images []corev1.ContainerImage) []string {
	var out []string
	for _, image := range images {
		for _, name := range image.Names {
			repository, _, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
			if tagged && slices.Contains([]string{component.KAS, component.KCM, component.Scheduler}, repository) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// publicRegistries are those that a provider's patterns match and that give to everybody.
var publicRegistries = []string{"k8s.gcr.io"}

// registries are the hosts that some provider's credentials are for, among those that a node's images came from.
func registries(images []corev1.ContainerImage) []string {
	var out []string
	seen := map[string]bool{} // a node shows fifty images of a handful of registries
	for _, image := range images {
		for _, name := range image.Names {
			host, _, ok := strings.Cut(name, "/")
			if !ok || seen[host] {
				continue
			}
			seen[host] = true
			if !slices.Contains(publicRegistries, host) && len(credentialsFor(host)) > 0 {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return out
}

// credentialsFor are the providers whose image credentials are for a registry.
func credentialsFor(host string) []string {
	var out []string
	for _, p := range cloudprovider.Providers() {
		if p.Credentials != nil && p.Credentials.CoversRegistry(host) {
			out = append(out, p.Name)
		}
	}
	return out
}

// SummarizeRegistries drops those that the cluster's own provider has no credentials for: an in-tree kubelet on one
// cloud never had those of another.
func SummarizeRegistries(g *collect.Collector) {
	if g.Snap.Cluster.Provider == "" {
		return
	}
	for i := range g.Snap.Nodes {
		n := &g.Snap.Nodes[i]
		n.Registries = slices.DeleteFunc(n.Registries, func(host string) bool {
			return !slices.Contains(credentialsFor(host), g.Snap.Cluster.Provider)
		})
		if len(n.Registries) == 0 {
			n.Registries = nil
		}
	}
}
