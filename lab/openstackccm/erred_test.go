package openstackccm

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

const onError = "transplant.dev/openstack-on-error"

func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %v, want %q in it", err, part)
		}
	}
}

func (b *balanced) wrote(t *testing.T, want ...string) {
	t.Helper()
	calls := b.Calls()
	b.noneUnknown(t, calls)
	if got := writes(calls); !slices.Equal(got, want) {
		t.Errorf("writes: %v, want %v", got, want)
	}
}

// A part in ERROR below a load balancer that is ACTIVE is named with what to do. Nothing is done that was not asked for.
func TestAPartInErrorIsReported(t *testing.T) {
	for name, part := range map[string]func(openstacksim.LoadBalancer) (id, says string){
		"a listener": func(lb openstacksim.LoadBalancer) (string, string) {
			return lb.Listeners[0].ID, "listener listener_0_kube_service_lab_default_web is in ERROR"
		},
		"a pool": func(lb openstacksim.LoadBalancer) (string, string) {
			return lb.Pools[1].ID, "pool pool_1_kube_service_lab_default_web is in ERROR"
		},
		"a member": func(lb openstacksim.LoadBalancer) (string, string) {
			return lb.Pools[1].Members[0].ID, "member n-0 is in ERROR"
		},
		"a monitor": func(lb openstacksim.LoadBalancer) (string, string) {
			return lb.Pools[0].Monitor.ID, "monitor monitor_0_kube_service_lab_default_web is in ERROR"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 2, "create-monitor=true")
			s := service("web")
			address := b.ensure(t, s)
			b.Advance(time.Minute)
			b.ensure(t, s)
			lb := b.only(t)
			id, says := part(lb)
			b.Advance(time.Minute)
			b.ChangeResource(id, "provisioning_status", openstacksim.Errored)
			b.Calls()
			for range 2 {
				contains(t, b.fails(t, s), lb.ID, "is ACTIVE, and "+says, onError+" to failover", "openstack loadbalancer failover "+lb.ID)
				update := again(t, func() error { return b.balancers.UpdateLoadBalancer(t.Context(), cluster, s, b.nodes) })
				contains(t, update, says)
				b.wrote(t)
				b.Advance(time.Minute)
			}

			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} // what can be changed is
			_ = b.fails(t, s)                                        // and perhaps gets the part out of ERROR
			if lb := b.only(t); len(lb.Listeners[1].AllowedCIDRs) != 1 {
				t.Errorf("listener %+v", lb.Listeners[1])
			}
			b.ChangeResource(id, "provisioning_status", openstacksim.Errored)
			b.Calls()
			s.Annotations[onError] = "failover"
			b.FailChanges(true)
			contains(t, b.fails(t, s), "its failover of 0s ago has not helped")
			b.wrote(t, "PUT lbaas/loadbalancers/{id}/failover")
			b.wait(11 * time.Minute)
			b.FailChanges(false)
			if got := b.ensure(t, s); got != address || b.only(t).ID != lb.ID {
				t.Errorf("the address is %s and was %s, load balancer %+v", got, address, b.only(t))
			}
			b.wrote(t, "PUT lbaas/loadbalancers/{id}/failover")
			b.remove(t, s)
			b.nothingLeft(t)
		})
	}
}

// What is in ERROR is deleted and made again when the Service asks for it, and keeps its floating IP.
func TestALoadBalancerIsRecreatedWhenItsServiceAsksForIt(t *testing.T) {
	breaks := map[string]func(*balanced, openstacksim.LoadBalancer){
		"in ERROR": func(b *balanced, lb openstacksim.LoadBalancer) { b.SetStatus(lb.ID, openstacksim.Errored) },
		"with a listener in ERROR": func(b *balanced, lb openstacksim.LoadBalancer) {
			b.ChangeResource(lb.Listeners[0].ID, "provisioning_status", openstacksim.Errored)
		},
	}
	made := map[string]struct {
		config  []string
		prepare func(*testing.T, *balanced, *corev1.Service)
	}{
		"ours":    {nil, func(t *testing.T, b *balanced, s *corev1.Service) { t.Helper(); b.ensure(t, s) }},
		"in tree": {[]string{"create-monitor=true"}, func(t *testing.T, b *balanced, s *corev1.Service) { t.Helper(); b.inTree(s, false) }},
		"in tree, with a description": {[]string{"create-monitor=true"}, func(t *testing.T, b *balanced, s *corev1.Service) {
			t.Helper()
			b.inTree(s, false)
			b.ensure(t, s)
		}},
		"with a host name": {[]string{"enable-ingress-hostname=true"}, func(t *testing.T, b *balanced, s *corev1.Service) {
			t.Helper()
			s.Annotations[annote+"proxy-protocol"] = "true"
			b.ensure(t, s)
		}},
		"with an address of the user's": {nil, func(t *testing.T, b *balanced, s *corev1.Service) {
			t.Helper()
			b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.200", Network: "public", Description: "the user's"})
			s.Spec.LoadBalancerIP = "203.0.113.200"
			b.ensure(t, s)
		}},
	}
	for name, of := range made {
		for how, broken := range breaks {
			t.Run(name+", "+how, func(t *testing.T) {
				b := balance(t, 2, of.config...)
				s := service("web")
				of.prepare(t, b, s)
				shown, ip, lb := s.Status.DeepCopy(), b.FloatingIPs()[0], b.only(t)
				b.Advance(time.Minute)
				broken(b, lb)
				b.Calls()
				contains(t, b.fails(t, s), "With recreate, it is deleted and made again with its floating IP")
				b.wrote(t)
				s.Annotations[onError] = "recreate"
				contains(t, b.fails(t, s), lb.ID, "It is deleted, and made again as the annotation "+onError+" asks for")
				b.ensure(t, s)
				now := b.only(t)
				if now.ID == lb.ID || now.Name != "kube_service_lab_default_web" || len(now.Listeners) != 2 {
					t.Errorf("load balancer %+v, and it was %+v", now, lb)
				}
				if ips := b.FloatingIPs(); len(ips) != 1 || ips[0].ID != ip.ID || ips[0].Address != ip.Address || ips[0].Port != now.VIPPort {
					t.Errorf("floating IPs %+v, and it was %+v", ips, ip)
				}
				if got, want := s.Status.LoadBalancer.Ingress[0], shown.LoadBalancer.Ingress[0]; got.IP != want.IP || got.Hostname != want.Hostname {
					t.Errorf("the Service shows %+v, and showed %+v", got, want)
				}

				b.SetStatus(now.ID, openstacksim.Errored) // and the next one does not help
				b.Calls()
				contains(t, b.fails(t, s), "the one before it was deleted 0s ago", "administrator")
				b.wrote(t)
				b.remove(t, s)
				if users := name == "with an address of the user's"; !users {
					b.nothingLeft(t)
				}
				b.noneUnknown(t, b.Calls())
			})
		}
	}
}

// Other Services and users lose nothing by it.
func TestALoadBalancerThatOthersUseIsNotRecreated(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*testing.T, *balanced, *corev1.Service)
		says    []string
	}{
		"another Service": {func(t *testing.T, b *balanced, s *corev1.Service) {
			t.Helper()
			b.ensure(t, service("dns", func(other *corev1.Service) {
				other.UID = second
				other.Annotations[annote+"load-balancer-id"] = b.only(t).ID
				other.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 53, NodePort: 30053}}
			}))
		}, []string{"other Services share it (kube_service_lab_default_dns)"}},
		"a listener of others": {func(t *testing.T, b *balanced, _ *corev1.Service) {
			t.Helper()
			b.ChangeResource(b.only(t).Listeners[1].ID, "tags", []any{"kube_service_lab_other_web"})
		}, []string{"its listener listener_1_kube_service_lab_default_web", "is not this Service's"}},
		"an annotation that names it": {func(t *testing.T, b *balanced, s *corev1.Service) {
			t.Helper()
			s.Annotations[annote+"load-balancer-id"] = b.only(t).ID
		}, []string{"load-balancer-id names it; remove the annotation"}},
		"a floating IP of others": {func(t *testing.T, b *balanced, _ *corev1.Service) {
			t.Helper()
			b.DescribeFloatingIP(b.FloatingIPs()[0].ID, "of the mail server")
		}, []string{"loses its floating IP 203.0.113.1", "Set spec.loadBalancerIP to it"}},
		"an address that is not shown": {func(_ *testing.T, _ *balanced, s *corev1.Service) {
			s.Status = corev1.ServiceStatus{}
		}, []string{"loses its floating IP 203.0.113.1", "Set spec.loadBalancerIP to it"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			s := service("web", annotated(onError, "recreate"))
			b.ensure(t, s)
			test.prepare(t, b, s)
			b.SetStatus(b.only(t).ID, openstacksim.Errored)
			b.Calls()
			contains(t, b.fails(t, s), append(test.says, "is in ERROR")...)
			b.wrote(t)
			b.only(t)
		})
	}
}

// The load balancer is deleted, and its manager ends: the next one finds the floating IP by what the Service shows.
func TestTheNextManagerFindsTheFloatingIPOfALoadBalancerThatIsGone(t *testing.T) {
	b := balance(t, 1)
	s := service("web", annotated(onError, "recreate"))
	address := b.ensure(t, s)
	b.SetStatus(b.only(t).ID, openstacksim.Errored)
	contains(t, b.fails(t, s), "It is deleted")
	b.FinishPending()
	if left := b.LoadBalancers(); len(left) > 0 {
		t.Fatalf("left are %v", left)
	}
	// the address of another Service's is not taken, whatever a status shows
	b.AddFloatingIP(openstacksim.FloatingIP{
		Address: "203.0.113.99", Network: "public", Description: "Floating IP for Kubernetes external service default/mail from cluster lab",
	})
	next := startOn(t, b.Cloud, b.Config("[LoadBalancer]"))
	b.balancers, _ = next.cloud.LoadBalancer()
	if got := b.ensure(t, s); got != address {
		t.Errorf("the address is %s, and was %s", got, address)
	}
	b.remove(t, s)
	thief := service("web")
	thief.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.99"}}
	if got := b.ensure(t, thief); got == "203.0.113.99" {
		t.Error("it takes the floating IP of another Service")
	}
}

// The controller says by an event what is in ERROR, and recreates it when the annotation comes.
func TestTheServiceControllerRecreatesALoadBalancer(t *testing.T) {
	b := balance(t, 2)
	b.SetPending(20 * time.Millisecond)
	c := control(t, b)
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := func() string {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 {
			return ""
		}
		return s.Status.LoadBalancer.Ingress[0].IP
	}
	c.until(t, "it has an address", func() bool { return address() != "" })
	before, lb := address(), b.only(t)
	says := func(parts ...string) func() bool {
		return func() bool {
			for range len(c.events.Events) {
				event := <-c.events.Events
				if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(event, part) }) {
					return true
				}
			}
			return false
		}
	}
	b.Advance(time.Minute)
	b.ChangeResource(lb.Pools[0].Members[0].ID, "provisioning_status", openstacksim.Errored)
	c.change(t, "web", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	c.until(t, "an event names the part", says("member n-0 is in ERROR", onError+" to failover"))
	c.change(t, "web", func(s *corev1.Service) { s.Annotations = map[string]string{onError: "recreate"} })
	c.until(t, "an event says what is done", says("It is deleted, and made again"))
	c.until(t, "there is another one", func() bool {
		all := b.LoadBalancers()
		return len(all) == 1 && all[0].ID != lb.ID && len(b.FloatingIPs()) == 1 && b.FloatingIPs()[0].Port == all[0].VIPPort
	})
	if now := address(); now != before {
		t.Errorf("the address is %s, and was %s", now, before)
	}
	if failovers, _ := made(b.Calls(), http.MethodPut, "lbaas/loadbalancers/{id}/failover"); failovers > 0 {
		t.Errorf("%d failovers, which nobody asked for", failovers)
	}
}
