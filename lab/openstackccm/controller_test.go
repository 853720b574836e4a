package openstackccm

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	servicecontroller "github.com/transplant-dev/transplant/ccm/service"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

// controlled is a cluster in memory, in which the service controller runs on our provider.
type controlled struct {
	*balanced

	client *fake.Clientset
	events *record.FakeRecorder
}

func control(t *testing.T, b *balanced) *controlled {
	t.Helper()
	c := &controlled{balanced: b, client: fake.NewClientset(), events: record.NewFakeRecorder(1000)}
	for _, n := range b.nodes {
		if _, err := c.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(c.client, 0)
	options := servicecontroller.NewOptions()
	options.StateConfigMap, options.NodeBatchWindow = "none", 10*time.Millisecond
	made, err := servicecontroller.New(servicecontroller.Config{
		Client: c.client, Cloud: b.cloud, Services: factory.Core().V1().Services(), Nodes: factory.Core().V1().Nodes(),
		ClusterName: cluster, Workers: 2, Options: options, Recorder: c.events,
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.RunController(t, factory, made.Run)
	return c
}

// until waits for a condition of the cluster.
func (c *controlled) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	met := func(context.Context) (bool, error) { return condition(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, met); err != nil {
		t.Fatalf("%s: %v; load balancers %+v", what, err, c.LoadBalancers())
	}
}

func (c *controlled) change(t *testing.T, name string, change func(*corev1.Service)) {
	t.Helper()
	for {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		_, err = c.client.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// The service controller brings load balancers up, changes and removes them while Octavia takes its time for each
// change, and no worker waits for it.
func TestTheServiceControllerKeepsLoadBalancers(t *testing.T) {
	b := balance(t, 2)
	b.SetPending(150 * time.Millisecond)
	adopted := service("old")
	b.inTree(adopted, false)
	c := control(t, b)
	adopted.Status.LoadBalancer.Ingress = nil
	fresh := service("web", func(s *corev1.Service) { s.UID = "11111111-4f50-6172-8394-a5b6c7d8e9f0" })
	for _, s := range []*corev1.Service{adopted, fresh} {
		if _, err := c.client.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name string) bool {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1
	}
	c.until(t, "both have an address", func() bool { return has("old") && has("web") })
	c.change(t, "web", func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		s.Spec.Ports = s.Spec.Ports[:1]
	})
	c.until(t, "it is changed", func() bool {
		for _, lb := range c.LoadBalancers() {
			if lb.Name == "kube_service_lab_default_web" {
				return slices.Equal(shape(lb), []string{"TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080 from 192.0.2.0/24"})
			}
		}
		return false
	})
	for _, name := range []string{"old", "web"} {
		c.change(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	}
	c.until(t, "both are gone", func() bool {
		for _, name := range []string{"old", "web"} {
			s, err := c.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || len(s.Finalizers) > 0 {
				return false
			}
		}
		return true
	})
	b.nothingLeft(t)
	b.noneUnknown(t, b.Calls())
	if events := len(c.events.Events); events > 24 {
		t.Errorf("%d events: the recorder of a manager drops those after the 25th", events)
	}
}
