package diff

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// nodeStates are the Nodes as the steps so far leave them, and what the snapshot knows of their instances.
type nodeStates struct {
	all       map[string]*nodeState
	previews  map[string]v1.NodePreview
	instances map[string]v1.CloudInstance
	// provider is that of the cloud in which the instances were found.
	provider string
	// external are the Nodes whose kubelets leave the cloud to a manager already.
	external map[string]bool
}

// nodeState is a Node, with remarks about what only the cloud knows.
type nodeState struct {
	v1.Node
	remarks []string
}

func newNodeStates(snap *v1.Snapshot) nodeStates {
	out := nodeStates{
		all:       map[string]*nodeState{},
		previews:  map[string]v1.NodePreview{},
		instances: map[string]v1.CloudInstance{},
		external:  map[string]bool{},
	}
	for _, n := range snap.Nodes {
		out.all[n.Name] = &nodeState{Node: n}
	}
	if snap.Preview != nil {
		for _, p := range snap.Preview.Nodes {
			out.previews[p.Node] = p
		}
	}
	if snap.Cloud != nil {
		out.provider = snap.Cloud.Provider
		for _, i := range snap.Cloud.Instances {
			out.instances[i.Node] = i
		}
	}
	for _, h := range snap.Hosts {
		if h.NodeName != "" && h.Kubelet != nil {
			out.external[h.NodeName] = h.Kubelet.Flags["cloud-provider"] == "external"
		}
	}
	return out
}

// find returns a Node as it is so far; nil for one that the snapshot lacks.
func (s nodeStates) find(name string) *nodeState { return s.all[name] }

// instanceOf returns what a snapshot knows of a Node's instance. It is complete where the new provider's own code was
// asked and answered. An inventory knows zone and type, and by them most providers' IDs.
func (s nodeStates) instanceOf(node string) (found v1.NodePreview, complete bool) {
	if p, asked := s.previews[node]; asked && p.Error == "" {
		return p, true
	}
	i := s.instances[node]
	if !i.Found {
		return v1.NodePreview{}, false
	}
	p, _ := cloudprovider.Lookup(s.provider)
	return v1.NodePreview{
		Found:      true,
		ProviderID: p.ProviderIDOf(i.Zone, i.ID),
		Zone:       i.Zone,
		Type:       i.Type,
	}, false
}

// setLabel sets a label. A value that the API server would refuse is left out, as the manager leaves it out.
func (n *nodeState) setLabel(key, value string) {
	if value != "" && n.Labels[key] != value && len(validation.IsValidLabelValue(value)) == 0 {
		n.Labels = withValue(n.Labels, key, value)
	}
}

func (n *nodeState) addRemark(text string) {
	if !slices.Contains(n.remarks, text) {
		n.remarks = append(slices.Clone(n.remarks), text)
	}
}

// withValue returns a copy of a map with one value more: the map is the snapshot's.
func withValue(of map[string]string, key, value string) map[string]string {
	out := maps.Clone(of)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// nodeText is a Node as YAML: the fields that a snapshot keeps and that a cloud provider or a migration may change.
func nodeText(n nodeState) (string, error) {
	meta := layout.Object{"name": n.Name}
	for field, values := range map[string]map[string]string{"annotations": n.Annotations, "labels": n.Labels} {
		if shown := mask.Annotations(values); len(shown) > 0 {
			meta[field] = shown
		}
	}
	out := layout.Object{"apiVersion": "v1", "kind": "Node", "metadata": meta}
	if spec := nodeSpec(n.Node); len(spec) > 0 {
		out["spec"] = spec
	}
	if len(n.Addresses) > 0 {
		var list []any
		for _, a := range n.Addresses {
			kind, address, _ := strings.Cut(a, "=")
			list = append(list, layout.Object{"type": kind, "address": address})
		}
		out["status"] = layout.Object{"addresses": list}
	}
	data, err := yaml.Marshal(out)
	if err != nil {
		return "", err
	}
	text := string(data)
	for _, remark := range slices.Backward(n.remarks) {
		text = "# " + remark + "\n" + text
	}
	return text, nil
}

func nodeSpec(n v1.Node) layout.Object {
	out := layout.Object{}
	if n.ProviderID != "" {
		out["providerID"] = n.ProviderID
	}
	if n.Unschedulable {
		out["unschedulable"] = true
	}
	var taints []any
	for _, t := range n.Taints {
		key, rest, _ := strings.Cut(t, "=")
		value, effect, _ := strings.Cut(rest, ":")
		taint := layout.Object{"key": key, "effect": effect}
		if value != "" {
			taint["value"] = value
		}
		taints = append(taints, taint)
	}
	if len(taints) > 0 {
		out["taints"] = taints
	}
	return out
}
