package awsccm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

func route(n int, node *corev1.Node) *cloudprovider.Route {
	r := &cloudprovider.Route{Name: fmt.Sprintf("lab-10.244.%d.0/24", n), DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", n)}
	if node != nil {
		r.TargetNode = types.NodeName(node.Name)
	}
	return r
}

// connected is a bench with a route to every node, and its cache of the nodes that stay.
func connected(t *testing.T, instances int, config func(string) string, stay func(int) bool) (*bench, cloudprovider.Routes) {
	t.Helper()
	b := set(t, instances, config)
	var nodes []*corev1.Node
	for i, n := range b.nodes {
		if stay(i) {
			nodes = append(nodes, n)
		}
		if err := b.Do(
			"ec2",
			"CreateRoute",
			map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": n.Spec.PodCIDR, "InstanceId": instance(n)},
		); err != nil {
			t.Fatal(err)
		}
	}
	b.know(t, nodes...)
	routes, ok := b.cloud.Routes()
	if !ok {
		t.Fatal("there are no routes")
	}
	return b, routes
}

func all(int) bool { return true }

func TestListedRoutesAreTheProvidersWhereItCanList(t *testing.T) {
	for name, config := range map[string]func(string) string{
		"the table is found by its tag": inTree,
		"the table is configured": func(at string) string {
			return strings.Replace(inTree(at), "[Global]\n", "[Global]\nRouteTableID = rtb-lab\n", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, routes := connected(t, 4, config, all)
			if err := b.SetInstanceState(instance(b.nodes[2]), "stopped"); err != nil {
				t.Fatal(err)
			}
			theirs, err := b.cloud.AWS().ListRoutes(t.Context(), "lab")
			if err != nil {
				t.Fatal(err)
			}
			since := b.count()
			ours, err := routes.ListRoutes(t.Context(), "lab")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("(-provider +ours):\n%s", diff)
			}
			if len(ours) != 4 || !ours[2].Blackhole {
				t.Errorf("routes = %+v", ours)
			}
			if diff := cmp.Diff([]string{"ec2:DescribeRouteTables"}, b.calls(since)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAStaleRouteIsListedAndWedgesNothing has the two cases in which the provider's list fails as a whole, for ever and without an event.
func TestAStaleRouteIsListedAndWedgesNothing(t *testing.T) {
	t.Run("a route to an instance that no Node stands for", func(t *testing.T) {
		b, routes := connected(t, 2, inTree, func(i int) bool { return i != 1 })
		if _, err := b.cloud.AWS().ListRoutes(t.Context(), "lab"); err == nil {
			t.Error("the provider can list them now; our own list may not be needed any more")
		}
		ours, err := routes.ListRoutes(t.Context(), "lab")
		if diff := cmp.Diff([]*cloudprovider.Route{route(0, b.nodes[0]), route(1, nil)}, ours); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if err := routes.DeleteRoute(t.Context(), "lab", ours[1]); err != nil {
			t.Error(err)
		}
		if ours, err = routes.ListRoutes(t.Context(), "lab"); err != nil || len(ours) != 1 {
			t.Errorf("after deleting it: %v, %v", ours, err)
		}
	})
	t.Run("a route to an instance that EC2 has forgotten", func(t *testing.T) {
		b, routes := connected(t, 2, inTree, all)
		if err := b.VanishInstance(instance(b.nodes[1])); err != nil {
			t.Fatal(err)
		}
		if _, err := b.cloud.AWS().ListRoutes(t.Context(), "lab"); err == nil {
			t.Error("the provider can list them now; our own list may not be needed any more")
		}
		gone := route(1, nil)
		gone.Blackhole = true
		ours, err := routes.ListRoutes(t.Context(), "lab")
		if diff := cmp.Diff([]*cloudprovider.Route{route(0, b.nodes[0]), gone}, ours); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("a Node whose providerID is not set yet keeps its route", func(t *testing.T) {
		b := set(t, 2, inTree)
		b.nodes[1].Spec.ProviderID, b.nodes[0].Spec.PodCIDR = "", "10.244.0.0/24"
		for i, id := range []string{"i-00000000000000001", "i-00000000000000002"} {
			if err := b.Do(
				"ec2",
				"CreateRoute",
				map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": fmt.Sprintf("10.244.%d.0/24", i), "InstanceId": id},
			); err != nil {
				t.Fatal(err)
			}
		}
		b.know(t, b.nodes...)
		routes, _ := b.cloud.Routes()
		ours, err := routes.ListRoutes(t.Context(), "lab")
		if diff := cmp.Diff([]*cloudprovider.Route{route(0, b.nodes[0]), route(1, b.nodes[1])}, ours); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("no cache of Nodes yet", func(t *testing.T) {
		b := set(t, 1, inTree)
		routes, _ := b.cloud.Routes()
		if _, err := routes.ListRoutes(t.Context(), "lab"); err == nil {
			t.Error("every route would look like nobody's, and there is no error")
		}
	})
}

func TestARouteIsMadeWithTwoRequestsAndAgainWithOne(t *testing.T) {
	b := set(t, 3, inTree)
	b.know(t, b.nodes...)
	routes, _ := b.cloud.Routes()
	if _, err := routes.ListRoutes(t.Context(), "lab"); err != nil {
		t.Fatal(err)
	}
	ghost := &corev1.Node{}
	ghost.Name = "ghost"
	for _, step := range []struct {
		name  string
		do    func() error
		calls []string
		fails string
	}{
		{"a new route", func() error { return routes.CreateRoute(t.Context(), "lab", "", route(0, b.nodes[0])) }, []string{"ec2:ModifyInstanceAttribute", "ec2:CreateRoute"}, ""},
		{"deleting it", func() error { return routes.DeleteRoute(t.Context(), "lab", route(0, b.nodes[0])) }, []string{"ec2:DeleteRoute"}, ""},
		{"deleting it again", func() error { return routes.DeleteRoute(t.Context(), "lab", route(0, b.nodes[0])) }, []string{"ec2:DeleteRoute"}, ""},
		{"making it again", func() error { return routes.CreateRoute(t.Context(), "lab", "", route(0, b.nodes[0])) }, []string{"ec2:CreateRoute"}, ""},
		{"a route that is there", func() error { return routes.CreateRoute(t.Context(), "lab", "", route(0, b.nodes[0])) }, []string{"ec2:CreateRoute", "ec2:DescribeRouteTables"}, ""},
		{"a route that is another's", func() error { return routes.CreateRoute(t.Context(), "lab", "", route(0, b.nodes[1])) },
			[]string{"ec2:ModifyInstanceAttribute", "ec2:CreateRoute", "ec2:DescribeRouteTables"}, "has a route to it already, by i-00000000000000001"},
		{"in the place of a route to nowhere", func() error {
			if err := b.VanishInstance("i-00000000000000001"); err != nil {
				return err
			}
			return routes.CreateRoute(t.Context(), "lab", "", route(0, b.nodes[1]))
		}, []string{"ec2:CreateRoute", "ec2:DescribeRouteTables", "ec2:DeleteRoute", "ec2:CreateRoute"}, ""},
		{"to a node that has no instance", func() error { return routes.CreateRoute(t.Context(), "lab", "", route(7, ghost)) }, []string{"ec2:DescribeInstances"}, "instance not found"},
		{"to a node that no cache knows", func() error {
			n := &corev1.Node{}
			n.Name = "i-00000000000000003"
			return routes.CreateRoute(t.Context(), "lab", "", route(8, n))
		}, []string{"ec2:ModifyInstanceAttribute", "ec2:CreateRoute"}, ""},
	} {
		since := b.count()
		if err := step.do(); (err != nil) != (step.fails != "") || (err != nil && !strings.Contains(err.Error(), step.fails)) {
			t.Errorf("%s: %v, want %q", step.name, err, step.fails)
		}
		if diff := cmp.Diff(step.calls, b.calls(since)); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", step.name, diff)
		}
	}
	for _, i := range b.Instances() {
		if !i.SourceDestCheckOff {
			t.Errorf("%s still drops packets that are not its own", i.ID)
		}
	}
}
