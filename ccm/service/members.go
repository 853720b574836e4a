package service

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
)

// taintToBeDeleted is what the cluster autoscaler puts on a node that it is about to delete.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// eligibility is what decides whether one node is a member of load balancers.
type eligibility struct {
	included bool // not excluded by label
	// waiting is that the node is not initialised. Upstream adds it at once, and again when its provider ID appears: two
	// updates of every load balancer for each node that joins. Here it becomes a member once it is initialised; until then
	// its taint keeps pods away from it anyway. A member that is given the taint later, to be initialised again, stays
	// one: its connections must not be cut.
	waiting bool
	// leaving is that the node is being deleted, or will be. This alone changes no load balancer: the node's kube-proxy
	// fails its health check, which drains connections, and taking the member away would cut them. A load balancer that
	// changes for another reason leaves such a node out.
	leaving    bool
	providerID string
}

// standingOf judges one node. Whether it is ready does not matter (KEP-3458), nor whether it may be scheduled to.
func standingOf(node *corev1.Node) eligibility {
	s := eligibility{included: !isExcluded(node), leaving: node.DeletionTimestamp != nil, providerID: node.Spec.ProviderID}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case taintToBeDeleted:
			s.leaving = true
		case cloudapi.TaintExternalCloudProvider:
			s.waiting = true
		}
	}
	return s
}

// isExcluded reports whether a node's label keeps it out of load balancers. What is not a boolean does.
func isExcluded(node *corev1.Node) bool {
	value, labelled := node.Labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	exclude, err := strconv.ParseBool(value)
	return err != nil || exclude
}

// counts is whether the node is a member, or would be if it were not leaving.
func (s eligibility) counts() bool { return s.included && !s.waiting }

func (s eligibility) isMember() bool { return s.counts() && !s.leaving }

// becomesMember is whether the node will be a member once it is initialised.
func (s eligibility) becomesMember() bool { return s.included && s.waiting && !s.leaving }

// change is what a node event may mean for load balancers.
type change int

const (
	changeNone  change = iota
	changeJoins        // a member more, or another machine behind a member
	changeLeaves
)

// changeOf judges what an update of a node means for load balancers. A taint that is taken back (a scale-down that was
// cancelled) counts as joining: a load balancer that was changed meanwhile has lost the node. Upstream does not look,
// and leaves it out until the next change of nodes.
func changeOf(before, now eligibility) change {
	switch {
	case before.counts() && !now.counts():
		return changeLeaves
	case now.isMember() && (!before.isMember() || before.providerID != now.providerID):
		return changeJoins
	}
	return changeNone
}

// memberSet is the nodes that a load balancer has, and the machines behind them. It is never changed once made.
type memberSet struct {
	ids  map[string]string // provider IDs by node; nil when only the hash is known
	hash string
}

// has is whether a machine is in the set. Of a set of which only the hash is known, and of none, that is not known.
func (m *memberSet) has(name, providerID string) bool {
	if m == nil {
		return false
	}
	id, ok := m.ids[name]
	return ok && id == providerID
}

func newMemberSet(ids map[string]string) *memberSet {
	return &memberSet{ids: ids, hash: digest(ids)}
}

// view is the nodes as load balancers see them at one time.
type view struct {
	set     *memberSet
	leaving map[string]string // nodes that are no members for the one reason that they are leaving
}

// buildView judges nodes. The second result is the members, by name. A set that equals the last one is the same object.
// Load balancers with the same members share it, and thousands of nodes are hashed and kept once.
func buildView(nodes []*corev1.Node, last *memberSet) (*view, []*corev1.Node) {
	v := &view{leaving: map[string]string{}}
	ids := make(map[string]string, len(nodes))
	var members []*corev1.Node
	for _, node := range nodes {
		s := standingOf(node)
		s.waiting = s.waiting && !last.has(node.Name, s.providerID)
		switch {
		case s.isMember():
			ids[node.Name] = s.providerID
			members = append(members, node)
		case s.counts():
			v.leaving[node.Name] = s.providerID
		}
	}
	slices.SortFunc(members, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	if v.set = last; last == nil || !maps.Equal(ids, last.ids) {
		v.set = newMemberSet(ids)
	}
	return v, members
}

// resolve finds the set of a hash that a former leader wrote: that of today, or that of before nodes began to leave. Of
// another, only the hash is known.
func (v *view) resolve(hash string) *memberSet {
	if hash == v.set.hash {
		return v.set
	}
	if len(v.leaving) > 0 {
		all := maps.Clone(v.set.ids)
		maps.Copy(all, v.leaving)
		if set := newMemberSet(all); set.hash == hash {
			return set
		}
	}
	return &memberSet{hash: hash}
}

// needsUpdate reports whether a load balancer with these members needs an update. It does if it lacks a member, has
// another machine for one, or has a node too many. A node that is only leaving does not count.
func (v *view) needsUpdate(has *memberSet) bool {
	if has.hash == v.set.hash {
		return false
	}
	if has.ids == nil {
		return true
	}
	for name, id := range v.set.ids {
		if old, ok := has.ids[name]; !ok || old != id {
			return true
		}
	}
	for name := range has.ids {
		_, member := v.set.ids[name]
		if _, leaving := v.leaving[name]; !member && !leaving {
			return true
		}
	}
	return false
}
