package route

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

var onManifests = []string{"API-001", "HOST-001"}

// hasRouteLoop reports whether some manager runs the route loop now.
func hasRouteLoop(f facts.Facts) bool {
	return slices.ContainsFunc(
		f.AllManagers(),
		func(p facts.Instance) bool { return f.WouldRun(p, controllernames.Route) },
	)
}

var networkUnavailable = rule.Check{
	Code:      "ROUTE-002",
	Reason:    "NetworkUnavailable",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "the condition NetworkUnavailable, with its reason and message",
	DependsOn: onManifests,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			if n.NetworkUnavailable != "True" {
				return ""
			}
			return "NetworkUnavailable is True, pod CIDRs: " + findings.OrElse(strings.Join(n.PodCIDRs, ", "), "none")
		})
		const expected = "NetworkUnavailable False, or no such condition"
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("none of %s says that its network is unavailable", findings.Plural(len(f.Nodes), "node"))
		case hasRouteLoop(f):
			return findings.With(
				bad.Finding(v1.Warn, "%s for a route", findings.Counting(len(bad), "node", "waits", "wait")),
				expected,
				facts.SourceNodes,
				"kubectl describe node "+shell.Quote(bad[0].Object),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s for a route, and no manager runs the route loop",
				findings.Counting(len(bad), "node", "waits", "wait"),
			),
			expected,
			facts.SourceNodes,
			"kubectl describe node "+shell.Quote(bad[0].Object),
		)
	},
}

var routeLoopDiffers = rule.Check{
	Code:      "ROUTE-003",
	Reason:    "RouteLoopDiffers",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "--configure-cloud-routes of each manager, which have to agree",
	DependsOn: onManifests,
	Judge:     judgeRouteLoops,
}

func judgeRouteLoops(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	old := f.InTree()
	if len(old) == 0 {
		return findings.Skip("no kube-controller-manager runs the in-tree loops any more")
	}
	runs := f.WouldRun(old[0], controllernames.Route)
	news := f.CCMs()
	if len(news) == 0 {
		return findings.Pass(
			"there is no cloud-controller-manager yet; the route loop is %s in-tree, and the new manager gets the same",
			onOff(runs),
		)
	}
	var bad findings.Problems
	for _, p := range news {
		if f.WouldRun(p, controllernames.Route) != runs {
			bad.Add(
				p.String(),
				"%s: --configure-cloud-routes=%s --cluster-cidr=%s",
				p,
				p.Flag("configure-cloud-routes", "true (default)"),
				p.Flag("cluster-cidr", "none"),
			)
		}
	}
	if bad.Empty() {
		return findings.Pass(
			"the route loop is %s in %s as it is in-tree",
			onOff(runs),
			findings.Plural(len(news), component.CCM),
		)
	}
	what := "would begin to write routes"
	if runs {
		what = "would leave the routes alone that the in-tree loop keeps"
	}
	return findings.With(
		bad.Finding(v1.Fail, "%s %s", findings.Plural(len(bad), component.CCM), what),
		fmt.Sprintf("--configure-cloud-routes=%t", runs),
		"the managers' flags",
		"kubectl -n kube-system get pods -o yaml | grep configure-cloud-routes",
	)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

var twoRouters = rule.Check{
	Code:      "ROUTE-004",
	Reason:    "TwoRouters",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactRoutes,
	LookFor:   "which of the route loop and the CNI plugin is to route, and how the other is switched off",
	DependsOn: onManifests,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("workloads"); ok {
			return finding
		}
		if !hasRouteLoop(f) {
			return findings.Skip("no manager runs the route loop")
		}
		var bad findings.Problems
		plugins := 0
		for _, w := range f.Workloads {
			if w.Role != v1.RoleCNI {
				continue
			}
			plugins++
			for _, c := range w.Containers {
				if name := cloudprovider.RoutingCNI(c.Image, c.Flags); name != "" {
					bad.Add(w.Ref, "%s (%s)", w.Ref, name)
					break
				}
			}
		}
		if bad.Empty() {
			return findings.Pass(
				"the route loop runs, and none of %s routes by itself as far as its image shows",
				findings.Plural(plugins, "CNI workload"),
			)
		}
		return findings.With(
			bad.Finding(v1.Warn, "the route loop runs, and so does a CNI plugin that routes by itself"),
			"one of both",
			"/apis/apps/v1/daemonsets, the managers' flags",
			"transplant explain ROUTE-004",
		)
	},
}

// tables counts the rows of each route table.
func tables(routes []v1.Route) map[string]int {
	out := map[string]int{}
	for _, r := range routes {
		out[r.Table]++
	}
	return out
}

// missingRoutes reports whether a check of routes lacks its facts; the finding says why.
func missingRoutes(f facts.Facts) (v1.Finding, bool) {
	if finding, ok := f.Missing("nodes"); ok {
		return finding, true
	}
	switch {
	case !hasRouteLoop(f):
		return findings.Skip("no manager runs the route loop"), true
	case f.Cloud == nil || len(f.CloudErrors("routes")) > 0:
		return findings.Dependent("CLOUD-001"), true
	}
	return v1.Finding{}, false
}

var routeTableFull = rule.Check{
	Code:      "ROUTE-005",
	Reason:    "RouteTableFull",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactRoutes,
	LookFor:   "the quota, against the number of routes that the finding names",
	DependsOn: onManifests,
	Judge:     judgeRouteTableFull,
}

func judgeRouteTableFull(f facts.Facts) v1.Finding {
	if finding, ok := missingRoutes(f); ok {
		return finding
	}
	limit, command := cloudprovider.RouteLimit(f.CloudName())
	if limit == 0 {
		return findings.Skip("no limit is known for %s", f.CloudName())
	}
	routed := map[string]bool{}
	for _, r := range f.Cloud.Routes {
		routed[r.CIDR] = true
	}
	without := 0
	for _, n := range f.Nodes {
		for _, cidr := range n.PodCIDRs {
			if !routed[cidr] {
				without++
			}
		}
	}
	var full, close findings.Problems
	rows := tables(f.Cloud.Routes)
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		switch n := rows[table]; {
		case n > limit:
			close.Add(table, "%s: %d rows, more than the default of %d, so that its own limit is not known", table, n, limit)
		case n+without > limit:
			full.Add(table, "%s: %d rows and %d nodes without one, of %d", table, n, without, limit)
		case (n+without)*10 >= limit*9:
			close.Add(table, "%s: %d rows of %d", table, n+without, limit)
		}
	}
	expected := fmt.Sprintf("fewer than %d rows, or a quota that was raised", limit)
	switch {
	case !full.Empty():
		return findings.With(
			full.Finding(v1.Fail, "the route table has no room for every node"),
			expected,
			"the cloud's route tables",
			command,
		)
	case !close.Empty():
		return findings.With(
			close.Finding(v1.Warn, "the route table is nearly full by the default quota"),
			expected,
			"the cloud's route tables",
			command,
		)
	}
	return findings.Pass(
		"%s in %s, of %d each by default",
		findings.Plural(len(f.Cloud.Routes), "route"),
		findings.Plural(len(rows), "table"),
		limit,
	)
}

var routeTables = rule.Check{
	Code:      "ROUTE-006",
	Reason:    "RouteTables",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "the tables with the cluster's tag",
	DependsOn: onManifests,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.OtherProvider("aws"); ok {
			return finding
		}
		if finding, ok := missingRoutes(f); ok {
			return finding
		}
		rows := tables(f.Cloud.Routes)
		if len(rows) < 2 {
			return findings.Pass("%s in one table", findings.Counting(len(f.Cloud.Routes), "route", "is", "are"))
		}
		var bad findings.Problems
		for _, table := range slices.Sorted(maps.Keys(rows)) {
			bad.Add(table, "%s with %s", table, findings.Plural(rows[table], "row"))
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s with the cluster's tag have routes to instances: the route loop would use none of them",
				findings.Plural(len(rows), "table"),
			),
			"one route table",
			"ec2:DescribeRouteTables",
			"aws ec2 describe-route-tables --route-table-ids "+strings.Join(shell.QuoteAll(bad.Objects()), " ")+" --query 'RouteTables[].[RouteTableId,Tags]'",
		)
	},
}

var routesDiffer = rule.Check{
	Code:      "ROUTE-007",
	Reason:    "RouteDiffers",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "the pod CIDR of each node and its instance, against the route that the finding names",
	DependsOn: onManifests,
	Judge:     judgeRoutesDiffer,
}

func judgeRoutesDiffer(f facts.Facts) v1.Finding {
	if finding, ok := missingRoutes(f); ok {
		return finding
	}
	owner := map[string]string{} // node by pod CIDR
	for _, n := range f.Nodes {
		for _, cidr := range n.PodCIDRs {
			owner[cidr] = n.Name
		}
	}
	targets, cluster := f.RouteTargets(), newRangeSet(clusterCIDRs(f))
	routed := map[string]bool{}
	var wrong, extra findings.Problems
	for _, r := range f.Cloud.Routes {
		to := targets[r.Target]
		node, owned := owner[r.CIDR]
		routed[r.CIDR] = true
		switch {
		case to.Node == "": // no node's instance: ROUTE-001
		case owned && node != to.Node:
			wrong.Add(r.CIDR, "%s of node %s leads to %s", r.CIDR, node, to.Node)
		case !owned && isInRanges(r.CIDR, cluster):
			extra.Add(r.CIDR, "%s, which leads to %s, is no node's and would be deleted", r.CIDR, to.Node)
		}
	}
	for _, n := range f.Nodes {
		for _, cidr := range n.PodCIDRs {
			if !routed[cidr] {
				extra.Add(cidr, "%s of node %s has no route", cidr, n.Name)
			}
		}
	}
	const expected, source = "one row for each pod CIDR, to its node", "ec2:DescribeRouteTables, /api/v1/nodes"
	all := slices.Concat(wrong, extra)
	fix := "kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDR,ID:.spec.providerID"
	switch {
	case !wrong.Empty():
		return findings.With(
			all.Finding(
				v1.Fail,
				"%s to another node than the one that has the pod CIDR",
				findings.Counting(len(wrong), "route", "leads", "lead"),
			),
			expected,
			source,
			fix,
		)
	case !extra.Empty():
		return findings.With(
			all.Finding(v1.Warn, "the new manager would change %s", findings.Plural(len(extra), "route")),
			expected,
			source,
			fix,
		)
	}
	return findings.Pass(
		"%s to the node that has it",
		findings.Counting(len(owner), "pod CIDR", "is routed", "are routed"),
	)
}

// clusterCIDRs are the values of --cluster-cidr that managers run with.
func clusterCIDRs(f facts.Facts) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, p := range f.AllManagers() {
		for text := range strings.SplitSeq(p.Flag("cluster-cidr", ""), ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
			if err != nil || seen[prefix.Masked()] {
				continue
			}
			seen[prefix.Masked()] = true
			out = append(out, prefix.Masked())
		}
	}
	return out
}

// rangeSet are ranges by their masked prefix. A lookup costs the number of their sizes, of which there are at most 129,
// and not the number of ranges.
type rangeSet struct {
	ranges map[netip.Prefix]bool
	sizes  []int // their numbers of bits, each once
}

func newRangeSet(ranges []netip.Prefix) rangeSet {
	set := rangeSet{ranges: make(map[netip.Prefix]bool, len(ranges))}
	for _, r := range ranges {
		set.ranges[r.Masked()] = true
		set.sizes = append(set.sizes, r.Bits())
	}
	slices.Sort(set.sizes)
	set.sizes = slices.Compact(set.sizes)
	return set
}

// contains reports whether a prefix lies in one of the ranges.
func (s rangeSet) contains(p netip.Prefix) bool {
	return slices.ContainsFunc(s.sizes, func(bits int) bool {
		if bits > p.Bits() {
			return false
		}
		wider, err := p.Addr().Prefix(bits)
		return err == nil && s.ranges[wider]
	})
}

// isInRanges reports whether a CIDR lies in one of several.
func isInRanges(cidr string, in rangeSet) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && in.contains(p)
}
