package gcesim_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/provider/gce"
)

// internal are the annotations of a Service whose load balancer is internal.
var internal = map[string]string{"networking.gke.io/load-balancer-type": "Internal"}

// TestObjectsHaveTheInTreeNames: a load balancer that the in-tree provider made is found again by them.
func TestObjectsHaveTheInTreeNames(t *testing.T) {
	sim, provider, nodes := cluster(t, 1, gcesim.Options{})
	lb := ccmtest.LoadBalancers(t, provider)
	web := ccmtest.Service("web", nil)
	if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes); err != nil {
		t.Fatal(err)
	}
	name := "a0000000000004000800000000077656"
	want := []string{
		"global/firewalls/k8s-" + clusterID + "-node-http-hc", "global/firewalls/k8s-fw-" + name,
		"global/httpHealthChecks/k8s-" + clusterID + "-node", "regions/europe-west3/forwardingRules/" + name,
		"regions/europe-west3/targetPools/" + name,
	}
	got := sim.Objects()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestServicesThatCannotBeServed: upstream would make an external load balancer for a misspelt type.
func TestServicesThatCannotBeServed(t *testing.T) {
	sim, provider, nodes := cluster(t, 1, gcesim.Options{})
	lb := ccmtest.LoadBalancers(t, provider)
	for name, c := range map[string]struct {
		change func(*corev1.Service)
		says   string
	}{
		"a misspelt type": {func(s *corev1.Service) {
			s.Annotations = map[string]string{"networking.gke.io/load-balancer-type": "Internl"}
		}, `the annotation networking.gke.io/load-balancer-type has to be Internal or External, and is "Internl"`},
		"an unknown tier": {func(s *corev1.Service) {
			s.Annotations = map[string]string{"cloud.google.com/network-tier": "Gold"}
		}, "has to be Standard or Premium"},
		"an address by name": {func(s *corev1.Service) {
			s.Annotations = map[string]string{"networking.gke.io/load-balancer-ip-addresses": "web"}
		}, "is not read: use spec.loadBalancerIP"},
		"SCTP":       {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP }, "port 80 has protocol SCTP"},
		"IPv6 alone": {func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "it has IPv6 alone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ccmtest.Service("web", nil)
			c.change(s)
			_, err := lb.EnsureLoadBalancer(t.Context(), "lab", s, nodes)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "default/web") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	classed := ccmtest.Service("web", nil)
	class := "example.com/other"
	classed.Spec.LoadBalancerClass = &class
	if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", classed, nodes); !errors.Is(err, cloudprovider.ImplementedElsewhere) {
		t.Errorf("with a class the error is %v", err)
	}
	if left := sim.Objects(); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}

// TestMembersAreNotLost: upstream removes the instances from a load balancer that its list lacks.
func TestMembersAreNotLost(t *testing.T) {
	sim, provider, nodes := cluster(t, 4, gcesim.Options{PageSize: 1}, "multizone = true")
	lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", nil)
	if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes); err != nil {
		t.Fatal(err)
	}
	pool := "regions/europe-west3/targetPools/" + lb.GetLoadBalancerName(t.Context(), "lab", web)
	members := func() int {
		list, _ := sim.Object(pool)["instances"].([]any)
		return len(list)
	}
	if members() != 4 {
		t.Fatalf("it has %d members", members())
	}
	sim.SetUnreachable(gcesim.Zone)
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, nodes); err == nil || members() != 4 {
		t.Errorf("with a list that lacks two it has %d members: %v", members(), err)
	}
	sim.SetUnreachable()
	for _, n := range nodes[1:] {
		sim.DeleteInstance(strings.Split(n.Spec.ProviderID, "/")[3], n.Name)
	}
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, nodes); err != nil || members() != 1 {
		t.Errorf("with one instance left it has %d members: %v", members(), err)
	}
	sim.DeleteInstance(gcesim.Zone, nodes[0].Name)
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, nodes); err == nil || members() != 1 {
		t.Errorf("with none of the instances it has %d members: %v", members(), err)
	}
}

func TestANodeInAZoneThatIsNotListed(t *testing.T) {
	_, provider, nodes := cluster(t, 2, gcesim.Options{})
	_, err := ccmtest.LoadBalancers(t, provider).EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), nodes)
	if err == nil || !strings.Contains(err.Error(), "set multizone=true") {
		t.Errorf("the error is %v", err)
	}
}

// TestUpstreamsCallsEndWithOurs: upstream's own contexts last an hour.
func TestUpstreamsCallsEndWithOurs(t *testing.T) {
	hung := make(chan struct{})
	sim := start(t, gcesim.Options{Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/wait") {
				next.ServeHTTP(w, r)
				return
			}
			select {
			case <-hung:
			default:
				close(hung)
			}
			<-r.Context().Done()
		})
	}})
	provider := open(t, sim, gce.Options{})
	sim.AddInstance(gcesim.Instance{Name: "one", IP: "10.0.0.1"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := ccmtest.LoadBalancers(t, provider).EnsureLoadBalancer(ctx, "lab", ccmtest.Service("web", nil), []*corev1.Node{node("one", idOf(gcesim.Zone, "one"))})
		ended <- err
	}()
	<-hung
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on for 10 s after its context has ended")
	}
}

// TestNothingIsSentBeforeAController: on standby, the provider neither asks Compute Engine nor watches the cluster's ID.
func TestNothingIsSentBeforeAController(t *testing.T) {
	sim := start(t, gcesim.Options{})
	provider := open(t, sim, gce.Options{})
	if calls := sim.Calls(); !provider.StartsEarly() || len(calls) > 0 {
		t.Errorf("it has asked %v", calls)
	}
	provider.UseFences() // none: no lease is held
	sim.AddInstance(gcesim.Instance{Name: "one", IP: "10.0.0.1"})
	_, err := ccmtest.LoadBalancers(t, provider).EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), []*corev1.Node{node("one", "")})
	if !errors.Is(err, election.ErrFenced) {
		t.Errorf("the error is %v", err)
	}
	ccmtest.CheckReads(t, sim.Calls())
}

// TestAnInternalLoadBalancer goes by instance groups and a backend service. The finalizer says that it may be there, whatever of it is gone.
func TestAnInternalLoadBalancer(t *testing.T) {
	sim, provider, nodes := cluster(t, 4, gcesim.Options{}, "multizone = true", "subnetwork-name = lab")
	for _, n := range nodes[1:] { // the first one has no label of its zone yet
		n.Labels = map[string]string{corev1.LabelTopologyZone: strings.Split(n.Spec.ProviderID, "/")[3]}
	}
	lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", internal)
	status, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes[:2])
	if err != nil || len(status.Ingress) != 1 {
		t.Fatalf("status %+v, error %v", status, err)
	}
	members := func(zone string) int {
		list, _ := sim.Object("zones/" + zone + "/instanceGroups/k8s-ig--" + clusterID)["instances"].([]any)
		return len(list)
	}
	web.Finalizers = []string{"gke.networking.io/l4-ilb-v1"}
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, nodes); err != nil || members(gcesim.Zone) != 2 || members("europe-west3-b") != 2 {
		t.Errorf("it has %d and %d members: %v", members(gcesim.Zone), members("europe-west3-b"), err)
	}
	sim.Calls()
	again, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes)
	if diff := cmp.Diff(status, again); err != nil || diff != "" {
		t.Errorf("a second look: error %v (-first +second):\n%s", err, diff)
	}
	for _, call := range sim.Calls() {
		if call.Mutates && !strings.Contains(call.Path, "/addresses") { // that is addressWrites
			t.Errorf("a second look sends %s", call)
		}
	}
	now := metav1.Now()
	web.DeletionTimestamp = &now
	if err := lb.EnsureLoadBalancerDeleted(t.Context(), "lab", web); err != nil {
		t.Error(err)
	}
	if left := sim.Objects(); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	if _, exists, err := lb.GetLoadBalancer(t.Context(), "lab", web); err != nil || !exists {
		t.Errorf("with its finalizer it exists: %v (error %v)", exists, err)
	}
}

// TestAZoneThatIsEmpty: with no node left in it, its instance group goes, once no load balancer has it any more.
func TestAZoneThatIsEmpty(t *testing.T) {
	sim, provider, nodes := cluster(t, 4, gcesim.Options{}, "multizone = true", "subnetwork-name = lab")
	lb := ccmtest.LoadBalancers(t, provider)
	services := []*corev1.Service{ccmtest.Service("web", internal), ccmtest.Service("api", internal)}
	services[1].UID = "11111111-0000-4000-8000-000000617069"
	for _, s := range services {
		if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", s, nodes); err != nil {
			t.Fatal(err)
		}
	}
	group := func(zone string) string { return "zones/" + zone + "/instanceGroups/k8s-ig--" + clusterID }
	backends := func(s *corev1.Service) int {
		list, _ := sim.Object("regions/europe-west3/backendServices/" + lb.GetLoadBalancerName(t.Context(), "lab", s))["backends"].([]any)
		return len(list)
	}
	var left []*corev1.Node
	for _, n := range nodes {
		if strings.Contains(n.Spec.ProviderID, "/"+gcesim.Zone+"/") {
			left = append(left, n)
		}
	}
	for i, s := range services {
		if err := lb.UpdateLoadBalancer(t.Context(), "lab", s, left); err != nil || backends(s) != 1 {
			t.Errorf("%s has %d instance groups: %v", s.Name, backends(s), err)
		}
		if isThere := sim.Object(group("europe-west3-b")) != nil; isThere != (i == 0) {
			t.Errorf("after %s is brought up to date, the group of the empty zone is there: %v", s.Name, isThere)
		}
	}
	if sim.Object(group(gcesim.Zone)) == nil {
		t.Error("the group of the zone with nodes is gone")
	}
	sim.Calls()
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", services[0], left); err != nil {
		t.Error(err)
	}
	ccmtest.CheckReads(t, sim.Calls())
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", services[0], nodes); err != nil || backends(services[0]) != 2 {
		t.Errorf("with nodes in the zone again it has %d instance groups: %v", backends(services[0]), err)
	}
}

// TestAZoneThatTheRegionGets while the provider runs is listed once a Node is in it. One that there is not makes no storm of lists.
func TestAZoneThatTheRegionGets(t *testing.T) {
	const newZone = "europe-west3-d"
	for name, annotations := range map[string]map[string]string{"external": nil, "internal": internal} {
		t.Run(name, func(t *testing.T) {
			sim, provider, nodes := cluster(t, 2, gcesim.Options{}, "multizone = true", "subnetwork-name = lab")
			lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", annotations)
			lists := func() (lists int) {
				for _, call := range sim.Calls() {
					if strings.TrimSuffix(call.Path, "/") == "zones" || strings.HasSuffix(call.Path, "/zones") {
						lists++
					}
				}
				return lists
			}
			if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes); err != nil || lists() != 1 {
				t.Fatalf("the zones are not listed once: %v", err)
			}
			sim.AddZone(newZone)
			sim.AddInstance(gcesim.Instance{Name: "new", IP: "10.0.0.99", Zone: newZone})
			nodes = append(nodes, node("new", idOf(newZone, "new")))
			for range 3 {
				if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, nodes); err != nil {
					t.Fatal(err)
				}
			}
			if n := lists(); n != 1 {
				t.Errorf("the zones were listed %d times", n)
			}
			members := 0
			for _, path := range sim.Objects() {
				list, _ := sim.Object(path)["instances"].([]any)
				members += len(list)
			}
			if members != 3 {
				t.Errorf("it has %d members", members)
			}
			const noZone = "europe-west3-x"
			for range 3 {
				err := lb.UpdateLoadBalancer(t.Context(), "lab", web, append(nodes, node("none", idOf(noZone, "none"))))
				if err == nil || !strings.Contains(err.Error(), noZone) || strings.Contains(err.Error(), "multizone") {
					t.Errorf("of a zone that there is not, the error is %v", err)
				}
			}
			if n := lists(); n != 0 {
				t.Errorf("within the period, the zones were listed %d times more", n)
			}
		})
	}
}

// TestANodeWithoutProviderIDInAZoneThatTheRegionGets is found.
func TestANodeWithoutProviderIDInAZoneThatTheRegionGets(t *testing.T) {
	sim, provider, nodes := cluster(t, 5, gcesim.Options{}, "multizone = true")
	list(t, provider, nodes...)
	sim.AddZone("europe-west3-d")
	sim.AddInstance(gcesim.Instance{Name: "new", IP: "10.0.0.99", Zone: "europe-west3-d"})
	for _, asked := range [][]*corev1.Node{{node("new", "")}, append(nodes, node("new", ""))} {
		states := list(t, provider, asked...)
		if state := states[len(states)-1]; state.Err != nil || !state.Exists {
			t.Errorf("of %d nodes: %+v", len(asked), state)
		}
	}
}
