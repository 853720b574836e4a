package route

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// allocators are the kube-controller-managers that give out pod CIDRs.
func allocators(f facts.Facts) []facts.Instance {
	return slices.DeleteFunc(
		slices.Clone(f.InstancesOf(component.KCM)),
		func(p facts.Instance) bool { return !f.WouldRun(p, controllernames.NodeIPAM) },
	)
}

var ipamByCloud = rule.Check{
	Code:      "IPAM-001",
	Reason:    component.CloudAllocator,
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "which allocator gives out pod CIDRs, and what a plan does with it",
	DependsOn: onManifests,
	Judge: func(f facts.Facts) v1.Finding {
		allocators := allocators(f)
		switch {
		case len(f.InstancesOf(component.KCM)) == 0:
			return findings.Unknown("no %s was found", component.KCM)
		case len(allocators) == 0:
			return findings.Skip("no kube-controller-manager allocates pod CIDRs")
		}
		var moves, never findings.Problems
		known, _ := cloudprovider.Lookup(f.CloudName())
		for _, p := range allocators {
			switch kind := p.Flag("cidr-allocator-type", component.RangeAllocator); {
			case kind == component.RangeAllocator:
			case kind == component.CloudAllocator && slices.Contains(known.Allocators, kind):
				moves.Add(p.String(), "%s: --cidr-allocator-type=%s", p, kind)
			default:
				never.Add(
					p.String(),
					"%s: --cidr-allocator-type=%s with --cloud-provider=%s",
					p,
					kind,
					p.Flag("cloud-provider", "none"),
				)
			}
		}
		const expected, source = "RangeAllocator, or node IPAM that moves", "the managers' flags"
		switch {
		case !never.Empty():
			return findings.With(
				never.Finding(
					v1.Fail,
					"%s pod CIDRs in a way that no external manager can take over",
					findings.Counting(len(never), component.KCM, "allocates", "allocate"),
				),
				expected,
				source,
				"transplant explain IPAM-001",
			)
		case !moves.Empty():
			return findings.With(
				moves.Finding(v1.Warn, "pod CIDRs come from the cloud: node IPAM moves with the other loops"),
				expected,
				source,
				"transplant plan",
			)
		}
		return findings.Pass(
			"%s out pod CIDRs of --cluster-cidr, and will after the migration",
			findings.Counting(len(allocators), component.KCM, "gives", "give"),
		)
	},
}

var podCIDRMissing = rule.Check{
	Code:      "IPAM-002",
	Reason:    "PodCIDRMissing",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the events of the node: why it has no pod CIDR",
	DependsOn: onManifests,
	Retryable: true,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Unless: func(f facts.Facts) (v1.Finding, bool) {
			return findings.Skip("no kube-controller-manager allocates pod CIDRs"), len(allocators(f)) == 0
		},
		Wrong: rule.Always(func(n v1.Node) string {
			if len(n.PodCIDRs) > 0 {
				return ""
			}
			return "no pod CIDR since " + n.Created.UTC().Format("2006-01-02 15:04")
		}),
		Outcome:  v1.Fail,
		Passes:   "# [node has|nodes have] a pod CIDR",
		Fails:    "# of ## nodes [has|have] no pod CIDR",
		Expected: "spec.podCIDRs",
		Fix:      rule.DescribeNode,
	}),
}

// podCIDR is one pod CIDR of a node.
type podCIDR struct {
	netip.Prefix
	node string
}

// podCIDRs are the pod CIDRs of all nodes in order of their addresses, the larger first; what cannot be read is in bad.
func podCIDRs(f facts.Facts) (cidrs []podCIDR, bad findings.Problems) {
	for _, n := range f.Nodes {
		for _, text := range n.PodCIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				bad.Add(n.Name, "%s: pod CIDR %s is none", n.Name, findings.Short(text))
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

var podCIDROverlap = rule.Check{
	Code:      "IPAM-003",
	Reason:    "PodCIDROverlap",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "pod CIDRs that overlap, or lie outside of --cluster-cidr",
	DependsOn: onManifests,
	Judge:     judgePodCIDRs,
}

func judgePodCIDRs(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	cidrs, bad := podCIDRs(f)
	if len(cidrs) == 0 && bad.Empty() {
		return findings.Skip("no node has a pod CIDR")
	}
	cluster := clusterCIDRs(f)
	ranges, inside := joinRanges(cluster), newRangeSet(cluster)
	var cover podCIDR // the last one that reaches furthest: prefixes nest or are apart
	for _, c := range cidrs {
		if cover.IsValid() && cover.Overlaps(c.Prefix) {
			bad.Add(c.node, "%s: %s overlaps %s of %s", c.node, c.Prefix, cover.Prefix, cover.node)
		} else {
			cover = c
		}
		if len(cluster) > 0 && !inside.contains(c.Prefix) {
			bad.Add(c.node, "%s: %s is outside --cluster-cidr %s", c.node, c.Prefix, ranges)
		}
	}
	services := serviceRange(f)
	for _, in := range cluster {
		if services.IsValid() && in.Overlaps(services) {
			bad.Add("--cluster-cidr", "--cluster-cidr %s overlaps the Services' range %s", in, services)
		}
	}
	if bad.Empty() {
		return findings.Pass(
			"%s of %s: none overlap, and all are inside --cluster-cidr %s",
			findings.Plural(len(cidrs), "pod CIDR"),
			findings.Plural(len(f.Nodes), "node"),
			findings.OrElse(ranges, "(not given)"),
		)
	}
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s of pod CIDRs that overlap or lie outside their range",
			findings.Plural(len(bad), "case"),
		),
		"one CIDR for each node, inside --cluster-cidr",
		facts.SourceNodes+", the managers' flags",
		"kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDRs",
	)
}

// joinRanges returns the first of some ranges. A flag may give thousands, and each Node outside of them has the text.
func joinRanges(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return findings.Few(out)
}

// serviceRange is the first --service-cluster-ip-range that a component gives.
func serviceRange(f facts.Facts) netip.Prefix {
	for _, p := range append(f.InstancesOf(component.KAS), f.InstancesOf(component.KCM)...) {
		first, _, _ := strings.Cut(p.Flag("service-cluster-ip-range", ""), ",")
		if prefix, err := netip.ParsePrefix(first); err == nil {
			return prefix.Masked()
		}
	}
	return netip.Prefix{}
}

var nodeMasks = rule.Check{
	Code:      "IPAM-004",
	Reason:    "NodeMaskDiffers",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "pod CIDRs of another size than the flags say",
	DependsOn: onManifests,
	Judge:     judgeNodeMasks,
}

func judgeNodeMasks(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	allocators := allocators(f)
	cidrs, _ := podCIDRs(f)
	switch {
	case len(allocators) == 0:
		return findings.Skip("no kube-controller-manager allocates pod CIDRs")
	case len(cidrs) == 0:
		return findings.Skip("no node has a pod CIDR")
	}
	flags := allocators[0]
	if kind := flags.Flag("cidr-allocator-type", component.RangeAllocator); kind != component.RangeAllocator {
		return findings.Skip("the cloud chooses pod CIDRs: --cidr-allocator-type=%s", kind)
	}
	var bad findings.Problems
	used := map[bool]int{}
	for _, c := range cidrs {
		used[c.Addr().Is4()]++
		if want := maskSize(flags, c.Addr().Is4()); c.Bits() != want {
			bad.Add(c.node, "%s: %s instead of /%d", c.node, c.Prefix, want)
		}
	}
	var left []string
	for _, in := range clusterCIDRs(f) {
		v4 := in.Addr().Is4()
		bits := maskSize(flags, v4) - in.Bits()
		if bits < 0 || bits > 30 {
			continue // more than anybody uses up
		}
		free := 1<<bits - used[v4]
		left = append(left, fmt.Sprintf("%d of %d pod CIDRs in %s are free", max(free, 0), 1<<bits, in))
		if free < 1+len(f.Nodes)/20 {
			bad.Add("--cluster-cidr", "%d of %d pod CIDRs in %s are free", max(free, 0), 1<<bits, in)
		}
	}
	if bad.Empty() {
		return findings.Pass(
			"%s the size that the flags say; %s",
			findings.Counting(len(cidrs), "pod CIDR", "has", "have"),
			findings.OrElse(strings.Join(left, ", "), "--cluster-cidr is not given"),
		)
	}
	return findings.With(
		bad.Finding(v1.Warn, "%s of another size, or too few that are left", findings.Plural(len(bad), "pod CIDR")),
		fmt.Sprintf("/%d, and at least one more of them than nodes", maskSize(flags, true)),
		facts.SourceNodes+", the managers' flags",
		"kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDRs",
	)
}

// maskSize is the size of the pieces that a manager allocates.
func maskSize(p facts.Instance, v4 bool) int {
	family, otherwise := "node-cidr-mask-size-ipv6", 64
	if v4 {
		family, otherwise = "node-cidr-mask-size-ipv4", 24
	}
	for _, flag := range []string{family, "node-cidr-mask-size"} {
		if n, err := strconv.Atoi(p.Flag(flag, "0")); err == nil && n > 0 {
			return n
		}
	}
	return otherwise
}

var twoAllocators = rule.Check{
	Code:      "IPAM-005",
	Reason:    "TwoAllocators",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "more than one manager with --allocate-node-cidrs=true",
	DependsOn: onManifests,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("workloads"); ok {
			return finding
		}
		news, old := f.CCMs(), allocators(f)
		if len(news) == 0 {
			return findings.Pass(
				"there is no %s yet; %s pod CIDRs",
				component.CCM,
				findings.Counting(len(old), component.KCM, "allocates", "allocate"),
			)
		}
		var bad findings.Problems
		for _, p := range news {
			if p.On("allocate-node-cidrs", false) && !facts.SwitchedOff(p.Flag("controllers", "*"), controllernames.NodeIPAM) &&
				cloudprovider.HasNodeIPAM(f.CloudName()) &&
				!facts.Own(p.Image) {
				bad.Add(p.String(), "%s: --allocate-node-cidrs=true --controllers=%s", p, p.Flag("controllers", "*"))
			}
		}
		switch {
		case bad.Empty():
			return findings.Pass("none of %s allocates pod CIDRs", findings.Plural(len(news), component.CCM))
		case len(old) == 0:
			return findings.Pass(
				"%s pod CIDRs, and no %s does",
				findings.Counting(len(bad), component.CCM, "allocates", "allocate"),
				component.KCM,
			)
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s pod CIDRs next to %s",
				findings.Counting(len(bad), component.CCM, "allocates", "allocate"),
				findings.Plural(len(old), component.KCM),
			),
			"--allocate-node-cidrs=false there",
			"the managers' flags",
			"kubectl -n kube-system get pods -o yaml | grep allocate-node-cidrs",
		)
	},
}
