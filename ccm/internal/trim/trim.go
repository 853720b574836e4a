// Package trim decides what the caches of our controllers keep of an object.
package trim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object removes from an object what neither our controllers nor a provider of ours reads. A kubelet's list of images
// is more than half of a Node. A Node of the cache must therefore never be written as a whole: that would erase in the
// API what was removed here. Our controllers send patches of what they change.
func Object(object any) (any, error) {
	if described, ok := object.(metav1.Object); ok {
		described.SetManagedFields(nil)
	}
	if node, ok := object.(*corev1.Node); ok {
		delete(node.Annotations, corev1.LastAppliedConfigAnnotation)
		node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	}
	return object, nil
}
