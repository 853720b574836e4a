package azuresim_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/provider/azure"
)

// TestNodesAreNotWritten: upstream's handler of Nodes taints one that is shut down, and removes the taint from one that is ready. Here it gets
// Nodes with each call, and asks the API server for none of that. The server fails the test with every request.
func TestNodesAreNotWritten(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	nodes := cluster(t, sim, 4)
	ready, shut, excluded, leaving := nodes[0], nodes[1], nodes[2], nodes[3]
	for _, n := range nodes {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	ready.Spec.Taints = []corev1.Taint{outOfService}
	sim.SetPower(shut.Spec.ProviderID, "deallocated")
	shut.Status.Conditions[0].Status = corev1.ConditionUnknown
	shut.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}}
	excluded.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	leaving.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}

	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	provider.SetInformers(factory)
	store := factory.Core().V1().Nodes().Informer().GetStore()
	for _, n := range nodes {
		if err := store.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", nil)
	members := func() string {
		var all []string
		for _, name := range sim.Objects() {
			if machine, _, isMember := strings.Cut(name, "-nic in "); isMember {
				all = append(all, strings.TrimPrefix(machine, "networkinterfaces/"))
			}
		}
		return strings.Join(all, " ")
	}
	sim.Calls()
	status, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, []*corev1.Node{ready, shut})
	if err != nil || members() != "node-1 node-2" {
		t.Fatalf("its members are %s: %v", members(), err)
	}
	web.Status.LoadBalancer = *status
	ready.Spec.Taints, shut.Spec.Taints = nil, append(shut.Spec.Taints, outOfService)
	sim.Calls()
	if err := lb.UpdateLoadBalancer(t.Context(), "lab", web, []*corev1.Node{ready, shut}); err != nil || members() != "node-1 node-2" {
		t.Errorf("its members are %s: %v", members(), err)
	}
	ccmtest.CheckReads(t, sim.Calls())
	if err := lb.EnsureLoadBalancerDeleted(t.Context(), "lab", web); err != nil {
		t.Error(err)
	}
	for _, call := range sim.Calls() {
		for _, n := range []*corev1.Node{excluded, leaving} {
			if call.Mutates && strings.Contains(strings.ToLower(call.Path), n.Name) {
				t.Errorf("it sent %s", call)
			}
		}
	}
}
