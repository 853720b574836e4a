// Package syncfailure decides which Services have a load balancer that their manager fails to keep, by what it says of
// them in events. Their addresses stay in the status, so that nothing else of a Service shows it.
package syncfailure

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
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

// Selector is the field selector of events about Services.
var Selector = fields.OneTermEqualSelector("involvedObject.kind", "Service").String()

// Of are the Services that fail, by namespace/name. A service controller has said so, and not that it has kept the load
// balancer since. An event that says so in the same second counts as the later one: times of events
// are whole seconds. Errors hold the ID of a request, so that each of them may be an event of its own.
func Of(events []corev1.Event) map[string]v1.SyncFailure {
	kept := map[string]time.Time{}
	for i := range events {
		if e := &events[i]; reasons[e.Reason] {
			key := keyOf(e)
			kept[key] = latest(kept[key], secondOf(e))
		}
	}
	out := map[string]v1.SyncFailure{}
	for i := range events {
		e := &events[i]
		ok, known := reasons[e.Reason]
		if ok || !known || e.InvolvedObject.Kind != "Service" || !secondOf(e).After(kept[keyOf(e)]) {
			continue
		}
		key, last := keyOf(e), podreason.EventTime(e).UTC()
		f, there := out[key]
		if f.Count += max(e.Count, 1); !there || !last.Before(f.Last) {
			f.Reason, f.Message, f.Last = e.Reason, mask.Cut(e.Message, maxMessage), last
		}
		if first := firstTime(e).UTC(); !there || first.Before(f.First) {
			f.First = first
		}
		out[key] = f
	}
	return out
}

func keyOf(e *corev1.Event) string { return e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name }

func secondOf(e *corev1.Event) time.Time { return podreason.EventTime(e).Truncate(time.Second) }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func firstTime(e *corev1.Event) time.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp.Time
	}
	return podreason.EventTime(e)
}

// Lister lists events of all namespaces.
type Lister func(context.Context, metav1.ListOptions) (*corev1.EventList, error)

// isOutcome reports whether an event says how a synchronisation ended: most events do not, and are not kept.
func isOutcome(e *corev1.Event) bool {
	_, is := reasons[e.Reason]
	return is
}

// Read lists the events about Services, page by page.
func Read(ctx context.Context, list Lister) (map[string]v1.SyncFailure, error) {
	var all []corev1.Event
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) })
	err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: Selector}, func(item runtime.Object) error {
		if e, is := item.(*corev1.Event); is && isOutcome(e) {
			all = append(all, *e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Of(all), nil
}

// interval is how often Follow looks.
const interval = 3 * time.Second

// Follow looks which Services fail until ctx ends, and has each look taken in. A look that cannot be had is no look.
func Follow(ctx context.Context, list Lister, take func(now time.Time, failing map[string]v1.SyncFailure)) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, done := answerlimit.Pass(ctx)
		defer done()
		if failing, err := Read(ctx, list); err == nil {
			take(time.Now(), failing)
		}
	}, interval)
}
