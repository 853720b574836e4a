package azuresim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/provider/azure"
)

// faultsOf are the ways in which operations fail after some that go well: one or all that follow, without the effect of the change or with it.
func faultsOf(after int) map[string]*azuresim.OperationFault {
	all := map[string]*azuresim.OperationFault{}
	for many, times := range map[string]int{"one": 1, "all": 0} {
		for kind, hasEffect := range map[string]bool{"without effect": false, "with effect": true} {
			all[many+" "+kind] = &azuresim.OperationFault{
				After: after, Times: times, AfterEffect: hasEffect, Code: "InternalServerError", Message: "An error of the lab has occurred.",
			}
		}
	}
	return all
}

// failEach has each operation of a change fail in each way. The change reports whether a fault was reached. There have to be a number of operations.
func failEach(t *testing.T, what string, atLeast int, change func(*testing.T, *azuresim.OperationFault) bool) {
	t.Helper()
	for way := range faultsOf(0) {
		failures := 0
		for after := 0; ; after++ {
			isReached := false
			isRight := t.Run(fmt.Sprintf("%s/%s after %d", what, way, after), func(t *testing.T) { isReached = change(t, faultsOf(after)[way]) })
			if !isRight {
				return
			}
			if !isReached {
				break
			}
			failures++
		}
		if failures < atLeast {
			t.Errorf("%s, %s: it has %d operations, want at least %d", what, way, failures, atLeast)
		}
	}
}

// failing calls what changes something, while operations fail. It reports whether one did; then the error says so in one line.
func failing(t *testing.T, sim *azuresim.Cloud, fault *azuresim.OperationFault, call func() error) bool {
	t.Helper()
	sim.FailOperations(fault)
	err := call()
	isReached := sim.Failures() > 0
	sim.FailOperations(nil)
	switch {
	case !isReached && err != nil:
		t.Errorf("without a failure: %v", err)
	case isReached && err == nil:
		t.Error("an operation has failed, and there is no error")
	case isReached:
		for _, part := range []string{"InternalServerError", "An error of the lab has occurred.", "Azure accepted "} {
			if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v; it should have %q", err, part)
			}
		}
	}
	return isReached
}

// TestOperationsOfALoadBalancerThatFail has each operation of a life fail. After that the next call makes all right, and in the end nothing is left.
func TestOperationsOfALoadBalancerThatFail(t *testing.T) {
	for kind, annotations := range map[string]map[string]string{"external": nil, "internal": internal} {
		for _, vmType := range []string{"standard", "vmss"} {
			want := balancerLife(t, vmType, annotations, "", nil)
			for _, step := range []string{"creating", "leaving", "deleting"} {
				atLeast := map[string]int{"creating": 3, "leaving": 1, "deleting": 1}[step]
				failEach(t, kind+"/"+vmType+"/"+step, atLeast, func(t *testing.T, fault *azuresim.OperationFault) bool {
					got := balancerLife(t, vmType, annotations, step, fault)
					if diff := cmp.Diff(want.objects, got.objects); diff != "" {
						t.Errorf("objects after each step (-want +got):\n%s", diff)
					}
					return got.isReached
				})
			}
		}
	}
}

// life is what has come of the life of a load balancer.
type life struct {
	objects   map[string][]string // after each step
	isReached bool
}

// balancerLife makes a load balancer, has a node leave it, and deletes it. In one step operations fail; then the step is done again.
func balancerLife(t *testing.T, vmType string, annotations map[string]string, failingStep string, fault *azuresim.OperationFault) life {
	t.Helper()
	sim := start(t, azuresim.Options{})
	lb, nodes := ccmtest.LoadBalancers(t, open(t, sim, azure.Options{}, map[string]any{"vmType": vmType})), machinesOf(sim, vmType, 2)
	web := ccmtest.Service("web", annotations)
	calls := map[string]func(context.Context) error{
		"creating": func(ctx context.Context) error {
			status, err := lb.EnsureLoadBalancer(ctx, "lab", web.DeepCopy(), nodes)
			if err == nil {
				web.Status.LoadBalancer = *status
			}
			return err
		},
		"leaving":  func(ctx context.Context) error { return lb.UpdateLoadBalancer(ctx, "lab", web.DeepCopy(), nodes[:1]) },
		"deleting": func(ctx context.Context) error { return lb.EnsureLoadBalancerDeleted(ctx, "lab", web.DeepCopy()) },
	}
	done := life{objects: map[string][]string{}}
	for _, step := range []string{"creating", "leaving", "deleting"} {
		switch step {
		case "leaving":
			metav1.SetMetaDataLabel(&nodes[1].ObjectMeta, corev1.LabelNodeExcludeBalancers, "")
		case "deleting":
			now := metav1.Now()
			web.DeletionTimestamp = &now
		}
		if step == failingStep {
			done.isReached = failing(t, sim, fault, func() error { return calls[step](t.Context()) })
		}
		err := calls[step](t.Context())
		if done.isReached && err != nil && strings.Contains(err.Error(), "ReferencedResourceNotProvisioned") {
			err = calls[step](t.Context()) // upstream has written the address again, and leaves the rest to the next call
		}
		if err != nil {
			t.Errorf("%s: %v", step, err)
		}
		done.objects[step] = sim.Objects()
		slices.Sort(done.objects[step])
		for path, object := range sim.State() {
			properties, _ := object.(map[string]any)["properties"].(map[string]any)
			if state := properties["provisioningState"]; state == "Failed" && (fault == nil || !fault.AfterEffect) {
				t.Errorf("%s: %s is %s", step, path, state)
			}
		}
	}
	if _, exists, err := lb.GetLoadBalancer(t.Context(), "lab", web); err != nil || exists {
		t.Errorf("it is deleted, and exists: %v, error %v", exists, err)
	}
	if left := done.objects["deleting"]; len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	return done
}

func machinesOf(sim *azuresim.Cloud, vmType string, count int) (nodes []*corev1.Node) {
	from := &owner{sim: sim, inScaleSet: vmType == "vmss"}
	for range count {
		n := from.Create()
		n.Spec.ProviderID = from.ids[n.Name]
		nodes = append(nodes, n)
	}
	return nodes
}

// TestOperationsOfRoutesThatFail: a route that was to be made is made by the next call, and the others stay.
func TestOperationsOfRoutesThatFail(t *testing.T) {
	route := func(number int) *cloudprovider.Route {
		return &cloudprovider.Route{
			TargetNode: types.NodeName(fmt.Sprintf("node-%d", number)), DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", number),
			TargetNodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", number)}},
		}
	}
	for _, step := range []string{"creating", "deleting"} {
		failEach(t, step, 1, func(t *testing.T, fault *azuresim.OperationFault) bool {
			sim := start(t, azuresim.Options{})
			routes, _ := open(t, sim, azure.Options{}, nil).Routes()
			have := func(want ...string) (all []*cloudprovider.Route) {
				t.Helper()
				all, err := routes.ListRoutes(t.Context(), "lab")
				var got []string
				for _, one := range all {
					got = append(got, one.DestinationCIDR)
				}
				slices.Sort(got)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("there are routes to %v, want %v: %v", got, want, err)
				}
				return all
			}
			create := func(number int) func() error {
				return func() error { return routes.CreateRoute(t.Context(), "lab", "hint", route(number)) }
			}
			isReached := false
			must := func(current string, call func() error) {
				t.Helper()
				if current == step {
					isReached = failing(t, sim, fault, call)
				}
				if err := call(); err != nil {
					t.Errorf("%s after that: %v", current, err)
				}
			}
			must("the other", create(1))
			must("creating", create(2))
			both := have("10.244.1.0/24", "10.244.2.0/24")
			last := both[slices.IndexFunc(both, func(r *cloudprovider.Route) bool { return r.TargetNode == "node-2" })]
			must("deleting", func() error { return routes.DeleteRoute(t.Context(), "lab", last) })
			have("10.244.1.0/24")
			if state := sim.Object("routetables/lab-routes")["properties"].(map[string]any)["provisioningState"]; state != "Succeeded" {
				t.Errorf("the table is %v", state)
			}
			return isReached
		})
	}
}

// TestOperationsThatFailWithInTreeRules: the in-tree provider's rule goes with its Service, whatever fails, and no other one's.
func TestOperationsThatFailWithInTreeRules(t *testing.T) {
	const own, another = "a0000000000004000800000000077656-TCP-80-Internet", "a1111111111114000800000000077656-TCP-80-Internet"
	failEach(t, "deleting", 3, func(t *testing.T, fault *azuresim.OperationFault) bool {
		sim := start(t, azuresim.Options{})
		lb, nodes, web := ccmtest.LoadBalancers(t, open(t, sim, azure.Options{}, nil)), cluster(t, sim, 1), ccmtest.Service("web", nil)
		status, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes)
		if err != nil {
			t.Fatal(err)
		}
		web.Status.LoadBalancer = *status
		sim.AddSecurityRule(own, status.Ingress[0].IP, "80")
		sim.AddSecurityRule(another, "198.51.100.250", "80")
		remove := func() error { return lb.EnsureLoadBalancerDeleted(t.Context(), "lab", web.DeepCopy()) }
		isReached := failing(t, sim, fault, remove)
		if err := remove(); err != nil {
			t.Errorf("after that: %v", err)
		}
		if diff := cmp.Diff([]string{"networksecuritygroups/lab-nsg/" + another}, sim.Objects()); diff != "" {
			t.Errorf("what is left (-want +got):\n%s", diff)
		}
		return isReached
	})
}
