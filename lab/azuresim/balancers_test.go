package azuresim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/provider/azure"
)

func service(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", name)), Annotations: annotations,
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityNone,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports:                 []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

func balancers(t *testing.T, provider *azure.Cloud) cloudprovider.LoadBalancer {
	t.Helper()
	found, ok := provider.LoadBalancer()
	if !ok {
		t.Fatal("the provider has no load balancers")
	}
	return found
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
	lb, nodes := balancers(t, provider), cluster(t, sim, 1)
	for name, annotations := range map[string]map[string]string{
		"web": nil, "inside": {"service.beta.kubernetes.io/azure-load-balancer-internal": "true"},
	} {
		if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", service(name, annotations), nodes); err != nil {
			t.Fatal(err)
		}
	}
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

// TestNothingIsSentBeforeAController: on standby, the provider does not ask Azure, and changes nothing without a lease.
func TestNothingIsSentBeforeAController(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	if calls := sim.Calls(); !provider.StartsEarly() || len(calls) > 0 {
		t.Errorf("it has asked %v", calls)
	}
	provider.UseFences() // none: no lease is held
	_, err := balancers(t, provider).EnsureLoadBalancer(t.Context(), "lab", service("web", nil), cluster(t, sim, 1))
	if !errors.Is(err, election.ErrFenced) {
		t.Errorf("the error is %v", err)
	}
	for _, call := range sim.Calls() {
		if call.Mutates() {
			t.Errorf("it sent %s", call)
		}
	}
}

// TestOneCallReadsAnObjectOnce, however many machines there are, and the next call reads it again.
func TestOneCallReadsAnObjectOnce(t *testing.T) {
	sim := start(t, azuresim.Options{})
	lb, nodes := balancers(t, open(t, sim, azure.Options{}, nil)), cluster(t, sim, 3)
	if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", service("web", nil), nodes); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sim.Calls()
		if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", service("web", nil), nodes); err != nil {
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
