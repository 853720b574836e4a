package openstackccm

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// keepRoutes has the route controller work on the Nodes of a client.
func keepRoutes(t *testing.T, f *fixture, client *fake.Clientset) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	made, err := route.New(route.Config{
		Client: client, Cloud: f.cloud, Nodes: factory.Core().V1().Nodes(), ClusterName: "lab", ClusterCIDR: "10.244.0.0/16",
		ReconciliationPeriod: 100 * time.Millisecond, Options: route.NewOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.RunController(t, factory, made.Run)
}

// untilRoutes waits for the router to have some routes, and none else.
func (f *fixture) untilRoutes(t *testing.T, router string, want ...string) {
	t.Helper()
	diff := ""
	same := func(context.Context) (bool, error) {
		diff = cmp.Diff(want, f.Routes(router))
		return diff == "", nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, same); err != nil {
		t.Fatalf("%v: routes (-want +got):\n%s", err, diff)
	}
}

// writeList writes the router's whole list without a revision, as the in-tree provider does.
func writeList(t *testing.T, neutron *gophercloud.ServiceClient, router string, list ...routers.Route) {
	t.Helper()
	if _, err := routers.Update(t.Context(), neutron, router, routers.UpdateOpts{Routes: &list}).Extract(); err != nil {
		t.Errorf("writing the list of routes: %v", err)
	}
}

// The in-tree manager has read the router's list before our manager has added a route, and writes its own after. What
// that has removed comes back with the next pass, whenever it was written.
func TestAStaleListOfTheInTreeManagerIsRepaired(t *testing.T) {
	const add = "routers/{id}/add_extraroutes"
	stale := []routers.Route{
		{DestinationCIDR: "10.244.0.0/24", NextHop: "10.0.0.10"}, {DestinationCIDR: "192.168.0.0/16", NextHop: "10.0.0.99"},
	}
	for name, during := range map[string]bool{"after our route was added": false, "between our list and our route": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the route controller lists once in 10 s
			f, router, nodes, _ := routed(t, openstacksim.Options{}, 3)
			f.AddRoute(router, "192.168.0.0/16 via 10.0.0.99") // an administrator's
			neutron, err := f.cloud.Client().Network(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset()
			join := func(i int) {
				n := nodes[i].DeepCopy()
				n.Spec.PodCIDR = fmt.Sprintf("10.244.%d.0/24", i)
				n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
				if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			join(0)
			join(1)
			keepRoutes(t, f, client)
			first, second, third := "10.244.0.0/24 via 10.0.0.10", "10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12"
			const admins = "192.168.0.0/16 via 10.0.0.99"
			f.untilRoutes(t, router, first, second, admins)

			lost := make(chan []string, 1)
			write := func() {
				writeList(t, neutron, router, stale...)
				lost <- f.Routes(router)
			}
			if during {
				f.BeforeNext(http.MethodPut, add, write)
			} else {
				write()
			}
			join(2)
			f.untilRoutes(t, router, first, second, third, admins)
			if diff := cmp.Diff([]string{first, admins}, <-lost); during && diff != "" {
				t.Errorf("what the stale list has left (-want +got):\n%s", diff)
			}
			for _, n := range nodes {
				inNetwork := func(ctx context.Context) (bool, error) {
					now, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
					return err == nil && isInNetwork(now), err
				}
				if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, inNetwork); err != nil {
					t.Errorf("node %s is not in the network: %v", n.Name, err)
				}
			}
			for i, n := range nodes {
				if diff := cmp.Diff([]string{fmt.Sprintf("10.244.%d.0/24", i)}, f.pairs(t, n)); diff != "" {
					t.Errorf("pairs of %s (-want +got):\n%s", n.Name, diff)
				}
			}
		})
	}
}

func isInNetwork(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}
