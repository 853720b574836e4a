package route

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// The topologies are those of upstream's TestReconcile.
func TestRoutesAreMadeThatNodesNeedAndOthersDeleted(t *testing.T) {
	one, two := node("node-1", "10.0.1.1", "10.120.0.0/24"), node("node-2", "10.0.2.1", "10.120.1.0/24")
	three := node("node-3", "10.0.3.1", "10.120.0.0/24", "a00:100::/24")
	four := node("node-4", "10.0.4.1", "10.120.1.0/24", "a00:200::/24")
	single := map[string]string{"10.120.0.0/24": "node-1 10.0.1.1", "10.120.1.0/24": "node-2 10.0.2.1"}
	dual := map[string]string{
		"10.120.0.0/24": "node-3 10.0.3.1", "a00:100::/24": "node-3 10.0.3.1", "10.120.1.0/24": "node-4 10.0.4.1", "a00:200::/24": "node-4 10.0.4.1",
	}
	right1, right2 := to("node-1", "10.120.0.0/24", "10.0.1.1"), to("node-2", "10.120.1.0/24", "10.0.2.1")
	dualRoutes := []*cloudprovider.Route{
		to("node-3", "10.120.0.0/24", "10.0.3.1"), to("node-4", "10.120.1.0/24", "10.0.4.1"),
		to("node-3", "a00:100::/24", "10.0.3.1"), to("node-4", "a00:200::/24", "10.0.4.1"),
	}
	outside := blackhole(to("", "10.1.2.0/24", "10.0.100.1"))
	for _, test := range []struct {
		name       string
		nodes      []*corev1.Node
		routes     []*cloudprovider.Route
		tracks     bool
		table      map[string]string
		conditions map[string]string // nil: all nodes have their routes
		creates    int
		deletes    int
	}{
		{
			name: "routes without addresses get them", nodes: []*corev1.Node{three, four}, tracks: true, table: dual, creates: 4, deletes: 4,
			routes: []*cloudprovider.Route{
				tracked(to("node-3", "10.120.0.0/24")), tracked(to("node-4", "10.120.1.0/24")),
				tracked(to("node-3", "a00:100::/24")), tracked(to("node-4", "a00:200::/24")),
			},
		},
		{
			name: "addresses of dual-stack nodes have changed", nodes: []*corev1.Node{three, four}, tracks: true, table: dual, creates: 4, deletes: 4,
			routes: []*cloudprovider.Route{
				tracked(to("node-3", "10.120.0.0/24", "10.0.13.1")), tracked(to("node-4", "10.120.1.0/24", "10.0.14.1")),
				tracked(to("node-3", "a00:100::/24", "10.0.13.1")), tracked(to("node-4", "a00:200::/24", "10.0.14.1")),
			},
		},
		{name: "dual-stack nodes and no routes", nodes: []*corev1.Node{three, four}, table: dual, creates: 4},
		{name: "dual-stack nodes and all routes", nodes: []*corev1.Node{three, four}, routes: dualRoutes, table: dual},
		{
			name: "dual-stack nodes and routes that lead to each other's node", nodes: []*corev1.Node{three, four}, table: dual, creates: 4, deletes: 4,
			routes: []*cloudprovider.Route{
				to("node-3", "10.120.1.0/24", "10.0.3.1"), to("node-4", "10.120.0.0/24", "10.0.4.1"),
				to("node-3", "a00:200::/24", "10.0.3.1"), to("node-4", "a00:100::/24", "10.0.4.1"),
			},
		},
		{
			name: "dual-stack nodes and some routes", nodes: []*corev1.Node{three, four}, table: dual, creates: 2,
			routes: []*cloudprovider.Route{dualRoutes[0], dualRoutes[3]},
		},
		{
			name: "dual-stack nodes and routes of nodes that are gone", nodes: []*corev1.Node{three, four}, table: dual, deletes: 2,
			routes: append([]*cloudprovider.Route{to("node-x", "10.120.2.0/24", "10.0.5.1"), to("node-y", "a00:300::/24", "10.0.6.1")}, dualRoutes...),
		},
		{name: "two nodes and all routes", nodes: []*corev1.Node{one, two}, routes: []*cloudprovider.Route{right1, right2}, table: single},
		{
			name: "addresses have changed", nodes: []*corev1.Node{one, two}, tracks: true, table: single, creates: 2, deletes: 2,
			routes: []*cloudprovider.Route{tracked(to("node-1", "10.120.0.0/24", "10.0.1.2")), tracked(to("node-2", "10.120.1.0/24", "10.0.2.2"))},
		},
		{name: "two nodes and one route", nodes: []*corev1.Node{one, two}, routes: []*cloudprovider.Route{right1}, table: single, creates: 1},
		{name: "two nodes and no routes", nodes: []*corev1.Node{one, two}, table: single, creates: 2},
		{
			name: "two nodes and routes of others that are gone", nodes: []*corev1.Node{one, two}, table: single, deletes: 2,
			routes: []*cloudprovider.Route{right1, right2, to("node-3", "10.120.2.0/24", "10.0.3.1"), to("node-4", "10.120.3.0/24", "10.0.4.1")},
		},
		{
			name: "two nodes, one route and one of a node that is gone", nodes: []*corev1.Node{one, two}, table: single, creates: 1, deletes: 1,
			routes: []*cloudprovider.Route{right1, to("node-3", "10.120.2.0/24", "10.0.2.1")},
		},
		{
			name: "a node without podCIDR is left alone", nodes: []*corev1.Node{one, node("node-2", "10.0.5.1")}, creates: 1,
			table: map[string]string{"10.120.0.0/24": "node-1 10.0.1.1"}, conditions: map[string]string{"node-1": routed},
		},
		{
			name: "a black hole in the cluster's range", nodes: []*corev1.Node{one, two}, table: single, deletes: 1,
			routes: []*cloudprovider.Route{right1, right2, blackhole(to("", "10.120.2.0/24", "10.0.100.1"))},
		},
		{
			name: "a black hole outside of it", nodes: []*corev1.Node{one, two}, routes: []*cloudprovider.Route{right1, right2, outside},
			table: map[string]string{"10.120.0.0/24": "node-1 10.0.1.1", "10.120.1.0/24": "node-2 10.0.2.1", "10.1.2.0/24": " 10.0.100.1 (black hole)"},
		},
		{
			name: "a node with the same podCIDR twice", nodes: []*corev1.Node{node("node-4", "10.0.4.1", "10.120.1.0/24", "10.120.1.0/24")}, creates: 1,
			table: map[string]string{"10.120.1.0/24": "node-4 10.0.4.1"},
		},
		{
			name: "a node that lost its podCIDR, with a route", nodes: []*corev1.Node{node("node-1", "10.0.1.1")}, routes: []*cloudprovider.Route{right1},
			table: map[string]string{}, deletes: 1, conditions: map[string]string{"node-1": unrouted},
		},
		{
			name: "a podCIDR outside the cluster's range", nodes: []*corev1.Node{node("node-1", "10.0.1.1", "192.168.7.0/24")}, creates: 1,
			table: map[string]string{"192.168.7.0/24": "node-1 10.0.1.1"},
		},
		{
			name: "IPv6 in two spellings", nodes: []*corev1.Node{node("node-1", "", "a00:100::/24")}, routes: []*cloudprovider.Route{to("node-1", "A00:0100:0::/24")},
			table: map[string]string{"A00:0100:0::/24": "node-1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var routes []*cloudprovider.Route
			for _, route := range test.routes {
				clone := *route
				routes = append(routes, &clone)
			}
			s := newSky(routes...)
			s.tracks = test.tracks
			nodes, conditions := []*corev1.Node{}, test.conditions
			for _, n := range test.nodes {
				nodes = append(nodes, n.DeepCopy())
			}
			if conditions == nil {
				conditions = map[string]string{}
				for _, n := range nodes {
					conditions[n.Name] = routed
				}
			}
			inWorld(t, s, nodes, func(w *world) {
				w.pass(time.Minute)
				if diff := cmp.Diff(test.table, s.table()); diff != "" {
					t.Errorf("routes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(conditions, w.conditions()); diff != "" {
					t.Errorf("conditions (-want +got):\n%s", diff)
				}
				calls := s.take()
				got := map[string]int{"list": count(calls, "list"), "create": count(calls, "create"), "delete": count(calls, "delete")}
				if diff := cmp.Diff(map[string]int{"list": 1, "create": test.creates, "delete": test.deletes}, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s\n%q", diff, calls)
				}
			})
		})
	}
}

// The cases are those of upstream's TestIsResponsibleForRoute.
func TestRoutesInsideTheClustersRangeAreItsOwn(t *testing.T) {
	for _, test := range []struct {
		cluster, route string
		want           bool
	}{
		{"10.244.0.0/16", "10.244.0.0/24", true},
		{"10.244.0.0/16", "10.244.10.0/24", true},
		{"10.244.0.0/16", "10.244.255.0/24", true},
		{"10.244.0.0/14", "10.244.0.0/24", true},
		{"10.244.0.0/14", "10.247.255.0/24", true},
		{"a00:100::/10", "a00:100::/24", true},
		{"10.244.0.0/16", "10.224.0.0/24", false},
		{"10.244.0.0/16", "10.0.10.0/24", false},
		{"10.244.0.0/16", "10.255.255.0/24", false},
		{"10.244.0.0/14", "10.248.0.0/24", false},
		{"10.244.0.0/14", "10.243.255.0/24", false},
		{"a00:100::/10", "b00:100::/24", false},
		{"10.244.0.0/16", "no CIDR", false},
	} {
		cidrs, err := ClusterCIDRs(test.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if got := ownsRoute(cidrs, &cloudprovider.Route{DestinationCIDR: test.route}); got != test.want {
			t.Errorf("responsible for %s in %s: got %t, want %t", test.route, test.cluster, got, test.want)
		}
	}
}

// The cases are those of upstream's TestUpdateNetworkingCondition.
func TestAConditionIsWrittenOnlyIfItSaysSomethingElse(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  []string // status and reason
		routes  bool
		patches int
	}{
		{name: "none, and a route", routes: true, patches: 1},
		{name: "none, and no route", patches: 1},
		{name: "ours, and a route", before: []string{"False", "RouteCreated"}, routes: true},
		{name: "Calico's, and a route", before: []string{"False", "CalicoIsUp"}, routes: true, patches: 1},
		{name: "another plugin's, and a route", before: []string{"False", "ExternalCNI"}, routes: true, patches: 1},
		{name: "another reason for having no network, and no route", before: []string{"True", "SomeOtherReason"}, patches: 1},
		{name: "ours that there is a route, and there is none any more", before: []string{"False", "RouteCreated"}, patches: 1},
		{name: "ours that there is no route, and none", before: []string{"True", "NoRouteCreated"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := node("test-node", "", "10.120.0.0/24")
			if test.before != nil {
				network(n, corev1.ConditionStatus(test.before[0]), test.before[1])
			}
			s := newSky()
			want := routed
			if !test.routes {
				want = unrouted
				s.fail = func(call string) error { return failCreates(call) }
			}
			inWorld(t, s, []*corev1.Node{n}, func(w *world) {
				w.pass(time.Minute)
				got := w.conditions()["test-node"]
				if test.patches == 0 {
					got += map[bool]string{true: "RouteController created a route", false: "RouteController failed to create a route"}[test.routes]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("condition (-want +got):\n%s", diff)
				}
				if got := w.patches(); got != test.patches {
					t.Errorf("%d patches, want %d", got, test.patches)
				}
			})
		})
	}
}
