package azuresim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/provider/azure"
)

// internal are the annotations of a Service whose load balancer is internal.
var internal = map[string]string{"service.beta.kubernetes.io/azure-load-balancer-internal": "true"}

// makeBalancers makes an external and an internal load balancer.
func makeBalancers(t *testing.T, provider *azure.Cloud, nodes []*corev1.Node) {
	t.Helper()
	lb := ccmtest.LoadBalancers(t, provider)
	for name, annotations := range map[string]map[string]string{"web": nil, "inside": internal} {
		if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service(name, annotations), nodes); err != nil {
			t.Fatal(err)
		}
	}
}

func cluster(t *testing.T, sim *azuresim.Cloud, machines int) (nodes []*corev1.Node) {
	t.Helper()
	for i := range machines {
		name := fmt.Sprintf("node-%d", i+1)
		nodes = append(nodes, node(name, sim.AddMachine(azuresim.Machine{Name: name, IP: fmt.Sprintf("10.0.0.%d", i+1)})))
	}
	return nodes
}

// TestObjectsHaveTheInTreeNames: a load balancer that the in-tree provider made is found again by them.
func TestObjectsHaveTheInTreeNames(t *testing.T) {
	sim := start(t, azuresim.Options{Polls: 3})
	provider := open(t, sim, azure.Options{}, nil)
	makeBalancers(t, provider, cluster(t, sim, 1))
	want := []string{
		"loadbalancers/lab", "loadbalancers/lab-internal",
		"networkinterfaces/node-1-nic in loadbalancers/lab-internal/backendaddresspools/lab",
		"networkinterfaces/node-1-nic in loadbalancers/lab/backendaddresspools/lab",
		"publicipaddresses/lab-a0000000000004000800000000077656",
	}
	got := slices.DeleteFunc(sim.Objects(), func(name string) bool { return name[:7] == "network" && name[7] == 's' })
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestAnInTreeRuleGoesWithItsService: a migration leaves the in-tree provider's security rule next to upstream's, which deletes those with its own names alone.
func TestAnInTreeRuleGoesWithItsService(t *testing.T) {
	sim := start(t, azuresim.Options{})
	lb, nodes, web := ccmtest.LoadBalancers(t, open(t, sim, azure.Options{}, nil)), cluster(t, sim, 1), ccmtest.Service("web", nil)
	status, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes)
	if err != nil {
		t.Fatal(err)
	}
	web.Status.LoadBalancer = *status
	const inTree = "a0000000000004000800000000077656-TCP-80-Internet"
	const another = "a1111111111114000800000000077656-TCP-80-Internet"
	sim.AddSecurityRule(inTree, status.Ingress[0].IP, "80")
	sim.AddSecurityRule(another, "198.51.100.250", "80")
	if err := lb.EnsureLoadBalancerDeleted(t.Context(), "lab", web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"networksecuritygroups/lab-nsg/" + another}, sim.Objects()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestNothingIsSentBeforeAController: on standby, the provider does not ask Azure, and changes nothing without a lease.
func TestNothingIsSentBeforeAController(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	if calls := sim.Calls(); !provider.StartsEarly() || len(calls) > 0 {
		t.Errorf("it has asked %v", calls)
	}
	provider.UseFences() // none: no lease is held
	_, err := ccmtest.LoadBalancers(t, provider).EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), cluster(t, sim, 1))
	if !errors.Is(err, election.ErrFenced) {
		t.Errorf("the error is %v", err)
	}
	ccmtest.CheckReads(t, sim.Calls())
}

// TestOneCallReadsAnObjectOnce, however many machines there are, and the next call reads it again.
func TestOneCallReadsAnObjectOnce(t *testing.T) {
	sim := start(t, azuresim.Options{})
	lb, nodes := ccmtest.LoadBalancers(t, open(t, sim, azure.Options{}, nil)), cluster(t, sim, 3)
	if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), nodes); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sim.Calls()
		if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", ccmtest.Service("web", nil), nodes); err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for _, call := range sim.Calls() {
			times[call.Path+"?"+call.Query]++
		}
		if len(times) == 0 {
			t.Error("it reads nothing")
		}
		for path, n := range times {
			if n > 1 {
				t.Errorf("%s was asked for %d times", path, n)
			}
		}
	}
}
