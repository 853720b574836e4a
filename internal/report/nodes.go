package report

import (
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// initialisedLabels are the labels that a cloud-controller-manager sets on a node that it initialises, and leaves alone on others.
var initialisedLabels = []string{
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region", "beta.kubernetes.io/instance-type",
}

func (c *inventories) nodes() {
	after := map[string]v1.Node{}
	for _, n := range c.after.Nodes {
		after[n.Name] = n
		if n.Ready != "True" {
			c.unready[n.Name] = true
		}
	}
	seen := map[string]bool{}
	for _, b := range c.before.Nodes {
		seen[b.Name] = true
		if b.Ready != "True" {
			c.unready[b.Name] = true
		}
		a, ok := after[b.Name]
		if why := c.goes[b.Name]; ok && why != "" { // it counts as gone, and whether its Node still has to be deleted is asked elsewhere
			c.wentNodes[b.Name] = true
			c.expect("Node/"+b.Name, "ready", b.Ready, a.Ready, why)
			continue
		}
		if !ok {
			c.wentNodes[b.Name] = true
			c.expect("Node/"+b.Name, fieldObject, "present", "", c.goes[b.Name])
			continue
		}
		c.node(b, a)
		if c.listed("csrs") {
			c.serving(b.Name)
		}
	}
	for name := range after {
		if !seen[name] {
			c.cameNodes[name] = true
			c.expect("Node/"+name, fieldObject, "", "present", "it joined: no step of a migration adds a Node")
		}
	}
}

func (c *inventories) node(b, a v1.Node) {
	object := "Node/" + b.Name
	if b.UID != a.UID {
		c.out.Nodes.Recreated++
		c.differ(object, "uid", b.UID, a.UID)
	}
	if b.ProviderID != a.ProviderID {
		c.out.Nodes.ChangedProviderID++
		c.differ(object, "providerID", b.ProviderID, a.ProviderID)
	}
	c.expect(object, "addresses", strings.Join(b.Addresses, ", "), strings.Join(a.Addresses, ", "), c.whyAddresses(b.Addresses, a.Addresses))
	c.differ(object, "podCIDRs", strings.Join(b.PodCIDRs, ", "), strings.Join(a.PodCIDRs, ", "))
	c.differ(object, "taints", strings.Join(sorted(b.Taints), ", "), strings.Join(sorted(a.Taints), ", "))
	c.differ(object, "ready", b.Ready, a.Ready)
	c.expect(object, "networkUnavailable", b.NetworkUnavailable, a.NetworkUnavailable, whyNetwork(a.NetworkUnavailable))
	c.expect(object, "kubelet", b.KubeletVersion, a.KubeletVersion, "no step of a migration installs a kubelet: somebody else did")
	c.maps(object, "annotation", b.Annotations, a.Annotations, c.whyAnnotation)
	c.maps(object, "allocatable", b.Attachable, a.Attachable, func(_, _, after string) string { return c.whyAttachable(b.Name, after) })
	c.maps(object, "label", b.Labels, a.Labels, func(key, before, _ string) string {
		switch {
		case !c.forward || before != "":
			return ""
		case strings.HasPrefix(key, "topology.k8s.aws/"), slices.Contains(initialisedLabels, key):
			return "the external manager labels nodes that it initialises"
		}
		return ""
	})
}

// serving compares whether a node's kubelet waits for a serving certificate. One whose addresses changed asks for another one, and until somebody answers, logs
// and exec of its pods fail; that comes minutes after its step. Who waited before waits for nothing that the migration did.
func (c *inventories) serving(node string) {
	if was, is := unanswered(c.before, node), unanswered(c.after, node); was == "" && is != "" {
		c.differ("Node/"+node, "servingCertificate", "no request waits", is)
	}
}

// unanswered names the first request for a serving certificate of a node that is not issued, and what answers it; empty for none.
func unanswered(s *v1.Snapshot, node string) string {
	for _, r := range s.CertificateRequests {
		switch {
		case r.SignerName != certificatesv1.KubeletServingSignerName || r.Username != "system:node:"+node:
		case r.State == "Pending":
			return r.Name + " waits (kubectl certificate approve " + r.Name + ")"
		case r.State != string(certificatesv1.CertificateApproved):
			return r.Name + " is " + r.State + " (kubectl delete csr " + r.Name + ": the kubelet asks again)"
		}
	}
	return ""
}

// whyAddresses explains a change of addresses: after a migration the external manager writes them, in an order of its own, and DNS names with them.
func (c *inventories) whyAddresses(before, after []string) string {
	if !c.forward {
		return ""
	}
	if slices.Equal(sorted(before), sorted(after)) {
		return "the same addresses: the external manager writes them in its own order"
	}
	for _, b := range before {
		if !slices.Contains(after, b) {
			return ""
		}
	}
	for _, a := range after {
		kind, _, _ := strings.Cut(a, "=")
		if !slices.Contains(before, a) && kind != "InternalDNS" && kind != "ExternalDNS" && kind != "Hostname" {
			return ""
		}
	}
	return "the external manager writes the DNS names of the instance too"
}
