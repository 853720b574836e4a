package vsphere

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cloud-provider/names"
	"k8s.io/utils/ptr"
)

func service(name string, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestServicesThatWaitForALoadBalancerAreToldOnce(t *testing.T) {
	api := fake.NewClientset(
		service("waits", nil),
		service("class", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x") }),
		service("served", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}),
		service("inside", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
	)
	told := make(chan *corev1.Event, 100)
	api.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		if ok {
			told <- event
		}
		return true, event, nil
	})
	factory := informers.NewSharedInformerFactory(api, 0)
	n, err := newNotices(api, factory, time.Millisecond, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
		factory.Shutdown()
	}()
	factory.Start(ctx.Done())
	expect := func(name string) {
		t.Helper()
		event := <-told
		if event.InvolvedObject.Name != name || event.Type != corev1.EventTypeWarning || !strings.Contains(event.Message, "such as MetalLB") {
			t.Errorf("event %+v, want one of %s", event, name)
		}
	}
	expect("waits")
	if _, err := api.CoreV1().Services("default").Create(ctx, service("later", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("later")
	changed := service("inside", nil)
	if _, err := api.CoreV1().Services("default").Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("inside")
	changed.Labels = map[string]string{"a": "b"} // still waits: the next event is in an hour
	if _, err := api.CoreV1().Services("default").Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Services("default").Create(ctx, service("last", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("last")
	for _, action := range api.Actions() {
		if action.GetResource().Resource == "services" && action.GetVerb() == "patch" {
			t.Errorf("a Service was changed: %v", action)
		}
	}
}

func TestTheServiceControllerIsReplaced(t *testing.T) {
	c := NewControllers()
	if got := (&notices{}).Name(); got != names.ServiceLBController || c.Constructors[got].Constructor == nil {
		t.Errorf("there is no %s", got)
	}
	keys := []string{}
	for alias, name := range c.Aliases {
		if c.Constructors[name].Constructor == nil {
			keys = append(keys, alias)
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		t.Errorf("aliases of controllers that do not exist: %v", keys)
	}
}
