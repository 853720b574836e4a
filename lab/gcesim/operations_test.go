package gcesim_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
)

// quota is how Compute Engine ends an operation for which the project has not enough left. It takes the request before.
func quota(after int, path string) *gcesim.OperationFault {
	return &gcesim.OperationFault{
		After: after, Path: path, Status: http.StatusForbidden, Code: "QUOTA_EXCEEDED", Message: "Quota 'LAB' exceeded. Limit: 5.0 globally.",
	}
}

// TestAnOperationThatFails has routes neither made nor deleted, and the error says which and why.
func TestAnOperationThatFails(t *testing.T) {
	sim, provider, nodes := cluster(t, 2, gcesim.Options{}, "multizone = true")
	routes, _ := provider.Routes()
	route := &cloudprovider.Route{TargetNode: "node-0000", DestinationCIDR: "10.244.0.0/24"}
	says := func(err error, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("the error is %v; it should have %q", err, part)
			}
		}
	}
	have := func(want int) (all []*cloudprovider.Route) {
		t.Helper()
		all, err := routes.ListRoutes(t.Context(), "lab")
		if err != nil || len(all) != want {
			t.Fatalf("there are %d routes, want %d: %v", len(all), want, err)
		}
		return all
	}
	sim.FailOperations(quota(0, "/routes/"))
	says(routes.CreateRoute(t.Context(), "lab", "one", route), `making the route to 10.244.0.0/24 of node "node-0000"`, "403", "Quota 'LAB' exceeded", "QUOTA_EXCEEDED")
	have(0)
	sim.FailOperations(nil)
	if err := routes.CreateRoute(t.Context(), "lab", "one", route); err != nil {
		t.Fatal(err)
	}
	made := have(1)[0]
	sim.FailOperations(&gcesim.OperationFault{Path: "/routes/", Status: http.StatusConflict, Code: "RESOURCE_NOT_READY", Message: "The resource is not ready."})
	says(routes.DeleteRoute(t.Context(), "lab", made), "deleting the route lab-one to 10.244.0.0/24", "The resource is not ready.")
	have(1)
	sim.FailOperations(&gcesim.OperationFault{Path: "/routes/", Code: "INTERNAL_ERROR", Message: "Try again."}) // without a status
	says(routes.DeleteRoute(t.Context(), "lab", made), "Try again.")
	have(1)
	sim.FailOperations(nil)
	if err := routes.DeleteRoute(t.Context(), "lab", made); err != nil {
		t.Error(err)
	}
	have(0)
	for i, state := range list(t, provider, nodes...) {
		if state.Err != nil || !state.Exists {
			t.Errorf("node %d: %+v", i, state)
		}
	}
}

// TestOperationsOfALoadBalancerThatFail has each operation of a life fail, and all that follow. The call's error says why, and in the end nothing is left.
func TestOperationsOfALoadBalancerThatFail(t *testing.T) {
	for kind, annotations := range map[string]map[string]string{"external": nil, "internal": internal} {
		for _, step := range []string{"creating", "deleting"} {
			failures := 0
			for after := 0; ; after++ {
				isReached := false
				t.Run(fmt.Sprintf("%s/%s after %d", kind, step, after), func(t *testing.T) {
					isReached = failsInTheMiddle(t, step, after, annotations)
				})
				if !isReached || t.Failed() {
					break
				}
				failures++
			}
			if failures < 4 {
				t.Errorf("%s of an %s load balancer has %d operations", step, kind, failures)
			}
		}
	}
}

// failsInTheMiddle reports whether a step has more operations than go well.
func failsInTheMiddle(t *testing.T, step string, after int, annotations map[string]string) bool {
	t.Helper()
	sim, provider, nodes := cluster(t, 2, gcesim.Options{}, "multizone = true", "subnetwork-name = lab")
	lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", annotations)
	leaving := web.DeepCopy()
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	calls := map[string]func(context.Context) error{
		"creating": func(ctx context.Context) error {
			_, err := lb.EnsureLoadBalancer(ctx, "lab", web.DeepCopy(), nodes)
			return err
		},
		"deleting": func(ctx context.Context) error {
			return lb.EnsureLoadBalancerDeleted(ctx, "lab", leaving.DeepCopy())
		},
	}
	isReached := true
	for _, current := range []string{"creating", "deleting"} {
		if current == step {
			before := sim.Objects()
			sim.FailOperations(quota(after, ""))
			err := calls[current](t.Context())
			isReached = sim.IsFailing()
			sim.FailOperations(nil)
			switch {
			case !isReached && err != nil:
				t.Errorf("%s without a failure: %v", current, err)
			case isReached && (err == nil || !strings.Contains(err.Error(), "Quota 'LAB' exceeded")):
				t.Errorf("%s: the error is %v", current, err)
			}
			if after == 0 && isReached && !slices.Equal(before, sim.Objects()) {
				t.Errorf("where no operation goes well, there were %v and are %v", before, sim.Objects())
			}
		}
		if err := calls[current](t.Context()); err != nil {
			t.Errorf("%s after that: %v", current, err)
		}
	}
	if _, exists, err := lb.GetLoadBalancer(t.Context(), "lab", leaving); err != nil || exists {
		t.Errorf("it is deleted, and exists: %v, error %v", exists, err)
	}
	if left := sim.Objects(); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	return isReached
}
