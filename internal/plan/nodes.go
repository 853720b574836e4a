package plan

import (
	"sort"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// NodeFact is the ID of the fact that a node has the providerID that it had.
func NodeFact(node string) string { return "node:" + node + ":providerID" }

// backfill gives nodes without a providerID theirs. A cloud-controller-manager looks such a node up by its name and, from 1.30 on, does not do it at all
// for a node without the taint; so each gets the taint for the moment that the manager needs. One at a time: no pod is evicted by it, and none can be
// scheduled there meanwhile.
func (b *builder) backfill() {
	var names []string
	for _, n := range b.snap.Nodes {
		if n.ProviderID == "" && b.fillable(n.Name) {
			names = append(names, n.Name)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		b.add(v1.Step{
			ID: "initialize/Node/" + n, Phase: PhaseNodes, Kind: v1.StepInitializeNode, Title: "give node " + n + " its providerID",
			Why: "without one the manager has only the name to find the instance by; the taint makes it look the node up and write what it found, once and for good",
			Ref: "Node/" + n, Requires: []string{"cluster:uid", b.fact(NodeFact(n), "", "")}, EstimateSeconds: 15,
			Changes: []v1.Change{{Field: "spec.providerID", After: "from the cloud"}, {Field: "taint " + taintNew, After: "for the moment"}},
			Undo:    "the taint is taken off again; a providerID cannot be changed once it is there",
			Manual:  []string{"kubectl taint node " + n + " " + taintNew + "=true:NoSchedule", "kubectl wait node/" + n + " --for=jsonpath='{.spec.providerID}' --timeout=2m"},
		})
	}
}

// fillable tells that a node's kubelet does not ask the cloud by itself when its turn comes: in-tree kubelets that no step reaches are left alone.
func (b *builder) fillable(node string) bool {
	for _, h := range b.snap.Hosts {
		if h.NodeName == node && h.Kubelet != nil && h.Kubelet.Error != "" {
			return false
		}
	}
	return true
}
