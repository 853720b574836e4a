package report

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// endpoints says which Services had ready endpoints and have none. Other numbers come and go with every deployment, and are no loss.
func (c *inventories) endpoints() {
	if !c.partKnown("endpointslices", "endpoints", "endpointslices") {
		return
	}
	now := map[string]v1.ServiceEndpoints{}
	for _, a := range c.after.Endpoints {
		now[a.Service] = a
		if a.Ready > 0 {
			c.out.Serving.After++
		}
	}
	for _, b := range c.before.Endpoints {
		if b.Ready == 0 {
			continue
		}
		c.out.Serving.Before++
		a, there := now[b.Service]
		object, had := "Service/"+b.Service, fmt.Sprintf("%d of %d ready", b.Ready, b.Total)
		switch {
		case a.Ready > 0:
		case !there:
			c.expect(object, "endpoints", had, "", "the Service was deleted: no step of a migration deletes one")
		case a.Total > 0:
			c.differ(object, "endpoints", had, fmt.Sprintf("0 of %d ready", a.Total))
		default:
			c.differ(object, "endpoints", had, "none: no pod that it selects runs")
		}
	}
}

// whyNetwork explains a node's condition NetworkUnavailable by who clears it.
func whyNetwork(after string) string {
	if after == "False" || after == "" {
		return "its network is available: whoever makes the routes, or the CNI, has said so"
	}
	return ""
}

// whyAnnotation explains another annotation of a Node.
func (c *inventories) whyAnnotation(key, _, after string) string {
	switch {
	case key == "alpha.kubernetes.io/provided-node-ip":
		return "the kubelet writes the address that its flags give it, where its provider is external"
	case key == "csi.volume.kubernetes.io/nodeid" && after != "":
		return "the registrars of CSI drivers write it"
	case strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/"), key == "csi.volume.kubernetes.io/nodeid", key == "volumes.kubernetes.io/controller-managed-attach-detach":
		return ""
	}
	return "no step of a migration writes it: somebody else did"
}

// whyAttachable explains another limit of attachable volumes: that of an in-tree plugin goes with the plugin, where a CSI driver on the node has one.
func (c *inventories) whyAttachable(node, after string) string {
	if !c.forward || after != "" {
		return ""
	}
	for _, n := range orEmpty(c.after.Volumes).CSINodes {
		if n.Name == node && len(n.Drivers) > 0 {
			return "the limit of the in-tree plugin went with the plugin: that of the CSI driver stands in the CSINode"
		}
	}
	if !slices.ContainsFunc(orEmpty(c.before.Volumes).PersistentVolumes, func(pv v1.PersistentVolume) bool { return pv.Plugin != "" }) {
		return "the limit of the in-tree plugin went with the plugin: there is no volume of it"
	}
	return ""
}
