package service

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func joinedAt(at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(at) }
}

func TestWhichNodesAreMembers(t *testing.T) {
	exclude := func(value string) func(*corev1.Node) {
		return withLabel(corev1.LabelNodeExcludeBalancers, value)
	}
	uninitialised := withTaint(cloudapi.TaintExternalCloudProvider)
	for _, tc := range []struct {
		name string
		node *corev1.Node
		want bool
	}{
		{"one of which nothing is known", &corev1.Node{}, true},
		{"a ready one", node("n"), true},
		{"one without a provider ID", node("n", withProviderID("")), true},
		{"one that is not ready", node("n", withReady(corev1.ConditionFalse)), true},
		{"one with other labels", node("n", withLabel("a", "b")), true},
		{"one that cannot be scheduled to", node("n", withTaint(corev1.TaintNodeUnschedulable)), true},
		{"an excluded one, without a value", node("n", exclude("")), false},
		{"one with the label set to false", node("n", exclude("false")), true},
		{"one with the label set to 0", node("n", exclude("0")), true},
		{"one with the label set to true", node("n", exclude("true")), false},
		{"one with the label set to what is no boolean", node("n", exclude("foo")), false},
		{"one that the autoscaler is about to delete", node("n", withTaint(taintToBeDeleted)), false},
		{"one that is being deleted", node("n", nodeBeingDeleted), false},
		{"one that is not initialised", node("n", uninitialised), false},
		{"the same, with a provider ID of its kubelet's", node("n", uninitialised, withProviderID("x")), false},
		{"one that is not initialised an hour after it joined", node("n", joinedAt(noon.Add(-time.Hour)), uninitialised), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := eligibilityOf(tc.node).isMember(); got != tc.want {
				t.Errorf("member: %t, want %t", got, tc.want)
			}
		})
	}
}

// Upstream's tables of which node updates are looked at, one node property and two at once. Ours looks at no more of them, but where it says so.
func TestNodeUpdatesThatAreLookedAt(t *testing.T) {
	excluded := withLabel(corev1.LabelNodeExcludeBalancers, "")
	doomed := withTaint(taintToBeDeleted)
	notReady := withReady(corev1.ConditionFalse)
	ready := func(*corev1.Node) {}
	noID := withProviderID("")
	otherID := withProviderID("fake://other")
	unknown := func(n *corev1.Node) { n.Status.Conditions = nil }
	pressure := func(s corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: s})
		}
	}
	type nodeIs []func(*corev1.Node)
	const backAgain = "a scale-down that was cancelled: a load balancer that changed meanwhile has lost the node"
	for _, tc := range []struct {
		name        string
		before, now nodeIs
		upstream    bool
		want        change
		differs     string // why ours looks where upstream does not
	}{
		{"nothing changes", nodeIs{}, nodeIs{}, false, changeNone, ""},
		{"it is excluded", nodeIs{}, nodeIs{excluded}, true, changeLeaves, ""},
		{"it is no longer excluded", nodeIs{excluded}, nodeIs{}, true, changeJoins, ""},
		{"it stays excluded", nodeIs{excluded}, nodeIs{excluded}, false, changeNone, ""},
		{"it gets some taint", nodeIs{}, nodeIs{withTaint("other")}, false, changeNone, ""},
		{"it loses some taint", nodeIs{withTaint("other")}, nodeIs{}, false, changeNone, ""},
		{"it gets some label", nodeIs{}, nodeIs{withLabel("other", "")}, false, changeNone, ""},
		{"it loses some label", nodeIs{withLabel("other", "")}, nodeIs{}, false, changeNone, ""},
		{"it stays not ready", nodeIs{notReady}, nodeIs{notReady}, false, changeNone, ""},
		{"it becomes not ready", nodeIs{ready}, nodeIs{notReady}, false, changeNone, ""},
		{"it becomes ready", nodeIs{notReady}, nodeIs{ready}, false, changeNone, ""},
		{"it becomes unknown", nodeIs{notReady}, nodeIs{unknown}, false, changeNone, ""},
		{"it is no longer unknown", nodeIs{unknown}, nodeIs{notReady}, false, changeNone, ""},
		{"it stays unknown", nodeIs{unknown}, nodeIs{unknown}, false, changeNone, ""},
		{"not ready, it gets disk pressure", nodeIs{notReady, pressure("False")}, nodeIs{notReady, pressure("True")}, false, changeNone, ""},
		{"not ready, it loses disk pressure", nodeIs{notReady, pressure("True")}, nodeIs{notReady, pressure("False")}, false, changeNone, ""},
		{"it gets disk pressure", nodeIs{pressure("False")}, nodeIs{pressure("True")}, false, changeNone, ""},
		{"it loses disk pressure", nodeIs{pressure("True")}, nodeIs{pressure("False")}, false, changeNone, ""},
		{"its deletion begins", nodeIs{}, nodeIs{nodeBeingDeleted}, false, changeNone, ""},
		{"it gets a provider ID", nodeIs{noID}, nodeIs{}, true, changeJoins, ""},
		{"it loses its provider ID", nodeIs{}, nodeIs{noID}, true, changeJoins, ""},
		{"it gets another provider ID", nodeIs{}, nodeIs{otherID}, true, changeJoins, ""},
		{"the autoscaler is about to delete it", nodeIs{}, nodeIs{doomed}, false, changeNone, ""},
		{"the autoscaler takes that back", nodeIs{doomed}, nodeIs{}, false, changeJoins, backAgain},

		{"doomed, it is excluded", nodeIs{doomed}, nodeIs{doomed, excluded}, true, changeLeaves, ""},
		{"doomed, it is no longer excluded", nodeIs{doomed, excluded}, nodeIs{doomed}, true, changeNone, ""},
		{"doomed, it gets a provider ID", nodeIs{doomed, noID}, nodeIs{doomed}, true, changeNone, ""},
		{"doomed, it loses its provider ID", nodeIs{doomed}, nodeIs{doomed, noID}, true, changeNone, ""},
		{"doomed, it gets another provider ID", nodeIs{doomed}, nodeIs{doomed, otherID}, true, changeNone, ""},
		{"doomed, it becomes ready", nodeIs{doomed, notReady}, nodeIs{doomed}, false, changeNone, ""},
		{"doomed, it becomes not ready", nodeIs{doomed}, nodeIs{doomed, notReady}, false, changeNone, ""},
		{"excluded, the autoscaler is about to delete it", nodeIs{excluded}, nodeIs{excluded, doomed}, false, changeNone, ""},
		{"excluded, the autoscaler takes that back", nodeIs{excluded, doomed}, nodeIs{excluded}, false, changeNone, ""},
		{"excluded, it becomes ready", nodeIs{excluded, notReady}, nodeIs{excluded}, false, changeNone, ""},
		{"excluded, it becomes not ready", nodeIs{excluded}, nodeIs{excluded, notReady}, false, changeNone, ""},
		{"excluded, it gets a provider ID", nodeIs{excluded, noID}, nodeIs{excluded}, true, changeNone, ""},
		{"excluded, it loses its provider ID", nodeIs{excluded}, nodeIs{excluded, noID}, true, changeNone, ""},
		{"excluded, it gets another provider ID", nodeIs{excluded}, nodeIs{excluded, otherID}, true, changeNone, ""},
		{"not ready, the autoscaler is about to delete it", nodeIs{notReady}, nodeIs{notReady, doomed}, false, changeNone, ""},
		{"not ready, the autoscaler takes that back", nodeIs{notReady, doomed}, nodeIs{notReady}, false, changeJoins, backAgain},
		{"not ready, it is excluded", nodeIs{notReady}, nodeIs{notReady, excluded}, true, changeLeaves, ""},
		{"not ready, it is no longer excluded", nodeIs{notReady, excluded}, nodeIs{notReady}, true, changeJoins, ""},
		{"not ready, it gets a provider ID", nodeIs{notReady, noID}, nodeIs{notReady}, true, changeJoins, ""},
		{"not ready, it loses its provider ID", nodeIs{notReady}, nodeIs{notReady, noID}, true, changeJoins, ""},
		{"not ready, it gets another provider ID", nodeIs{notReady}, nodeIs{notReady, otherID}, true, changeJoins, ""},
		{"without a provider ID, it is excluded", nodeIs{noID}, nodeIs{noID, excluded}, true, changeLeaves, ""},
		{"without a provider ID, it is no longer excluded", nodeIs{noID, excluded}, nodeIs{noID}, true, changeJoins, ""},
		{"without a provider ID, it becomes ready", nodeIs{noID, notReady}, nodeIs{noID}, false, changeNone, ""},
		{"without a provider ID, it becomes not ready", nodeIs{noID}, nodeIs{noID, notReady}, false, changeNone, ""},
		{"without a provider ID, the autoscaler takes it back", nodeIs{noID, doomed}, nodeIs{noID}, false, changeJoins, backAgain},
		{"without a provider ID, the autoscaler is about to delete it", nodeIs{noID}, nodeIs{noID, doomed}, false, changeNone, ""},

		{"it is initialised", nodeIs{joinedAt(noon), withTaint(cloudapi.TaintExternalCloudProvider), noID}, nodeIs{joinedAt(noon)}, true, changeJoins, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := changeOf(eligibilityOf(node("n", tc.before...)), eligibilityOf(node("n", tc.now...)))
			if got != tc.want {
				t.Errorf("change %d, want %d", got, tc.want)
			}
			if got != changeNone && !tc.upstream && tc.differs == "" {
				t.Error("upstream does not look at this, and there is no reason why ours does")
			}
		})
	}
}

func TestMembersOfACallAreSortedAndLeaveOutWhatLeaves(t *testing.T) {
	v, members := buildView([]*corev1.Node{
		node("c"), node("a"), node("b", withTaint(taintToBeDeleted)), node("x", withLabel(corev1.LabelNodeExcludeBalancers, "")),
		node("y", joinedAt(noon), withTaint(cloudapi.TaintExternalCloudProvider)),
		node("z", joinedAt(noon.Add(time.Minute)), withTaint(cloudapi.TaintExternalCloudProvider)),
	}, nil)
	if diff := cmp.Diff([]string{"a", "c"}, names(members)); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "fake://a", "c": "fake://c"}, v.set.ids); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, sorted(v.leaving)); diff != "" {
		t.Errorf("leaving (-want +got):\n%s", diff)
	}
}

func TestAMemberThatIsInitialisedAgainStaysOne(t *testing.T) {
	uninitialised := withTaint(cloudapi.TaintExternalCloudProvider)
	before, _ := buildView([]*corev1.Node{node("a"), node("b", withProviderID(""))}, nil)
	for _, tc := range []struct {
		name string
		now  []*corev1.Node
		want []string
	}{
		{"tainted again", []*corev1.Node{node("a", uninitialised), node("b", withProviderID(""), uninitialised)}, []string{"a", "b"}},
		{"another machine by the name", []*corev1.Node{node("a", uninitialised, withProviderID("fake://other")), node("b")}, []string{"b"}},
		{"tainted again and leaving", []*corev1.Node{node("a", uninitialised, withTaint(taintToBeDeleted)), node("b")}, []string{"b"}},
		{"one that joins", []*corev1.Node{node("a"), node("c", uninitialised)}, []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, members := buildView(tc.now, before.set); !slices.Equal(names(members), tc.want) {
				t.Errorf("members are %q, want %q", names(members), tc.want)
			}
		})
	}
}

func TestWhichLoadBalancersNeedAnUpdate(t *testing.T) {
	doomed := withTaint(taintToBeDeleted)
	a, b, c := node("a"), node("b"), node("c")
	for _, tc := range []struct {
		name     string
		has, now []*corev1.Node
		want     bool
	}{
		{"the nodes are the same", []*corev1.Node{a, b}, []*corev1.Node{b, a}, false},
		{"no nodes at all", nil, nil, false},
		{"one joined", []*corev1.Node{a, b}, []*corev1.Node{a, b, c}, true},
		{"one went", []*corev1.Node{a, b}, []*corev1.Node{a}, true},
		{"the last went", []*corev1.Node{a}, nil, true},
		{"one was replaced", []*corev1.Node{a, b}, []*corev1.Node{a, c}, true},
		{"one got a provider ID", []*corev1.Node{node("a", withProviderID("")), b}, []*corev1.Node{a, b}, true},
		{"one is another machine", []*corev1.Node{a}, []*corev1.Node{node("a", withProviderID("fake://other"))}, true},
		{"one is leaving", []*corev1.Node{a, b}, []*corev1.Node{a, node("b", doomed)}, false},
		{"one is leaving, one joined", []*corev1.Node{a, b}, []*corev1.Node{a, node("b", doomed), c}, true},
		{"one that was leaving is gone", []*corev1.Node{a, b}, []*corev1.Node{a}, true},
		{"one that was leaving had been left out", []*corev1.Node{a}, []*corev1.Node{a, node("b", doomed)}, false},
		{"one that was leaving stays and had been left out", []*corev1.Node{a}, []*corev1.Node{a, b}, true},
		{"one is excluded while it leaves", []*corev1.Node{a, b}, []*corev1.Node{a, node("b", doomed, withLabel(corev1.LabelNodeExcludeBalancers, ""))}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, _ := buildView(tc.has, nil)
			now, _ := buildView(tc.now, before.set)
			if got := now.needsUpdate(before.set); got != tc.want {
				t.Errorf("needs an update: %t, want %t", got, tc.want)
			}
			if got := now.needsUpdate(now.resolve(before.set.hash)); got != tc.want {
				t.Errorf("needs an update, when only the hash is known: %t, want %t", got, tc.want)
			}
		})
	}
}

// countingLister counts how often all nodes are listed.
type countingLister struct {
	corelisters.NodeLister
	nodes []*corev1.Node
	lists int
}

func (l *countingLister) List(labels.Selector) ([]*corev1.Node, error) {
	l.lists++
	return l.nodes, nil
}

// A change of two thousand load balancers lists and judges all nodes once, and again after what a provider could read has changed.
func TestNodesAreListedAgainForACallAfterTheyHaveChanged(t *testing.T) {
	before := node("a", withLabel("rack", "1"))
	before.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		lists  int
	}{
		"heartbeat": {func(n *corev1.Node) {
			n.ResourceVersion = "9"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, 1},
		"address": {func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}}
		}, 2},
		"label":      {func(n *corev1.Node) { n.Labels["rack"] = "2" }, 2},
		"annotation": {func(n *corev1.Node) { n.Annotations = map[string]string{"mine": "1"} }, 2},
		"taint":      {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "mine"}} }, 2},
		"pod CIDR":   {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.1.0.0/24"} }, 2},
		"other node": {func(n *corev1.Node) { n.UID = "other" }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			lister := &countingLister{nodes: []*corev1.Node{before, node("b")}}
			c := &Controller{nodes: newNodeViews(lister)}
			first, _, err := c.nodes.members()
			if err != nil || len(first) != 2 {
				t.Fatalf("members %q, error %v", names(first), err)
			}
			first[0], first[1] = first[1], first[0] // as a provider may
			now := before.DeepCopy()
			tc.change(now)
			lister.nodes = []*corev1.Node{now, node("b")}
			c.nodeChanged(before, now)
			got, _, err := c.nodes.members()
			if err != nil || !slices.Equal(names(got), []string{"a", "b"}) || lister.lists != tc.lists {
				t.Errorf("members %q after %d lists, want %d, error %v", names(got), lister.lists, tc.lists, err)
			}
			if tc.lists > 1 && got[0] != now {
				t.Error("a call gets the node of before")
			}
		})
	}
}
