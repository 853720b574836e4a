package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forcedAway removes a Service whose load balancer its user wants to keep.
func (w *world) forcedAway(name string) {
	w.t.Helper()
	w.changeService(name, func(s *corev1.Service) { s.Finalizers = nil })
	w.settle(time.Second)
	w.deleteService(name)
	w.settle(time.Second)
}

// manyOrphans are as many more load balancers without a Service as are remembered.
func manyOrphans(known *store) {
	for i := range maxOrphans {
		name := fmt.Sprintf("gone%04d", i)
		known.orphan("default/"+name, lbState{uid: types.UID(name), service: service(name), spec: "s", tried: true})
	}
}

func TestOfServicesThatAreGoneABoundedNumberIsRemembered(t *testing.T) {
	known := newStore()
	known.putLBState("default/web", lbState{uid: "web", service: service("web"), spec: "s"})
	known.orphan("default/first", lbState{uid: "first", service: service("first"), spec: "s"})
	known.orphan("default/back", lbState{uid: "back", service: service("back"), spec: "s"})
	known.putLBState("default/back", lbState{uid: "back", service: service("back"), spec: "s"}) // it was only not seen for a while
	manyOrphans(known)
	isKnown := func(name string) bool { _, ok := known.get("default/" + name); return ok }
	if len(known.states) != maxOrphans+2 || len(known.orphans) != maxOrphans || isKnown("first") {
		t.Errorf("%d states and %d orphans, the oldest is known: %t", len(known.states), len(known.orphans), isKnown("first"))
	}
	for _, name := range []string{"web", "back", "gone0000", "gone0999"} {
		if !isKnown(name) {
			t.Errorf("%s is forgotten", name)
		}
	}
	known.dropLBState("default/gone0500")
	if len(known.orphans) != maxOrphans-1 || isKnown("gone0500") {
		t.Errorf("%d orphans after one was dropped", len(known.orphans))
	}
}

func TestOfAServiceThatIsGoneOnlyWhatDeletionNeedsIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		annotations := map[string]string{"example.com/kind": "nlb"}
		w.add(node("n1"), service("web", withUID("old"), func(s *corev1.Service) {
			s.Annotations = map[string]string{"example.com/kind": "nlb", corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 200<<10)}
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 200<<10)}}
		}), service("huge", func(s *corev1.Service) {
			s.Annotations = map[string]string{"example.com/note": strings.Repeat("x", 200<<10)}
		}))
		r := w.start()
		w.settle(time.Second)
		w.forcedAway("web")
		w.forcedAway("huge")
		lb, ok := r.controller.store.get("default/web")
		if !ok || !lb.gone || lb.service.Size() > maxOrphanBytes || lb.members != nil || lb.status != nil || lb.stored != nil {
			t.Errorf("of the Service %d bytes are kept (%t): %+v", lb.service.Size(), ok, lb)
		}
		if diff := cmp.Diff(annotations, lb.service.Annotations); diff != "" || lb.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Errorf("what says how the load balancer was made (-want +got):\n%s", diff)
		}
		if lb, ok := r.controller.store.get("default/huge"); ok {
			t.Errorf("%d bytes of a huge Service are kept", lb.service.Size())
		}
		w.took()
		w.add(service("web", withUID("new"))) // which takes the name
		w.settle(time.Second)
		if diff := cmp.Diff([]string{"delete web", "ensure web [n1]"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestADeletionThatHasBegunIsNotForgottenForOrphansOrForTheNextService(t *testing.T) {
	for name, left := range map[string]bool{"after its Service was left alone": true, "after its Service was replaced": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.add(node("n1"), service("web", withUID("old")))
				r := w.start()
				w.settle(time.Second)
				w.cloud.on(failing("delete", errors.New("the cloud is down")))
				w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil })
				if left {
					w.settle(time.Second)
				}
				w.deleteService("web")
				if left {
					w.settle(time.Second)
				}
				w.add(service("web", withUID("new")))
				w.settle(time.Second)
				manyOrphans(r.controller.store)
				w.deleteService("web") // the second, which has no load balancer yet
				w.settle(time.Minute)
				w.cloud.on(nil)
				w.settle(maxRetryDelay)
				if diff := cmp.Diff([]string(nil), w.cloud.has()); diff != "" {
					t.Errorf("the cloud still has (-want +got):\n%s", diff)
				}
			})
		})
	}
}
