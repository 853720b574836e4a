package syncfailure

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func event(name, reason string, second int, changes ...func(*corev1.Event)) corev1.Event {
	at := metav1.NewTime(noon.Add(time.Duration(second) * time.Second))
	e := corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: name}, Reason: reason, Message: "of " + name,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func TestTheLastEventOfAServiceSaysWhetherItFails(t *testing.T) {
	again := func(second int) func(*corev1.Event) {
		return func(e *corev1.Event) {
			e.LastTimestamp, e.Count = metav1.NewTime(noon.Add(time.Duration(second)*time.Second)), 3
		}
	}
	got := Of([]corev1.Event{
		event("fails", "EnsuredLoadBalancer", 1), event("fails", "SyncLoadBalancerFailed", 5, again(9)), event("fails", "EnsuringLoadBalancer", 20),
		event("fails", "SyncLoadBalancerFailed", 0), event("fails", "UpdateLoadBalancerFailed", 7),
		event("recovered", "UpdateLoadBalancerFailed", 1), event("recovered", "UpdatedLoadBalancer", 2),
		event("same-second", "EnsuredLoadBalancer", 3), event("same-second", "SyncLoadBalancerFailed", 3),
		event("of-another", "FailedScheduling", 3),
		event("node", "SyncLoadBalancerFailed", 3, func(e *corev1.Event) { e.InvolvedObject.Kind = "Node" }),
		event("secret", "SyncLoadBalancerFailed", 3, func(e *corev1.Event) { e.Message = "asking with --password=hunter2 failed" }),
	})
	want := map[string]v1.SyncFailure{
		"shop/fails":  {Reason: "SyncLoadBalancerFailed", Message: "of fails", First: noon.Add(5 * time.Second), Last: noon.Add(9 * time.Second), Count: 4},
		"shop/secret": {Reason: "SyncLoadBalancerFailed", Message: got["shop/secret"].Message, First: noon.Add(3 * time.Second), Last: noon.Add(3 * time.Second), Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
	if m := got["shop/secret"].Message; m == "" || m == "asking with --password=hunter2 failed" {
		t.Errorf("the message is %q", m)
	}
}

func TestAllPagesAreRead(t *testing.T) {
	pages := map[string]*corev1.EventList{
		"":  {ListMeta: metav1.ListMeta{Continue: "2"}, Items: []corev1.Event{event("a", "SyncLoadBalancerFailed", 1)}},
		"2": {Items: []corev1.Event{event("a", "EnsuredLoadBalancer", 2), event("b", "SyncLoadBalancerFailed", 1)}},
	}
	got, err := Read(t.Context(), func(_ context.Context, o metav1.ListOptions) (*corev1.EventList, error) {
		if o.FieldSelector != "involvedObject.kind=Service" {
			t.Errorf("asked for %q", o.FieldSelector)
		}
		return pages[o.Continue], nil
	})
	if err != nil || len(got) != 1 || got["shop/b"].Reason == "" {
		t.Errorf("failing: %v, %v", got, err)
	}
}
