package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/controller-manager/pkg/features"
)

func withCIDRs(cidrs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.PodCIDRs = cidrs
		if len(cidrs) > 0 {
			n.Spec.PodCIDR = cidrs[0]
		}
	}
}

func youngerBy(d time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) { n.CreationTimestamp.Time = n.CreationTimestamp.Add(d) }
}

func withNetwork(status corev1.ConditionStatus, reason string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason, Message: "told before",
		})
	}
}

func routeTo(node, cidr string, changes ...func(*cloudprovider.Route)) cloudprovider.Route {
	r := cloudprovider.Route{Name: "route-" + node, TargetNode: types.NodeName(node), DestinationCIDR: cidr}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func blackhole(r *cloudprovider.Route) { r.Blackhole = true }

func toAddresses(addresses ...corev1.NodeAddress) func(*cloudprovider.Route) {
	return func(r *cloudprovider.Route) { r.EnableNodeAddresses, r.TargetNodeAddresses = true, addresses }
}

func routes(all ...cloudprovider.Route) func(*Cloud) {
	return func(c *Cloud) {
		for _, r := range all {
			c.AddRoute(r)
		}
	}
}

// routeScenarios are those of upstream's tests of the route controller.
func routeScenarios() []Scenario {
	nodes := func(n ...runtime.Object) []runtime.Object { return n }
	a, b := NewMember("a", withCIDRs("10.120.0.0/24")), NewMember("b", withCIDRs("10.120.1.0/24"))
	ip1, ip2 := address(corev1.NodeInternalIP, "10.0.1.1"), address(corev1.NodeInternalIP, "10.0.1.2")
	dual := func(c *config.Config) { c.ComponentConfig.KubeCloudShared.ClusterCIDR = "10.120.0.0/16,a00:100::/24" }
	narrow := func(c *config.Config) { c.ComponentConfig.KubeCloudShared.ClusterCIDR = "10.120.0.0/16" }
	watched := map[string]bool{string(features.CloudControllerManagerWatchBasedRoutesReconciliation): true}
	return of(names.NodeRouteController, []Scenario{
		{
			Name: "two nodes have their routes", Before: nodes(a, b),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("b", "10.120.1.0/24")),
		},
		{Name: "one node has its route, one has none", Before: nodes(a, b), Cloud: routes(routeTo("a", "10.120.0.0/24"))},
		{Name: "no node has its route", Before: nodes(a, b)},
		{Name: "a node has no pod CIDR", Before: nodes(a, NewMember("b")), Cloud: routes(routeTo("a", "10.120.0.0/24"))},
		{
			Name: "a node has no pod CIDR and a route", Before: nodes(NewMember("a")),
			Cloud: routes(routeTo("a", "10.120.0.0/24")),
		},
		{
			Name: "a route to a node that there is not", Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("gone", "10.120.1.0/24")),
		},
		{
			Name: "a route to a node with another pod CIDR", Before: nodes(a, b),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("b", "10.120.2.0/24")),
		},
		{
			Name: "two routes to one node", Before: nodes(a, b),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("a", "10.120.1.0/24"), routeTo("b", "10.120.1.0/24")),
		},
		{
			Name: "a route outside of the cluster's range", Settings: narrow, Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("gone", "10.1.0.0/24")),
		},
		{
			Name: "a route that is wider than the cluster's range", Settings: narrow, Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("gone", "10.0.0.0/8")),
		},
		{
			Name: "a route that is no range", Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("gone", "no range")),
		},
		{
			Name: "a route that leads nowhere", Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("", "10.120.1.0/24", blackhole)),
		},
		{
			Name: "a route of a node that leads nowhere", Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24", blackhole)),
		},
		{
			Name: "a route that leads nowhere, outside of the cluster's range", Settings: narrow, Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("", "10.1.0.0/24", blackhole)),
		},
		{
			Name: "a route without node", Before: nodes(a),
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("", "10.120.1.0/24")),
		},
		{
			Name: "two families, no routes", Settings: dual,
			Before: nodes(
				NewMember("a", withCIDRs("10.120.0.0/24", "a00:100::/100")),
				NewMember("b", withCIDRs("10.120.1.0/24", "a00:200::/100")),
			),
		},
		{
			Name: "two families, one route each is missing", Settings: dual,
			Cloud: routes(routeTo("a", "10.120.0.0/24"), routeTo("b", "a00:100:100::/100")),
			Before: nodes(
				NewMember("a", withCIDRs("10.120.0.0/24", "a00:100::/100")),
				NewMember("b", withCIDRs("10.120.1.0/24", "a00:100:100::/100")),
			),
		},
		{
			Name: "two families, a node has another second range", Settings: dual,
			Cloud:  routes(routeTo("a", "10.120.0.0/24"), routeTo("a", "a00:100:100::/100")),
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24", "a00:100::/100"))),
		},
		{
			Name:   "routes have the nodes' addresses",
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withAddresses(ip1))),
			Cloud:  routes(routeTo("a", "10.120.0.0/24", toAddresses(ip1))),
		},
		{
			Name:   "routes have other addresses of nodes",
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withAddresses(ip2))),
			Cloud:  routes(routeTo("a", "10.120.0.0/24", toAddresses(ip1))),
		},
		{
			Name: "a node's addresses change", Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withAddresses(ip1))),
			Cloud: routes(routeTo("a", "10.120.0.0/24", toAddresses(ip1))),
			Steps: []func(*World){changeNode("a", withAddresses(ip2))},
		},
		{
			Name: "time passes, and metrics tell why routes were looked at", Before: nodes(a),
			Steps:    []func(*World){pass(time.Hour)},
			Triggers: true, Meant: ComparedWithWhatShouldBe, Where: []string{"series"},
		},
		{Name: "a node comes", Before: nodes(a), Steps: []func(*World){putAll(b)}},
		{
			Name: "nodes are watched, and one comes", Before: nodes(a), Gates: watched,
			Steps: []func(*World){putAll(b)},
		},
		{Name: "nodes are watched, and one goes", Before: nodes(a, b), Gates: watched, Steps: []func(*World){deleteNode("b")}},
		{
			Name: "nodes are watched, and one has other addresses", Gates: watched,
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withAddresses(ip1))),
			Cloud:  routes(routeTo("a", "10.120.0.0/24", toAddresses(ip1))),
			Steps:  []func(*World){changeNode("a", withAddresses(ip2))},
		},
		{
			Name: "nodes are watched, and one has another pod CIDR", Before: nodes(a), Gates: watched,
			Steps: []func(*World){changeNode("a", withCIDRs("10.120.9.0/24"))},
		},
		{
			Name: "nodes are watched, and one has other images", Before: nodes(a), Gates: watched, Triggers: true,
			Steps: []func(*World){changeNode("a", func(n *corev1.Node) {
				n.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example/pause:latest"}, SizeBytes: 239840}}
			})},
		},
		{
			Name: "nodes are watched, and CreateRoute fails once", Before: nodes(a), Gates: watched,
			Fails: failCloud("CreateRoute", 1, errCloud), Steps: []func(*World){pass(10 * time.Minute)},
			Meant: ComparedWithWhatShouldBe, Where: []string{"calls that change", "objects", "writes", "series", "ListRoutes"},
		},
		{Name: "a node goes", Before: nodes(a, b), Steps: []func(*World){deleteNode("b")}},
		{
			Name: "a node gets its pod CIDR", Before: nodes(NewMember("a")),
			Steps: []func(*World){changeNode("a", withCIDRs("10.120.0.0/24"))},
		},
		{
			Name:   "the network is said to be unavailable",
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withNetwork(corev1.ConditionTrue, "NoRouteCreated"))),
		},
		{Name: "the network is said to be available by this controller", Cloud: routes(routeTo("a", "10.120.0.0/24")),
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withNetwork(corev1.ConditionFalse, "RouteCreated")))},
		{Name: "the network is said to be available by another", Cloud: routes(routeTo("a", "10.120.0.0/24")),
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withNetwork(corev1.ConditionFalse, "CalicoIsUp")))},
		{Name: "the network is said to be unavailable by another", Cloud: routes(routeTo("a", "10.120.0.0/24")),
			Before: nodes(NewMember("a", withCIDRs("10.120.0.0/24"), withNetwork(corev1.ConditionTrue, "CalicoIsDown")))},
		{
			Name: "the condition is changed by another", Before: nodes(a),
			Steps: []func(*World){changeNode("a", func(n *corev1.Node) {
				withoutConditions(n)
				withNetwork(corev1.ConditionFalse, "CalicoIsUp")(n)
			})},
		},
		{Name: "a route is deleted in the cloud", Before: nodes(a), Steps: []func(*World){
			func(w *World) { w.Cloud.Change(func(c *Cloud) { c.routes = nil }) }, pass(10 * time.Minute),
		}, Cloud: routes()},
		{Name: "a route of another is made in the cloud", Before: nodes(a), Cloud: routes(), Steps: []func(*World){
			func(w *World) { w.Cloud.AddRoute(routeTo("gone", "10.120.9.0/24")) }, pass(10 * time.Minute),
		}},
		{
			Name: "CreateRoute fails once", Before: nodes(a), Fails: failCloud("CreateRoute", 1, errCloud),
			Steps: []func(*World){pass(10 * time.Minute)},
		},
		{Name: "CreateRoute always fails", Before: nodes(a), Fails: failCloud("CreateRoute", 0, errCloud), Endless: true},
		{
			Name: "CreateRoute always fails, and a route was there", Before: nodes(a, b),
			Cloud: routes(routeTo("a", "10.120.0.0/24")), Fails: failCloud("CreateRoute", 0, errCloud), Endless: true,
		},
		{
			Name: "DeleteRoute fails once", Before: nodes(a), Cloud: routes(routeTo("gone", "10.120.1.0/24")),
			Fails: failCloud("DeleteRoute", 1, errCloud),
		},
		{
			Name: "DeleteRoute always fails", Before: nodes(a), Cloud: routes(routeTo("gone", "10.120.1.0/24")),
			Fails: failCloud("DeleteRoute", 0, errCloud), Endless: true,
		},
		{Name: "ListRoutes fails once", Before: nodes(a), Fails: failCloud("ListRoutes", 1, errCloud)},
		{Name: "ListRoutes always fails", Before: nodes(a), Fails: failCloud(
			"ListRoutes", 0, errCloud,
		), Endless: true, Meant: NothingHoldsUpTheRest,
			Where: []string{"calls that change the cloud", "objects", "writes", "series"}},
		{Name: "the condition cannot be written once", Before: nodes(a), Fails: failAPIOnce("patch nodes", errCloud)},
		{
			Name: "a node has the range of an older one", Settings: narrow,
			Before: nodes(a, NewMember("b", withCIDRs("10.120.0.0/25"), youngerBy(time.Hour))),
			Meant:  ComparedWithWhatShouldBe, Where: []string{"calls that change", "objects", "series", "events"},
		},
		{
			Name: "a node has a range beyond the cluster's", Settings: narrow,
			Before: nodes(a, NewMember("b", withCIDRs("10.0.0.0/8"))),
			Meant:  ComparedWithWhatShouldBe, Where: []string{"calls that change", "objects", "series", "events"},
		},
		{
			Name: "the cloud has no routes", Before: nodes(a),
			Cloud: func(c *Cloud) { c.Without = map[string]bool{"routes": true} },
		},
		{
			Name: "routes are not to be configured", Before: nodes(a),
			Settings: func(c *config.Config) { c.ComponentConfig.KubeCloudShared.ConfigureCloudRoutes = false },
		},
		{
			Name: "the cluster's range is none", Before: nodes(a),
			Settings: func(c *config.Config) { c.ComponentConfig.KubeCloudShared.ClusterCIDR = "none" },
		},
		{
			Name: "two ranges of one family", Before: nodes(a),
			Settings: func(c *config.Config) { c.ComponentConfig.KubeCloudShared.ClusterCIDR = "10.120.0.0/16,10.121.0.0/16" },
		},
	})
}
