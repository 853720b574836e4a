package node

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var providerIDs = rule.Check{
	Code:      "NODE-001",
	Reason:    "ProviderIDMissing",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the instance of the node, whose id the providerID has to name",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			if n.ProviderID == "" {
				return "no providerID"
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("all %s have a providerID", findings.Plural(len(f.Nodes), "node"))
		}
		form, _ := cloudprovider.ProviderIDForm(f.CloudName())
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%d of %s %s no providerID",
				len(bad),
				findings.Plural(len(f.Nodes), "node"),
				english.Word(len(bad), "has", "have"),
			),
			findings.OrElse(form.Example, "the provider's id of the instance"),
			facts.SourceNodes,
			f.GiveProviderID(bad[0].Object),
		)
	},
}

var nodesInCloud = rule.Check{
	Code:      "NODE-002",
	Reason:    "NodeUnknownToCloud",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the node's providerID and addresses, and whether that instance still exists in the cloud",
	DependsOn: rule.OnAPI,
	Judge:     judgeNodesInCloud,
}

func judgeNodesInCloud(f facts.Facts) v1.Finding {
	if f.Cloud == nil {
		return findings.Dependent("CLOUD-001")
	}
	instances := map[string]v1.CloudInstance{}
	for _, i := range f.Cloud.Instances {
		instances[i.Node] = i
	}
	var unasked []string
	bad, finding, ok := f.EachNode(func(n v1.Node) string {
		i, asked := instances[n.Name]
		switch {
		case !asked:
			unasked = append(unasked, n.Name)
		case !i.Found:
			return fmt.Sprintf("the cloud has no instance %s (node ready: %s)", findings.OrElse(i.ID, "of this node"), n.Ready)
		case i.State == "terminated" || i.State == "shutting-down":
			return fmt.Sprintf("instance %s is %s (node ready: %s)", i.ID, i.State, n.Ready)
		case i.PrivateDNSName != "" && i.PrivateDNSName != n.Name && i.ID != n.Name:
			return fmt.Sprintf("instance %s has the private DNS name %s", i.ID, i.PrivateDNSName)
		}
		return ""
	})
	reads := cloudprovider.InventoryOrDefault(f.CloudName())
	expected, source := reads.ExpectedInstance, reads.Instances
	switch {
	case !ok:
		return finding
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "the external manager would delete or lose %s", findings.Plural(len(bad), "node")),
			expected,
			source,
			"kubectl get node "+shell.Quote(bad[0].Object)+" -o wide",
		)
	case len(unasked) > 0:
		why := strings.Join(f.CloudErrors("instances"), "; ")
		return findings.With(
			findings.Unknown(
				"the cloud did not answer for %s (%s): %s",
				findings.Plural(len(unasked), "node"),
				strings.Join(unasked, ", "),
				findings.OrElse(why, "the inventory does not hold them"),
			),
			expected,
			source,
			"",
		)
	}
	return findings.Pass("the cloud knows the instances of all %s", findings.Plural(len(f.Nodes), "node"))
}

var nodesReady = rule.Check{
	Code:      "NODE-003",
	Reason:    "NodeNotReady",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the condition Ready, with its reason and message",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			if n.Ready != "True" {
				return "Ready is " + findings.OrElse(n.Ready, "not reported")
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("all %s are ready", findings.Plural(len(f.Nodes), "node"))
		}
		then := "will be looked up in the cloud at takeover"
		if f.Readmits() {
			then = "will be registered with load balancers again"
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%d of %s %s not ready and %s",
				len(bad),
				findings.Plural(len(f.Nodes), "node"),
				english.Word(len(bad), "is", "are"),
				then,
			),
			"Ready is True",
			"/api/v1/nodes",
			"kubectl describe node "+shell.Quote(bad[0].Object),
		)
	},
}

var nodesInitialised = rule.Check{
	Code:      "NODE-004",
	Reason:    "NodeUninitialized",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNone,
	LookFor:   "the taint node.cloudprovider.kubernetes.io/uninitialized, and whether a manager runs that would take it off",
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Wrong: rule.Always(func(n v1.Node) string {
			for _, t := range n.Taints {
				if strings.HasPrefix(t, component.TaintUninitialized+"=") || strings.HasPrefix(t, component.TaintUninitialized+":") {
					return "taint " + t
				}
			}
			return ""
		}),
		Outcome:  v1.Warn,
		Passes:   "no node has the taint " + component.TaintUninitialized,
		Fails:    "# [node waits|nodes wait] for a cloud-controller-manager to be initialised",
		Expected: "no such taint",
		Fix:      rule.DescribeNode,
	}),
}
