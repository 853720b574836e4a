package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// annotationProvidedIP is where a kubelet with an external provider says which address it was told to use.
const annotationProvidedIP = "alpha.kubernetes.io/provided-node-ip"

var addressShared = Check{
	Code: "NODE-007", Reason: "AddressShared", Category: categoryNodes, Level: LevelError, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "no two nodes have the same internal address",
	Explain: []string{
		"Of two nodes with one address, one is the Node object of a machine that is gone, or its address was read from the wrong network. Load balancers of OpenStack, Azure and vSphere have addresses as members, machine-controller matches machines " +
			"with nodes by them, and a pod network that routes by them sends packets to the wrong place.",
	},
	judge: func(f facts) v1.Finding {
		first := map[string]string{}
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			for _, ip := range ofType(n.Addresses, "InternalIP") {
				if other, taken := first[ip]; taken && other != n.Name {
					return fmt.Sprintf("InternalIP %s is also that of %s (this node ready: %s)", ip, other, n.Ready)
				}
				first[ip] = n.Name
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%d internal addresses among %s: none is there twice", len(first), plural(len(f.Nodes), "node"))
		}
		return with(bad.finding(v1.Fail, "%s the internal address of another", counting(len(bad.lines), "node", "has", "have")), "one node for each address", sourceNodes, "kubectl get nodes -o wide")
	},
}

var providedAddress = Check{
	Code: "NODE-015", Reason: "ProvidedAddressUnknown", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onAPI,
	Title: "the address that each kubelet was told to use is one of its node's",
	Explain: []string{
		"A kubelet with --node-ip and an external provider writes that address into the annotation " + annotationProvidedIP + ", and the manager takes only addresses of the cloud that it finds there. Where the cloud does not know the address " +
			"(a second network, a VIP, another family) the manager changes nothing and logs an error: the node keeps stale addresses, and a new one is never initialised.",
		"Compared with what the new provider would write where it was asked (--prove), else with the addresses that the node has now. See https://github.com/kubernetes/kubernetes/issues/125348.",
	},
	judge: judgeProvidedAddress,
}

func judgeProvidedAddress(f facts) v1.Finding {
	previews := map[string]v1.NodePreview{}
	if f.Preview != nil {
		for _, p := range f.Preview.Nodes {
			previews[p.Node] = p
		}
	}
	told := f.nodeIPFlags()
	n := 0
	bad, finding, ok := f.eachNode(func(node v1.Node) string {
		provided := orElse(node.Annotations[annotationProvidedIP], told[node.Name])
		if provided == "" {
			return ""
		}
		n++
		p := previews[node.Name]
		switch {
		case p.Found && p.Error != "" && node.Annotations[annotationProvidedIP] != "":
			return "told " + provided + ", and the new provider says: " + p.Error
		case p.Found && len(p.Addresses) > 0:
			return strange(provided, p.Addresses)
		}
		return strange(provided, node.Addresses)
	})
	unread, missing := f.missing("hosts/*/kubelet")
	switch {
	case !ok:
		return finding
	case bad.empty() && len(f.broadHostErrors()) > 0:
		return dependent("HOST-001")
	case bad.empty() && missing:
		return unread
	case bad.empty():
		return pass("%s told an address%s", counting(n, "kubelet", "is", "are"), also(n, ", each its node's"))
	}
	return with(bad.finding(v1.Fail, "the new manager would not write the addresses of %s", plural(len(bad.lines), "node")), "one of the addresses that the cloud knows", sourceNodes,
		"kubectl get node "+bad.objects[0]+" -o jsonpath='{.metadata.annotations}{.status.addresses}'")
}

// strange says which of the addresses that a kubelet was told is not one of those that are known; empty when all are.
func strange(provided string, known []string) string {
	for ip := range strings.SplitSeq(provided, ",") {
		ip = strings.TrimSpace(ip)
		if addr, err := netip.ParseAddr(ip); err == nil && addr.IsUnspecified() {
			continue // "any of this family"
		}
		if !slices.Contains(ofType(known, "InternalIP"), ip) && !slices.Contains(ofType(known, "ExternalIP"), ip) {
			return fmt.Sprintf("told %s, knows %s", ip, orElse(strings.Join(known, ", "), "no address"))
		}
	}
	return ""
}

// nodeIPFlags are the addresses that kubelets on hosts are told to use, by node.
func (f facts) nodeIPFlags() map[string]string {
	out := map[string]string{}
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.NodeName != "" {
			out[h.NodeName] = h.Kubelet.Flags["node-ip"]
		}
	}
	return out
}

var severalAddresses = Check{
	Code: "NODE-016", Reason: "SeveralInternalAddresses", Category: categoryNodes, Level: LevelWarning, Impact: ImpactAPI, DependsOn: onAPI,
	Title: "every node has one internal address of each family, or the new provider was seen to keep their order",
	Explain: []string{
		"Of several internal addresses the first one counts: it is how the API server reaches the kubelet and what hostNetwork pods get. Each provider orders them in its own way (by network name, by interface, by attachment), and the in-tree and the " +
			"external one of OpenStack and vSphere do not do it alike. --node-ip on the kubelets, internal-network-name on OpenStack or the Nodes section on vSphere fixes the order.",
		"With --prove the new provider is asked for the order, and NODE-012 compares it.",
	},
	judge: func(f facts) v1.Finding {
		asked := map[string]bool{}
		if f.Preview != nil {
			for _, p := range f.Preview.Nodes {
				asked[p.Node] = p.Found && len(p.Addresses) > 0
			}
		}
		told, several := f.nodeIPFlags(), 0
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if !twoOfAFamily(ofType(n.Addresses, "InternalIP")) {
				return ""
			}
			several++
			if asked[n.Name] || told[n.Name] != "" || n.Annotations[annotationProvidedIP] != "" {
				return ""
			}
			return strings.Join(ofType(n.Addresses, "InternalIP"), ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.empty() && several > 0:
			return pass("%s several internal addresses, and their order is settled", counting(several, "node", "has", "have"))
		case bad.empty():
			return pass("%s one internal address of each family", counting(len(f.Nodes), "node", "has", "have"))
		}
		return with(bad.finding(v1.Warn, "%s several internal addresses whose order the new provider may change", counting(len(bad.lines), "node", "has", "have")), "one of each family, --node-ip, or a proof",
			sourceNodes, "transplant check --prove")
	},
}

// twoOfAFamily tells whether two addresses are of the same family.
func twoOfAFamily(ips []string) bool {
	v4, v6 := 0, 0
	for _, ip := range ips {
		if strings.Contains(ip, ":") {
			v6++
		} else {
			v4++
		}
	}
	return v4 > 1 || v6 > 1
}
