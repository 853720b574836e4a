package podreason

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UID is the UID with which a kubelet reports about a pod. Its events about a static pod have that of the manifest,
// which the mirror pod has in an annotation.
func UID(p *corev1.Pod) types.UID {
	if hash := p.Annotations[corev1.MirrorPodAnnotationKey]; hash != "" {
		return types.UID(hash)
	}
	return p.UID
}

// newest is what the newest event of one of these reasons says; empty for none.
func newest(f Facts, reasons ...string) string {
	e := newestThat(f, func(e *corev1.Event) bool { return slices.Contains(reasons, e.Reason) })
	if e == nil {
		return ""
	}
	return shortenText(e.Reason + ": " + e.Message)
}

// newestThat is the newest event of this very pod that fits. One of an earlier pod of the same name has another UID.
// One of an earlier life of a static pod has the same UID, and is older than this pod.
func newestThat(f Facts, fits func(*corev1.Event) bool) *corev1.Event {
	uid, born := UID(f.Pod), f.Pod.CreationTimestamp.Time
	var out *corev1.Event
	for i := range f.Events {
		e := &f.Events[i]
		o := e.InvolvedObject
		isOther := o.UID != uid || uid == "" || o.Name != f.Pod.Name || o.Namespace != f.Pod.Namespace
		if at := EventTime(e); isOther || !fits(e) || !at.IsZero() && at.Before(born.Add(-time.Minute)) {
			continue
		}
		if out == nil || EventTime(out).Before(EventTime(e)) {
			out = e
		}
	}
	return out
}

// EventTime is when an event was seen last; zero where it does not say so.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}
