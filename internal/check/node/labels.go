package node

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/shell"
)

// labelPair is a label that exists under two keys.
type labelPair struct{ what, Stable, Beta string }

// The labels that changed their names.
var (
	ZoneLabels   = labelPair{"zone", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}
	RegionLabels = labelPair{"region", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"}
	TypeLabels   = labelPair{"type", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}
)

// valueOn is the label's value on a node: the stable one, or else the beta one.
func (l labelPair) valueOn(n v1.Node) string {
	return findings.OrElse(n.Labels[l.Stable], n.Labels[l.Beta])
}

// describeChange says that the label's value changes when its stable name follows the beta one; empty when it does not.
func (l labelPair) describeChange(n v1.Node) string {
	stable, beta := n.Labels[l.Stable], n.Labels[l.Beta]
	if stable == "" || beta == "" || stable == beta {
		return ""
	}
	return fmt.Sprintf("%s=%s would follow %s=%s", l.Stable, stable, l.Beta, beta)
}

// labelled counts the nodes that have a zone, and those that have a region.
func labelled(f facts.Facts) map[string]int {
	out := map[string]int{}
	for _, n := range f.Nodes {
		for _, l := range []labelPair{ZoneLabels, RegionLabels} {
			if l.valueOn(n) != "" {
				out[l.what]++
			}
		}
	}
	return out
}

var topologyLabels = rule.Check{
	Code:      "NODE-014",
	Reason:    "TopologyLabelsDiffer",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "nodes without a zone, and nodes whose old and new label differ",
	DependsOn: rule.OnAPI,
	Judge:     judgeTopologyLabels,
}

func judgeTopologyLabels(f facts.Facts) v1.Finding {
	labelled := labelled(f)
	differ := false
	bad, finding, ok := f.EachNode(func(n v1.Node) string {
		var wrong []string
		for _, l := range []labelPair{ZoneLabels, RegionLabels, TypeLabels} {
			switch change := l.describeChange(n); {
			case change != "":
				differ = true
				wrong = append(wrong, change)
			case l.valueOn(n) == "" && labelled[l.what] > 0:
				wrong = append(wrong, "no "+l.what)
			}
		}
		return strings.Join(wrong, ", ")
	})
	switch {
	case !ok:
		return finding
	case bad.Empty() && labelled["zone"] == 0:
		return findings.Pass("no node has a label of its zone, so that none can change")
	case bad.Empty():
		return findings.Pass(
			"%s a zone, and both names of each label agree",
			findings.Counting(labelled["zone"], "node", "has", "have"),
		)
	}
	outcome := v1.Warn
	if differ {
		outcome = v1.Fail
	}
	fix := "kubectl get nodes -L " + strings.Join(
		[]string{ZoneLabels.Stable, ZoneLabels.Beta, RegionLabels.Stable, RegionLabels.Beta},
		",",
	)
	return findings.With(
		bad.Finding(
			outcome,
			"%s labels of zone, region or type that are missing or contradict each other",
			findings.Counting(len(bad), "node", "has", "have"),
		),
		"one value under both names",
		facts.SourceNodes,
		fix,
	)
}

var metadataAtRisk = rule.Check{
	Code:      "NODE-018",
	Reason:    "MetadataAtRisk",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactScheduling,
	LookFor:   "labels and taints of the Node that no kubelet or controller sets: keep the file",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		instances := facts.InstancesByNode(f)
		marked := 0
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			by := byHand(n)
			if len(by) == 0 {
				return ""
			}
			marked++
			if i, asked := instances[n.Name]; n.Ready == "True" || asked && i.Found && i.State != "terminated" {
				return ""
			}
			return "Ready is " + findings.OrElse(n.Ready, "not reported") + ", with " + findings.Few(by)
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s labels or taints set by hand%s",
				findings.Counting(marked, "node", "has", "have"),
				findings.Also(marked, ", and none of those could be deleted"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s could be deleted, and labels or taints that were set by hand would be lost",
				findings.Plural(len(bad), "node"),
			),
			"ready, or found in the cloud",
			facts.SourceNodes,
			"kubectl get node "+shell.Quote(bad[0].Object)+" -o yaml > node.yaml",
		)
	},
}

// byHand are the labels and taints of a node that neither its kubelet nor a controller of Kubernetes or of the cloud
// sets, sorted.
func byHand(n v1.Node) []string {
	var out []string
	for key := range n.Labels {
		if !isReservedDomain(key) {
			out = append(out, "label "+key)
		}
	}
	for _, t := range n.Taints {
		key, _, _ := strings.Cut(t, "=")
		key, _, _ = strings.Cut(key, ":")
		if !isReservedDomain(key) && !strings.HasPrefix(key, "ToBeDeleted") {
			out = append(out, "taint "+t)
		}
	}
	slices.Sort(out)
	return out
}

// isReservedDomain reports whether a key belongs to Kubernetes, a cloud or a driver, which set it again.
func isReservedDomain(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc(
		[]string{
			"kubernetes.io",
			"k8s.io",
			"k8s.aws",
			"amazonaws.com",
			"azure.com",
			"cloud.google.com",
			"gke.io",
			"openstack.org",
			"vmware.com",
		},
		func(own string) bool {
			return domain == own || strings.HasSuffix(domain, "."+own)
		},
	)
}

var windowsNodes = rule.Check{
	Code:      "NODE-019",
	Reason:    "WindowsNodes",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the Windows nodes, whose kubelets are changed by hand",
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Wrong: rule.Always(func(n v1.Node) string {
			if nodemanager.IsWindows(n) {
				return "kubelet " + findings.OrElse(n.KubeletVersion, "of an unknown version") + " on Windows"
			}
			return ""
		}),
		Outcome:  v1.Warn,
		Passes:   "none of # [node|nodes] runs Windows",
		Fails:    "the kubelets of # Windows [node|nodes] have to be changed by hand",
		Expected: "linux",
		Fix:      func(string) string { return "kubectl get nodes -l kubernetes.io/os=windows -o wide" },
	}),
}
