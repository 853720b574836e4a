package conformance

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Adoption is what a manager before this one made for a Service.
type Adoption func(service *corev1.Service, nodes []*corev1.Node)

func (s suite) adoptions(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.subject(t).Adopt)) {
		s.test(t, "adoption of one "+name, func(s *subject) { s.balancerIsAdopted(s.Adopt[name]) })
	}
}

// balancerIsAdopted takes over what is there: with its address, and once.
func (s *subject) balancerIsAdopted(adopt Adoption) {
	ctx, before, nodes, b := s.t.Context(), s.objects(), s.members(3), s.balancers()
	service := s.service("web", 80, 443)
	adopt(service, nodes[:2])
	was := service.Status.DeepCopy().LoadBalancer.Ingress
	if len(was) == 0 {
		s.t.Fatal("what is adopted has no address in the Service's status")
	}
	keeps := func(what string) {
		s.t.Helper()
		now := service.Status.LoadBalancer.Ingress
		if len(now) != len(was) || now[0].IP != was[0].IP || now[0].Hostname != was[0].Hostname {
			s.t.Errorf("%s: its address was %+v and is %+v", what, was, now)
		}
	}
	s.must("the first look at it", b.ensure(ctx, service, nodes[:2]))
	keeps("the first look")
	s.looked("a second look at it", func() error { return b.ensure(ctx, service, nodes[:2]) })
	s.unchanged("an update without a change", func() error { return b.update(ctx, service, nodes[:2]) })

	s.mustChange("a node more and one less", func() error { return b.update(ctx, service, nodes[1:]) })
	service.Spec.Ports = s.service("web", 443, 8080).Spec.Ports
	s.mustChange("a port in the place of another", func() error { return b.ensure(ctx, service, nodes[1:]) })
	keeps("another port")
	s.looked("a look at its ports", func() error { return b.ensure(ctx, service, nodes[1:]) })

	s.must("deleting it", b.remove(ctx, service))
	if _, exists, err := b.GetLoadBalancer(ctx, b.Cluster, service); err != nil || exists {
		s.t.Errorf("it is deleted, and exists: %v (error %v)", exists, err)
	}
	s.nothingLeft(before)
}
