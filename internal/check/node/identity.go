package node

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

var providerIDForm = rule.Check{
	Code:      "NODE-005",
	Reason:    "ProviderIDMalformed",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the nodes whose ID has another form than the finding expects",
	OnlyIf:    "its pods may run on other nodes, their local data may be lost, and no other node is away",
	Warning:   "all pods of the node are evicted and the Node is deleted; labels and taints that were set by hand are lost, and only the saved file has them",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		name := f.CloudName()
		form, ok := cloudprovider.ProviderIDForm(name)
		if !ok {
			return findings.Skip(
				"no form of providerIDs is known for %s",
				findings.OrElse(name, "a cluster that names no provider"),
			)
		}
		n := 0
		bad, finding, ok := f.EachNode(func(node v1.Node) string {
			if node.ProviderID == "" {
				return "" // NODE-001
			}
			n++
			if form.Pattern.MatchString(node.ProviderID) {
				return ""
			}
			return "providerID " + node.ProviderID
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("%s the form %s", findings.Counting(n, "providerID", "has", "have"), form.Example)
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s cannot be read by the external provider of %s",
				findings.Plural(len(bad), "providerID"),
				name,
			),
			form.Example,
			facts.SourceNodes,
			registerAgain(f, bad.Objects(), n),
		)
	},
}

// registerAgain is the command that has a node register under another providerID, one node at a time. It deletes no
// object but the one that was judged, none of the control plane, and none at all where every node is at fault.
func registerAgain(f facts.Facts, bad []string, judged int) string {
	name, isWorker := facts.FirstWorker(f, bad)
	if !isWorker || len(bad) == judged && judged > 1 {
		return "kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID"
	}
	remove := "kubectl delete node " + shell.Quote(name)
	for _, n := range f.Nodes {
		if n.Name == name && n.UID != "" {
			remove = fmt.Sprintf(
				"printf %s | kubectl delete --raw %s -f -",
				shell.Quote(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"`+n.UID+`"}}`),
				shell.Quote("/api/v1/nodes/"+name),
			)
		}
	}
	return fmt.Sprintf(
		"test ! -e %[3]s && kubectl get node %[1]s -o yaml > %[3]s && kubectl drain %[1]s --ignore-daemonsets && %[2]s   # then restart the kubelet of %[1]s: it registers when it starts",
		shell.Quote(name),
		remove,
		shell.Quote(name+".yaml"),
	)
}

var providerIDShared = rule.Check{
	Code:      "NODE-006",
	Reason:    "ProviderIDShared",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "two lines with the same ID: one of the two Nodes is stale",
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Concerns: func(_ facts.Facts, n v1.Node) bool { return n.ProviderID != "" },
		Wrong: func(facts.Facts) func(v1.Node) string {
			first := map[string]string{}
			return func(n v1.Node) string {
				id := strings.ToLower(n.ProviderID) // Azure and vSphere answer in either case
				if other, taken := first[id]; taken {
					return fmt.Sprintf("%s is also that of %s (this node ready: %s)", n.ProviderID, other, n.Ready)
				}
				first[id] = n.Name
				return ""
			}
		},
		Outcome:  v1.Fail,
		Passes:   "# [node has|nodes have] a providerID, and no two the same",
		Fails:    "# [node shares|nodes share] an instance with another node",
		Expected: "one Node for each instance",
		Fix: func(string) string {
			return "kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID | sort -k2"
		},
	}),
}

var nodeNames = rule.Check{
	Code:      "NODE-008",
	Reason:    "NodeNameForeign",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the node's name and the name that the cloud has for its address",
	DependsOn: rule.OnAPI,
	Judge:     judgeNodeNames,
}

func judgeNodeNames(f facts.Facts) v1.Finding {
	provider := f.CloudName()
	known, _ := cloudprovider.Lookup(provider)
	compared := 0
	bad, finding, ok := f.EachNode(func(n v1.Node) string {
		want := cloudprovider.NodeNameIn(provider, n.ProviderID)
		if want == "" {
			return ""
		}
		compared++
		have, _, _ := strings.Cut(n.Name, ".") // a name with its domain is found by its first part
		if known.ShortNames && have == want || strings.EqualFold(n.Name, want) {
			return ""
		}
		return "the instance is " + want
	})
	if !ok {
		return finding
	}
	overrides := otherNames(f, &bad)
	finding, unread := f.Missing("hosts/*/kubelet")
	switch {
	case bad.Empty() && len(f.BroadHostErrors()) > 0:
		return findings.Dependent("HOST-001")
	case bad.Empty() && unread:
		return finding
	case bad.Empty() && compared == 0:
		return findings.Pass(
			"%s named as --hostname-override says; the cloud's names are compared by NODE-002 and NODE-010",
			findings.Counting(overrides, "node", "is", "are"),
		)
	case bad.Empty():
		return findings.Pass(
			"%s named as the instance%s",
			findings.Counting(compared, "node", "is", "are"),
			findings.Also(overrides, fmt.Sprintf(", %d as --hostname-override says", overrides)),
		)
	}
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s not the name that the provider looks for",
			findings.Counting(len(bad), "node", "has", "have"),
		),
		"the node's name",
		facts.SourceNodes+", the kubelets' flags",
		"kubectl get node "+shell.Quote(bad[0].Object)+" -o wide",
	)
}

// otherNames adds the nodes whose kubelets would register under another name when they start again, and counts those
// that are told a name.
func otherNames(f facts.Facts, bad *findings.Problems) (told int) {
	for _, h := range f.Hosts {
		if h.Kubelet == nil {
			continue
		}
		override, given := h.Kubelet.Flags["hostname-override"]
		if !given {
			continue
		}
		told++
		switch {
		case override == "":
			bad.Add(findings.OrElse(h.NodeName, h.Name), "%s: --hostname-override of its kubelet is empty", h.Name)
		case h.NodeName != "" && override != h.NodeName:
			bad.Add(h.NodeName, "%s: its kubelet would register %s when it starts again", h.NodeName, override)
		}
	}
	return told
}

var resourceNames = rule.Check{
	Code:      "NODE-009",
	Reason:    "ResourceBasedName",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "HostnameType, by which a new node is named",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.OtherProvider("aws"); ok {
			return finding
		}
		if finding, ok := f.MissingInstances(); ok {
			return finding
		}
		instances, overridden := facts.InstancesByNode(f), overridden(f)
		known := 0
		bad, finding, ok := f.EachNode(func(n v1.Node) string {
			i := instances[n.Name]
			if i.HostnameType == "" {
				return ""
			}
			known++
			byID := strings.HasPrefix(n.Name, "i-")
			if byID == (i.HostnameType == "resource-name") || overridden[n.Name] {
				return ""
			}
			return fmt.Sprintf("instance %s has the hostname type %s", i.ID, i.HostnameType)
		})
		switch {
		case !ok:
			return finding
		case known == 0:
			return findings.Skip("the inventory does not say how instances are named")
		case bad.Empty():
			return findings.Pass("%s would register under the same name again", findings.Plural(known, "node"))
		}
		return findings.With(
			bad.Finding(v1.Warn, "%s would register under another name", findings.Plural(len(bad), "node")),
			"ip-name for nodes named after addresses, or --hostname-override",
			"ec2:DescribeInstances",
			"aws ec2 describe-instances --instance-ids "+shell.Quote(instances[bad[0].Object].ID)+" --query 'Reservations[].Instances[].PrivateDnsNameOptions'",
		)
	},
}

// overridden are the nodes whose kubelet is told its name.
func overridden(f facts.Facts) map[string]bool {
	out := map[string]bool{}
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.Kubelet.Flags["hostname-override"] == h.NodeName && h.NodeName != "" {
			out[h.NodeName] = true
		}
	}
	return out
}

// vsphereID is what the providerIDs of vSphere begin with.
const vsphereID = "vsphere://"

var systemUUIDs = rule.Check{
	Code:      "NODE-017",
	Reason:    "SystemUUIDMismatch",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the two UUIDs, which have to be the same",
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Unless: func(f facts.Facts) (v1.Finding, bool) { return f.OtherProvider("vsphere") },
		Concerns: func(_ facts.Facts, n v1.Node) bool {
			return strings.HasPrefix(strings.ToLower(n.ProviderID), vsphereID)
		},
		Wrong: rule.Always(func(n v1.Node) string {
			id := strings.TrimPrefix(strings.ToLower(n.ProviderID), vsphereID)
			switch has := strings.ToLower(n.SystemUUID); {
			case has == "":
				return "the kubelet reports no system UUID"
			case has != id && has != swapUUID(id):
				return "system UUID " + n.SystemUUID + ", providerID " + n.ProviderID
			}
			return ""
		}),
		Outcome:  v1.Fail,
		Passes:   "# [node reports|nodes report] the UUID of the providerID",
		Fails:    "# [node has|nodes have] another UUID than their virtual machine",
		Expected: "the UUID in the providerID",
		Fix: func(name string) string {
			return "kubectl get node " + shell.Quote(name) + " -o jsonpath='{.status.nodeInfo.systemUUID} {.spec.providerID}'"
		},
	}),
}

// swapUUID returns a UUID with the bytes of its first three groups in the other order; the same text for what is no
// UUID.
func swapUUID(uuid string) string {
	groups := strings.Split(uuid, "-")
	if len(groups) != 5 {
		return uuid
	}
	for i, group := range groups[:3] {
		var swapped strings.Builder
		for at := len(group) - 2; at >= 0; at -= 2 {
			swapped.WriteString(group[at : at+2])
		}
		groups[i] = swapped.String()
	}
	return strings.Join(groups, "-")
}
