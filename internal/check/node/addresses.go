// Package node decides whether each Node stays what it is under a new manager: provider IDs, names, addresses,
// labels, zones, taints.
package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var addressShared = rule.Check{
	Code:      "NODE-007",
	Reason:    "AddressShared",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "two nodes with the same INTERNAL-IP",
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Wrong: func(facts.Facts) func(v1.Node) string {
			first := map[string]string{}
			return func(n v1.Node) string {
				for _, ip := range facts.OfType(n.Addresses, "InternalIP") {
					if other, taken := first[ip]; taken && other != n.Name {
						return fmt.Sprintf("InternalIP %s is also that of %s (this node ready: %s)", ip, other, n.Ready)
					}
					first[ip] = n.Name
				}
				return ""
			}
		},
		Outcome:  v1.Fail,
		Passes:   "no internal address is there twice among # [node|nodes]",
		Fails:    "# [node has|nodes have] the internal address of another",
		Expected: "one node for each address",
		Fix:      func(string) string { return "kubectl get nodes -o wide" },
	}),
}

var providedAddress = rule.Check{
	Code:      "NODE-015",
	Reason:    "ProvidedAddressUnknown",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the annotation alpha.kubernetes.io/provided-node-ip, and an address of the node that equals it",
	DependsOn: rule.OnAPI,
	Judge:     judgeProvidedAddress,
}

func judgeProvidedAddress(f facts.Facts) v1.Finding {
	previews := map[string]v1.NodePreview{}
	if f.Preview != nil {
		for _, p := range f.Preview.Nodes {
			previews[p.Node] = p
		}
	}
	told := f.NodeIPFlags()
	n := 0
	bad, finding, ok := f.EachNode(func(node v1.Node) string {
		provided := findings.OrElse(node.Annotations[facts.AnnotationProvidedIP], told[node.Name])
		if provided == "" {
			return ""
		}
		n++
		p := previews[node.Name]
		switch {
		case p.Found && p.Error != "" && node.Annotations[facts.AnnotationProvidedIP] != "":
			return "told " + provided + ", and the new provider says: " + p.Error
		case p.Found && len(p.Addresses) > 0:
			return strange(provided, p.Addresses)
		}
		return strange(provided, node.Addresses)
	})
	unread, missing := f.Missing("hosts/*/kubelet")
	switch {
	case !ok:
		return finding
	case bad.Empty() && len(f.BroadHostErrors()) > 0:
		return findings.Dependent("HOST-001")
	case bad.Empty() && missing:
		return unread
	case bad.Empty():
		return findings.Pass(
			"%s told an address%s",
			findings.Counting(n, component.Kubelet, "is", "are"),
			findings.Also(n, ", each its node's"),
		)
	}
	return findings.With(
		bad.Finding(v1.Fail, "the new manager would not write the addresses of %s", findings.Plural(len(bad), "node")),
		"one of the addresses that the cloud knows",
		facts.SourceNodes,
		"kubectl get node "+shell.Quote(bad[0].Object)+" -o jsonpath='{.metadata.annotations}{.status.addresses}'",
	)
}

// strange says which of the addresses that a kubelet was told is not one of those that are known; empty when all are.
func strange(provided string, known []string) string {
	for ip := range strings.SplitSeq(provided, ",") {
		ip = strings.TrimSpace(ip)
		if addr, err := netip.ParseAddr(ip); err == nil && addr.IsUnspecified() {
			continue // "any of this family"
		}
		if !slices.Contains(facts.OfType(known, "InternalIP"), ip) &&
			!slices.Contains(facts.OfType(known, "ExternalIP"), ip) {
			return fmt.Sprintf("told %s, knows %s", ip, findings.OrElse(strings.Join(known, ", "), "no address"))
		}
	}
	return ""
}

const showInternalAddresses = `kubectl get nodes -o 'custom-columns=NAME:.metadata.name,` +
	`INTERNAL-IPS:.status.addresses[?(@.type=="InternalIP")].address'`

var severalAddresses = rule.Check{
	Code:      "NODE-016",
	Reason:    "SeveralInternalAddresses",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	LookFor:   "nodes with two internal addresses of one family",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		asked := map[string]bool{}
		if f.Preview != nil {
			for _, p := range f.Preview.Nodes {
				asked[p.Node] = p.Found && len(p.Addresses) > 0
			}
		}
		told, several := f.NodeIPFlags(), 0
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			if !hasDuplicateFamily(facts.OfType(n.Addresses, "InternalIP")) {
				return ""
			}
			several++
			if asked[n.Name] || told[n.Name] != "" || n.Annotations[facts.AnnotationProvidedIP] != "" {
				return ""
			}
			return strings.Join(facts.OfType(n.Addresses, "InternalIP"), ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.Empty() && several > 0:
			return findings.Pass(
				"%s several internal addresses, and their order is settled",
				findings.Counting(several, "node", "has", "have"),
			)
		case bad.Empty():
			return findings.Pass(
				"%s one internal address of each family",
				findings.Counting(len(f.Nodes), "node", "has", "have"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s several internal addresses whose order the new provider may change",
				findings.Counting(len(bad), "node", "has", "have"),
			),
			"one of each family, --node-ip on the kubelet, or the new provider's answer",
			facts.SourceNodes,
			facts.ProveOr(f, showInternalAddresses),
		)
	},
}

// hasDuplicateFamily reports whether two addresses are of the same family.
func hasDuplicateFamily(ips []string) bool {
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
