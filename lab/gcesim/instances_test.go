package gcesim_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/lab/simhttp"
	"github.com/transplant-dev/transplant/provider/gce"
)

const all = cloud.WantExists | cloud.WantShutdown | cloud.WantMetadata

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func idOf(zone, name string) string { return "gce://" + gcesim.Project + "/" + zone + "/" + name }

// cluster is a cloud with so many instances in zones by turns, our provider, and their Nodes.
func cluster(t *testing.T, count int, o gcesim.Options, more ...string) (*gcesim.Cloud, *gce.Cloud, []*corev1.Node) {
	t.Helper()
	sim := start(t, o)
	provider := open(t, sim, gce.Options{}, more...)
	zones := []string{gcesim.Zone, "europe-west3-b"}
	var nodes []*corev1.Node
	for i := range count {
		name, zone := fmt.Sprintf("node-%04d", i), zones[i%2]
		sim.AddInstance(gcesim.Instance{Name: name, Zone: zone, IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)})
		nodes = append(nodes, node(name, idOf(zone, name)))
	}
	return sim, provider, nodes
}

func list(t *testing.T, provider *gce.Cloud, nodes ...*corev1.Node) []cloud.InstanceState {
	t.Helper()
	states, err := provider.ListInstances(t.Context(), nodes, all)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

func TestANodeIsDescribedAsUpstreamDoes(t *testing.T) {
	sim := start(t, gcesim.Options{})
	provider := open(t, sim, gce.Options{})
	sim.AddInstance(gcesim.Instance{Name: "one", IP: "10.0.0.1", ExternalIP: "203.0.113.1"})
	want := &cloudprovider.InstanceMetadata{
		ProviderID: "gce://lab-project/europe-west3-a/one", InstanceType: "e2-standard-4", Zone: "europe-west3-a", Region: "europe-west3",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}},
	}
	for _, n := range []*corev1.Node{node("one", ""), node("one.c.lab-project.internal", ""), node("one", want.ProviderID)} {
		got, err := provider.InstanceMetadata(t.Context(), n)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("node %q: error %v (-want +got):\n%s", n.Name, err, diff)
		}
	}
	for _, call := range sim.Calls() {
		if call.Identity != gcesim.Account {
			t.Errorf("%s is of %q", call, call.Identity)
		}
	}
}

func TestManyNodesTakeAListOfPages(t *testing.T) {
	sim, provider, nodes := cluster(t, 1201, gcesim.Options{})
	for i, state := range list(t, provider, nodes...) {
		if state.Err != nil || !state.Exists || state.Metadata == nil {
			t.Fatalf("node %d: %+v", i, state)
		}
	}
	calls := sim.Calls()
	if len(calls) != 3 {
		t.Errorf("%d calls, want 3: %v", len(calls), calls)
	}
}

// TestPodCIDRsAreTheAliasRangesOfAnInstance: one list has them for all nodes, and only for those who want them.
func TestPodCIDRsAreTheAliasRangesOfAnInstance(t *testing.T) {
	sim, provider, nodes := cluster(t, 6, gcesim.Options{})
	sim.SetAliasRanges(gcesim.Zone, "node-0000", "10.4.0.0/24", "10.5.0.0/28")
	sim.SetAliasRanges("europe-west3-b", "node-0001", "10.4.1.0/24")
	sim.AddInstance(gcesim.Instance{
		Name: "dual", IP: "10.0.9.1", AliasRanges: []string{"10.4.9.0/24"}, IPv6: "2600:1900:4000:1:0:5::",
	})
	nodes = append(nodes, node("dual", idOf(gcesim.Zone, "dual")))
	want := map[string][]string{
		"node-0000": {"10.4.0.0/24", "10.5.0.0/28"}, "node-0001": {"10.4.1.0/24"}, "dual": {"10.4.9.0/24", "2600:1900:4000:1:0:5::/112"},
	}
	for _, some := range [][]*corev1.Node{nodes, nodes[:1], nodes[1:3], nodes[6:]} {
		states, err := provider.ListInstances(t.Context(), some, cloud.WantPodCIDRs)
		if err != nil {
			t.Fatal(err)
		}
		for i, state := range states {
			if diff := cmp.Diff(want[some[i].Name], state.PodCIDRs); diff != "" || state.Err != nil || !state.Exists {
				t.Errorf("%s of %d: %+v (-want +got):\n%s", some[i].Name, len(some), state, diff)
			}
		}
	}
	if calls := sim.Calls(); len(calls) != 5 {
		t.Errorf("%d calls, want one for all, and one for each of 4: %v", len(calls), calls)
	}
	if got := list(t, provider, nodes...)[0]; got.PodCIDRs != nil || got.Metadata == nil {
		t.Errorf("who does not want them is given %+v", got)
	}
}

func TestTheStatusOfAnInstance(t *testing.T) {
	sim, provider, nodes := cluster(t, 6, gcesim.Options{})
	for status, shut := range map[string]bool{
		"TERMINATED": true, "SUSPENDED": true, "STOPPING": false, "SUSPENDING": false, "PROVISIONING": false, "REPAIRING": false,
	} {
		sim.SetStatus(gcesim.Zone, nodes[0].Name, status)
		if got := list(t, provider, nodes...)[0]; got.Err != nil || !got.Exists || got.Shutdown != shut {
			t.Errorf("%s: %+v", status, got)
		}
		if is, err := provider.InstanceShutdown(t.Context(), nodes[0]); err != nil || is != shut {
			t.Errorf("%s: shut down %v, error %v", status, is, err)
		}
	}
}

// TestOnlyWhatComputeEngineSaysIsGone: that a Node is deleted may come of nothing but its word about this instance.
func TestOnlyWhatComputeEngineSaysIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gcesim.Cloud, *corev1.Node)
		says   string // empty: it is gone
	}{
		"deleted": {func(sim *gcesim.Cloud, n *corev1.Node) { sim.DeleteInstance(gcesim.Zone, n.Name) }, ""},
		"a zone that is not reachable": {
			func(sim *gcesim.Cloud, _ *corev1.Node) { sim.SetUnreachable(gcesim.Zone) }, "the list of project lab-project, and",
		},
		"of another project": {
			func(_ *gcesim.Cloud, n *corev1.Node) { n.Spec.ProviderID = "gce://other/europe-west3-a/x" }, "its instance is in project other",
		},
		"of another cloud": {
			func(_ *gcesim.Cloud, n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-west-3a/i-0123" }, "none of Compute Engine",
		},
		"in a zone that is not there": {
			func(_ *gcesim.Cloud, n *corev1.Node) { n.Spec.ProviderID = idOf("europe-west9-a", n.Name) }, "'europe-west9-a'. Unknown zone. (check local-zone in the cloud config",
		},
		"without an address": {func(sim *gcesim.Cloud, n *corev1.Node) {
			sim.AddInstance(gcesim.Instance{Name: n.Name})
		}, "has no internal address"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, provider, nodes := cluster(t, 6, gcesim.Options{})
			c.change(sim, nodes[0])
			states := list(t, provider, nodes...)
			isGone := states[0].Err == nil && !states[0].Exists
			if isGone != (c.says == "") || states[0].Err != nil && !strings.Contains(states[0].Err.Error(), c.says) {
				t.Errorf("%+v", states[0])
			}
			if last := states[3]; last.Err != nil || !last.Exists { // in the other zone
				t.Errorf("another node: %+v", last)
			}
		})
	}
}

// TestAnAnswerThatIsNotWhole says nothing of the instances that it lacks.
func TestAnAnswerThatIsNotWhole(t *testing.T) {
	for name, fault := range map[string]simhttp.Fault{
		"a page that is not given":       {Query: "pageToken", Status: http.StatusServiceUnavailable, Code: "backendError"},
		"a page that ends in its middle": {Query: "pageToken", Half: true},
		"a list that ends in its middle": {Path: "/aggregated/instances", Half: true},
	} {
		t.Run(name, func(t *testing.T) {
			sim, provider, nodes := cluster(t, 600, gcesim.Options{})
			sim.Fail(fault)
			states, err := provider.ListInstances(t.Context(), nodes, all)
			for i, state := range states {
				if err == nil && state.Err == nil && !state.Exists {
					t.Fatalf("%s is gone", nodes[i].Name)
				}
			}
			if err == nil {
				t.Error("a list without a part of it is no error")
			}
			sim.Heal()
			if states := list(t, provider, nodes...); states[599].Err != nil || !states[599].Exists {
				t.Errorf("when answers are whole again: %+v", states[599])
			}
		})
	}
}

// TestAListThatLacksThemAll: with another account's answer, no more than a few Nodes are asked for, and none is gone.
func TestAListThatLacksThemAll(t *testing.T) {
	sim, provider, nodes := cluster(t, 100, gcesim.Options{})
	for _, n := range nodes {
		sim.DeleteInstance(strings.Split(n.Spec.ProviderID, "/")[3], n.Name)
	}
	gone, unknown := 0, 0
	for _, state := range list(t, provider, nodes...) {
		if state.Err == nil && !state.Exists {
			gone++
		} else if state.Err != nil {
			unknown++
		}
	}
	if calls := len(sim.Calls()); gone != 20 || unknown != 80 || calls != 21 {
		t.Errorf("%d are gone and %d not known, by %d calls", gone, unknown, calls)
	}
}

func TestAThrottledProject(t *testing.T) {
	for name, fault := range map[string]simhttp.Fault{
		"429": {Status: http.StatusTooManyRequests, Code: "rateLimitExceeded"},
		"403": {Status: http.StatusForbidden, Code: "rateLimitExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, provider, nodes := cluster(t, 6, gcesim.Options{})
			sim.Fail(fault)
			_, err := provider.ListInstances(t.Context(), nodes, all)
			if got := cloud.Classify(err); got != cloud.OutcomeThrottled {
				t.Errorf("a list ends with %s: %v", got, err)
			}
			balancer, _ := provider.LoadBalancer()
			_, err = balancer.EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), nodes)
			if got := cloud.Classify(err); got != cloud.OutcomeThrottled {
				t.Errorf("a load balancer ends with %s: %v", got, err)
			}
			sim.Heal()
			list(t, provider, nodes...)
		})
	}
}

// TestCredentialsThatGoAway: a metadata server without a service account answers 404, which says nothing about instances.
func TestCredentialsThatGoAway(t *testing.T) {
	sim, provider, nodes := cluster(t, 6, gcesim.Options{})
	list(t, provider, nodes...)
	if err := provider.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	sim.RefuseTokens(http.StatusNotFound)
	for _, says := range []string{"does not take the token", "the metadata server answers 404"} { // the token is refused, and then there is no other
		for _, some := range [][]*corev1.Node{nodes, nodes[:1]} {
			states, err := provider.ListInstances(t.Context(), some, all)
			if len(states) == 1 && err == nil {
				err = states[0].Err
			}
			if err == nil || errors.Is(err, cloudprovider.InstanceNotFound) || cloud.Classify(err) != cloud.OutcomeAuth {
				t.Errorf("%d nodes: %s: %v", len(some), cloud.Classify(err), err)
			}
			if len(some) == len(nodes) && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("the error %v does not say %q", err, says)
			}
		}
		if err := provider.Probe(t.Context()); err == nil {
			t.Error("the provider is ready")
		}
	}
	sim.RefuseTokens(0)
	list(t, provider, nodes...)
}

// TestALocalZoneThatIsWrong, and has the form of one: no node and no load balancer is gone for it, and errors name the setting.
func TestALocalZoneThatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		zone     string
		isUnread bool // the zone does not exist
		says     string
	}{
		"no such zone":    {"europe-west3-x", true, "check local-zone in the cloud config"},
		"no such region":  {"europe-west9-a", true, "check local-zone in the cloud config"},
		"of other nodes'": {"europe-west3-c", false, "are looked for in europe-west3-c alone: check local-zone in the cloud config"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, provider, nodes := cluster(t, 6, gcesim.Options{}, "local-zone = "+c.zone)
			says := func(what string, err error) {
				t.Helper()
				if err == nil || errors.Is(err, cloudprovider.InstanceNotFound) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: the error is %v", what, err)
				}
			}
			if err := provider.Probe(t.Context()); c.isUnread {
				says("readiness", err)
			} else if err != nil {
				t.Error(err)
			}
			for i, state := range list(t, provider, nodes...) {
				if state.Err != nil || !state.Exists {
					t.Errorf("node %d, whose provider ID has its zone: %+v", i, state)
				}
			}
			nameless := make([]*corev1.Node, len(nodes))
			for i, n := range nodes {
				nameless[i] = node(n.Name, "")
			}
			for _, some := range [][]*corev1.Node{nameless, nameless[:1]} {
				if states := list(t, provider, some...); states[0].Exists {
					t.Errorf("in no zone that is looked in, it is %+v", states[0])
				} else if len(some) == 1 || !c.isUnread {
					says("a node without a provider ID", states[0].Err)
				}
			}
			_, err := provider.InstanceMetadata(t.Context(), nameless[1])
			says("the metadata of a node without a provider ID", err)
			sim.SetUnreachable("europe-west3-b")
			if is, err := provider.InstanceExists(t.Context(), nameless[1]); is || err == nil {
				t.Errorf("with a zone that is not reachable, it exists: %v, error %v", is, err)
			}
			sim.SetUnreachable()
			if is, err := provider.InstanceExists(t.Context(), node("gone", "")); !c.isUnread && (is || err != nil) {
				t.Errorf("an instance that no zone has exists: %v, error %v", is, err)
			}
			lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", nil)
			_, err = lb.EnsureLoadBalancer(t.Context(), "lab", web, nameless)
			says("a load balancer", err)
			if left := sim.Objects(); len(left) > 0 {
				t.Errorf("it made %v", left)
			}
		})
	}
}
