package ccmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/poll"
)

// Machines are the names of the machines that a Life begins with.
var Machines = []string{"cp-1", "worker-1", "worker-2"}

// Life is the life of a cluster on a simulated cloud with routes and load balancers, under a provider's program.
type Life struct {
	Program *Program
	// ProviderIDs and Zones have what each of Machines is known by, and where it is.
	ProviderIDs, Zones map[string]string
	// Internal are the annotations of a Service whose load balancer is internal.
	Internal map[string]string
	// Inventory is called while all is there.
	Inventory func(t *testing.T, nodes []v1.Node)
	// PowerOff and Delete are what the owner of a machine does to it.
	PowerOff, Delete func(name string)
	// Objects names what is in the cloud. Names of routes have the part Routes.
	Objects func() []string
	Routes  string
}

// Run lets nodes join, makes Services, and takes all of it away again.
func (l *Life) Run(t *testing.T) {
	t.Helper()
	p := l.Program
	var nodes []v1.Node
	for i, name := range Machines {
		p.Join(t, name, fmt.Sprintf("10.244.%d.0/24", i))
		nodes = append(nodes, v1.Node{Name: name, ProviderID: l.ProviderIDs[name]})
	}
	for _, name := range Machines {
		p.UntilNode(t, name, "initialised, with a route", func(n *corev1.Node) bool {
			return !hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) &&
				n.Spec.ProviderID == l.ProviderIDs[name] && n.Labels[corev1.LabelTopologyZone] == l.Zones[name] &&
				slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
				})
		})
	}
	remove := l.makeServices(t)
	l.Inventory(t, nodes)

	l.PowerOff("worker-1")
	p.SetReady(t, "worker-1", corev1.ConditionUnknown)
	p.UntilNode(t, "worker-1", "tainted as shut down", func(n *corev1.Node) bool {
		return hasTaint(n, cloudproviderapi.TaintNodeShutdown)
	})
	l.Delete("worker-2")
	p.SetReady(t, "worker-2", corev1.ConditionUnknown)
	poll.EventuallyComplete(t, "the node of a deleted machine to be deleted", func(ctx context.Context) string {
		if _, err := p.Admin.CoreV1().Nodes().Get(ctx, "worker-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("its Node is there, error ", err)
		}
		return ""
	})
	remove()
}

// makeServices makes a Service of each kind, and returns when they have addresses. Removing them leaves nothing.
func (l *Life) makeServices(t *testing.T) (remove func()) {
	t.Helper()
	services := l.Program.Admin.CoreV1().Services(metav1.NamespaceDefault)
	made := map[string]map[string]string{"web": nil, "inside": l.Internal}
	for name, annotations := range made {
		_, err := services.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range made {
		poll.EventuallyComplete(t, "Service "+name+" to have an address", func(ctx context.Context) string {
			got, err := services.Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(got.Status.LoadBalancer.Ingress) != 1 {
				return fmt.Sprint("it has none, error ", err)
			}
			return ""
		})
	}
	return func() {
		t.Helper()
		for name := range made {
			if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		poll.EventuallyComplete(t, "nothing to be left of the Services", func(ctx context.Context) string {
			list, err := services.List(ctx, metav1.ListOptions{LabelSelector: "component!=apiserver"})
			left := slices.DeleteFunc(l.Objects(), func(name string) bool { return strings.Contains(name, l.Routes) })
			if err != nil || len(list.Items) > 0 || len(left) > 0 {
				return fmt.Sprintf("%d Services and %q are there, error %v", len(list.Items), left, err)
			}
			return ""
		})
	}
}
