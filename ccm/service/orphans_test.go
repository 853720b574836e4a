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
func manyOrphans(book *store) {
	for i := range maxOrphans {
		name := fmt.Sprintf("gone%04d", i)
		book.orphan("default/"+name, lbState{uid: types.UID(name), service: service(name), spec: "s", tried: true})
	}
}

func TestOfServicesThatAreGoneABoundedNumberIsRemembered(t *testing.T) {
	book := newBook()
	book.putLBState("default/web", lbState{uid: "web", service: service("web"), spec: "s"})
	book.orphan("default/first", lbState{uid: "first", service: service("first"), spec: "s"})
	book.orphan("default/back", lbState{uid: "back", service: service("back"), spec: "s"})
	book.putLBState("default/back", lbState{uid: "back", service: service("back"), spec: "s"}) // it was only not seen for a while
	manyOrphans(book)
	known := func(name string) bool { _, ok := book.get("default/" + name); return ok }
	if len(book.pages) != maxOrphans+2 || len(book.orphans) != maxOrphans || known("first") {
		t.Errorf("%d pages and %d orphans, the oldest is known: %t", len(book.pages), len(book.orphans), known("first"))
	}
	for _, name := range []string{"web", "back", "gone0000", "gone0999"} {
		if !known(name) {
			t.Errorf("%s is forgotten", name)
		}
	}
	book.dropLBState("default/gone0500")
	if len(book.orphans) != maxOrphans-1 || known("gone0500") {
		t.Errorf("%d orphans after one was dropped", len(book.orphans))
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
		page, ok := r.controller.book.get("default/web")
		if !ok || !page.gone || page.service.Size() > maxOrphanBytes || page.members != nil || page.status != nil || page.stored != nil {
			t.Errorf("of the Service %d bytes are kept (%t): %+v", page.service.Size(), ok, page)
		}
		if diff := cmp.Diff(annotations, page.service.Annotations); diff != "" || page.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Errorf("what says how the load balancer was made (-want +got):\n%s", diff)
		}
		if page, ok := r.controller.book.get("default/huge"); ok {
			t.Errorf("%d bytes of a huge Service are kept", page.service.Size())
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
				manyOrphans(r.controller.book)
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
