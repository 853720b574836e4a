// Package blame finds out who made a difference, from managed fields and events.
package blame

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fieldowner"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// maxBlamed bounds the objects about which the API is asked who changed them.
const maxBlamed = 50

// Blame says who made each difference that nothing explains. It goes by the API server's managed fields and the
// cluster's events of the last hour. An answer that cannot be had is no answer.
func Blame(ctx context.Context, kube kubernetes.Interface, since time.Time, differences []v1.Difference) {
	asked := map[string]*blamed{}
	for i := range differences {
		d := &differences[i]
		if d.Expected {
			continue
		}
		b := asked[d.Object]
		if b == nil && len(asked) < maxBlamed {
			b = readBlame(ctx, kube, d.Object)
			asked[d.Object] = b
		}
		if b != nil {
			d.By = b.by(d.Field, since)
		}
	}
}

// blamed is what the API says of an object: its managed fields, or the last event about one that is gone.
type blamed struct {
	managed []metav1.ManagedFieldsEntry
	event   string
}

// readBlame asks about Kind/name or Kind/namespace/name; nil for a kind that is not asked about.
func readBlame(ctx context.Context, kube kubernetes.Interface, object string) *blamed {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kind, namespace, name := splitObject(object)
	var meta metav1.Object
	var err error
	switch kind {
	case "Node":
		meta, err = kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	case "Service":
		meta, err = kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	case "PersistentVolume":
		meta, err = kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	case "CSINode":
		meta, err = kube.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{})
	default:
		return nil
	}
	switch {
	case apierrors.IsNotFound(err):
		return &blamed{event: lastEvent(ctx, kube, kind, namespace, name)}
	case err != nil:
		return nil
	}
	return &blamed{managed: meta.GetManagedFields()}
}

func splitObject(object string) (kind, namespace, name string) {
	parts := strings.SplitN(object, "/", 3)
	if len(parts) == 3 {
		return parts[0], parts[1], parts[2]
	}
	return parts[0], "", parts[len(parts)-1]
}

// lastEvent is what the newest event about an object says.
func lastEvent(ctx context.Context, kube kubernetes.Interface, kind, namespace, name string) string {
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where events about objects without a namespace are
	}
	list, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{
			"involvedObject.kind": kind,
			"involvedObject.name": name,
		}.AsSelector().
			String(),
		Limit: collect.PageSize,
	})
	if err != nil {
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name &&
			(newest == nil || eventTime(e).After(eventTime(newest))) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	source := newest.Source.Component
	if source == "" {
		source = newest.ReportingController
	}
	return fmt.Sprintf(
		"event %s of %s at %s: %s",
		newest.Reason,
		source,
		eventTime(newest).UTC().Format(time.DateTime),
		mask.Text(newest.Message),
	)
}

func eventTime(e *corev1.Event) time.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// by names who wrote a field last since a moment.
func (b *blamed) by(field string, since time.Time) string {
	if b.event != "" {
		return b.event
	}
	path := fieldPath(field)
	if path == nil {
		return ""
	}
	last, known := fieldowner.LastWrite(b.managed, since, path)
	if !known {
		return ""
	}
	return fmt.Sprintf("written by %s, last at %s", last.Manager, last.At.Format(time.DateTime))
}

// fieldPath is where a field of a difference stands in managed fields; nil when it cannot be found there, as one that
// was taken away.
func fieldPath(field string) []string {
	if key, ok := strings.CutPrefix(field, "label "); ok {
		return []string{"f:metadata", "f:labels", "f:" + key}
	}
	if key, ok := strings.CutPrefix(field, "annotation "); ok {
		return []string{"f:metadata", "f:annotations", "f:" + key}
	}
	return map[string][]string{
		"providerID": {
			"f:spec", "f:providerID",
		}, "taints": {"f:spec", "f:taints"}, "podCIDRs": {"f:spec", "f:podCIDRs"}, "ports": {"f:spec", "f:ports"},
		"class": {
			"f:spec", "f:loadBalancerClass",
		}, "finalizers": {"f:metadata", "f:finalizers"}, "phase": {"f:status", "f:phase"}, "uid": {"f:metadata"},
	}[field]
}
