package openstackccm

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// sharing is a second Service that shares a load balancer by a port of its own.
func sharing(id string) *corev1.Service {
	return service("dns", annotated(annote+"load-balancer-id", id), func(s *corev1.Service) {
		s.UID = "99999999-4f50-6172-8394-a5b6c7d8e9f0"
		s.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}}
	})
}

// tagBeforeSecondRead has another client write the tags of a load balancer between two reads of it. The second one comes
// after this manager has locked it.
func (b *balanced) tagBeforeSecondRead(id string, tags ...any) (changed *bool) {
	const read = "lbaas/loadbalancers/{id}"
	changed = new(bool)
	b.BeforeNext("GET", read, func() {
		b.BeforeNext("GET", read, func() {
			b.ChangeResource(id, "tags", tags)
			*changed = true
		})
	})
	return changed
}

// A tenant may change the annotation at any time. Whatever it names, nothing of the Service is left when it has gone.
func TestNothingOfAServiceIsLeftWhateverItsAnnotationNamed(t *testing.T) {
	const nobodys = "7d5f2c1e-3b1a-4f6e-9d2c-0a1b2c3d4e5f"
	for name, then := range map[string]func(b *balanced, s *corev1.Service, shared string){
		"one that does not exist": func(_ *balanced, s *corev1.Service, _ string) { s.Annotations[annote+"load-balancer-id"] = nobodys },
		"no other":                func(*balanced, *corev1.Service, string) {},
		"another one": func(b *balanced, s *corev1.Service, shared string) {
			s.Annotations[annote+"load-balancer-id"] = shared
			b.ensure(t, s)
		},
		"another one for a while": func(b *balanced, s *corev1.Service, shared string) {
			s.Annotations[annote+"load-balancer-id"] = shared
			b.ensure(t, s)
			delete(s.Annotations, annote+"load-balancer-id")
			b.ensure(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			shared := b.AddLoadBalancer(openstacksim.LoadBalancer{Name: "public", VIPSubnet: "subnet-nodes"})
			before := shape(b.only(t))
			s := sharing("")
			delete(s.Annotations, annote+"load-balancer-id")
			b.ensure(t, s)
			then(b, s, shared)
			b.remove(t, s)
			if lb := b.only(t); lb.ID != shared || len(lb.Tags) > 0 || !slices.Equal(shape(lb), before) || len(b.FloatingIPs()) > 0 {
				t.Errorf("left are %+v, floating IPs %v", lb, b.FloatingIPs())
			}
		})
	}
}

// The annotation names another load balancer than before, or none any more: the ports of the one before are freed, since
// its listeners would go on sending to the node port of the Service.
func TestAServiceLeavesTheLoadBalancerThatItsAnnotationNamedBefore(t *testing.T) {
	for name, again := range map[string]bool{"another one": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			first := b.AddLoadBalancer(openstacksim.LoadBalancer{Name: "first", VIPSubnet: "subnet-nodes"})
			s := sharing(first)
			b.ensure(t, s)
			delete(s.Annotations, annote+"load-balancer-id")
			if again {
				s.Annotations[annote+"load-balancer-id"] = b.AddLoadBalancer(openstacksim.LoadBalancer{Name: "second", VIPSubnet: "subnet-nodes"})
			}
			b.ensure(t, s)
			for _, lb := range b.LoadBalancers() {
				if used := len(lb.Listeners)+len(lb.Tags) > 0; used == (lb.ID == first) {
					t.Errorf("load balancer %s: %v, tags %v", lb.Name, shape(lb), lb.Tags)
				}
			}
			b.remove(t, s)
		})
	}
}

// Another Service takes a port of the load balancer while its owner is being deleted: what was read before is no reason to
// delete the address that the other one shows.
func TestAnOwnerThatGoesLeavesTheLoadBalancerToWhoHasJust(t *testing.T) {
	b := balance(t, 1)
	owner := service("web")
	address := b.ensure(t, owner)
	id := b.only(t).ID
	second := sharing(id)
	changed := b.tagBeforeSecondRead(id, "kube_service_"+cluster+"_default_web", "kube_service_"+cluster+"_default_dns")
	b.removeOnce(t, owner)
	if !*changed {
		t.Fatal("the load balancer was not read twice")
	}
	if got := b.ensure(t, second); got != address || b.only(t).ID != id {
		t.Errorf("the address is %s, and was %s", got, address)
	}
	if tags := b.only(t).Tags; !slices.Equal(tags, []string{"kube_service_" + cluster + "_default_dns"}) {
		t.Errorf("the tags are %v", tags)
	}
}

// Tags are written as a whole list: one that came since the load balancer was read stays.
func TestTheTagOfAServiceThatSharesAtTheSameTimeStays(t *testing.T) {
	b := balance(t, 1, "max-shared-lb=3")
	b.ensure(t, service("web"))
	id, own := b.only(t).ID, "kube_service_"+cluster+"_default_"
	b.tagBeforeSecondRead(id, own+"web", own+"mail")
	b.ensure(t, sharing(id))
	if tags := b.only(t).Tags; !slices.Equal(tags, []string{own + "web", own + "mail", own + "dns"}) {
		t.Errorf("the tags are %v", tags)
	}
}

// A user with more rights than those of one project sees load balancers of other projects, where a cluster may have the
// same name.
func TestLoadBalancersOfAnotherProjectAreNotSeen(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	foreign := b.external(t, s, cluster)
	b.ChangeResource(foreign, "project_id", "another-project")
	b.ensure(t, s)
	if all := b.LoadBalancers(); len(all) != 2 {
		t.Fatalf("load balancers: %+v", all)
	}
	b.remove(t, s)
	if lb := b.only(t); lb.ID != foreign || len(lb.Listeners) != len(s.Spec.Ports) {
		t.Errorf("left is %+v", lb)
	}
	s = service("dns", annotated(annote+"load-balancer-id", foreign))
	if err := b.fails(t, s); err == nil {
		t.Error("a load balancer of another project is shared")
	}
}
