package openstackccm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

const (
	cluster = "lab"
	uid     = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	annote  = "loadbalancer.openstack.org/"
	private = "service.beta.kubernetes.io/openstack-internal-load-balancer"
)

// balanced is a cloud with an external network, and our load balancers on it.
type balanced struct {
	*fixture

	balancers cloudprovider.LoadBalancer
	nodes     []*corev1.Node
}

func balance(t *testing.T, nodes int, more ...string) *balanced {
	t.Helper()
	return balanceOn(t, start(t, openstacksim.Options{}, append([]string{"[LoadBalancer]"}, more...)...), nodes)
}

func balanceOn(t *testing.T, f *fixture, nodes int) *balanced {
	t.Helper()
	f.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000001", Name: "public-1", Network: "public", External: true})
	balancers, ok := f.cloud.LoadBalancer()
	if !ok {
		t.Fatal("there are no load balancers")
	}
	return &balanced{f, balancers, f.addServers(nodes)}
}

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
				{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443},
			},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotated(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[name] = value }
}

func internal(s *corev1.Service) { s.Annotations[private] = "true" }

// again calls until the provider asks for no other call.
func again(t *testing.T, call func() error) error {
	t.Helper()
	for range 200 {
		err := call()
		var retry *cloudapi.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		if wait := retry.RetryAfter(); wait <= 0 || wait > time.Minute {
			t.Fatalf("it asks for another call in %s: %v", wait, err)
		}
	}
	t.Fatal("it asks for other calls without end")
	return nil
}

func (b *balanced) ensure(t *testing.T, s *corev1.Service) (ingress string) {
	t.Helper()
	var status *corev1.LoadBalancerStatus
	err := again(t, func() (err error) {
		status, err = b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Status.LoadBalancer = *status
	return status.Ingress[0].IP + status.Ingress[0].Hostname
}

func (b *balanced) fails(t *testing.T, s *corev1.Service) error {
	t.Helper()
	return again(t, func() error {
		_, err := b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
		return err
	})
}

// remove deletes as the service controller does: while GetLoadBalancer finds something.
func (b *balanced) remove(t *testing.T, s *corev1.Service) {
	t.Helper()
	now := metav1.Now()
	s = s.DeepCopy()
	s.DeletionTimestamp = &now
	err := again(t, func() error {
		if _, exists, err := b.balancers.GetLoadBalancer(t.Context(), cluster, s); err != nil || !exists {
			return err
		}
		return b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nothingLeft checks that only what is not the Services' is there.
func (b *balanced) nothingLeft(t *testing.T) {
	t.Helper()
	groups, rules := b.SecurityGroups()
	if lbs := b.LoadBalancers(); len(lbs)+len(b.FloatingIPs())+len(groups)+len(rules) > 0 {
		t.Errorf("left are load balancers %v, floating IPs %v, groups %v, rules %v", lbs, b.FloatingIPs(), groups, rules)
	}
	for _, p := range b.Ports() {
		if strings.HasPrefix(p.DeviceID, "lb-") {
			t.Errorf("port %+v is left", p)
		}
	}
}

func (b *balanced) only(t *testing.T) openstacksim.LoadBalancer {
	t.Helper()
	all := b.LoadBalancers()
	if len(all) != 1 {
		t.Fatalf("there are %d load balancers: %+v", len(all), all)
	}
	return all[0]
}

// shape is a load balancer in one line for each port: protocol, port, pool, members, monitor.
func shape(lb openstacksim.LoadBalancer) (lines []string) {
	for _, l := range lb.Listeners {
		line := fmt.Sprintf("%s %d", l.Protocol, l.Port)
		for _, p := range lb.Pools {
			if p.ID != l.DefaultPool {
				continue
			}
			line += " " + p.Protocol + " " + p.Algorithm + p.Persistence
			var members []string
			for _, m := range p.Members {
				text := fmt.Sprintf("%s:%d", m.Address, m.Port)
				if m.MonitorPort != 0 {
					text += fmt.Sprintf("/%d", m.MonitorPort)
				}
				members = append(members, text)
			}
			slices.Sort(members)
			line += " " + strings.Join(members, ",")
			if p.Monitor != nil {
				line += fmt.Sprintf(" %s %d", p.Monitor.Type, p.Monitor.Delay)
			}
		}
		if len(l.AllowedCIDRs) > 0 {
			line += " from " + strings.Join(l.AllowedCIDRs, ",")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func (b *balanced) looks(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, shape(b.only(t))); diff != "" {
		t.Errorf("the load balancer (-want +got):\n%s", diff)
	}
}

func writes(calls []openstacksim.Call) (out []string) {
	for _, c := range calls {
		if c.Mutates() {
			out = append(out, c.Method+" "+c.Path)
		}
	}
	return out
}

// noneUnknown fails for requests that the simulator does not know.
func (b *balanced) noneUnknown(t *testing.T, calls []openstacksim.Call) {
	t.Helper()
	for _, c := range calls {
		if c.Unknown {
			t.Errorf("unknown to the simulator: %s ?%s", c, c.Query)
		}
	}
}

func TestALoadBalancerLivesAndLeavesNothing(t *testing.T) {
	b := balance(t, 2)
	s := service("web")
	address := b.ensure(t, s)
	calls := b.Calls()
	b.noneUnknown(t, calls)
	if want := []string{"POST lbaas/loadbalancers", "POST floatingips"}; !slices.Equal(want, writes(calls)) {
		t.Errorf("it is made by %v", writes(calls))
	}
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080")
	lb := b.only(t)
	if lb.Name != "kube_service_lab_default_web" || !slices.Equal(lb.Tags, []string{lb.Name}) || lb.VIPSubnet != "subnet-nodes" ||
		lb.Description != "Kubernetes external service default/web from cluster lab" || lb.Listeners[0].Name != "listener_0_"+lb.Name {
		t.Errorf("load balancer %+v", lb)
	}
	if ip := b.FloatingIPs()[0]; ip.Address != address || ip.Port != lb.VIPPort ||
		ip.Description != "Floating IP for Kubernetes external service default/web from cluster lab" {
		t.Errorf("address %s, floating IP %+v", address, ip)
	}
	status, exists, err := b.balancers.GetLoadBalancer(t.Context(), cluster, s)
	if err != nil || !exists || status.Ingress[0].IP != address {
		t.Errorf("status %v, exists %v, error %v", status, exists, err)
	}
	b.remove(t, s)
	b.nothingLeft(t)
	b.noneUnknown(t, b.Calls())
}

func TestChangesOfAService(t *testing.T) {
	b := balance(t, 2, "create-monitor=true", "monitor-delay=7s")
	s := service("web")
	address := b.ensure(t, s)
	members := func(port string) string { return "10.0.0.10:" + port + ",10.0.0.11:" + port }
	https := "TCP 443 TCP ROUND_ROBIN " + members("30443") + " TCP 7"
	for _, step := range []struct {
		name   string
		change func(*corev1.Service)
		want   []string
		writes []string
	}{
		{"as it is made", func(*corev1.Service) {}, []string{https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7"}, nil},
		{
			"a port more", func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053})
			},
			[]string{https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7", "UDP 53 UDP ROUND_ROBIN " + members("30053") + " UDP-CONNECT 7"},
			[]string{"POST lbaas/listeners", "POST lbaas/pools", "PUT lbaas/pools/{id}/members", "POST lbaas/healthmonitors"},
		},
		{
			"a port less", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:2] },
			[]string{https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7"},
			[]string{"DELETE lbaas/pools/{id}", "DELETE lbaas/listeners/{id}"},
		},
		{
			"SCTP", func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "sig", Protocol: corev1.ProtocolSCTP, Port: 80, NodePort: 30038})
			},
			[]string{
				"SCTP 80 SCTP ROUND_ROBIN " + members("30038") + " SCTP 7", https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7",
			},
			[]string{"POST lbaas/listeners", "POST lbaas/pools", "PUT lbaas/pools/{id}/members", "POST lbaas/healthmonitors"},
		},
		{
			"UDP in its place", func(s *corev1.Service) { s.Spec.Ports[2].Protocol = corev1.ProtocolUDP },
			[]string{
				https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7", "UDP 80 UDP ROUND_ROBIN " + members("30038") + " UDP-CONNECT 7",
			},
			[]string{
				"POST lbaas/listeners", "POST lbaas/pools", "PUT lbaas/pools/{id}/members", "POST lbaas/healthmonitors", "DELETE lbaas/pools/{id}",
				"DELETE lbaas/listeners/{id}",
			},
		},
		{
			"TCP alone", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:2] },
			[]string{https, "TCP 80 TCP ROUND_ROBIN " + members("30080") + " TCP 7"},
			[]string{"DELETE lbaas/pools/{id}", "DELETE lbaas/listeners/{id}"},
		},
		{
			"another node port", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31080 },
			[]string{https, "TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 7"},
			[]string{"PUT lbaas/pools/{id}/members"},
		},
		{
			"source ranges", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "10.0.0.0/8"} },
			[]string{
				https + " from 10.0.0.0/8,192.0.2.0/24",
				"TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 7 from 10.0.0.0/8,192.0.2.0/24",
			},
			[]string{"PUT lbaas/listeners/{id}", "PUT lbaas/listeners/{id}"},
		},
		{
			"source ranges in another order", func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.0.2.0/24"}
			},
			[]string{
				https + " from 10.0.0.0/8,192.0.2.0/24",
				"TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 7 from 10.0.0.0/8,192.0.2.0/24",
			}, nil,
		},
		{
			"everyone", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil },
			[]string{https, "TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 7"},
			[]string{"PUT lbaas/listeners/{id}", "PUT lbaas/listeners/{id}"},
		},
		{
			"session affinity", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			[]string{
				"TCP 443 TCP ROUND_ROBINSOURCE_IP " + members("30443") + " TCP 7",
				"TCP 80 TCP ROUND_ROBINSOURCE_IP " + members("31080") + " TCP 7",
			},
			[]string{"PUT lbaas/pools/{id}", "PUT lbaas/pools/{id}"},
		},
		{
			"no affinity, another algorithm", func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityNone
				s.Annotations[annote+"lb-method"] = "LEAST_CONNECTIONS"
			},
			[]string{
				"TCP 443 TCP LEAST_CONNECTIONS " + members("30443") + " TCP 7", "TCP 80 TCP LEAST_CONNECTIONS " + members("31080") + " TCP 7",
			},
			[]string{"PUT lbaas/pools/{id}", "PUT lbaas/pools/{id}"},
		},
		{
			"one port, local traffic", func(s *corev1.Service) {
				delete(s.Annotations, annote+"lb-method")
				s.Spec.Ports = s.Spec.Ports[:1]
				s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 32000
			},
			[]string{"TCP 80 TCP ROUND_ROBIN 10.0.0.10:31080/32000,10.0.0.11:31080/32000 HTTP 7"},
			[]string{
				"PUT lbaas/pools/{id}", "PUT lbaas/pools/{id}/members", "DELETE lbaas/healthmonitors/{id}", "POST lbaas/healthmonitors",
				"DELETE lbaas/pools/{id}", "DELETE lbaas/listeners/{id}",
			},
		},
		{
			"cluster traffic again", func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			},
			[]string{"TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 7"},
			[]string{"PUT lbaas/pools/{id}/members", "DELETE lbaas/healthmonitors/{id}", "POST lbaas/healthmonitors"},
		},
		{
			"another delay of checks", annotated(annote+"health-monitor-delay", "9"),
			[]string{"TCP 80 TCP ROUND_ROBIN " + members("31080") + " TCP 9"}, []string{"PUT lbaas/healthmonitors/{id}"},
		},
		{
			"no checks", annotated(annote+"enable-health-monitor", "false"),
			[]string{"TCP 80 TCP ROUND_ROBIN " + members("31080")}, []string{"DELETE lbaas/healthmonitors/{id}"},
		},
		{
			"proxy protocol", annotated(annote+"proxy-protocol", "v2"),
			[]string{"TCP 80 PROXYV2 ROUND_ROBIN " + members("31080")},
			[]string{"DELETE lbaas/pools/{id}", "POST lbaas/pools", "PUT lbaas/pools/{id}/members"},
		},
		{
			"forwarded for", func(s *corev1.Service) {
				delete(s.Annotations, annote+"proxy-protocol")
				s.Annotations[annote+"x-forwarded-for"] = "true"
			},
			[]string{"HTTP 80 HTTP ROUND_ROBIN " + members("31080")},
			[]string{
				"DELETE lbaas/pools/{id}", "DELETE lbaas/listeners/{id}", "POST lbaas/listeners", "POST lbaas/pools", "PUT lbaas/pools/{id}/members",
			},
		},
		{
			"timeouts and a limit", func(s *corev1.Service) {
				s.Annotations[annote+"timeout-client-data"] = "60000"
				s.Annotations[annote+"connection-limit"] = "100"
			},
			[]string{"HTTP 80 HTTP ROUND_ROBIN " + members("31080")}, []string{"PUT lbaas/listeners/{id}"},
		},
	} {
		step.change(s)
		b.Calls()
		if got := b.ensure(t, s); got != address {
			t.Errorf("%s: the address is %s, and was %s", step.name, got, address)
		}
		calls := b.Calls()
		b.noneUnknown(t, calls)
		if diff := cmp.Diff(step.want, shape(b.only(t))); diff != "" {
			t.Errorf("%s: the load balancer (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.writes, writes(calls)); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.name, diff)
		}
	}
	if l := b.only(t).Listeners[0]; l.Timeouts != [4]int{60000, 5000, 50000, 0} || l.ConnectionLimit != 100 {
		t.Errorf("listener %+v", l)
	}
	b.remove(t, s)
	b.nothingLeft(t)
}

func TestAnUnchangedLoadBalancerCostsThreeCalls(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){"external": func(*corev1.Service) {}, "internal": internal} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 3)
			s := service("web", change)
			for i := range 8 {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: int32(1000 + i), NodePort: int32(31000 + i)})
			}
			b.ensure(t, s)
			for i := range 3 {
				b.Calls()
				b.ensure(t, s)
				if calls := b.Calls(); len(calls) > 3 || len(writes(calls)) > 0 {
					t.Errorf("%d. time: %d calls: %v", i, len(calls), calls)
				}
				b.Advance(10 * time.Second)
			}
			b.ensure(t, s)
			b.Calls()
			b.ensure(t, s)
			if calls := b.Calls(); len(calls) > 2 {
				t.Errorf("when time has passed: %d calls: %v", len(calls), calls)
			}
		})
	}
}

func TestWhatOthersChangeIsFound(t *testing.T) {
	b := balance(t, 2)
	s := service("web")
	b.ensure(t, s)
	b.Advance(time.Minute)
	b.ensure(t, s)
	lb := b.only(t)
	b.Advance(time.Minute)
	b.ChangeResource(lb.Listeners[0].ID, "allowed_cidrs", []any{"192.0.2.0/24"})
	b.ChangeResource(lb.Pools[1].ID, "lb_algorithm", "SOURCE_IP")
	b.Calls()
	b.ensure(t, s)
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080")
	if got := writes(b.Calls()); len(got) != 2 {
		t.Errorf("writes: %v", got)
	}
}

func TestANodeMoreIsOneRequestForEachPort(t *testing.T) {
	b := balance(t, 3)
	s := service("web", func(s *corev1.Service) {
		s.Spec.Ports = nil
		for i := range 10 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: int32(1000 + i), NodePort: int32(31000 + i)})
		}
	})
	all := b.nodes
	update := func(nodes []*corev1.Node) []openstacksim.Call {
		b.Calls()
		if err := again(t, func() error { return b.balancers.UpdateLoadBalancer(t.Context(), cluster, s, nodes) }); err != nil {
			t.Fatal(err)
		}
		return b.Calls()
	}
	b.nodes = all[:2]
	b.ensure(t, s)
	for _, nodes := range [][]*corev1.Node{all, all[1:]} {
		calls := update(nodes)
		if got := writes(calls); len(got) != 10 || slices.ContainsFunc(got, func(c string) bool { return c != "PUT lbaas/pools/{id}/members" }) {
			t.Errorf("%d requests: %v", len(got), got)
		}
		for _, p := range b.only(t).Pools {
			if len(p.Members) != len(nodes) {
				t.Fatalf("members %v, want %d", p.Members, len(nodes))
			}
		}
		for _, c := range calls {
			if additive := strings.Contains(c.Query, "additive_only=true"); c.Method == http.MethodPut && additive != (len(nodes) == 3) {
				t.Errorf("with %d nodes: %s?%s", len(nodes), c, c.Query)
			}
		}
	}
	// without nodes it keeps its members
	err := b.balancers.UpdateLoadBalancer(t.Context(), cluster, s, nil)
	if err == nil || !strings.Contains(err.Error(), "it keeps those that it has") || len(b.only(t).Pools[0].Members) != 2 {
		t.Errorf("without nodes: error %v, members %v", err, b.only(t).Pools[0].Members)
	}
}

func TestNoCallWaitsForWhatIsPending(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	b.SetPending(-1)
	call := func() error {
		_, err := b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
		return err
	}
	var retry *cloudapi.RetryError
	for range 3 {
		begun := time.Now()
		if err := call(); !errors.As(err, &retry) || !strings.Contains(err.Error(), "load balancer kube_service_lab_default_web") {
			t.Fatalf("while it is PENDING_CREATE: %v", err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	}
	if _, exists, err := b.balancers.GetLoadBalancer(t.Context(), cluster, s); err != nil || !exists {
		t.Errorf("exists %v, error %v", exists, err)
	}
	b.FinishPending()
	b.SetPending(0)
	b.ensure(t, s)

	// another client is faster by a moment
	s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	id := b.only(t).ID
	b.BeforeNext(http.MethodPut, "lbaas/listeners/{id}", func() { b.SetStatus(id, openstacksim.PendingUpdate) })
	if err := call(); !errors.As(err, &retry) || !strings.Contains(err.Error(), "by another client") {
		t.Errorf("with a conflict: %v", err)
	}
	b.SetStatus(id, openstacksim.Active)
	b.ensure(t, s)
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443 from 192.0.2.0/24", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080 from 192.0.2.0/24")

	// deletion waits, too, and is not done before it is
	b.SetPending(-1)
	err := b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s)
	if !errors.As(err, &retry) {
		t.Errorf("while it is PENDING_DELETE: %v", err)
	}
	if err := b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s); !errors.As(err, &retry) {
		t.Errorf("while it is PENDING_DELETE: %v", err)
	}
	b.FinishPending()
	b.remove(t, s)
	b.nothingLeft(t)
}

func TestOctaviaIsAwayAndComesBack(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	address := b.ensure(t, s)
	for name, fault := range map[string]openstacksim.Fault{
		"503":        {Service: "load-balancer", Status: http.StatusServiceUnavailable, Body: "<html>busy</html>"},
		"404 (HTML)": {Service: "load-balancer", Status: http.StatusNotFound, Body: "<html>Not Found</html>"},
		"closed":     {Service: "load-balancer"},
	} {
		t.Run(name, func(t *testing.T) {
			remove := b.Add(fault)
			if err := b.fails(t, s); err == nil {
				t.Error("there is no error")
			}
			if _, exists, err := b.balancers.GetLoadBalancer(t.Context(), cluster, s); err == nil {
				t.Errorf("exists %v without an answer", exists)
			}
			if err := b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s); err == nil {
				t.Error("it is deleted without an answer")
			}
			remove()
			if got := b.ensure(t, s); got != address || len(b.LoadBalancers()) != 1 || len(b.FloatingIPs()) != 1 {
				t.Errorf("address %s, load balancers %v", got, b.LoadBalancers())
			}
		})
	}
}

// The answer to a POST is lost: the load balancer is there, and found by its name.
func TestALoadBalancerIsNotMadeTwice(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	remove := b.Add(openstacksim.Fault{Method: http.MethodPost, Path: "lbaas/loadbalancers", Times: 1, Status: http.StatusBadGateway, AfterEffect: true})
	if err := b.fails(t, s); err == nil {
		t.Error("there is no error")
	}
	remove()
	b.ensure(t, s)
	b.only(t)
}

func TestErrorsThatSayWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*balanced, *corev1.Service)
		config  []string
		says    []string
	}{
		"quota of load balancers": {
			func(b *balanced, _ *corev1.Service) { b.SetQuota("loadbalancer", 0) }, nil,
			[]string{"403", "Quota has been met", "raise the quota of the project"},
		},
		"quota of floating IPs": {
			func(b *balanced, _ *corev1.Service) { b.SetQuota("floatingip", 0) }, nil,
			[]string{"floating IP", "Quota exceeded", "raise the quota of the project"},
		},
		"a subnet that is gone": {
			func(*balanced, *corev1.Service) {}, []string{"subnet-id=22222222-0000-4000-8000-000000000002"},
			[]string{"Subnet 22222222-0000-4000-8000-000000000002 not found", "[LoadBalancer] subnet-id in the cloud config"},
		},
		"a subnet of an annotation that is gone": {
			func(_ *balanced, s *corev1.Service) { s.Annotations[annote+"subnet-id"] = "3333" }, nil,
			[]string{"Subnet 3333 not found", "annotation loadbalancer.openstack.org/subnet-id"},
		},
		"a class that is not there": {
			func(_ *balanced, s *corev1.Service) { s.Annotations[annote+"class"] = "dmz" }, nil, []string{`[LoadBalancerClass "dmz"]`},
		},
		"no number": {
			func(_ *balanced, s *corev1.Service) { s.Annotations[annote+"timeout-client-data"] = "1m" }, nil,
			[]string{"default/web", `timeout-client-data is "1m"`, "whole number"},
		},
		"SCTP on an old Octavia": {
			func(b *balanced, s *corev1.Service) {
				b.SetOctaviaVersion(20)
				s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP
			}, nil, []string{"SCTP needs version 2.23"},
		},
		"source ranges on an old Octavia": {
			func(b *balanced, s *corev1.Service) {
				b.SetOctaviaVersion(11)
				s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
			}, nil, []string{"loadBalancerSourceRanges needs version 2.12"},
		},
		"an address that is used": {
			func(b *balanced, s *corev1.Service) {
				b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.77", Network: "public", Port: b.Ports()[0].ID})
				s.Spec.LoadBalancerIP = "203.0.113.77"
			}, nil, []string{"203.0.113.77", "is in use: free it"},
		},
		"a load balancer that is not there": {
			func(_ *balanced, s *corev1.Service) {
				s.Annotations[annote+"load-balancer-id"] = "44444444-0000-4000-8000-000000000004"
			}, nil,
			[]string{"there is no load balancer 44444444", "remove the annotation"},
		},
		"no ID of a load balancer": {
			func(_ *balanced, s *corev1.Service) { s.Annotations[annote+"load-balancer-id"] = "../../v2.0/networks" }, nil,
			[]string{`load-balancer-id is "../../v2.0/networks"`, "has to be the ID"},
		},
		"no node port": {
			func(_ *balanced, s *corev1.Service) { s.Spec.Ports[1].NodePort = 0 }, nil, []string{"port 443 has no node port"},
		},
		"two external networks": {
			func(b *balanced, _ *corev1.Service) {
				b.AddSubnet(openstacksim.Subnet{Network: "other", External: true})
			}, nil,
			[]string{"2 external networks", "floating-network-id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1, test.config...)
			s := service("web")
			test.prepare(b, s)
			err := b.fails(t, s)
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %v, want %q in it", err, part)
				}
			}
		})
	}
}

func TestALoadBalancerInError(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	b.ensure(t, s)
	id := b.only(t).ID
	b.SetStatus(id, openstacksim.Errored)
	b.Calls()
	err := b.fails(t, s)
	if err == nil || !strings.Contains(err.Error(), "is in ERROR") || !strings.Contains(err.Error(), "transplant.dev/openstack-on-error to failover") {
		t.Errorf("the error is %v", err)
	}
	if got := writes(b.Calls()); len(got) > 0 {
		t.Errorf("nobody asked for %v", got)
	}
	s.Annotations["transplant.dev/openstack-on-error"] = "failover"
	b.FailChanges(true)
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "has not helped") {
		t.Errorf("when the failover does not help: %v", err)
	}
	if got := writes(b.Calls()); !slices.Equal(got, []string{"PUT lbaas/loadbalancers/{id}/failover"}) {
		t.Errorf("writes: %v", got)
	}
	b.FailChanges(false)
	b.SetStatus(id, openstacksim.Active)
	b.ensure(t, s)
	b.SetStatus(id, openstacksim.Errored)
	b.remove(t, s) // also what is in ERROR can go
	b.nothingLeft(t)
}

func TestNothingIsChangedOnLoadBalancersBehindAClosedFence(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	b.cloud.UseFences() // none is held
	_, err := b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
	if !errors.Is(err, election.ErrFenced) || len(b.LoadBalancers()) > 0 {
		t.Errorf("error %v, load balancers %v", err, b.LoadBalancers())
	}
}
