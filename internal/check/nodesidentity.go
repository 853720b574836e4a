package check

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

var providerIDForm = Check{
	Code: "NODE-005", Reason: "ProviderIDMalformed", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "every providerID has the form that the external provider reads",
	Explain: []string{
		"The external manager takes the instance's id out of a node's providerID. One of another provider, or a placeholder such as kubermatic://<machine>, which machine-controller writes where no cloud provider is " +
			"known, is not an instance to it: the node counts as one that does not exist, and is deleted once it is not ready.",
		"spec.providerID can be set once and never changed. A node with a wrong one has to be drained, deleted and registered again; its kubelet does that when it starts. Labels and taints that were set by hand go " +
			"with the Node object, so write them down first. The fix deletes the Node only if it is the same object still, and only behind a drain that succeeded. Where no node has a providerID of the provider, the " +
			"provider is more likely to be mistaken than all nodes, and the fix is to look.",
		"OpenStack's external provider also reads openstack://<region>/<server id>, which the in-tree one refused; on vSphere the uuid may be written in either case.",
	},
	judge: func(f facts) v1.Finding {
		name := f.cloudName()
		form, ok := catalogue.ProviderIDForm(name)
		if !ok {
			return skip("no form of providerIDs is known for %s", orElse(name, "a cluster that names no provider"))
		}
		n := 0
		bad, finding, ok := f.eachNode(func(node v1.Node) string {
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
		case bad.empty():
			return pass("%s the form %s", counting(n, "providerID", "has", "have"), form.Example)
		}
		return with(bad.finding(v1.Fail, "%s cannot be read by the external provider of %s", plural(len(bad.lines), "providerID"), name), form.Example, sourceNodes,
			f.registerAgain(bad.objects, n))
	},
}

// registerAgain is the command that has a node register under another providerID, one node at a time. It deletes no object but the one that was judged, and
// none at all where every node is at fault.
func (f facts) registerAgain(bad []string, judged int) string {
	if len(bad) == judged && judged > 1 {
		return "kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID"
	}
	name := bad[0]
	remove := "kubectl delete node " + name
	for _, n := range f.Nodes {
		if n.Name == name && n.UID != "" {
			remove = fmt.Sprintf(`printf '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"%s"}}' | kubectl delete --raw /api/v1/nodes/%s -f -`, n.UID, name)
		}
	}
	return fmt.Sprintf("test ! -e %[1]s.yaml && kubectl get node %[1]s -o yaml > %[1]s.yaml && kubectl drain %[1]s --ignore-daemonsets && %[2]s   # then restart the kubelet of %[1]s: it registers when it starts", name, remove)
}

var providerIDShared = Check{
	Code: "NODE-006", Reason: "ProviderIDShared", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "no two nodes have the same providerID",
	Explain: []string{
		"Two Node objects of one instance are what is left when a machine registered under another name: one of them has no kubelet any more. To the external manager both exist as long as the instance does, so it " +
			"deletes neither; the dead one stays in load balancers and its pod CIDR in the route table. Once the instance goes, both are deleted.",
		"Delete the Node that no kubelet reports for. See https://github.com/kubernetes/cloud-provider-aws/issues/916.",
	},
	judge: func(f facts) v1.Finding {
		first := map[string]string{}
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
			if n.ProviderID == "" {
				return ""
			}
			id := strings.ToLower(n.ProviderID) // Azure and vSphere answer in either case
			if other, taken := first[id]; taken {
				return fmt.Sprintf("%s is also that of %s (this node ready: %s)", n.ProviderID, other, n.Ready)
			}
			first[id] = n.Name
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s among %s: none is there twice", plural(len(first), "providerID"), plural(len(f.Nodes), "node"))
		}
		return with(bad.finding(v1.Fail, "%s an instance with another node", counting(len(bad.lines), "node", "shares", "share")), "one Node for each instance", sourceNodes,
			"kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID | sort -k2")
	},
}

var nodeNames = Check{
	Code: "NODE-008", Reason: "NodeNameForeign", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "every node has the name that the provider and its kubelet give it",
	Explain: []string{
		"Routes and load balancer members are looked up by a node's name: on GCE it has to be the instance's name, on Azure the virtual machine's. On AWS it is the private DNS name, which NODE-002 compares; OpenStack and " +
			"vSphere are asked in NODE-010.",
		"A kubelet whose --hostname-override is not its node's name registers another node when it starts again, and the volumes, credentials and labels of the old one are orphaned. An empty value (seen with RKE) makes " +
			"it take the host's name. Never rename a node: drain it and let it register again. See https://github.com/kubernetes/kubernetes/issues/70897.",
	},
	judge: judgeNodeNames,
}

func judgeNodeNames(f facts) v1.Finding {
	provider := f.cloudName()
	compared := 0
	bad, finding, ok := f.eachNode(func(n v1.Node) string {
		want := catalogue.NodeNameIn(provider, n.ProviderID)
		if want == "" {
			return ""
		}
		compared++
		have, _, _ := strings.Cut(n.Name, ".") // a name with its domain is found by its first part
		if provider == "gce" && have == want || strings.EqualFold(n.Name, want) {
			return ""
		}
		return "the instance is " + want
	})
	if !ok {
		return finding
	}
	overrides := f.otherNames(&bad)
	finding, unread := f.missing("hosts/*/kubelet")
	switch {
	case bad.empty() && len(f.broadHostErrors()) > 0:
		return dependent("HOST-001")
	case bad.empty() && unread:
		return finding
	case bad.empty() && compared == 0:
		return pass("%s named as --hostname-override says; the cloud's names are compared by NODE-002 and NODE-010", counting(overrides, "node", "is", "are"))
	case bad.empty():
		return pass("%s named as the instance%s", counting(compared, "node", "is", "are"), also(overrides, fmt.Sprintf(", %d as --hostname-override says", overrides)))
	}
	return with(bad.finding(v1.Fail, "%s not the name that the provider looks for", counting(len(bad.lines), "node", "has", "have")), "the node's name", sourceNodes+", the kubelets' flags",
		"kubectl get node "+bad.objects[0]+" -o wide")
}

// otherNames adds the nodes whose kubelets would register under another name when they start again, and counts those that are told a name.
func (f facts) otherNames(bad *complaints) (told int) {
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
			bad.add(orElse(h.NodeName, h.Name), "%s: --hostname-override of its kubelet is empty", h.Name)
		case h.NodeName != "" && override != h.NodeName:
			bad.add(h.NodeName, "%s: its kubelet would register %s when it starts again", h.NodeName, override)
		}
	}
	return told
}

var resourceNames = Check{
	Code: "NODE-009", Reason: "ResourceBasedName", Category: categoryNodes, Level: LevelWarning, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "a node that registers again gets the name that it has",
	Explain: []string{
		"An AWS subnet or launch template decides whether an instance is named after its address (ip-10-0-0-1.ec2.internal) or after its id (i-0123.ec2.internal). The external provider understands both; a kubelet that becomes " +
			"external takes the instance's own name if nobody gives it another, so that a node of the old kind comes back under a new name, and the old Node object, its volumes' attachments and its CSI node id are orphaned.",
		"Keep --hostname-override on such kubelets. See https://github.com/kubernetes/kops/issues/13358.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.concerns("aws"); !ok {
			return finding
		}
		if finding, ok := f.instancesRead(); !ok {
			return finding
		}
		instances, overridden := f.instancesByNode(), f.overridden()
		known := 0
		bad, finding, ok := f.eachNode(func(n v1.Node) string {
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
			return skip("the inventory does not say how instances are named")
		case bad.empty():
			return pass("%s would register under the same name again", plural(known, "node"))
		}
		return with(bad.finding(v1.Warn, "%s would register under another name", plural(len(bad.lines), "node")), "ip-name for nodes named after addresses, or --hostname-override", "ec2:DescribeInstances",
			"aws ec2 describe-instances --instance-ids "+instances[bad.objects[0]].ID+" --query 'Reservations[].Instances[].PrivateDnsNameOptions'")
	},
}

// overridden are the nodes whose kubelet is told its name.
func (f facts) overridden() map[string]bool {
	out := map[string]bool{}
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.Kubelet.Flags["hostname-override"] == h.NodeName && h.NodeName != "" {
			out[h.NodeName] = true
		}
	}
	return out
}

var systemUUIDs = Check{
	Code: "NODE-017", Reason: "SystemUUIDMismatch", Category: categoryNodes, Level: LevelError, Impact: ImpactNodeDeletion, DependsOn: onAPI,
	Title: "on vSphere, the system UUID of every node is the one in its providerID",
	Explain: []string{
		"vSphere's external provider finds a node's virtual machine by its UUID, first by status.nodeInfo.systemUUID and then by its name. A machine that was cloned or restored with another UUID is not found, and its " +
			"node is deleted once it is not ready; SKIP_NODE_DELETION=true in the manager's environment keeps such nodes for as long as you look.",
		"Old virtual hardware shows the first half of the UUID with its bytes swapped; that is accepted. The CSI driver also needs disk.enableUUID=TRUE on the machine, without which there is no stable disk name in the guest.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.concerns("vsphere"); !ok {
			return finding
		}
		n := 0
		bad, finding, ok := f.eachNode(func(node v1.Node) string {
			id, isID := strings.CutPrefix(strings.ToLower(node.ProviderID), "vsphere://")
			if !isID {
				return ""
			}
			n++
			switch has := strings.ToLower(node.SystemUUID); {
			case has == "":
				return "the kubelet reports no system UUID"
			case has != id && has != swapUUID(id):
				return "system UUID " + node.SystemUUID + ", providerID " + node.ProviderID
			}
			return ""
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s the UUID of the providerID", counting(n, "node", "reports", "report"))
		}
		return with(bad.finding(v1.Fail, "%s another UUID than their virtual machine", counting(len(bad.lines), "node", "has", "have")), "the UUID in the providerID", sourceNodes,
			"kubectl get node "+bad.objects[0]+" -o jsonpath='{.status.nodeInfo.systemUUID} {.spec.providerID}'")
	},
}

// swapUUID returns a UUID with the bytes of its first three groups in the other order; the same text for what is no UUID.
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
