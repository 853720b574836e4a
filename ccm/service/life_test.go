package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestServiceLivesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), node("n2"))
		w.start()
		w.add(service("web", withUID("web-uid")))
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure web [n1 n2]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web", "patch services default/web"},
		})
		s := w.service("web")
		if diff := cmp.Diff(statusOf("192.0.2.1"), s.Status.LoadBalancer); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string(nil), s.Labels); diff != "" {
			t.Errorf("what the provider did to its Service is in the API:\n%s", diff)
		}

		w.changeService("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure web [n1 n2]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
		})
		if diff := cmp.Diff([]string{"web-uid 192.0.2.1 :443 [n1 n2]"}, w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}

		w.deleteService("web")
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"get web", "delete web"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
		if w.service("web") != nil || len(w.cloud.has()) != 0 {
			t.Errorf("left: %v, %v", w.service("web"), w.cloud.has())
		}
		w.settle(time.Hour)
		w.want(activity{})
	})
}
