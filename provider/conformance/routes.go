package conformance

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

func (s suite) routes(t *testing.T) {
	if _, ok := s.subject(t).Provider.Routes(); !ok {
		t.Skip("the provider has no routes")
	}
	s.test(t, "from creation to deletion", (*subject).routeLives)
	s.test(t, "nothing changes behind a closed fence", (*subject).routeBehindFence)
	t.Run("a fence that closes while creating", func(t *testing.T) {
		t.Parallel()
		s.eachFence(t, (*subject).closesDuringRoute)
	})
	for step, change := range leavings {
		t.Run("a fence that closes while deleting, and "+step, func(t *testing.T) {
			t.Parallel()
			s.eachFence(t, func(s *subject, number int) bool { return s.closesDuringRemoval(change, number) })
		})
	}
	for _, fault := range Faults() {
		s.test(t, fault.Name, func(s *subject) { s.routesDuring(fault) })
	}
}

func (s *subject) table() cloudprovider.Routes {
	s.t.Helper()
	routes, ok := s.Provider.Routes()
	if !ok {
		s.t.Fatal("the provider has no routes")
	}
	return routes
}

// routeTo is the route to a node's pods, as the route controller asks for it.
func routeTo(node *corev1.Node) *cloudprovider.Route {
	return &cloudprovider.Route{
		TargetNode: types.NodeName(node.Name), TargetNodeAddresses: node.Status.Addresses, DestinationCIDR: node.Spec.PodCIDR,
	}
}

// listed are the routes in the cloud: "node <- network".
func (s *subject) listed() []string {
	s.t.Helper()
	routes, err := s.table().ListRoutes(s.t.Context(), s.Cluster)
	s.must("listing routes", err)
	out := []string{}
	for _, r := range routes {
		out = append(out, string(r.TargetNode)+" <- "+r.DestinationCIDR)
	}
	slices.Sort(out)
	return out
}

func (s *subject) wantRoutes(nodes ...*corev1.Node) {
	s.t.Helper()
	want := []string{}
	for _, n := range nodes {
		want = append(want, n.Name+" <- "+n.Spec.PodCIDR)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, s.listed()); diff != "" {
		s.t.Errorf("the routes differ (-want +listed):\n%s", diff)
	}
}

func (s *subject) create(ctx context.Context, node *corev1.Node) error {
	return s.table().CreateRoute(ctx, s.Cluster, string(node.UID), routeTo(node))
}

// removeRoute deletes the route to a node, as it is listed.
func (s *subject) removeRoute(ctx context.Context, node *corev1.Node) error {
	routes, err := s.table().ListRoutes(ctx, s.Cluster)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.DestinationCIDR == node.Spec.PodCIDR {
			return s.table().DeleteRoute(ctx, s.Cluster, r)
		}
	}
	return nil
}

func (s *subject) routeLives() {
	ctx, before, nodes := s.t.Context(), s.objects(), s.members(2)
	s.wantRoutes()
	for _, n := range nodes {
		s.mustChange("creating a route", func() error { return s.create(ctx, n) })
	}
	s.wantRoutes(nodes...)
	s.mustChange("deleting a route", func() error { return s.removeRoute(ctx, nodes[0]) })
	s.wantRoutes(nodes[1])
	s.must("deleting the other route", s.removeRoute(ctx, nodes[1]))
	s.wantRoutes()
	s.nothingLeft(before)
}

// routesDuring has the cloud fail. That there are no routes may not come of it: all of them would be created again.
func (s *subject) routesDuring(f Fault) {
	nodes := s.members(2)
	s.must("creating a route", s.create(s.t.Context(), nodes[0]))
	calls := map[string]func(context.Context) error{
		"ListRoutes": func(ctx context.Context) error {
			_, err := s.table().ListRoutes(ctx, s.Cluster)
			return err
		},
	}
	// A change that is answered with success by a proxy may pass for one: the next list of routes shows that it is none.
	if f.Status != http.StatusOK {
		calls["CreateRoute"] = func(ctx context.Context) error { return s.create(ctx, nodes[1]) }
		calls["DeleteRoute"] = func(ctx context.Context) error {
			return s.table().DeleteRoute(ctx, s.Cluster, routeTo(nodes[0]))
		}
	}
	for name, call := range calls {
		if s.during(f, call) == nil {
			s.t.Errorf("%s returns no error", name)
		}
	}
	s.wantRoutes(nodes[0])
}
