// Package scheduling decides whether pods and webhooks could keep the new manager from starting, or a new machine
// from joining.
package scheduling

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

const sourceWorkloads = "/apis/apps/v1"

// toleratesTaint reports whether tolerations cover a taint whose value is true. A snapshot has them as
// key=value:effect, with "*" for every key, and empty for every value or effect.
func toleratesTaint(tolerations []string, key, effect string) bool {
	for _, t := range tolerations {
		pair, onEffect := t, ""
		if i := strings.LastIndex(t, ":"); i >= 0 {
			pair, onEffect = t[:i], t[i+1:]
		}
		onKey, value, _ := strings.Cut(pair, "=")
		if (onKey == "*" || onKey == key) && (value == "" || value == "true") && (onEffect == "" || onEffect == effect) {
			return true
		}
	}
	return false
}

// needed are the workloads without which a node, or the new manager on it, does not come up.
var needed = map[string]string{
	v1.RoleCNI:          "CNI",
	v1.RoleProxy:        "kube-proxy",
	v1.RoleDNS:          "DNS",
	v1.RoleCSINode:      "CSI",
	v1.RoleNodeManager:  "cloud-node-manager",
	v1.RoleKonnectivity: "konnectivity",
}

var tolerationMissing = rule.Check{
	Code:      "SCHED-001",
	Reason:    "TolerationMissing",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the tolerations of the workload that the finding names",
	DependsOn: rule.OnAPI,
	Judge:     judgeTolerations,
}

func judgeTolerations(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	var bad findings.Problems
	looked, unused, deadlock, first := 0, 0, false, v1.Workload{}
	waitedFor := waitedFor(f)
	for _, w := range f.Workloads {
		role, ok := needed[w.Role]
		if !ok {
			continue
		}
		looked++
		switch {
		case toleratesTaint(w.Tolerations, component.TaintUninitialized, "NoSchedule"):
			continue
		case w.Role == v1.RoleDNS && !waitedFor[w.Role]:
			unused++
			continue
		case bad.Empty():
			first = w
		}
		deadlock = deadlock || waitedFor[w.Role]
		bad.Add(w.Ref, "%s (%s)", w.Ref, role)
	}
	expected := "a toleration of " + component.TaintUninitialized + ":NoSchedule"
	switch {
	case looked == 0:
		return findings.Skip("no CNI, DNS, kube-proxy, CSI or konnectivity workload was recognised")
	case bad.Empty() && unused > 0:
		return findings.Pass(
			"%s %s; the cluster DNS does not, and the manager can do without it",
			findings.Counting(looked-unused, "workload", "tolerates", "tolerate"),
			component.TaintUninitialized,
		)
	case bad.Empty():
		return findings.Pass(
			"%s %s",
			findings.Counting(looked, "workload", "tolerates", "tolerate"),
			component.TaintUninitialized,
		)
	case deadlock:
		return findings.With(
			bad.Finding(
				v1.Fail,
				"new nodes and the new manager would wait for each other: %s",
				findings.Counting(len(bad), "workload", "does not tolerate the taint", "do not tolerate the taint"),
			),
			expected,
			sourceWorkloads,
			addToleration(first),
		)
	}
	return findings.With(
		bad.Finding(
			v1.Warn,
			"%s not start on a new node before it is initialised",
			findings.Counting(len(bad), "workload", "does", "do"),
		),
		expected,
		sourceWorkloads,
		addToleration(first),
	)
}

// waitedFor are the roles without which the cloud-controller-manager that is there cannot work, or without which no
// manager initialises nodes.
func waitedFor(f facts.Facts) map[string]bool {
	out := map[string]bool{v1.RoleNodeManager: true}
	for _, w := range f.Workloads {
		if w.Role == v1.RoleCCM {
			out[v1.RoleCNI] = out[v1.RoleCNI] || !w.HostNetwork
			out[v1.RoleDNS] = out[v1.RoleDNS] || strings.HasPrefix(w.DNSPolicy, "ClusterFirst")
		}
	}
	return out
}

var controlPlaneUnschedulable = rule.Check{
	Code:      "SCHED-002",
	Reason:    "ControlPlaneUnschedulable",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the conditions and taints of the node: why it takes no pods",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		members := map[string]bool{}
		for _, name := range f.ControlPlaneNodes {
			members[name] = true
		}
		var bad findings.Problems
		total, open, ready := 0, 0, 0
		for _, n := range f.Nodes {
			_, current := n.Labels["node-role.kubernetes.io/control-plane"]
			_, former := n.Labels["node-role.kubernetes.io/master"]
			if !members[n.Name] && !current && !former {
				continue
			}
			total++
			switch {
			case n.Ready != "True":
				bad.Add(n.Name, "%s: Ready is %s", n.Name, findings.OrElse(n.Ready, "not reported"))
			case n.Unschedulable:
				ready++
				bad.Add(n.Name, "%s is cordoned", n.Name)
			default:
				ready++
				open++
			}
		}
		const expected = "one that is ready and not cordoned"
		switch {
		case total == 0:
			return findings.Skip("no node is one of the control plane")
		case open > 0:
			return findings.Pass(
				"%d of %s ready and take pods",
				open,
				findings.Counting(total, "control-plane node", "is", "are"),
			)
		case ready == 0:
			return findings.With(
				bad.Finding(v1.Fail, "none of %s is ready", findings.Plural(total, "control-plane node")),
				expected,
				facts.SourceNodes,
				"kubectl describe node "+shell.Quote(bad[0].Object),
			)
		}
		return findings.With(
			bad.Finding(v1.Warn, "none of %s takes pods", findings.Plural(total, "control-plane node")),
			expected,
			facts.SourceNodes,
			"kubectl uncordon "+shell.Quote(bad[0].Object),
		)
	},
}

var drainBlocked = rule.Check{
	Code:      "SCHED-003",
	Reason:    "DrainBlocked",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactScheduling,
	LookFor:   "Allowed disruptions, and which pods of it are not healthy",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: rule.Each[v1.DisruptionBudget]{
		List: func(f facts.Facts) ([]v1.DisruptionBudget, v1.Finding, bool) {
			finding, missing := f.Missing("budgets")
			return f.Budgets, finding, !missing
		},
		Name: func(b v1.DisruptionBudget) string { return b.Namespace + "/" + b.Name },
		Wrong: rule.Always(func(b v1.DisruptionBudget) string {
			if b.Allowed > 0 || b.Expected == 0 && b.Desired == 0 {
				return ""
			}
			return fmt.Sprintf("%d of %d pods healthy, %d needed", b.Healthy, b.Expected, b.Desired)
		}),
		Outcome:  v1.Warn,
		Passes:   "no PodDisruptionBudget holds a drain",
		Fails:    "# [PodDisruptionBudget allows|PodDisruptionBudgets allow] no disruption, and would hold a drain",
		Expected: "at least one allowed disruption",
		Source:   "/apis/policy/v1/poddisruptionbudgets",
		Fix: func(object string) string {
			namespace, name, _ := strings.Cut(object, "/")
			return fmt.Sprintf("kubectl -n %s describe poddisruptionbudget %s", shell.Quote(namespace), shell.Quote(name))
		},
	}.Judge,
}
