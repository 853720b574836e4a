package openstackccm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// routed is a cloud with a router, and nodes that know each other's addresses.
func routed(t *testing.T, o openstacksim.Options, count int) (f *fixture, router string, nodes []*corev1.Node, routes cloudprovider.Routes) {
	t.Helper()
	sim := openstacksim.Start(o)
	router = sim.AddRouter("nodes", "10.0.0.1") // IDs are the same in each new cloud
	sim.Close()
	f = start(t, o, "[Route]", "router-id="+router)
	if made := f.AddRouter("nodes", "10.0.0.1"); made != router {
		t.Fatalf("the router is %s, and the config says %s", made, router)
	}
	nodes = f.addServers(count)
	f.know(t, nodes...)
	routes, ok := f.cloud.Routes()
	if !ok {
		t.Fatal("there are no routes")
	}
	return f, router, nodes, routes
}

func create(t *testing.T, routes cloudprovider.Routes, n *corev1.Node, cidr string) {
	t.Helper()
	if err := routes.CreateRoute(t.Context(), "lab", "hint", &cloudprovider.Route{TargetNode: types.NodeName(n.Name), DestinationCIDR: cidr}); err != nil {
		t.Fatal(err)
	}
}

// list is "CIDR node", a B behind those of no node.
func list(t *testing.T, routes cloudprovider.Routes) (out []string) {
	t.Helper()
	all, err := routes.ListRoutes(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		text := r.DestinationCIDR + " " + string(r.TargetNode)
		if r.Blackhole {
			text += " B"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (f *fixture) pairs(t *testing.T, n *corev1.Node) []string {
	t.Helper()
	return f.PortOf(f.portOf(t, n)).Pairs
}

// portOf is the ID of the port of a node of addServers: its ID follows the server's.
func (f *fixture) portOf(t *testing.T, n *corev1.Node) string {
	t.Helper()
	server := strings.TrimPrefix(n.Spec.ProviderID, "openstack:///")
	for _, p := range f.Ports() {
		if p.DeviceID == server {
			return p.ID
		}
	}
	t.Fatalf("node %s has no port", n.Name)
	return ""
}

func TestRoutesLiveAndLeaveNothing(t *testing.T) {
	for name, o := range map[string]openstacksim.Options{"atomic": {}, "whole lists": {WithoutAtomicRoutes: true}} {
		t.Run(name, func(t *testing.T) {
			f, router, nodes, routes := routed(t, o, 2)
			f.AddRoute(router, "192.168.0.0/16 via 10.0.0.99")
			create(t, routes, nodes[0], "10.244.0.0/24")
			create(t, routes, nodes[1], "10.244.1.0/24")
			create(t, routes, nodes[1], "10.244.1.0/24") // once more changes nothing
			want := []string{"10.244.0.0/24 n-0", "10.244.1.0/24 n-1", "192.168.0.0/16 10.0.0.99 B"}
			if diff := cmp.Diff(want, list(t, routes)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"10.244.0.0/24"}, f.pairs(t, nodes[0])); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
			all, err := routes.ListRoutes(t.Context(), "lab")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if !r.Blackhole {
					if err := routes.DeleteRoute(t.Context(), "lab", r); err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff([]string{"192.168.0.0/16 via 10.0.0.99"}, f.Routes(router)); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if left := append(f.pairs(t, nodes[0]), f.pairs(t, nodes[1])...); len(left) > 0 {
				t.Errorf("pairs are left: %v", left)
			}
		})
	}
}

// Another writer changes the router and the port between what is read and what is written: the in-tree manager, or an administrator.
func TestNoRouteOfAnotherWriterIsLost(t *testing.T) {
	f, router, nodes, routes := routed(t, openstacksim.Options{}, 1)
	list(t, routes)
	f.BeforeNext(http.MethodPut, "ports/{id}", func() {
		f.ChangePort(f.portOf(t, nodes[0]), func(p *openstacksim.Port) { p.Pairs = append(p.Pairs, "172.16.0.0/24") })
	})
	f.BeforeNext(http.MethodPut, "routers/{id}/add_extraroutes", func() { f.AddRoute(router, "172.17.0.0/24 via 10.0.0.77") })
	create(t, routes, nodes[0], "10.244.0.0/24")
	if diff := cmp.Diff([]string{"10.244.0.0/24 via 10.0.0.10", "172.17.0.0/24 via 10.0.0.77"}, f.Routes(router)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"172.16.0.0/24", "10.244.0.0/24"}, f.pairs(t, nodes[0])); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}

func TestARouteWhosePortIsClosedIsMadeAgain(t *testing.T) {
	f, _, nodes, routes := routed(t, openstacksim.Options{}, 2)
	for i, n := range nodes {
		n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", i)}
	}
	create(t, routes, nodes[0], "10.244.0.0/24")
	create(t, routes, nodes[1], "10.244.1.0/24")
	f.ChangePort(f.portOf(t, nodes[0]), func(p *openstacksim.Port) { p.Pairs = nil })
	if diff := cmp.Diff([]string{"10.244.1.0/24 n-1"}, list(t, routes)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	create(t, routes, nodes[0], "10.244.0.0/24")
	if diff := cmp.Diff([]string{"10.244.0.0/24 n-0", "10.244.1.0/24 n-1"}, list(t, routes)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	// without port security there is nothing to pass
	f.ChangePort(f.portOf(t, nodes[1]), func(p *openstacksim.Port) { p.Pairs, p.Unsecured = nil, true })
	if got := list(t, routes); len(got) != 2 {
		t.Errorf("routes: %v", got)
	}
}

// TestARouteWhosePortIsClosedIsDeleted: a deletion removes the pair first, and may end there. Its route must not be taken for one
// that is to be made again.
func TestARouteWhosePortIsClosedIsDeleted(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, f *fixture, nodes []*corev1.Node){
		"the node has another range now": func(_ *testing.T, _ *fixture, nodes []*corev1.Node) {
			nodes[0].Spec.PodCIDRs = []string{"10.244.7.0/24"}
		},
		"an older node has its range": func(_ *testing.T, _ *fixture, nodes []*corev1.Node) {
			nodes[1].Spec.PodCIDRs = []string{"10.244.0.0/16"}
		},
		"the Node is gone": func(t *testing.T, f *fixture, nodes []*corev1.Node) { f.know(t, nodes[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			f, router, nodes, routes := routed(t, openstacksim.Options{}, 2)
			nodes[0].Spec.PodCIDRs = []string{"10.244.0.0/24"}
			create(t, routes, nodes[0], "10.244.0.0/24")
			f.ChangePort(f.portOf(t, nodes[0]), func(p *openstacksim.Port) { p.Pairs = []string{"172.16.0.0/24"} })
			change(t, f, nodes)
			if diff := cmp.Diff([]string{"10.244.0.0/24 10.0.0.10 B"}, list(t, routes)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			all, err := routes.ListRoutes(t.Context(), "lab")
			if err != nil {
				t.Fatal(err)
			}
			if err := routes.DeleteRoute(t.Context(), "lab", all[0]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"172.16.0.0/24"}, f.pairs(t, nodes[0])); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
			if left := f.Routes(router); len(left) > 0 {
				t.Errorf("routes are left: %v", left)
			}
		})
	}
}

func TestTheRouteOfAServerThatIsGone(t *testing.T) {
	f, router, nodes, routes := routed(t, openstacksim.Options{}, 1)
	create(t, routes, nodes[0], "10.244.0.0/24")
	f.DeleteServer(strings.TrimPrefix(nodes[0].Spec.ProviderID, "openstack:///"))
	f.know(t)
	all, err := routes.ListRoutes(t.Context(), "lab")
	if err != nil || len(all) != 1 || !all[0].Blackhole {
		t.Fatalf("routes %v, error %v", all, err)
	}
	if err := routes.DeleteRoute(t.Context(), "lab", all[0]); err != nil {
		t.Fatal(err)
	}
	if left := f.Routes(router); len(left) > 0 {
		t.Errorf("routes are left: %v", left)
	}
}

// TestAPortOfAnotherNetworkKeepsItsPairs: two clusters of a project have the same subnet and range of pods at times.
func TestAPortOfAnotherNetworkKeepsItsPairs(t *testing.T) {
	f, _, nodes, routes := routed(t, openstacksim.Options{}, 1)
	create(t, routes, nodes[0], "10.244.0.0/24")
	other := f.AddPort(openstacksim.Port{
		Network: "others", Addresses: f.PortOf(f.portOf(t, nodes[0])).Addresses, Pairs: []string{"10.244.0.0/24"},
	})
	f.DeleteServer(strings.TrimPrefix(nodes[0].Spec.ProviderID, "openstack:///"))
	f.know(t)
	all, err := routes.ListRoutes(t.Context(), "lab")
	if err != nil || len(all) != 1 {
		t.Fatalf("routes %v, error %v", all, err)
	}
	if err := routes.DeleteRoute(t.Context(), "lab", all[0]); err != nil {
		t.Fatal(err)
	}
	if pairs := f.PortOf(other).Pairs; !slices.Equal(pairs, []string{"10.244.0.0/24"}) {
		t.Errorf("the pairs of the other cluster's port are %v", pairs)
	}
}

func TestRoutesThatCannotBe(t *testing.T) {
	f, _, nodes, routes := routed(t, openstacksim.Options{}, 1)
	elsewhere := f.AddServer(openstacksim.Server{Name: "elsewhere"})
	f.AddPort(openstacksim.Port{Network: "storage", DeviceID: elsewhere, Addresses: []string{"10.9.0.1"}})
	away := node("elsewhere", elsewhere, "10.9.0.1")
	f.know(t, nodes[0], away)
	for name, test := range map[string]struct {
		node, cidr, says string
	}{
		"another network": {"elsewhere", "10.244.7.0/24", `no port of node "elsewhere" with 10.9.0.1 is in a network of router`},
		"another family":  {"n-0", "fd00::/64", "no InternalIP of the family"},
		"no node":         {"nobody", "10.244.7.0/24", `"nobody"`},
		"no CIDR":         {"n-0", "pods", `"n-0"`},
	} {
		err := routes.CreateRoute(t.Context(), "lab", "", &cloudprovider.Route{TargetNode: types.NodeName(test.node), DestinationCIDR: test.cidr})
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for _, call := range f.Calls() {
		if call.Mutates() {
			t.Errorf("something was changed: %s", call)
		}
	}
}

func TestARouterThatIsNotThere(t *testing.T) {
	f := start(t, openstacksim.Options{}, "[Route]", "router-id=11111111-2222-4333-8444-555555555555")
	f.know(t)
	routes, _ := f.cloud.Routes()
	if _, err := routes.ListRoutes(t.Context(), "lab"); err == nil || !strings.Contains(err.Error(), "check [Route] router-id") {
		t.Errorf("the error is %v", err)
	}
}

func TestNothingIsChangedBehindAClosedFence(t *testing.T) {
	f, _, nodes, routes := routed(t, openstacksim.Options{}, 1)
	f.cloud.UseFences() // none is held
	list(t, routes)
	f.Calls()
	err := routes.CreateRoute(t.Context(), "lab", "", &cloudprovider.Route{TargetNode: types.NodeName(nodes[0].Name), DestinationCIDR: "10.244.0.0/24"})
	if !errors.Is(err, election.ErrFenced) {
		t.Errorf("the error is %v", err)
	}
	for _, call := range f.Calls() {
		if call.Mutates() {
			t.Errorf("something was changed: %s", call)
		}
	}
}

// A change is never sent twice: the first one may have been made.
func TestAChangeIsNotTriedAgain(t *testing.T) {
	f, router, nodes, routes := routed(t, openstacksim.Options{}, 1)
	list(t, routes)
	defer f.Add(openstacksim.Fault{Method: http.MethodPut, Path: "routers/{id}/add_extraroutes", Status: http.StatusBadGateway, AfterEffect: true})()
	f.Calls()
	err := routes.CreateRoute(t.Context(), "lab", "", &cloudprovider.Route{TargetNode: types.NodeName(nodes[0].Name), DestinationCIDR: "10.244.0.0/24"})
	if err == nil {
		t.Error("a route whose making was not answered is made")
	}
	sent := 0
	for _, call := range f.Calls() {
		if strings.HasSuffix(call.Path, "add_extraroutes") {
			sent++
		}
	}
	if sent != 1 || len(f.Routes(router)) != 1 {
		t.Errorf("it was sent %d times, and the routes are %v", sent, f.Routes(router))
	}
}

// The addresses in a Node's status may be written by its kubelet. A Node that claims another's address must not have the
// other's routes deleted, wherever it comes in a list.
func TestANodeThatClaimsAnothersAddress(t *testing.T) {
	for name, claims := range map[string]func(f *fixture, n *corev1.Node){
		"with a server of its own":    func(*fixture, *corev1.Node) {},
		"without a providerID":        func(_ *fixture, n *corev1.Node) { n.Spec.ProviderID = "" },
		"with a providerID of nobody": func(_ *fixture, n *corev1.Node) { n.Spec.ProviderID = "openstack:///detail" },
		"with the other's providerID": func(f *fixture, n *corev1.Node) {
			n.Spec.ProviderID = "openstack:///" + f.Ports()[1].DeviceID
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, router, nodes, routes := routed(t, openstacksim.Options{}, 2)
			for i, n := range nodes {
				n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", i)}
				create(t, routes, n, n.Spec.PodCIDRs[0])
			}
			before, pairs := f.Routes(router), f.pairs(t, nodes[0])
			own := nodes[1].DeepCopy()
			for _, claimed := range []string{"a-claims", "z-claims"} {
				thief := nodes[1].DeepCopy()
				thief.Name, thief.Spec.PodCIDRs = claimed, []string{"10.244.9.0/24"}
				thief.Status.Addresses = nodes[0].Status.Addresses
				thief.Spec.ProviderID = "openstack:///" + f.AddServer(openstacksim.Server{Name: claimed})
				claims(f, thief)
				f.know(t, nodes[0], own, thief)
				want := []string{"10.244.0.0/24 n-0", "10.244.1.0/24 n-1"}
				if diff := cmp.Diff(want, list(t, routes)); diff != "" {
					t.Errorf("%s: routes (-want +got):\n%s", claimed, diff)
				}
				if name == "with the other's providerID" {
					continue // its route leads to the other's port, and so do the packets of its pods
				}
				err := routes.CreateRoute(t.Context(), "lab", "", &cloudprovider.Route{TargetNode: types.NodeName(claimed), DestinationCIDR: "10.244.9.0/24"})
				if err == nil {
					t.Errorf("%s: a route to it is made by way of the other's port", claimed)
				}
			}
			if diff := cmp.Diff(before, f.Routes(router)); diff != "" {
				t.Errorf("routes (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(pairs, f.pairs(t, nodes[0])); diff != "" {
				t.Errorf("pairs (-before +after):\n%s", diff)
			}
		})
	}
}

// The claimed address is of a server that is no Node's any more: the route to it leads nowhere, and can go.
func TestARouteToAServerOfNoNodeIsNotThatOfWhoClaimsItsAddress(t *testing.T) {
	f, _, nodes, routes := routed(t, openstacksim.Options{}, 2)
	create(t, routes, nodes[0], "10.244.0.0/24")
	thief := nodes[1].DeepCopy()
	thief.Status.Addresses = append(thief.Status.Addresses, nodes[0].Status.Addresses...)
	f.know(t, thief)
	if diff := cmp.Diff([]string{"10.244.0.0/24 10.0.0.10 B"}, list(t, routes)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// Neutron does not show the port of a node's address, as with that of another project: the Node's word stays, and that
// of the Node with the route's podCIDR goes first.
func TestARouteByAPortThatIsNotSeen(t *testing.T) {
	f, router, nodes, routes := routed(t, openstacksim.Options{}, 2)
	f.AddRoute(router, "10.244.7.0/24 via 10.0.9.9")
	for i, n := range nodes {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.9.9"})
		n.Spec.PodCIDRs = []string{"10.244.7.0/24"}
		if i == 0 {
			n.Spec.PodCIDRs = []string{"10.244.0.0/24"}
		}
	}
	for _, order := range [][]*corev1.Node{{nodes[0], nodes[1]}, {nodes[1], nodes[0]}} {
		f.know(t, order...)
		if diff := cmp.Diff([]string{"10.244.7.0/24 n-1"}, list(t, routes)); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	}
}

// A Node that is found by its name has routes before its providerID is written.
func TestTheRouteOfANodeThatIsFoundByName(t *testing.T) {
	f, router, nodes, routes := routed(t, openstacksim.Options{}, 1)
	nodes[0].Spec.ProviderID = ""
	create(t, routes, nodes[0], "10.244.0.0/24")
	if diff := cmp.Diff([]string{"10.244.0.0/24 via 10.0.0.10"}, f.Routes(router)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10.244.0.0/24 n-0"}, list(t, routes)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
