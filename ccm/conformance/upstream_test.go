package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cloud-provider/names"
)

// place is which scenarios cover a test of upstream's: the beginnings of their names. A test without scenarios asks functions
// that no constructor leads to, and has the reason.
type place struct {
	scenarios []string
	reason    string
}

func by(scenarios ...string) place { return place{scenarios: scenarios} }

func not(reason string) place { return place{reason: reason} }

// upstreamsTests are all tests of upstream's controllers by the name of the controller.
var upstreamsTests = map[string]map[string]place{
	names.ServiceLBController: {
		"TestSyncLoadBalancerIfNeeded": by(
			"a Service that wants no load balancer", "a Service with finalizer", "a Service with a port of UDP", "a Service with a port of SCTP",
			"a Service with a class of another implementation", "a Service without nodes", "EnsureLoadBalancer is implemented elsewhere"),
		"TestUpdateNodesInExternalLoadBalancer": by("Services with and without load balancer", "no Services, and a node comes", "a node comes"),
		"TestNodeChangesForStableNodeSetEnabled": by("a node comes", "a node changes: it is not Ready", "a node changes: the autoscaler marks it",
			"a node changes: it is Ready again", "a node changes: it is excluded", "a node goes", "a node is being deleted", "a node changes: it has another label"),
		"TestNodeChangesInExternalLoadBalancer": by("a node comes", "UpdateLoadBalancer fails once", "a node comes, and there are ten Services"),
		"TestNodesNotEqual": by("a node changes: it has another provider ID", "a node changes: it has a provider ID at last",
			"a node without provider ID goes, and another comes"),
		"TestProcessServiceCreateOrUpdate":         by("a Service is created", "a Service changes: port", "a Service becomes one of type LoadBalancer"),
		"TestProcessServiceCreateOrUpdateK8sError": by("the status is written into a conflict", "the status is written, and the answer is that there is no such Service"),
		"TestSyncService":                          by("a Service is created", "a Service is deleted"),
		"TestProcessServiceDeletion":               by("a Service is deleted", "EnsureLoadBalancerDeleted always fails"),
		"TestNeedsCleanup":                         by("a Service with finalizer that is being deleted", "a Service with finalizer that wants no load balancer any more"),
		"TestSlowNodeSync":                         by("a node comes while UpdateLoadBalancer takes long", "a Service comes while UpdateLoadBalancer takes long"),
		"TestNeedsUpdate":                          by("a Service changes: "),
		"TestServiceCache":                         not("the cache is upstream's own; the scenarios of Services cover what it is for"),
		"TestAddFinalizer":                         by("a Service with finalizer that wants its load balancer", "a Service with a port of TCP"),
		"TestRemoveFinalizer":                      by("a Service is deleted", "the finalizer cannot be removed once"),
		"TestPatchStatus":                          by("the address is kept when the cloud says the same", "the cloud gives another address", "the cloud gives no address any more"),
		"Test_respectsPredicates": by("a node comes", "a node comes that is not Ready", "a node comes that is excluded",
			"a node changes: it is cordoned", "a node changes: the autoscaler marks it"),
		"TestListWithPredicate":                           not("it picks Nodes by their phase, which no controller of upstream does"),
		"Test_shouldSyncUpdatedNode_individualPredicates": by("a node changes: "),
		"Test_shouldSyncUpdatedNode_compoundedPredicates": by("a node changes: "),
		"TestServiceQueueDelay":                           by("EnsureLoadBalancer fails once", "EnsureLoadBalancer asks for another try later"),
	},
	names.NodeRouteController: {
		"TestIsResponsibleForRoute": by("a route outside of the cluster's range", "a route that is wider than the cluster's range", "a route that is no range"),
		"TestReconcile": by("two nodes have their routes", "one node has its route, one has none", "a route to a node that there is not",
			"a node has no pod CIDR", "two families", "routes have other addresses of nodes", "a route of a node that leads nowhere"),
		"TestHandleNodeUpdate":                            by("nodes are watched, "),
		"TestUpdateNetworkingCondition":                   by("the network is said to be", "the condition is changed by another", "the condition cannot be written once"),
		"TestUpdateNetworkingConditionWithCalicoScenario": by("the network is said to be available by another", "the network is said to be unavailable by another"),
	},
	names.CloudNodeController: {
		"Test_syncNode":                   by("a node: ", "a node, Instances: "),
		"Test_reconcileNodeLabels":        by("a node: stable labels "),
		"TestNodeAddressesChangeDetected": by("a node: its addresses change in the cloud", "a node: an address is gone in the cloud"),
		"TestNodeAddressesNotUpdateV2":    by("a node: addresses are not refreshed while it is tainted"),
		"TestNodeAddressesNotUpdate":      by("a node, Instances: addresses are not refreshed while it is tainted"),
		"TestGetInstanceMetadata":         by("a node: the cloud gives no metadata", "a node: InstanceMetadata fails twice", "a node, Instances: zones are known by name only"),
		"TestUpdateNodeStatus":            by("a node: thirty nodes come together", "a node, Instances: thirty nodes come together"),
	},
	names.CloudNodeLifecycleController: {
		"Test_NodesDeleted": by("a node: it is not Ready, and there is no instance", "a node, Instances: it is not Ready, and there is no instance",
			"a node: InstanceExists fails", "a node: no node has an instance"),
		"Test_NodesShutdown":                  by("a node: it is not Ready, shut down", "a node: InstanceShutdown fails"),
		"Test_GetProviderID":                  by("a node, Instances: asking for the provider ID", "a node: it is not Ready, has no provider ID"),
		"TestNewCloudNodeLifecycleController": by("0 workers", "-5 workers"),
		"TestMonitorNodesMetrics":             by("a node: it is not Ready, and there is an instance"),
	},
}

// A test that upstream's next version adds is noticed here.
func TestEachOfUpstreamsTestsIsTold(t *testing.T) {
	dirs := map[string]string{
		names.ServiceLBController: "service", names.NodeRouteController: "route",
		names.CloudNodeController: "node", names.CloudNodeLifecycleController: "nodelifecycle",
	}
	scenarios := map[string][]string{}
	for _, s := range Scenarios() {
		scenarios[s.Controller] = append(scenarios[s.Controller], s.Name)
	}
	for controller, dir := range dirs {
		theirs := testsOf(t, "k8s.io/cloud-provider/controllers/"+dir)
		here := upstreamsTests[controller]
		for _, test := range theirs {
			where, listed := here[test]
			if !listed {
				t.Errorf("upstream tests its %s controller with %s: tell it in scenarios, or say why not", dir, test)
			}
			for _, first := range where.scenarios {
				if !slices.ContainsFunc(scenarios[controller], func(name string) bool { return strings.HasPrefix(name, first) }) {
					t.Errorf("%s names the scenarios %q, and none of %s begins with that", test, first, controller)
				}
			}
			if listed && len(where.scenarios) == 0 && where.reason == "" {
				t.Errorf("%s has neither scenarios nor a reason", test)
			}
		}
		for test := range here {
			if !slices.Contains(theirs, test) {
				t.Errorf("upstream's %s controller has no %s any more", dir, test)
			}
		}
	}
}

// testsOf are the tests in the source of a package, in the version that this module requires.
func testsOf(t *testing.T, pkg string) (tests []string) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatalf("looking for the source of %s: %v", pkg, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", pkg, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	return tests
}
