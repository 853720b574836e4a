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

const second = "22222222-4f50-6172-8394-a5b6c7d8e9f0"

// once calls one time, for what a call says that is not the last one.
func (b *balanced) once(t *testing.T, s *corev1.Service) error {
	t.Helper()
	_, err := b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
	return err
}

// stays checks that the Service is waited for as long as its load balancer's parts may still come.
func (b *balanced) stays(t *testing.T, s *corev1.Service) {
	t.Helper()
	_ = b.once(t, s) // it asks for the next call
	for range 3 {
		if err := b.once(t, s); err == nil || !strings.Contains(err.Error(), "is ACTIVE, and listener listener_0_") {
			t.Fatalf("while its parts are PENDING, the error is %v", err)
		}
		b.wait(4 * time.Second)
	}
}

func TestPartsThatOctaviaHasLost(t *testing.T) {
	both := []string{"TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080"}
	for name, change := range map[string]func(*corev1.Service){"external": func(*corev1.Service) {}, "internal": internal} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 2)
			b.LoseParts(2)
			s := service("web", change)
			b.stays(t, s)
			lost := b.only(t).ID
			b.Calls()
			b.wait(4 * time.Second)
			err := b.fails(t, s)
			for _, part := range []string{lost, "PENDING_CREATE", "Octavia has lost", "it is deleted", "made again"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %v, want %q in it", err, part)
				}
			}
			if got := writes(b.Calls()); !slices.Equal(got, []string{"DELETE lbaas/loadbalancers/{id}"}) {
				t.Errorf("writes: %v", got)
			}
			b.ensure(t, s)
			b.looks(t, both...)
			if got := b.only(t); got.ID == lost {
				t.Errorf("load balancer %+v is still the one that has lost its parts", got)
			}
			if err := b.unfinished(); err != "" {
				t.Error(err)
			}
			other := service("mail", change, func(s *corev1.Service) { s.UID = second })
			b.Calls()
			b.ensure(t, other) // the next one is not made as a tree
			if got := writes(b.Calls()); len(got) < 7 {
				t.Errorf("the next one is made by %v", got)
			}
			b.remove(t, s)
			b.remove(t, other)
			b.nothingLeft(t)
			b.noneUnknown(t, b.Calls())
		})
	}
}

func TestAFloatingIPIsKeptWhenALoadBalancerIsMadeAgain(t *testing.T) {
	b := balance(t, 1)
	s := service("web", annotated(annote+"keep-floatingip", "true"))
	address := b.ensure(t, s)
	b.remove(t, s)
	b.LoseParts(1)
	s.Status = corev1.ServiceStatus{}
	s.Spec.LoadBalancerIP = address
	b.stays(t, s)
	b.wait(4 * time.Second)
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "it is deleted") {
		t.Errorf("the error is %v", err)
	}
	if got := b.ensure(t, s); got != address {
		t.Errorf("the address is %s, and was %s", got, address)
	}
	if ips := b.FloatingIPs(); len(ips) != 1 || ips[0].Port != b.only(t).VIPPort {
		t.Errorf("floating IPs %+v", ips)
	}
}

// A part of a load balancer that serves is lost: nothing of what serves may go.
func TestALoadBalancerThatHasServedFailsOver(t *testing.T) {
	served := map[string]func(*balanced, *corev1.Service){
		"made by us":             func(b *balanced, s *corev1.Service) { b.ensure(t, s) },
		"in tree":                func(b *balanced, s *corev1.Service) { b.inTree(s, false) },
		"in tree, not yet shown": func(b *balanced, s *corev1.Service) { b.inTree(s, false); s.Status = corev1.ServiceStatus{} },
		"made by us, not yet shown": func(b *balanced, s *corev1.Service) {
			b.ensure(t, s)
			s.Status = corev1.ServiceStatus{}
		},
		"internal, not yet shown": func(b *balanced, s *corev1.Service) {
			internal(s)
			b.ensure(t, s)
			s.Status = corev1.ServiceStatus{}
		},
	}
	for name, prepare := range served {
		for allowed, fault := range map[string]*openstacksim.Fault{
			"": nil,
			", and failovers are refused": {
				Method: http.MethodPut, Path: "lbaas/loadbalancers/{id}/failover", Status: http.StatusForbidden,
				Body: `{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed."}`,
			},
		} {
			t.Run(name+allowed, func(t *testing.T) {
				b := balance(t, 2)
				s := service("web")
				prepare(b, s)
				lb := b.only(t)
				if fault != nil {
					defer b.Add(*fault)()
				}
				b.ChangeResource(lb.Listeners[0].ID, "provisioning_status", openstacksim.PendingCreate)
				b.Calls()
				for range 3 {
					if err := b.once(t, s); err == nil || !strings.Contains(err.Error(), "is PENDING_CREATE") {
						t.Fatalf("the error is %v", err)
					}
					b.wait(25 * time.Second) // one that has never served would go sooner
				}
				err := b.once(t, s)
				says := []string{lb.ID, "failover", "Octavia has lost"}
				if fault != nil {
					says = append(says, "Policy does not allow", "openstack loadbalancer failover "+lb.ID, "administrator")
				}
				for _, part := range says {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("the error is %v, want %q in it", err, part)
					}
				}
				if got := writes(b.Calls()); !slices.Equal(got, []string{"PUT lbaas/loadbalancers/{id}/failover"}) {
					t.Errorf("writes: %v", got)
				}
				if now := b.only(t); now.ID != lb.ID || len(now.Listeners) != len(lb.Listeners) {
					t.Errorf("load balancer %+v, and it was %+v", now, lb)
				}
				if fault == nil {
					b.ensure(t, s)
				}
			})
		}
	}
}

// One that is made step by step and loses parts all the same is not deleted time and again.
func TestALoadBalancerIsMadeAgainOnce(t *testing.T) {
	b := balance(t, 1)
	b.LoseParts(1)
	s := service("web")
	b.stays(t, s)
	b.wait(4 * time.Second)
	_ = b.fails(t, s) // it says that the parts are lost
	for range 20 {    // until its first listener is there
		_ = b.once(t, s) // it asks for the next call
		if all := b.LoadBalancers(); len(all) == 1 && len(all[0].Pools) == 2 && len(all[0].Pools[1].Members) > 0 {
			break
		}
	}
	b.ChangeResource(b.only(t).Listeners[1].ID, "provisioning_status", openstacksim.PendingCreate)
	b.Calls()
	if err := b.once(t, s); err == nil || !strings.Contains(err.Error(), "is PENDING_CREATE") {
		t.Errorf("the error is %v", err)
	}
	b.wait(2 * time.Minute)
	if err := b.once(t, s); err == nil || !strings.Contains(err.Error(), "failover") {
		t.Errorf("the error is %v", err)
	}
	if got := writes(b.Calls()); !slices.Equal(got, []string{"PUT lbaas/loadbalancers/{id}/failover"}) {
		t.Errorf("writes: %v", got)
	}
}

// unfinished names a part of a load balancer that is PENDING; empty for none.
func (b *balanced) unfinished() string {
	for _, status := range b.PartStatuses() {
		if strings.Contains(status, "PENDING") {
			return status
		}
	}
	return ""
}

func TestTheServiceControllerHasLostPartsMadeAgain(t *testing.T) {
	b := balance(t, 2)
	b.SetPending(20 * time.Millisecond)
	b.LoseParts(1)
	c := control(t, b)
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until(t, "its parts are read", func() bool {
		return slices.ContainsFunc(b.Calls(), func(c openstacksim.Call) bool { return c.Method == http.MethodGet && c.Path == "lbaas/listeners" })
	})
	c.until(t, "an event says what happens", func() bool {
		b.wait(61 * time.Second)
		for range len(c.events.Events) {
			if strings.Contains(<-c.events.Events, "it is deleted, and made again") {
				return true
			}
		}
		return false
	})
	c.until(t, "it has an address", func() bool {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1
	})
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080")
	if err := b.unfinished(); err != "" {
		t.Error(err)
	}
	c.change(t, "web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	c.until(t, "it is gone", func() bool {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && len(s.Finalizers) == 0
	})
	b.nothingLeft(t)
	b.noneUnknown(t, b.Calls())
}

// A worker that has died in the middle leaves a load balancer PENDING for ever, and no request of ours ends that.
func TestALoadBalancerThatStaysPending(t *testing.T) {
	b := balance(t, 2)
	s := service("web")
	resume := b.StopWorker()
	_ = b.once(t, s)
	stale := b.only(t).ID
	b.Advance(time.Hour)
	b.wait(14 * time.Minute)
	if err := b.once(t, s); err == nil || !strings.Contains(err.Error(), "is PENDING_CREATE") {
		t.Errorf("after 14 minutes, the error is %v", err)
	}
	b.wait(2 * time.Minute)
	b.Calls()
	for range 2 {
		contains(t, b.once(t, s), stale, "has been PENDING_CREATE for 16m0s", "may have died", "set its provisioning_status to ERROR in Octavia's database")
		contains(t, b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s), "has been PENDING_CREATE for 16m0s", "provisioning_status")
	}
	b.wrote(t)

	b.SetStatus(stale, openstacksim.Errored)
	resume()
	contains(t, b.fails(t, s), "is in ERROR", onError)
	s.Annotations[onError] = "recreate"
	contains(t, b.fails(t, s), "It is deleted, and made again")
	if address := b.ensure(t, s); address == "" || b.only(t).ID == stale {
		t.Errorf("the address is %q, load balancer %+v", address, b.only(t))
	}
	b.remove(t, s)
	b.nothingLeft(t)
}
