package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// allocators are the kube-controller-managers that give out pod CIDRs.
func (f facts) allocators() []placed {
	return slices.DeleteFunc(slices.Clone(f.all(kcm)), func(p placed) bool { return !f.runs(p, controllernames.NodeIPAM) })
}

var ipamByCloud = Check{
	Code: "IPAM-001", Reason: "CloudAllocator", Category: categoryRoutes, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onManifests,
	Title: "pod CIDRs do not come from the in-tree provider",
	Explain: []string{
		"With --cidr-allocator-type=CloudAllocator (GCE, as alias ranges) the kube-controller-manager asks the in-tree provider for each node's pod CIDR. Once it is external it says \"--cidr-allocator-type is set to 'CloudAllocator' but cloud provider is " +
			"not configured\" and allocates nothing: nodes that join get no pod CIDR and no pods. The node IPAM loop has to move with the others: into both leader migration configs, and out of every external kube-controller-manager's --controllers. " +
			"See https://github.com/kubernetes/kubernetes/issues/120411.",
		"A plan with --node-ipam does that. Note that the documentation's sample configuration for it has a stray list item. IPAMFromCluster and IPAMFromCloud cannot be moved at all; other providers than GCE know no CloudAllocator. In a seed no plan moves the loop.",
	},
	judge: func(f facts) v1.Finding {
		allocators := f.allocators()
		switch {
		case len(f.all(kcm)) == 0:
			return unknown("no %s was found", kcm)
		case len(allocators) == 0:
			return skip("no kube-controller-manager allocates pod CIDRs")
		}
		var moves, never complaints
		for _, p := range allocators {
			switch kind := p.flag("cidr-allocator-type", "RangeAllocator"); {
			case kind == "RangeAllocator":
			case kind == "CloudAllocator" && f.cloudName() == "gce" && f.Cluster.Seed == "":
				moves.add(p.String(), "%s: --cidr-allocator-type=%s", p, kind)
			default:
				never.add(p.String(), "%s: --cidr-allocator-type=%s with --cloud-provider=%s", p, kind, p.flag("cloud-provider", "none"))
			}
		}
		const expected, source = "RangeAllocator, or node IPAM that moves", "the managers' flags"
		switch {
		case !never.empty():
			return with(never.finding(v1.Fail, "%s pod CIDRs in a way that no external manager can take over", counting(len(never.lines), kcm, "allocates", "allocate")), expected, source, "transplant explain IPAM-001")
		case !moves.empty():
			return with(moves.finding(v1.Warn, "pod CIDRs come from the cloud: node IPAM moves with the other loops"), expected, source, "transplant plan")
		}
		return pass("%s out pod CIDRs of --cluster-cidr, and it stays so", counting(len(allocators), kcm, "gives", "give"))
	},
}

var podCIDRMissing = Check{
	Code: "IPAM-002", Reason: "PodCIDRMissing", Category: categoryRoutes, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onManifests, Retryable: true,
	Title: "every node has the pod CIDR that a manager allocates",
	Explain: []string{
		"A node without a pod CIDR, in a cluster whose manager allocates them, runs no pod that needs an address. The node IPAM loop gives one within a second; if it has not, the range is used up, the loop is stopped, or the node's own " +
			"providerID keeps it waiting. The new manager's route loop passes over such nodes and says nothing.",
	},
	judge: func(f facts) v1.Finding {
		if len(f.allocators()) == 0 {
			return skip("no kube-controller-manager allocates pod CIDRs")
		}
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if len(n.PodCIDRs) > 0 {
				return ""
			}
			return "no pod CIDR since " + n.Created.UTC().Format("2006-01-02 15:04")
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s a pod CIDR", counting(len(f.Nodes), "node", "has", "have"))
		}
		return with(bad.finding(v1.Fail, "%d of %s %s no pod CIDR", len(bad.lines), plural(len(f.Nodes), "node"), has(len(bad.lines))), "spec.podCIDRs", sourceNodes,
			"kubectl describe node "+bad.objects[0])
	},
}

// podCIDR is one pod CIDR of a node.
type podCIDR struct {
	netip.Prefix
	node string
}

// podCIDRs are the pod CIDRs of all nodes in order of their addresses, the larger first; what cannot be read is in bad.
func (f facts) podCIDRs() (cidrs []podCIDR, bad complaints) {
	for _, n := range f.Nodes {
		for _, text := range n.PodCIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				bad.add(n.Name, "%s: pod CIDR %s is none", n.Name, text)
				continue
			}
			cidrs = append(cidrs, podCIDR{p.Masked(), n.Name})
		}
	}
	slices.SortFunc(cidrs, func(a, b podCIDR) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return strings.Compare(a.node, b.node)
	})
	return cidrs, bad
}

var podCIDROverlap = Check{
	Code: "IPAM-003", Reason: "PodCIDROverlap", Category: categoryRoutes, Level: LevelError, Impact: ImpactRoutes, DependsOn: onManifests,
	Title: "pod CIDRs do not overlap, and lie inside --cluster-cidr and outside the Services' range",
	Explain: []string{
		"The route loop deletes and makes rows inside --cluster-cidr only. A node with a pod CIDR outside keeps a row that nobody updates, or has none; and two nodes with one pod CIDR share a route that leads to one of them. That comes from a " +
			"--cluster-cidr that was changed, from two managers that allocated, or from nodes of another cluster. Where the range holds the Services' addresses too, routes take packets that kube-proxy should.",
		"A pod CIDR cannot be changed: drain the node, delete it and let it register again. A manager that begins with the wrong --cluster-cidr would see all nodes outside: a plan copies the value.",
	},
	judge: judgePodCIDRs,
}

func judgePodCIDRs(f facts) v1.Finding {
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	cidrs, bad := f.podCIDRs()
	if len(cidrs) == 0 && bad.empty() {
		return skip("no node has a pod CIDR")
	}
	cluster := f.clusterCIDRs()
	var cover podCIDR // the last one that reaches furthest: prefixes nest or are apart
	for _, c := range cidrs {
		if cover.IsValid() && cover.Overlaps(c.Prefix) {
			bad.add(c.node, "%s: %s overlaps %s of %s", c.node, c.Prefix, cover.Prefix, cover.node)
		} else {
			cover = c
		}
		if len(cluster) > 0 && !slices.ContainsFunc(cluster, func(in netip.Prefix) bool { return in.Bits() <= c.Bits() && in.Contains(c.Addr()) }) {
			bad.add(c.node, "%s: %s is outside --cluster-cidr %s", c.node, c.Prefix, joined(cluster))
		}
	}
	services := f.serviceRange()
	for _, in := range cluster {
		if services.IsValid() && in.Overlaps(services) {
			bad.add("--cluster-cidr", "--cluster-cidr %s overlaps the Services' range %s", in, services)
		}
	}
	if bad.empty() {
		return pass("%s of %s: apart, and inside --cluster-cidr %s", plural(len(cidrs), "pod CIDR"), plural(len(f.Nodes), "node"), orElse(joined(cluster), "(not given)"))
	}
	return with(bad.finding(v1.Fail, "%s of pod CIDRs that overlap or lie outside their range", plural(len(bad.lines), "case")), "one CIDR for each node, inside --cluster-cidr", sourceNodes+", the managers' flags",
		"kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDRs")
}

func joined(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// serviceRange is the first --service-cluster-ip-range that a component gives.
func (f facts) serviceRange() netip.Prefix {
	for _, p := range append(f.all(kas), f.all(kcm)...) {
		first, _, _ := strings.Cut(p.flag("service-cluster-ip-range", ""), ",")
		if prefix, err := netip.ParsePrefix(first); err == nil {
			return prefix.Masked()
		}
	}
	return netip.Prefix{}
}

var nodeMasks = Check{
	Code: "IPAM-004", Reason: "NodeMaskDiffers", Category: categoryRoutes, Level: LevelWarning, Impact: ImpactNodeJoin, DependsOn: onManifests,
	Title: "the nodes' pod CIDRs have the size that the flags say, and some are left for nodes to come",
	Explain: []string{
		"A manager that allocates divides --cluster-cidr into pieces of --node-cidr-mask-size (24 for IPv4 and 64 for IPv6 by default) and marks those that nodes have. Pieces of another size come from another time or another manager, and take " +
			"several of its pieces, or part of one. When none is left, nodes that join have no pod CIDR: replacing machines one by one needs at least one piece more than there are nodes.",
	},
	judge: judgeNodeMasks,
}

func judgeNodeMasks(f facts) v1.Finding {
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	allocators := f.allocators()
	cidrs, _ := f.podCIDRs()
	switch {
	case len(allocators) == 0:
		return skip("no kube-controller-manager allocates pod CIDRs")
	case len(cidrs) == 0:
		return skip("no node has a pod CIDR")
	}
	flags := allocators[0]
	var bad complaints
	used := map[bool]int{}
	for _, c := range cidrs {
		used[c.Addr().Is4()]++
		if want := maskSize(flags, c.Addr().Is4()); c.Bits() != want {
			bad.add(c.node, "%s: %s instead of /%d", c.node, c.Prefix, want)
		}
	}
	var left []string
	for _, in := range f.clusterCIDRs() {
		v4 := in.Addr().Is4()
		bits := maskSize(flags, v4) - in.Bits()
		if bits < 0 || bits > 30 {
			continue // more than anybody uses up
		}
		free := 1<<bits - used[v4]
		left = append(left, fmt.Sprintf("%d of %d pieces of %s are free", max(free, 0), 1<<bits, in))
		if free < 1+len(f.Nodes)/20 {
			bad.add("--cluster-cidr", "%d of %d pieces of %s are free", max(free, 0), 1<<bits, in)
		}
	}
	if bad.empty() {
		return pass("%s the size that the flags say; %s", counting(len(cidrs), "pod CIDR", "has", "have"), orElse(strings.Join(left, ", "), "--cluster-cidr is not given"))
	}
	return with(bad.finding(v1.Warn, "%s of another size, or too few that are left", plural(len(bad.lines), "pod CIDR")), fmt.Sprintf("/%d, and one more piece than nodes", maskSize(flags, true)),
		sourceNodes+", the managers' flags", "kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDRs")
}

// maskSize is the size of the pieces that a manager allocates.
func maskSize(p placed, v4 bool) int {
	family, otherwise := "node-cidr-mask-size-ipv6", 64
	if v4 {
		family, otherwise = "node-cidr-mask-size-ipv4", 24
	}
	for _, flag := range []string{family, "node-cidr-mask-size"} {
		if n, err := strconv.Atoi(p.flag(flag, "0")); err == nil && n > 0 {
			return n
		}
	}
	return otherwise
}

var twoAllocators = Check{
	Code: "IPAM-005", Reason: "TwoAllocators", Category: categoryRoutes, Level: LevelError, Impact: ImpactRoutes, DependsOn: onManifests,
	Title: "no cloud-controller-manager that exists allocates pod CIDRs beside the kube-controller-manager",
	Explain: []string{
		"The official managers of Azure and GCE have a node IPAM loop of their own, which --allocate-node-cidrs=true starts; copying the kube-controller-manager's flags does. Node IPAM is not one of the loops of the default leader migration " +
			"configuration, so that both allocate at once: two nodes get the same pod CIDR, and traffic to one of them is lost. See https://github.com/kubermatic/kubeone/pull/2107.",
		"Leave node IPAM where it is: --allocate-node-cidrs=false, or --controllers=*,-nodeipam, in the cloud-controller-manager. On AWS, OpenStack and vSphere the official managers have no such loop, and the flag does nothing there.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.missing("workloads"); ok {
			return finding
		}
		news, old := f.ccms(), f.allocators()
		if len(news) == 0 {
			return pass("there is no %s yet; %s pod CIDRs", ccm, counting(len(old), kcm, "allocates", "allocate"))
		}
		var bad complaints
		for _, p := range news {
			if p.on("allocate-node-cidrs", false) && !switchedOff(p.flag("controllers", "*"), controllernames.NodeIPAM) && catalogue.HasNodeIPAM(f.cloudName()) && !own(p.Image) {
				bad.add(p.String(), "%s: --allocate-node-cidrs=true --controllers=%s", p, p.flag("controllers", "*"))
			}
		}
		switch {
		case bad.empty():
			return pass("none of %s allocates pod CIDRs", plural(len(news), ccm))
		case len(old) == 0:
			return pass("%s pod CIDRs, and no %s does", counting(len(bad.lines), ccm, "allocates", "allocate"), kcm)
		}
		return with(bad.finding(v1.Fail, "%s pod CIDRs beside %s", counting(len(bad.lines), ccm, "allocates", "allocate"), plural(len(old), kcm)), "--allocate-node-cidrs=false there", "the managers' flags",
			"kubectl -n kube-system get pods -o yaml | grep allocate-node-cidrs")
	},
}
