// Package cloudconfig decides whether the new manager finds its cloud: cloud config and its keys, credentials and
// their environment, what the cloud itself answers.
package cloudconfig

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/nodemanager"
)

var nodeManagerMissing = rule.Check{
	Code:      "CLOUD-002",
	Reason:    "NodeManagerMissing",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "a DaemonSet of cloud-node-manager, and the operating system that its pods run on",
	OnlyIf:    "this project's manager runs or is about to, and no official one",
	Warning:   "until a manager initialises nodes, a new node keeps its taint",
	DependsOn: []string{"API-001"},
	Retryable: true,
	Judge:     judgeNodeManager,
}

func judgeNodeManager(f facts.Facts) v1.Finding {
	name := f.CloudName()
	if f.Opts.Part == facts.PartInstall {
		name = f.Opts.Provider // a new cluster may have no node yet that says it
	}
	provider, ok := cloudprovider.Lookup(name)
	switch {
	case !ok:
		return findings.Skip("the cloud provider is not known (CP-001)")
	case provider.NodeManager == "":
		return findings.Skip("not for %s", provider.Name)
	}
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	if runsOurs(f, provider.Name) {
		return judgeNoNodeManager(f)
	}
	return judgeNodeManagers(f)
}

// judgeNodeManagers judges those that run, where a provider's own manager leaves nodes to them.
func judgeNodeManagers(f facts.Facts) v1.Finding {
	running, bad := nodeManagers(f)
	if finding, ok := f.Missing("nodes"); ok && running > 0 {
		return finding
	}
	const expected, source = "cloud-node-manager on every node, and --controllers=*,-cloud-node", "/apis/apps/v1/daemonsets"
	switch {
	case running == 0 && isInstalled(f):
		bad.Add("DaemonSet/kube-system/cloud-node-manager", "no workload runs cloud-node-manager")
		return findings.With(
			bad.Finding(v1.Fail, "new nodes are never initialised: cloud-node-manager does not run"),
			expected,
			source,
			"kubectl get daemonsets -A | grep cloud-node-manager",
		)
	case running == 0 && f.Opts.ReplaceHosts:
		bad.Add(
			"DaemonSet/kube-system/cloud-node-manager",
			"no workload runs cloud-node-manager, and a plan that replaces hosts starts none",
		)
		return findings.With(
			bad.Finding(
				v1.Fail,
				"nodes that join after the handover would never be initialised: cloud-node-manager does not run, and no plan starts it where hosts are replaced",
			),
			expected,
			source,
			"kubectl apply -f <cloud-node-manager.yaml of the release of cloud-provider-azure>   # examples/out-of-tree in kubernetes-sigs/cloud-provider-azure",
		)
	case running == 0:
		return findings.Pass("cloud-node-manager does not run yet; the plan starts it on every node")
	case bad.Empty() && startsNodeManager(f):
		return findings.Pass("cloud-node-manager runs on Windows nodes alone; the plan starts it on the others")
	case bad.Empty():
		return findings.Pass("cloud-node-manager is ready on every node")
	}
	return findings.With(
		bad.Some(v1.Fail, "%s", bad[0].Text),
		expected,
		source,
		"kubectl get daemonsets -A -o wide | grep cloud-node-manager",
	)
}

// runsOurs reports whether nodes are initialised by this project's manager: the one that runs, after a migration, else
// the one that the plan brings in.
func runsOurs(f facts.Facts, provider string) bool {
	if managers := f.CCMs(); len(managers) > 0 && f.Stage() == facts.StageExternal {
		return !slices.ContainsFunc(managers, func(p facts.Instance) bool { return p.Image == "" || !facts.Own(p.Image) })
	}
	version, _ := f.Target()
	minor, _ := facts.VersionMinor(version)
	if image, ok, isWord := cloudprovider.Chosen(f.Opts.Image, provider, minor); isWord {
		return ok && image.Ours
	}
	return facts.Own(f.Opts.Image)
}

// judgeNoNodeManager judges a cluster whose nodes our manager initialises. A cloud-node-manager next to it writes the
// same labels and addresses, from the metadata of the machine.
func judgeNoNodeManager(f facts.Facts) v1.Finding {
	var bad findings.Problems
	for _, w := range f.Workloads {
		if w.Role == v1.RoleNodeManager {
			bad.Add(w.Ref, "%s writes addresses and labels of nodes", w.Ref)
		}
	}
	if bad.Empty() {
		return findings.Pass("this project's manager initialises nodes by itself, and no cloud-node-manager runs")
	}
	return findings.With(
		bad.Some(v1.Fail, "%s, and so does this project's manager", bad[0].Text),
		"no cloud-node-manager next to this project's manager",
		"/apis/apps/v1/daemonsets",
		"kubectl "+facts.Named("delete", bad[0].Object),
	)
}

// nodeManagers returns how many workloads run cloud-node-manager, and what is wrong with them.
func nodeManagers(f facts.Facts) (running int, bad findings.Problems) {
	for _, w := range f.Workloads {
		if w.Role != v1.RoleNodeManager {
			continue
		}
		running++
		if w.Ready < w.Replicas {
			bad.Add(w.Ref, "%s has %d of %d pods ready", w.Ref, w.Ready, w.Replicas)
		}
	}
	for _, p := range f.InstancesOf(component.CCM) {
		if running > 0 && !leavesNodes(p.Flag("controllers", "*")) {
			bad.Add(p.String(), "%s initialises nodes too: --controllers=%s", p, p.Flag("controllers", "*"))
		}
	}
	if running > 0 {
		bad = append(bad, nodesWithout(f)...)
	}
	return running, bad
}

// nodesWithout names the nodes that no cloud-node-manager is meant for. It leaves out those for which the plan starts
// one.
func nodesWithout(f facts.Facts) (bad findings.Problems) {
	if startsNodeManager(f) {
		return nil
	}
	// NODE-019 warns of Windows nodes before a migration, and the plan says what to install.
	needs := func(n v1.Node) bool { return isInstalled(f) || !nodemanager.IsWindows(n) }
	for _, n := range nodemanager.Uncovered(f.Snapshot, needs) {
		bad.Add(n.Name, "no cloud-node-manager is meant for %s", n.Name)
	}
	if pods, nodes := nodemanager.Count(f.Snapshot, needs); pods < nodes {
		bad.Add(
			"DaemonSet/kube-system/cloud-node-manager",
			"cloud-node-manager has %s for %s: an affinity or a taint keeps it away",
			findings.Plural(pods, "pod"),
			findings.Plural(nodes, "node"),
		)
	}
	return bad
}

// isInstalled reports whether nodes are initialised from outside already, so that what is missing is missing now.
func isInstalled(f facts.Facts) bool {
	return f.Stage() == facts.StageExternal && f.Opts.Part != facts.PartInstall
}

// startsNodeManager reports whether a plan starts a cloud-node-manager on the nodes with Linux: before the migration,
// where none runs on them.
func startsNodeManager(f facts.Facts) bool {
	isOfLinux := func(w v1.Workload) bool {
		return w.Role == v1.RoleNodeManager && nodemanager.RunsOnLinux(f.Snapshot, w)
	}
	return !isInstalled(f) && !f.Opts.ReplaceHosts && !slices.ContainsFunc(f.Workloads, isOfLinux)
}

// leavesNodes reports whether --controllers takes the initialisation of nodes away, under any of the loop's names.
func leavesNodes(controllers string) bool {
	entries := strings.Split(controllers, ",")
	return slices.ContainsFunc(entries, func(e string) bool {
		e = strings.TrimSpace(e)
		return e == "-cloud-node" || e == "-cloud-node-controller"
	})
}

var ccmResources = rule.Check{
	Code:      "CLOUD-003",
	Reason:    "ManagerResources",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactGap,
	LookFor:   "system-cluster-critical or system-node-critical, and requests of CPU and memory",
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("workloads"); ok {
			return finding
		}
		var bad findings.Problems
		n := 0
		for _, w := range f.Workloads {
			if w.Role != v1.RoleCCM {
				continue
			}
			n++
			if !strings.HasPrefix(w.PriorityClass, "system-") {
				bad.Add(w.Ref, "%s has the priority class %s", w.Ref, findings.OrElse(w.PriorityClass, "of every pod"))
			}
			for _, c := range w.Containers {
				switch {
				case c.Requests["cpu"] == "" || c.Requests["memory"] == "":
					bad.Add(w.Ref, "container %s of %s requests no cpu or memory", c.Name, w.Ref)
				case c.Limits["cpu"] != "":
					bad.Add(w.Ref, "container %s of %s may use %s of CPU at most", c.Name, w.Ref, c.Limits["cpu"])
				}
			}
		}
		switch {
		case n == 0:
			return findings.Skip("no cloud-controller-manager runs as a workload")
		case bad.Empty():
			return findings.Pass(
				"%s requests, no CPU limit and a system priority",
				findings.Plural(n, component.CCM)+" "+english.Word(n, "has", "have"),
			)
		}
		return findings.With(
			bad.Some(v1.Warn, "%s", bad[0].Text),
			"requests, no CPU limit, system-cluster-critical",
			"/apis/apps/v1",
			"kubectl "+facts.Named("get", bad[0].Object)+" -o jsonpath='{.spec.template.spec.priorityClassName}{.spec.template.spec.containers[*].resources}'",
		)
	},
}
