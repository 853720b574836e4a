// Package fieldowner finds out who wrote a field of an API object last, by the object's managed fields.
package fieldowner

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Ours is the field manager of everything that this program writes to a cluster.
const Ours = "transplant"

// Write is a write of a field.
type Write struct {
	// Manager is what the client that wrote calls itself, such as kubectl-edit. A client chooses it: it is one line
	// here, and what looks like a secret is masked.
	Manager string
	// At is by the API server's clock, to the second.
	At time.Time
}

// LastWrite returns the newest write after a moment of a client that owns any of some fields. A client that changes a
// field's value becomes its only owner, so it changed a field of one value. Of a field with others in it, it may have
// written another part, or the same value again. It is false where no owner wrote since: an older one changed
// nothing.
func LastWrite(managed []metav1.ManagedFieldsEntry, since time.Time, fields ...[]string) (last Write, known bool) {
	for _, m := range managed {
		if m.Time == nil || !m.Time.After(since) || m.FieldsV1 == nil || !m.Time.After(last.At) {
			continue
		}
		for _, field := range fields {
			if hasField(m.FieldsV1.GetRawBytes(), field) {
				last, known = Write{Manager: visible.Line(mask.Text(m.Manager)), At: m.Time.UTC()}, true
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
