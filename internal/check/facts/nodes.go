package facts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// CloudName is the provider whose loops are to move. It is the one that the in-tree managers or the snapshot name, or
// else the new managers, or the inventory. It is empty when none names it, or the managers contradict each other.
func (f Facts) CloudName() string {
	if name := f.Provider(); name != "" || len(f.InTree()) > 0 {
		return name
	}
	var names []string
	for _, p := range f.InstancesOf(component.CCM) {
		if name := p.Flag("cloud-provider", ""); name != "" && name != "external" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(names) == 1:
		return names[0]
	case len(names) == 0 && f.Cloud != nil:
		return f.Cloud.Provider
	}
	return ""
}

// OtherProvider reports whether the cluster has none of the providers that a check is about, and returns the finding.
// As all helpers that return a finding and true do, it ends the check.
func (f Facts) OtherProvider(providers ...string) (v1.Finding, bool) {
	switch name := f.CloudName(); {
	case name == "":
		return findings.Skip(
			"the cloud provider is not known: no manager names one, or they contradict each other (CP-001)",
		), true
	case !slices.Contains(providers, name):
		return findings.Skip("not for %s", name), true
	}
	return v1.Finding{}, false
}

// InTreeMinor is the minor of the in-tree managers; 0 when it is not known.
func (f Facts) InTreeMinor() int {
	for _, p := range f.InTree() {
		if m, ok := f.MinorOf(p); ok {
			return m
		}
	}
	m, _ := VersionMinor(f.Cluster.Version)
	return m
}

// InstancesByNode are what the cloud said of each node's instance.
func InstancesByNode(f Facts) map[string]v1.CloudInstance {
	out := make(map[string]v1.CloudInstance, len(f.Nodes))
	if f.Cloud == nil {
		return out
	}
	for _, i := range f.Cloud.Instances {
		out[i.Node] = i
	}
	return out
}

// OfType are the addresses of one type, in order, from entries of the form Type=address.
func OfType(addresses []string, kind string) []string {
	var out []string
	for _, a := range addresses {
		if ip, ok := strings.CutPrefix(a, kind+"="); ok {
			out = append(out, ip)
		}
	}
	return out
}

// None returns the finding of a check for which a cluster has nothing to look at.
func None(what string) v1.Finding { return findings.Skip("there is no %s", what) }

// SourceNodes is the source of findings about Nodes.
const SourceNodes = "/api/v1/nodes"

// LabelHostname is the label that a kubelet sets to its host's name.
const LabelHostname = "kubernetes.io/hostname"

// CloudErrors are the parts of the inventory that could not be read: those that begin with the part's name, or all for
// "".
func (f Facts) CloudErrors(part string) []string {
	var out []string
	for _, e := range f.Cloud.Errors {
		if part == "" || strings.HasPrefix(e, part+":") {
			out = append(out, e)
		}
	}
	return out
}

// EachNode is the finding of a check that looks at every node. The judge returns what is wrong with one, or "".
func (f Facts) EachNode(judge func(v1.Node) string) (findings.Problems, v1.Finding, bool) {
	var bad findings.Problems
	nodes, finding, ok := ListNodes(f)
	for _, n := range nodes {
		if complaint := judge(n); complaint != "" {
			bad.Add(n.Name, "%s: %s", n.Name, complaint)
		}
	}
	return bad, finding, ok
}

// ListNodes returns the nodes; false, and the finding of a check of nodes, when there is none to judge.
func ListNodes(f Facts) ([]v1.Node, v1.Finding, bool) {
	if finding, ok := f.Missing("nodes"); ok {
		return nil, finding, false
	}
	switch {
	case len(f.Nodes) > 0:
		return f.Nodes, v1.Finding{}, true
	case f.Cluster.Seed != "": // hosted control planes need none, and a cluster of no machines is migrated, too
		return nil, findings.Skip("the cluster has no node"), false
	}
	return nil, findings.Unknown("the API lists no node at all"), false
}

// IsControlPlane reports whether a Node runs a part of the control plane, as its hosts, the API or its labels say. No
// fix drains or deletes such a Node.
func IsControlPlane(f Facts, node string) bool {
	if node == "" {
		return false
	}
	runs := func(h v1.Host) bool { return h.ControlPlane && (h.NodeName == node || h.Name == node) }
	if slices.Contains(f.ControlPlaneNodes, node) || slices.ContainsFunc(f.Hosts, runs) {
		return true
	}
	return slices.ContainsFunc(f.Nodes, func(n v1.Node) bool {
		return n.Name == node && component.HasControlPlaneRole(n.Labels)
	})
}

// FirstWorker returns the first of these Nodes that is none of the control plane; false when there is none.
func FirstWorker(f Facts, nodes []string) (string, bool) {
	i := slices.IndexFunc(nodes, func(node string) bool { return !IsControlPlane(f, node) })
	if i < 0 {
		return "", false
	}
	return nodes[i], true
}

// ProveOr returns the command that asks the new provider's own code; another one where no program has that code.
func ProveOr(f Facts, other string) string {
	if !cloudprovider.HasProgram(f.CloudName()) {
		return other
	}
	return "transplant check --prove"
}

// GiveProviderID is the command that gives a node its providerID, where that is known. It can be set once: a value to
// fill in by hand is no fix.
func (f Facts) GiveProviderID(node string) string {
	if id := f.providerIDOf(node); id != "" {
		patch := fmt.Sprintf(`{"spec":{"providerID":%s}}`, jsonText(id))
		return fmt.Sprintf("kubectl patch node %s -p %s", shell.Quote(node), shell.Quote(patch))
	}
	if i, ok := cloudprovider.InventoryOf(f.CloudName()); ok && f.Preview == nil {
		return "transplant check " + i.Flag + " --prove   # the fix names the providerID then"
	}
	return "kubectl get node " + shell.Quote(node) + " -o yaml   # look its instance up in the cloud: a providerID can be set once"
}

// jsonText is a text as JSON has it.
func jsonText(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(out)
}

// providerIDOf is the providerID that a node should have, as the new provider or the inventory says; empty when neither
// does.
func (f Facts) providerIDOf(node string) string {
	if f.Preview != nil {
		for _, p := range f.Preview.Nodes {
			if p.Node == node && p.Found && p.ProviderID != "" {
				return p.ProviderID
			}
		}
	}
	i := InstancesByNode(f)[node]
	p, ok := cloudprovider.Lookup(f.CloudName())
	if !ok || !i.Found {
		return ""
	}
	return p.ProviderIDOf(i.Zone, i.ID)
}

// Readmits reports whether the new service loop keeps nodes as members that the one of today removes because they are
// not ready.
func (f Facts) Readmits() bool {
	return !catalogue.ServiceLoopAt(f.InTreeMinor()).KeepsNotReady && catalogue.ServiceLoopAt(f.NewMinor()).KeepsNotReady
}

// BroadHostErrors are the errors that hide a whole host, its manifests or its systemd units. Narrower ones belong to
// narrower checks.
func (f Facts) BroadHostErrors() findings.Problems {
	var out findings.Problems
	for i, e := range f.Errors {
		parts := f.paths[i]
		if parts[0] == "hosts" && (len(parts) <= 2 || parts[2] == "manifests" || parts[2] == "units") {
			out.Add(parts[min(1, len(parts)-1)], "%s", e.Error)
			f.Reported[i] = true
		}
	}
	return out
}

// LabelExclude keeps a Node out of load balancers.
const LabelExclude = "node.kubernetes.io/exclude-from-external-load-balancers"

// AnnotationProvidedIP is where a kubelet with an external provider says which address it was told to use.
const AnnotationProvidedIP = "alpha.kubernetes.io/provided-node-ip"

// NodeIPFlags are the addresses that kubelets on hosts are told to use, by node.
func (f Facts) NodeIPFlags() map[string]string {
	out := map[string]string{}
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.NodeName != "" {
			out[h.NodeName] = h.Kubelet.Flags["node-ip"]
		}
	}
	return out
}

// MissingInstances reports whether the cloud did not answer for the nodes' instances; the finding says why.
func (f Facts) MissingInstances() (v1.Finding, bool) {
	if finding, ok := f.Missing("nodes"); ok {
		return finding, true
	}
	if f.Cloud == nil || len(f.CloudErrors("instances")) > 0 {
		return findings.Dependent("CLOUD-001"), true
	}
	return v1.Finding{}, false
}

// RouteTargets are the nodes' instances, by id.
func (f Facts) RouteTargets() map[string]Target {
	out := map[string]Target{}
	for _, n := range f.Nodes {
		if id := cloudprovider.AWSInstanceID(n.ProviderID); id != "" {
			out[id] = Target{Node: n.Name}
		}
	}
	for _, i := range f.Cloud.Instances {
		if i.ID != "" {
			out[i.ID] = Target{Node: i.Node, Gone: !i.Found}
		}
	}
	return out
}

// Target is an instance that a route may lead to.
type Target struct {
	Node string
	// Gone is set when the cloud says that there is no such instance.
	Gone bool
}
