package catalogue

import (
	"maps"
	"slices"
	"strings"
)

// Reading is how the external provider's reading of a Service annotation differs from the in-tree one's.
type Reading string

// Readings. What both read in the same way has no row.
const (
	// Lost is an annotation that the in-tree provider obeys and the external one does not know.
	Lost Reading = "lost"
	// Begins is an annotation that the in-tree provider does not know, so that it does nothing today and something after the handover.
	Begins Reading = "begins"
	// Refused is an annotation with which the external provider does not touch the Service any more, not even to change its members.
	Refused Reading = "refused"
	// Elsewhere is an annotation with which both leave the Service to another controller.
	Elsewhere Reading = "elsewhere"
)

// Annotation is a Service annotation that the in-tree and the external provider do not read in the same way.
type Annotation struct {
	// Key of the annotation, or the beginning of the keys of a family when Family is set.
	Key    string
	Family bool
	// Values for which the row holds; none means every value.
	Values  []string
	Reading Reading
	// With are the values that other annotations must have for the row to hold.
	With map[string]string
	// InTree is the last minor whose in-tree provider obeys a lost annotation; 0 means every one.
	InTree int
	// Since is the first minor of the external provider for which the row holds; 0 means every one, or that it is not known.
	Since int
	// Effect is what the handover changes, a clause without a subject: "gets health checks".
	Effect string
}

// AnnotationsOf returns the rows of a provider that hold for a Service with these annotations, in the table's order. The in-tree minor is that of the
// kube-controller-manager, the external one that of the cloud-controller-manager's library.
func AnnotationsOf(provider string, annotations map[string]string, inTree, external int) []Annotation {
	var out []Annotation
	for _, row := range annotationRows[provider] {
		if row.InTree != 0 && inTree > row.InTree || row.Since > external {
			continue
		}
		if key, ok := row.key(annotations); ok {
			row.Key = key
			out = append(out, row)
		}
	}
	return out
}

// key is the annotation for which the row holds.
func (a Annotation) key(annotations map[string]string) (string, bool) {
	for key, value := range a.With {
		if annotations[key] != value {
			return "", false
		}
	}
	if !a.Family {
		value, ok := annotations[a.Key]
		return a.Key, ok && a.means(value)
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, a.Key) && a.means(annotations[key]) {
			return key, true
		}
	}
	return "", false
}

func (a Annotation) means(value string) bool {
	return len(a.Values) == 0 || slices.Contains(a.Values, value)
}
