package check

import (
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

const (
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	labelExclude       = "node.kubernetes.io/exclude-from-external-load-balancers"
)

var onAPI = []string{"API-001"}

// eachNode is the finding of a check that looks at every node. The judge returns what is wrong with one, or "".
func (f facts) eachNode(judge func(v1.Node) string) (complaints, v1.Finding, bool) {
	var bad complaints
	if finding, ok := f.missing("nodes"); ok {
		return bad, finding, false
	}
	if len(f.Nodes) == 0 && f.Cluster.Seed != "" {
		return bad, skip("the cluster has no node"), false // hosted control planes need none, and a cluster of no machines is migrated, too
	}
	if len(f.Nodes) == 0 {
		return bad, unknown("the API lists no node at all"), false
	}
	for _, n := range f.Nodes {
		if complaint := judge(n); complaint != "" {
			bad.add(n.Name, "%s: %s", n.Name, complaint)
		}
	}
	return bad, v1.Finding{}, true
}

var providerIDs = Check{
	Code: "NODE-001", Reason: "ProviderIDMissing", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "every node has a providerID",
	Explain: []string{
		"The external manager asks the cloud about a node by its providerID. Without one it searches by name, and when it finds nothing it deletes the node once it is not ready. The in-tree manager kept it.",
		"A providerID can be set once and never changed: aws:///<zone>/<instance id>, azure:///subscriptions/…/virtualMachines/<name>, gce://<project>/<zone>/<instance>, openstack:///<server id>, vsphere://<uuid>. With --cloud or --prove " +
			"the right one is part of the command. After the handover a node that has none can also be tainted as uninitialised, and the new manager fills it in: a plan for control planes on hosts does that to one node after the other.",
	},
	judge: func(f facts) v1.Finding {
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if n.ProviderID == "" {
				return "no providerID"
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("all %s have a providerID", plural(len(f.Nodes), "node"))
		}
		form, _ := catalogue.ProviderIDForm(f.cloudName())
		return with(bad.finding(v1.Fail, "%d of %s %s no providerID", len(bad.lines), plural(len(f.Nodes), "node"), has(len(bad.lines))), orElse(form.Example, "the provider's id of the instance"),
			sourceNodes, f.giveProviderID(bad.objects[0]))
	},
}

// giveProviderID is the command that gives a node its providerID, where that is known. It can be set once: a value to fill in by hand is no fix.
func (f facts) giveProviderID(node string) string {
	if id := f.providerIDOf(node); id != "" {
		return fmt.Sprintf(`kubectl patch node %s -p '{"spec":{"providerID":"%s"}}'`, node, id)
	}
	if f.cloudName() == "aws" && f.Preview == nil {
		return "transplant check --cloud=aws --prove   # the fix names the providerID then"
	}
	return "kubectl get node " + node + " -o yaml   # look its instance up in the cloud: a providerID can be set once"
}

// providerIDOf is the providerID that a node should have, as the new provider or the inventory says; empty when neither does.
func (f facts) providerIDOf(node string) string {
	if f.Preview != nil {
		for _, p := range f.Preview.Nodes {
			if p.Node == node && p.Found && p.ProviderID != "" {
				return p.ProviderID
			}
		}
	}
	if i := f.instancesByNode()[node]; i.Found && i.ID != "" && i.Zone != "" && f.cloudName() == "aws" {
		return "aws:///" + i.Zone + "/" + i.ID
	}
	return ""
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

var nodesInCloud = Check{
	Code: "NODE-002", Reason: "NodeUnknownToCloud", Category: categoryNodes, Level: LevelCritical, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "the cloud knows the instance of every node, under the node's name",
	Explain: []string{
		"A node whose instance the cloud does not know, or calls terminated, is deleted by the external manager as soon as it is not ready, often within seconds of the handover. The in-tree manager logged an " +
			"error every five seconds and kept it.",
		"On AWS the node's name must be the instance's private DNS name (or, for the external manager, the instance id). Where it is not, routes and load balancer members of the node are not found.",
		"If the nodes are to go, delete them before the migration, so that the difference between before and after stays empty.",
	},
	judge: judgeNodesInCloud,
}

func judgeNodesInCloud(f facts) v1.Finding {
	if f.Cloud == nil {
		return dependent("CLOUD-001")
	}
	instances := map[string]v1.CloudInstance{}
	for _, i := range f.Cloud.Instances {
		instances[i.Node] = i
	}
	var unasked []string
	bad, finding, ok := f.eachNode(func(n v1.Node) string {
		i, asked := instances[n.Name]
		switch {
		case !asked:
			unasked = append(unasked, n.Name)
		case !i.Found:
			return fmt.Sprintf("the cloud has no instance %s (node ready: %s)", orElse(i.ID, "of this node"), n.Ready)
		case i.State == "terminated" || i.State == "shutting-down":
			return fmt.Sprintf("instance %s is %s (node ready: %s)", i.ID, i.State, n.Ready)
		case i.PrivateDNSName != "" && i.PrivateDNSName != n.Name && i.ID != n.Name:
			return fmt.Sprintf("instance %s has the private DNS name %s", i.ID, i.PrivateDNSName)
		}
		return ""
	})
	const expected, source = "a running instance whose private DNS name is the node's name", "ec2:DescribeInstances"
	switch {
	case !ok:
		return finding
	case !bad.empty():
		return with(bad.finding(v1.Fail, "the external manager would delete or lose %s", plural(len(bad.lines), "node")), expected, source, "kubectl get node "+bad.objects[0]+" -o wide")
	case len(unasked) > 0:
		why := strings.Join(f.cloudErrors("instances"), "; ")
		return with(unknown("the cloud did not answer for %s (%s): %s", plural(len(unasked), "node"), strings.Join(unasked, ", "), orElse(why, "the inventory does not hold them")), expected, source, "")
	}
	return pass("the cloud knows the instances of all %s", plural(len(f.Nodes), "node"))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// cloudErrors are the parts of the inventory that could not be read: those that begin with the part's name, or all for "".
func (f facts) cloudErrors(part string) []string {
	var out []string
	for _, e := range f.Cloud.Errors {
		if part == "" || strings.HasPrefix(e, part+":") {
			out = append(out, e)
		}
	}
	return out
}

var nodesReady = Check{
	Code: "NODE-003", Reason: "NodeNotReady", Category: categoryNodes, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "every node is ready",
	Explain: []string{
		"Up to 1.26 the service loop takes a node that is not ready out of the load balancers. From 0.27 on it does not look at readiness any more (KEP-3458) and leaves it to the load balancer's health checks: " +
			"at takeover such nodes are registered again. Traffic reaches them until the health check says otherwise. And only nodes that are not ready are ever deleted because the cloud does not know their instance.",
		"Repair or drain them first, or accept a changed member list in the comparison of before and after.",
	},
	judge: func(f facts) v1.Finding {
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if n.Ready != "True" {
				return "Ready is " + orElse(n.Ready, "not reported")
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("all %s are ready", plural(len(f.Nodes), "node"))
		}
		then := "will be looked up in the cloud at takeover"
		if f.readmits() {
			then = "will be registered with load balancers again"
		}
		return with(bad.finding(v1.Warn, "%d of %s %s not ready and %s", len(bad.lines), plural(len(f.Nodes), "node"), be(len(bad.lines)), then),
			"Ready is True", "/api/v1/nodes", "kubectl describe node "+bad.objects[0])
	},
}

// readmits tells whether the new service loop keeps nodes as members that the one of today takes out because they are not ready.
func (f facts) readmits() bool {
	return !catalogue.ServiceLoopAt(f.inTreeMinor()).KeepsNotReady && catalogue.ServiceLoopAt(f.newMinor()).KeepsNotReady
}

var nodesInitialised = Check{
	Code: "NODE-004", Reason: "NodeUninitialized", Category: categoryNodes, Level: LevelWarning, Impact: ImpactNone, DependsOn: onAPI,
	Title: "no node waits to be initialised",
	Explain: []string{
		"A kubelet with --cloud-provider=external registers its node with the taint " + taintUninitialized + ", and only a cloud-controller-manager takes it away. While the loops are in-tree, nothing does, " +
			"and no pod is scheduled there. After the handover it clears by itself.",
	},
	judge: func(f facts) v1.Finding {
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			for _, t := range n.Taints {
				if strings.HasPrefix(t, taintUninitialized+"=") || strings.HasPrefix(t, taintUninitialized+":") {
					return "taint " + t
				}
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("no node has the taint %s", taintUninitialized)
		}
		return with(bad.finding(v1.Warn, "%s for a cloud-controller-manager to be initialised", waits(len(bad.lines))), "no such taint", "/api/v1/nodes",
			"kubectl describe node "+bad.objects[0])
	},
}

func waits(n int) string {
	if n == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", n)
}

var excludeLabel = Check{
	Code: "LB-001", Reason: "ExcludeLabelFalse", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "no node is excluded from load balancers by a label that says false",
	Explain: []string{
		"The in-tree service loop keeps a node out of load balancers when it has the label " + labelExclude + ", whatever its value. From 0.34 on, the external one reads the value: with false, the node is registered at takeover.",
		"Set the label to true where exclusion is meant, or remove it.",
	},
	judge: func(f facts) v1.Finding {
		if minor := f.newMinor(); !catalogue.ServiceLoopAt(minor).ReadsExclusion {
			return skip("the new manager's library 0.%d does not read the value of %s either", minor, labelExclude)
		}
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			v, labelled := n.Labels[labelExclude]
			if !labelled || v == "" {
				return ""
			}
			if excluded, err := strconv.ParseBool(v); err == nil && !excluded {
				return labelExclude + "=" + v
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("no node has %s=false", labelExclude)
		}
		return with(bad.finding(v1.Warn, "%s excluded from load balancers now and would be registered at takeover", plural(len(bad.lines), "node")+" "+be(len(bad.lines))), "true, or no such label",
			"/api/v1/nodes", "kubectl label --overwrite node "+bad.objects[0]+" "+labelExclude+"=true")
	},
}
