// Package fieldowner finds out who wrote a field of an API object last, by the object's managed fields.
package fieldowner

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ours is the field manager of everything that this program writes to a cluster.
const Ours = "transplant"

// Write is a write of a field.
type Write struct {
	// Manager is what the client that wrote calls itself, such as kubectl-edit.
	Manager string
	// At is by the API server's clock, to the second.
	At time.Time
}

// LastWrite returns the newest write of any of some fields after a moment. A client that changes a field's value
// becomes its only owner, so an owner since then made the change. It is false where no managed fields say so: an older
// owner did not change anything.
func LastWrite(managed []metav1.ManagedFieldsEntry, since time.Time, fields ...[]string) (last Write, known bool) {
	for _, m := range managed {
		if m.Time == nil || !m.Time.After(since) || m.FieldsV1 == nil || !m.Time.After(last.At) {
			continue
		}
		for _, field := range fields {
			if hasField(m.FieldsV1.GetRawBytes(), field) {
				last, known = Write{Manager: m.Manager, At: m.Time.UTC()}, true
				break
			}
		}
	}
	return last, known
}

// WithoutOurs returns managed fields without those that this program wrote.
func WithoutOurs(managed []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(managed), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == Ours })
}

// hasField reports whether managed fields have a path, whose parts are as the API server writes them: f:spec.
func hasField(raw []byte, path []string) bool {
	for _, part := range path {
		var at map[string]json.RawMessage
		if json.Unmarshal(raw, &at) != nil {
			return false
		}
		next, ok := at[part]
		if !ok {
			return false
		}
		raw = next
	}
	return true
}
