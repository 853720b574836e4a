package kubelet

import (
	"sort"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// FillProviderIDs gives nodes without a providerID theirs. A cloud-controller-manager looks such a node up by its name.
// From 1.30 on it does not do that at all for a node without the taint. So each gets the taint for the moment that the
// manager needs. One at a time: no pod is evicted by it, and none can be scheduled there meanwhile.
func FillProviderIDs(d *draft.Draft) {
	var names []string
	for _, n := range d.Snapshot.Nodes {
		if n.ProviderID == "" && canFill(d, n.Name) {
			names = append(names, n.Name)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		d.Add(v1.Step{
			ID:              "initialize/Node/" + n,
			Phase:           planstep.PhaseNodes,
			Kind:            v1.StepInitializeNode,
			Title:           "give node " + n + " its providerID",
			Why:             "without one the manager has only the name to find the instance by; the taint makes it look the node up and write what it found, once and for good",
			Ref:             "Node/" + n,
			Requires:        []string{"cluster:uid", d.AddFact(planstep.NodeFact(n), "", "")},
			EstimateSeconds: 15,
			Changes: []v1.Change{
				{Field: "spec.providerID", After: "from the cloud"},
				{Field: "taint " + component.TaintUninitialized, After: "for the moment"},
			},
			Undo: "the taint is taken off again; a providerID cannot be changed once it is there",
			Manual: []string{
				"kubectl taint node " + n + " " + component.TaintUninitialized + "=true:NoSchedule",
				"kubectl wait node/" + n + " --for=jsonpath='{.spec.providerID}' --timeout=2m",
			},
		})
	}
}

// canFill reports whether a node's kubelet does not ask the cloud by itself when its turn comes. In-tree kubelets that
// no step reaches are left alone.
func canFill(d *draft.Draft, node string) bool {
	for _, h := range d.Snapshot.Hosts {
		if h.NodeName == node && h.Kubelet != nil && h.Kubelet.Error != "" {
			return false
		}
	}
	return true
}
