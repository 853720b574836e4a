package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// labelPair is a label that exists under two keys.
type labelPair struct{ what, stable, beta string }

var (
	zoneLabels   = labelPair{"zone", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}
	regionLabels = labelPair{"region", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"}
	typeLabels   = labelPair{"type", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}
)

// of is the label's value on a node: the stable one, or else the beta one.
func (l labelPair) of(n v1.Node) string { return orElse(n.Labels[l.stable], n.Labels[l.beta]) }

// change says that the label's value changes when its stable name follows the beta one; empty when it does not.
func (l labelPair) change(n v1.Node) string {
	stable, beta := n.Labels[l.stable], n.Labels[l.beta]
	if stable == "" || beta == "" || stable == beta {
		return ""
	}
	return fmt.Sprintf("%s=%s would follow %s=%s", l.stable, stable, l.beta, beta)
}

// labelled counts the nodes that have a zone, and those that have a region.
func (f facts) labelled() map[string]int {
	out := map[string]int{}
	for _, n := range f.Nodes {
		for _, l := range []labelPair{zoneLabels, regionLabels} {
			if l.of(n) != "" {
				out[l.what]++
			}
		}
	}
	return out
}

var topologyLabels = Check{
	Code: "NODE-014", Reason: "TopologyLabelsDiffer", Category: categoryNodes, Level: LevelError, Impact: ImpactVolumes, DependsOn: onAPI,
	Title: "zone, region and type of every node are labelled, and both names of each label agree",
	Explain: []string{
		"The node loop of an external manager, which no in-tree manager has, makes the stable labels (topology.kubernetes.io/zone) follow the beta ones (failure-domain.beta.kubernetes.io/zone) on every node, from its first minute. " +
			"Where the two differ, the zone that the scheduler sees changes, and volumes bound to the old one cannot be mounted there.",
		"It gives missing labels to nodes that it initialises, and to no others: a node without a zone among nodes that have one keeps none. Pods that spread over zones or mount volumes of a zone do not run on it.",
	},
	judge: judgeTopologyLabels,
}

func judgeTopologyLabels(f facts) v1.Finding {
	labelled := f.labelled()
	differ := false
	bad, finding, ok := f.eachNode(func(n v1.Node) string {
		var wrong []string
		for _, l := range []labelPair{zoneLabels, regionLabels, typeLabels} {
			switch change := l.change(n); {
			case change != "":
				differ = true
				wrong = append(wrong, change)
			case l.of(n) == "" && labelled[l.what] > 0:
				wrong = append(wrong, "no "+l.what)
			}
		}
		return strings.Join(wrong, ", ")
	})
	switch {
	case !ok:
		return finding
	case bad.empty() && labelled["zone"] == 0:
		return pass("no node has a label of its zone, so that none can change")
	case bad.empty():
		return pass("%s a zone, and both names of each label agree", counting(labelled["zone"], "node", "has", "have"))
	}
	outcome := v1.Warn
	if differ {
		outcome = v1.Fail
	}
	fix := "kubectl get nodes -L " + strings.Join([]string{zoneLabels.stable, zoneLabels.beta, regionLabels.stable, regionLabels.beta}, ",")
	return with(bad.finding(outcome, "%s labels of zone, region or type that are missing or contradict each other", counting(len(bad.lines), "node", "has", "have")), "one value under both names",
		sourceNodes, fix)
}

var metadataAtRisk = Check{
	Code: "NODE-018", Reason: "MetadataAtRisk", Category: categoryNodes, Level: LevelWarning, Impact: ImpactScheduling, DependsOn: onAPI,
	Title: "no node that could be deleted carries labels or taints that somebody set by hand",
	Explain: []string{
		"A node that is not ready and whose instance the cloud does not know is deleted by the new manager, where the in-tree one kept it. If its kubelet comes back, it registers a new Node object: labels, taints and annotations that were " +
			"set by hand are gone, and with them where pods may run. Write them down, or give them to the kubelet with --node-labels and --register-with-taints.",
	},
	judge: func(f facts) v1.Finding {
		instances := f.instancesByNode()
		marked := 0
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			by := byHand(n)
			if len(by) == 0 {
				return ""
			}
			marked++
			if i, asked := instances[n.Name]; n.Ready == "True" || asked && i.Found && i.State != "terminated" {
				return ""
			}
			return "Ready is " + orElse(n.Ready, "not reported") + ", with " + fewOf(by)
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s labels or taints set by hand%s", counting(marked, "node", "has", "have"), also(marked, ", and none of those could be deleted"))
		}
		return with(bad.finding(v1.Warn, "%s could be deleted with labels or taints that nobody would set again", plural(len(bad.lines), "node")), "ready, or found in the cloud", sourceNodes,
			"kubectl get node "+bad.objects[0]+" -o yaml > "+bad.objects[0]+".yaml")
	},
}

// byHand are the labels and taints of a node that neither its kubelet nor a controller of Kubernetes or of the cloud sets by itself; sorted.
func byHand(n v1.Node) []string {
	var out []string
	for key := range n.Labels {
		if !reservedDomain(key) {
			out = append(out, "label "+key)
		}
	}
	for _, t := range n.Taints {
		key, _, _ := strings.Cut(t, "=")
		key, _, _ = strings.Cut(key, ":")
		if !reservedDomain(key) && !strings.HasPrefix(key, "ToBeDeleted") {
			out = append(out, "taint "+t)
		}
	}
	slices.Sort(out)
	return out
}

// reservedDomain tells whether a key belongs to Kubernetes, a cloud or a driver, which set it again.
func reservedDomain(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "azure.com", "cloud.google.com", "gke.io", "openstack.org", "vmware.com"}, func(own string) bool {
		return domain == own || strings.HasSuffix(domain, "."+own)
	})
}

var windowsNodes = Check{
	Code: "NODE-019", Reason: "WindowsNodes", Category: categoryNodes, Level: LevelWarning, Impact: ImpactNodeJoin, DependsOn: onAPI,
	Title: "there are no Windows nodes, whose kubelets a plan does not change",
	Explain: []string{
		"A Windows kubelet is a Windows service: its flags are in the service's command line, and a plan edits no such thing. Change --cloud-provider to external and install the image credential provider's .exe there yourself, after the " +
			"cloud-controller-manager runs and before the cluster goes past 1.30.",
		"On Azure, the cloud-node-manager is a DaemonSet for each operating system: without the one for Windows such nodes are never initialised. DaemonSets of Linux CSI drivers and CNI plugins do not cover them either.",
	},
	judge: func(f facts) v1.Finding {
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if system := orElse(n.OS, n.Labels["kubernetes.io/os"]); strings.EqualFold(system, "windows") {
				return "kubelet " + orElse(n.KubeletVersion, "of an unknown version") + " on Windows"
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("none of %s runs Windows", plural(len(f.Nodes), "node"))
		}
		return with(bad.finding(v1.Warn, "the kubelets of %s have to be changed by hand", plural(len(bad.lines), "Windows node")), "linux", sourceNodes, "kubectl get nodes -l kubernetes.io/os=windows -o wide")
	},
}
