package conformance

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func (s *subject) balancerBehindFence() {
	before, nodes, b := s.objects(), s.members(1), s.balancers()
	service := s.service("web", 80, 443)
	for change := 1; ; change++ {
		ctx, fence := s.fenced()
		begun := s.wire.Changes()
		s.wire.beforeChange(func(number int) {
			if number == begun+change {
				fence.Revoke("the test closes it in the middle of a call")
			}
		})
		err := b.ensure(ctx, service, nodes)
		s.wire.beforeChange(nil)
		sent := s.wire.Changes() - begun
		if sent < change { // the call needed no more of them
			s.must("creating it", err)
			break
		}
		if sent > change {
			s.t.Fatalf("the fence was closed with change %d, and %d were sent", change, sent)
		}
		ctx, _ = s.fenced()
		s.must("deleting what was begun", b.remove(ctx, service))
		s.nothingLeft(before)
	}
	ctx, fence := s.fenced()
	fence.Revoke("the test closes it before a call")
	begun := s.wire.Changes()
	if err := b.remove(ctx, service); err == nil {
		s.t.Error("EnsureLoadBalancerDeleted returns no error behind a closed fence")
	}
	if sent := s.wire.Changes() - begun; sent != 0 {
		s.t.Errorf("%d changes were sent behind a closed fence", sent)
	}
	ctx, _ = s.fenced()
	s.must("deleting it", b.remove(ctx, service))
	s.nothingLeft(before)
}

func (s *subject) routeBehindFence() {
	nodes := s.members(1)
	ctx, fence := s.fenced()
	fence.Revoke("the test closes it before a call")
	if err := s.create(ctx, nodes[0]); err == nil {
		s.t.Error("CreateRoute returns no error behind a closed fence")
	}
	if sent := s.wire.Changes(); sent != 0 {
		s.t.Errorf("%d changes were sent behind a closed fence", sent)
	}
}

// eachFence closes the fence with each single change of a call, until the call has no more of them.
func (s suite) eachFence(t *testing.T, closes func(s *subject, change int) bool) {
	for change := 1; ; change++ {
		reached := false
		t.Run(fmt.Sprintf("change %d", change), func(t *testing.T) { reached = closes(s.subject(t), change) })
		if !reached || t.Failed() {
			return
		}
	}
}

// closesDuring closes the fence in the middle of one call for a load balancer that exists. The next manager has to find
// its way from there.
func (s *subject) closesDuring(step string, change int) (reached bool) {
	s.t.Helper()
	before, nodes, b := s.objects(), s.members(3), s.balancers()
	service := s.service("web", 80, 443)
	first, _ := s.fenced()
	s.must("creating it", b.ensure(first, service, nodes[:2]))
	call := map[string]func(context.Context) error{
		"updating": func(ctx context.Context) error { return b.update(ctx, service, nodes[1:]) },
		"changing": func(ctx context.Context) error {
			service.Spec.Ports = s.service("web", 443, 8080).Spec.Ports
			return b.ensure(ctx, service, nodes[1:])
		},
		"deleting": func(ctx context.Context) error { return b.remove(ctx, service) },
	}[step]
	reached = s.closesWith(change, step+" it", call)
	next, _ := s.fenced()
	s.must(step+" it under the next fence", call(next))
	if step != "deleting" {
		s.looked("a second look at it", func() error { return b.ensure(next, service, nodes[1:]) })
		s.must("deleting it", b.remove(next, service))
	}
	if _, exists, err := b.GetLoadBalancer(next, b.Cluster, service); err != nil || exists {
		s.t.Errorf("it is deleted, and exists: %v (error %v)", exists, err)
	}
	s.nothingLeft(before)
	return reached
}

// closesWith closes the fence of a call right before its n-th change, which is the last one that may be sent. It
// reports whether the call has so many.
func (s *subject) closesWith(change int, doing string, call func(context.Context) error) bool {
	s.t.Helper()
	ctx, fence := s.fenced()
	bounded, cancel := context.WithTimeout(ctx, unending)
	defer cancel()
	begun := s.wire.Changes()
	s.wire.beforeChange(func(number int) {
		if number == begun+change {
			fence.Revoke("the test closes it in the middle of a call")
		}
	})
	err := call(bounded)
	s.wire.beforeChange(nil)
	switch sent := s.wire.Changes() - begun; {
	case sent < change:
		s.must(doing, err)
		return false
	case sent > change:
		s.t.Fatalf("%s: the fence was closed with change %d, and %d were sent", doing, change, sent)
	}
	return true
}

// closesDuringRoute closes the fence in the middle of the creation of a route: some clouds need two changes for one.
func (s *subject) closesDuringRoute(change int) (reached bool) {
	s.t.Helper()
	before, nodes := s.objects(), s.members(2)
	first, _ := s.fenced()
	s.must("creating another route", s.create(first, nodes[1]))
	create := func(ctx context.Context) error { return s.create(ctx, nodes[0]) }
	reached = s.closesWith(change, "creating it", create)
	next, _ := s.fenced()
	s.must("creating it under the next fence", create(next))
	s.wantRoutes(nodes...)
	for _, n := range nodes {
		s.must("deleting a route", s.removeRoute(next, n))
	}
	s.wantRoutes()
	s.nothingLeft(before)
	return reached
}

// leavings are what has a route deleted while its server is there: the Nodes that are known after it, by what happened.
var leavings = map[string]func(left, other *corev1.Node) []*corev1.Node{
	"the Node is gone": func(_, other *corev1.Node) []*corev1.Node { return []*corev1.Node{other} },
	"the Node has another range": func(left, other *corev1.Node) []*corev1.Node {
		left = left.DeepCopy()
		left.Spec.PodCIDR = "10.244.200.0/24"
		left.Spec.PodCIDRs = []string{left.Spec.PodCIDR}
		return []*corev1.Node{left, other}
	},
}

// closesDuringRemoval closes the fence in the middle of the deletion of a route. The next manager lists what is left,
// and deletes it.
func (s *subject) closesDuringRemoval(leave func(left, other *corev1.Node) []*corev1.Node, change int) (reached bool) {
	s.t.Helper()
	before, nodes := s.objects(), s.members(2)
	first, _ := s.fenced()
	for _, n := range nodes {
		s.must("creating a route", s.create(first, n))
	}
	s.know(leave(nodes[0], nodes[1])...)
	reached = s.closesWith(change, "deleting it", func(ctx context.Context) error { return s.removeRoute(ctx, nodes[0]) })
	next, _ := s.fenced()
	s.must("deleting it under the next fence", s.removeRoute(next, nodes[0]))
	s.wantRoutes(nodes[1])
	s.must("deleting the other route", s.removeRoute(next, nodes[1]))
	s.wantRoutes()
	s.nothingLeft(before)
	return reached
}
