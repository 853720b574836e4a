package check

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const sourceWorkloads = "/apis/apps/v1"

// tolerates tells whether tolerations, as a snapshot has them (key=value:effect, "*" for every key, empty for every value or effect), cover a taint
// whose value is true.
func tolerates(tolerations []string, key, effect string) bool {
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

var tolerationMissing = Check{
	Code: "SCHED-001", Reason: "TolerationMissing", Category: categoryScheduling, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onAPI,
	Title: "the pod network, DNS, kube-proxy, CSI and konnectivity run on nodes that are not initialised",
	Explain: []string{
		"A node that joins with an external kubelet has the taint " + taintUninitialized + ":NoSchedule until the new manager clears it. What does not tolerate it starts a little later, which harms nobody as long as the manager itself needs none of it. " +
			"A manager in the pod network waits for the CNI plugin, one that reaches the API through the Service address waits for kube-proxy, one that resolves the cloud's names in the cluster waits for DNS: then each waits for the other, and " +
			"a cluster whose nodes are all new never comes up. DNS is counted only where a manager asks it (dnsPolicy ClusterFirst). Azure's nodes are initialised by the cloud-node-manager on them, which therefore must tolerate the taint.",
		"Workloads that others maintain get the toleration from their own manifests or charts, else their next update takes it away. See https://github.com/kubernetes/kops/pull/18510.",
	},
	judge: judgeTolerations,
}

func judgeTolerations(f facts) v1.Finding {
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	var bad complaints
	looked, unused, deadlock, first := 0, 0, false, v1.Workload{}
	waitedFor := f.waitedFor()
	for _, w := range f.Workloads {
		role, ok := needed[w.Role]
		if !ok {
			continue
		}
		looked++
		switch {
		case tolerates(w.Tolerations, taintUninitialized, "NoSchedule"):
			continue
		case w.Role == v1.RoleDNS && !waitedFor[w.Role]:
			unused++
			continue
		case bad.empty():
			first = w
		}
		deadlock = deadlock || waitedFor[w.Role]
		bad.add(w.Ref, "%s (%s)", w.Ref, role)
	}
	expected := "a toleration of " + taintUninitialized + ":NoSchedule"
	switch {
	case looked == 0:
		return skip("no CNI, DNS, kube-proxy, CSI or konnectivity workload was recognised")
	case bad.empty() && unused > 0:
		return pass("%s %s, and the manager does not need the DNS that does not", counting(looked-unused, "workload", "tolerates", "tolerate"), taintUninitialized)
	case bad.empty():
		return pass("%s %s", counting(looked, "workload", "tolerates", "tolerate"), taintUninitialized)
	case deadlock:
		return with(bad.finding(v1.Fail, "new nodes and the new manager would wait for each other: %s", counting(len(bad.lines), "workload", "does not tolerate the taint", "do not tolerate the taint")), expected, sourceWorkloads, addToleration(first))
	}
	return with(bad.finding(v1.Warn, "%s not start on a new node before it is initialised", counting(len(bad.lines), "workload", "does", "do")), expected, sourceWorkloads, addToleration(first))
}

// waitedFor are the roles without which the cloud-controller-manager that is there cannot work, or without which nobody initialises nodes.
func (f facts) waitedFor() map[string]bool {
	out := map[string]bool{v1.RoleNodeManager: true}
	for _, w := range f.Workloads {
		if w.Role == v1.RoleCCM {
			out[v1.RoleCNI] = out[v1.RoleCNI] || !w.HostNetwork
			out[v1.RoleDNS] = out[v1.RoleDNS] || strings.HasPrefix(w.DNSPolicy, "ClusterFirst")
		}
	}
	return out
}

var controlPlaneUnschedulable = Check{
	Code: "SCHED-002", Reason: "ControlPlaneUnschedulable", Category: categoryScheduling, Level: LevelError, Impact: ImpactNoLoops, DependsOn: onAPI, Retryable: true,
	Title: "a control-plane node is ready and takes pods",
	Explain: []string{
		"A cloud-controller-manager that is a Deployment or DaemonSet runs on control-plane nodes. Where all of them are cordoned or not ready, it never starts, and the loops stop when the in-tree manager lets go of them. Static pods run on cordoned nodes " +
			"too; but konnectivity agents, CSI controllers and what a drain moves from one of them need another to go to.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.missing("nodes"); ok {
			return finding
		}
		members := map[string]bool{}
		for _, name := range f.ControlPlaneNodes {
			members[name] = true
		}
		var bad complaints
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
				bad.add(n.Name, "%s: Ready is %s", n.Name, orElse(n.Ready, "not reported"))
			case n.Unschedulable:
				ready++
				bad.add(n.Name, "%s is cordoned", n.Name)
			default:
				ready++
				open++
			}
		}
		const expected = "one that is ready and not cordoned"
		switch {
		case total == 0:
			return skip("no node is one of the control plane")
		case open > 0:
			return pass("%d of %s ready and take pods", open, counting(total, "control-plane node", "is", "are"))
		case ready == 0:
			return with(bad.finding(v1.Fail, "none of %s is ready", plural(total, "control-plane node")), expected, sourceNodes, "kubectl describe node "+bad.objects[0])
		}
		return with(bad.finding(v1.Warn, "none of %s takes pods", plural(total, "control-plane node")), expected, sourceNodes, "kubectl uncordon "+bad.objects[0])
	},
}

var drainBlocked = Check{
	Code: "SCHED-003", Reason: "DrainBlocked", Category: categoryScheduling, Level: LevelWarning, Impact: ImpactScheduling, DependsOn: onAPI, Retryable: true,
	Title: "every PodDisruptionBudget allows a disruption now",
	Explain: []string{
		"Nodes with volumes of the in-tree plugin are drained before their kubelet changes. A budget that allows no disruption, because its workload has one replica or is not healthy, holds the drain until its time is up, and the migration of kubelets with it. " +
			"The loops have changed hands by then; what waits is the rest.",
		"Add a replica, repair the workload, or agree on a window in which the budget is relaxed. A budget that selects nothing is not reported.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.missing("budgets"); ok {
			return finding
		}
		var bad complaints
		for _, b := range f.Budgets {
			if b.Allowed > 0 || b.Expected == 0 && b.Desired == 0 {
				continue
			}
			name := b.Namespace + "/" + b.Name
			bad.add(name, "%s: %d of %d pods healthy, %d needed", name, b.Healthy, b.Expected, b.Desired)
		}
		if bad.empty() {
			return pass("none of %s holds a drain", plural(max(f.Counts["poddisruptionbudgets"], len(f.Budgets)), "PodDisruptionBudget"))
		}
		namespace, name, _ := strings.Cut(bad.objects[0], "/")
		return with(bad.finding(v1.Warn, "%s no disruption, and would hold a drain", counting(len(bad.lines), "PodDisruptionBudget", "allows", "allow")), "at least one allowed disruption", "/apis/policy/v1/poddisruptionbudgets",
			fmt.Sprintf("kubectl -n %s describe poddisruptionbudget %s", namespace, name))
	},
}
