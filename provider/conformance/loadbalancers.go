package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func (s suite) loadBalancers(t *testing.T) {
	if _, ok := s.subject(t).Provider.LoadBalancer(); !ok {
		t.Skip("the provider has no load balancers")
	}
	s.test(t, "from creation to deletion", (*subject).balancerLives)
	s.test(t, "two Services have two", (*subject).twoBalancers)
	s.test(t, "one that is not there", (*subject).missingBalancer)
	s.test(t, "nothing changes behind a closed fence", (*subject).balancerBehindFence)
	for _, step := range []string{"updating", "changing", "deleting"} {
		t.Run("a fence that closes while "+step, func(t *testing.T) {
			t.Parallel()
			s.eachFence(t, func(s *subject, change int) bool { return s.closesDuring(step, change) })
		})
	}
	s.adoptions(t)
	for _, fault := range Faults() {
		s.test(t, fault.Name, func(s *subject) { s.balancerDuring(fault) })
	}
	refused := Fault{
		Name:   "refused",
		Status: http.StatusForbidden,
		Type:   "text/plain",
		Body:   "no",
	}
	lost := Fault{Name: "done and the answer lost", Lost: true}
	for _, fault := range []Fault{refused, lost} {
		t.Run("each change "+fault.Name, func(t *testing.T) {
			t.Parallel()
			s.eachChange(t, fault)
		})
	}
}

// serviceClient calls the provider as the service controller does.
type serviceClient struct {
	*subject

	cloudprovider.LoadBalancer
}

func (s *subject) balancers() serviceClient {
	s.t.Helper()
	lb, ok := s.Provider.LoadBalancer()
	if !ok {
		s.t.Fatal("the provider has no load balancers")
	}
	return serviceClient{s, lb}
}

// ensure leaves the load balancer's status in the Service, as the controller does.
func (b serviceClient) ensure(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) error {
	return callUntilSettled(ctx, func(ctx context.Context) error {
		status, err := b.EnsureLoadBalancer(ctx, b.Cluster, service.DeepCopy(), nodes)
		if err == nil && status == nil {
			err = fmt.Errorf("EnsureLoadBalancer of Service %q returns neither a status nor an error", service.Name)
		}
		if err == nil {
			service.Status.LoadBalancer = *status
		}
		return err
	})
}

func (b serviceClient) update(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) error {
	return callUntilSettled(ctx, func(ctx context.Context) error {
		return b.UpdateLoadBalancer(ctx, b.Cluster, service.DeepCopy(), nodes)
	})
}

func (b serviceClient) remove(ctx context.Context, service *corev1.Service) error {
	service = service.DeepCopy()
	now := metav1.Now()
	service.DeletionTimestamp = &now
	return callUntilSettled(ctx, func(ctx context.Context) error {
		_, exists, err := b.GetLoadBalancer(ctx, b.Cluster, service.DeepCopy())
		if err != nil || !exists {
			return err
		}
		return b.EnsureLoadBalancerDeleted(ctx, b.Cluster, service.DeepCopy())
	})
}

// must fails the test with what was done.
func (s *subject) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// unchanged fails the test when a call changes something in the cloud.
func (s *subject) unchanged(what string, call func() error) {
	s.t.Helper()
	before := s.wire.Changes()
	s.must(what, call())
	if now := s.wire.Changes(); now != before {
		s.t.Errorf("%s takes %d requests that change something, want 0", what, now-before)
	}
}

// looked fails the test when a look at an unchanged load balancer changes more than what is known of the provider.
func (s *subject) looked(what string, call func() error) {
	s.t.Helper()
	before := s.wire.Changes()
	s.must(what, call())
	if now := s.wire.Changes(); now-before != s.KnownWrites {
		s.t.Errorf("%s takes %d requests that change something, want %d", what, now-before, s.KnownWrites)
	}
}

// mustChange fails the test when a call changes nothing in the cloud.
func (s *subject) mustChange(what string, call func() error) {
	s.t.Helper()
	before := s.wire.Changes()
	s.must(what, call())
	if s.wire.Changes() == before {
		s.t.Errorf("%s takes no request that changes something", what)
	}
}

// nothingLeft fails the test when objects are in the cloud that were not there at the beginning.
func (s *subject) nothingLeft(before []string) {
	s.t.Helper()
	if diff := cmp.Diff(before, s.objects()); diff != "" {
		s.t.Errorf("it left something behind in the cloud (-before +now):\n%s", diff)
	}
}

func (s *subject) balancerLives() {
	ctx, before, nodes, b := s.t.Context(), s.objects(), s.members(3), s.balancers()
	service := s.service("web", 80, 443)

	s.mustChange("creating it", func() error { return b.ensure(ctx, service, nodes[:2]) })
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) == 0 || ingress[0].IP == "" && ingress[0].Hostname == "" {
		s.t.Fatalf("it has no address: %+v", ingress)
	}
	status, exists, err := b.GetLoadBalancer(ctx, b.Cluster, service.DeepCopy())
	if err != nil || !exists || !equality.Semantic.DeepEqual(status, &service.Status.LoadBalancer) {
		s.t.Errorf(
			"it is found with status %+v (exists %v, error %v), want %+v",
			status,
			exists,
			err,
			service.Status.LoadBalancer,
		)
	}
	s.looked("a second look at it", func() error { return b.ensure(ctx, service, nodes[:2]) })
	s.unchanged("an update without a change", func() error { return b.update(ctx, service, nodes[:2]) })
	s.unchanged("the same nodes in another order", func() error {
		return b.update(ctx, service, []*corev1.Node{nodes[1], nodes[0]})
	})

	s.mustChange("a node more", func() error { return b.update(ctx, service, nodes) })
	s.mustChange("another node less", func() error { return b.update(ctx, service, nodes[1:]) })
	s.looked("a second look at its nodes", func() error { return b.ensure(ctx, service, nodes[1:]) })

	service.Spec.Ports = s.service("web", 443, 8080).Spec.Ports
	s.mustChange("a port in the place of another", func() error { return b.ensure(ctx, service, nodes[1:]) })
	if now := service.Status.LoadBalancer.Ingress; !equality.Semantic.DeepEqual(now, ingress) {
		s.t.Errorf("its address was %+v and is %+v", ingress, now)
	}
	s.looked("a second look at its ports", func() error { return b.ensure(ctx, service, nodes[1:]) })

	s.must("deleting it", b.remove(ctx, service))
	if _, exists, err := b.GetLoadBalancer(ctx, b.Cluster, service); err != nil || exists {
		s.t.Errorf("it is deleted, and exists: %v (error %v)", exists, err)
	}
	s.unchanged("deleting it again", func() error { return b.remove(ctx, service) })
	s.nothingLeft(before)
}

func (s *subject) twoBalancers() {
	ctx, before, nodes, b := s.t.Context(), s.objects(), s.members(1), s.balancers()
	one, other := s.service("one", 80), s.service("other", 80)
	s.must("creating one", b.ensure(ctx, one, nodes))
	s.must("creating the other", b.ensure(ctx, other, nodes))
	if equality.Semantic.DeepEqual(one.Status, other.Status) {
		s.t.Errorf("both have the status %+v", one.Status)
	}
	s.must("deleting one", b.remove(ctx, one))
	s.looked("a look at the other", func() error { return b.ensure(ctx, other, nodes) })
	s.must("deleting the other", b.remove(ctx, other))
	s.nothingLeft(before)
}

func (s *subject) missingBalancer() {
	b, service := s.balancers(), s.service("web", 80)
	if _, exists, err := b.GetLoadBalancer(s.t.Context(), b.Cluster, service); err != nil || exists {
		s.t.Errorf("it exists: %v (error %v)", exists, err)
	}
	s.unchanged("deleting it", func() error { return b.remove(s.t.Context(), service) })
}

// balancerDuring has the cloud fail. That there is no load balancer may not come of it: the controller would forget it.
func (s *subject) balancerDuring(f Fault) {
	before, nodes, b := s.objects(), s.members(2), s.balancers()
	service := s.service("web", 80)
	s.must("creating it", b.ensure(s.t.Context(), service, nodes[:1]))
	for name, call := range map[string]func(context.Context) error{
		"GetLoadBalancer": func(ctx context.Context) error {
			_, _, err := b.GetLoadBalancer(ctx, b.Cluster, service)
			return err
		},
		"EnsureLoadBalancer": func(ctx context.Context) error { return b.ensure(ctx, service.DeepCopy(), nodes) },
		"UpdateLoadBalancer": func(ctx context.Context) error { return b.update(ctx, service, nodes) },
		"EnsureLoadBalancerDeleted": func(ctx context.Context) error {
			return b.remove(ctx, service)
		},
	} {
		if s.during(f, call) == nil {
			s.t.Errorf("%s returns no error", name)
		}
	}
	address := service.Status.DeepCopy()
	s.must("a look at it once the cloud is well", b.ensure(s.t.Context(), service, nodes))
	if !equality.Semantic.DeepEqual(address, &service.Status) {
		s.t.Errorf("its status was %+v and is %+v", address, service.Status)
	}
	s.must("deleting it", b.remove(s.t.Context(), service))
	s.nothingLeft(before)
}

// eachChange has each single change of creation, of an update and of deletion fail. The next call has to find its way
// from there, and nothing may be left behind.
func (s suite) eachChange(t *testing.T, f Fault) {
	once := f.Lost // a cloud that executes what it does not answer does so once; one that refuses goes on with it
	for _, step := range []string{"creating", "changing", "deleting"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			for change := 1; ; change++ {
				reached := false
				t.Run(fmt.Sprintf("change %d", change), func(t *testing.T) {
					reached = s.subject(t).interruptsStep(step, change, once, f)
				})
				if !reached || t.Failed() {
					break
				}
			}
		})
	}
}

// interruptsStep has one change of a step fail, and reports whether the step has so many.
func (s *subject) interruptsStep(step string, change int, once bool, f Fault) bool {
	s.t.Helper()
	before, nodes, b := s.objects(), s.members(3), s.balancers()
	service, ctx := s.service("web", 80, 443), s.t.Context()
	bounded, cancel := context.WithTimeout(ctx, unending)
	defer cancel()

	steps := []string{"creating", "changing", "deleting"}
	calls := map[string]func(context.Context) error{
		"creating": func(ctx context.Context) error { return b.ensure(ctx, service, nodes[:2]) },
		"changing": func(ctx context.Context) error {
			service.Spec.Ports = s.service("web", 443, 8080).Spec.Ports
			return b.ensure(ctx, service, nodes[1:])
		},
		"deleting": func(ctx context.Context) error { return b.remove(ctx, service) },
	}
	reached := true
	for _, now := range steps {
		if now == step {
			begun := s.wire.Changes()
			heal := s.wire.failFrom(change, once, f)
			err := calls[now](bounded)
			reached = s.wire.Changes()-begun >= change
			heal()
			switch {
			case !reached:
				s.must(now+" it without a fault", err)
			case !once && err == nil:
				s.t.Errorf("%s it returns no error, and change %d of it was refused", now, change)
			}
		}
		s.must(now+" it", calls[now](ctx))
	}
	if reached && slices.Contains(steps[:2], step) {
		if _, exists, err := b.GetLoadBalancer(ctx, b.Cluster, service); err != nil || exists {
			s.t.Errorf("it is deleted, and exists: %v (error %v)", exists, err)
		}
	}
	s.nothingLeft(before)
	return reached
}
