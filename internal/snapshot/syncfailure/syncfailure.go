// Package syncfailure decides which Services have a load balancer that their manager fails to keep, by what it says of
// them in events. Their addresses stay in the status, so that nothing else of a Service shows it.
package syncfailure

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// Reasons of service controllers, ours and upstream's: of one that fails, and of one that has kept a load balancer.
var reasons = map[string]bool{
	"SyncLoadBalancerFailed":   false,
	"UpdateLoadBalancerFailed": false,
	"DeleteLoadBalancerFailed": false,
	"EnsuredLoadBalancer":      true,
	"UpdatedLoadBalancer":      true,
	"DeletedLoadBalancer":      true,
}

// maxMessage bounds what is kept of an event, in bytes.
const maxMessage = 1 << 10

// ListOptions select the events about Services.
var ListOptions = metav1.ListOptions{
	FieldSelector: fields.OneTermEqualSelector("involvedObject.kind", "Service").String(),
}

// Of are the Services whose last event of a service controller says that it has failed, by namespace/name. An event
// that says otherwise in the same second counts as the later one: times of events are whole seconds.
func Of(events []corev1.Event) map[string]v1.SyncFailure {
	newest := map[string]*corev1.Event{}
	for i := range events {
		e := &events[i]
		kept, known := reasons[e.Reason]
		if !known || e.InvolvedObject.Kind != "Service" {
			continue
		}
		key := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		old := newest[key]
		if old == nil || isLater(e, old, kept) {
			newest[key] = e
		}
	}
	out := map[string]v1.SyncFailure{}
	for key, e := range newest {
		if !reasons[e.Reason] {
			out[key] = v1.SyncFailure{
				Reason:  e.Reason,
				Message: mask.Cut(e.Message, maxMessage),
				First:   first(e).UTC(),
				Last:    podreason.EventTime(e).UTC(),
				Count:   max(e.Count, 1),
			}
		}
	}
	return out
}

func isLater(e, old *corev1.Event, kept bool) bool {
	at, before := podreason.EventTime(e).Truncate(time.Second), podreason.EventTime(old).Truncate(time.Second)
	return at.After(before) || at.Equal(before) && kept
}

func first(e *corev1.Event) time.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp.Time
	}
	return podreason.EventTime(e)
}

// Lister lists events of all namespaces.
type Lister func(context.Context, metav1.ListOptions) (*corev1.EventList, error)

// Read lists the events about Services, page by page.
func Read(ctx context.Context, list Lister) (map[string]v1.SyncFailure, error) {
	const page = 500
	var all []corev1.Event
	options := ListOptions
	options.Limit = page
	for {
		events, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, events.Items...)
		if options.Continue = events.Continue; options.Continue == "" {
			return Of(all), nil
		}
	}
}
