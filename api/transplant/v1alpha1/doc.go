// Package v1alpha1 decides the shape of everything Transplant writes to a file, into the cluster, or to standard output
// with -o json|yaml. These are Snapshot, CheckReport, Plan, Journal, Status and Report, and the lines of an ownership
// log and of a cloud audit log.
//
// Compatibility: a field is added, never renamed or given a new meaning, within v1alpha1. Readers refuse versions,
// numbers of schemas and fields that they do not know. So a reader that writes back what it read drops nothing. Logs of
// lines are appended to and never written back. A reader ignores unknown fields of those, and of what the lock shows
// during a run. Times are RFC 3339 with nanoseconds where ordering matters, durations are seconds as floating point
// numbers in fields whose name ends in Seconds.
package v1alpha1

// GroupVersion is the apiVersion of every kind in this package.
const GroupVersion = "transplant.dev/v1alpha1"

// TypeMeta names the kind and version of a document.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Schema is the number of the fields that the document may have, where it is of a kind that is read back. Absent means
	// 1.
	Schema int `json:"schema,omitempty"`
}

// Type returns the TypeMeta of a kind in this version.
func Type(kind string) TypeMeta {
	return TypeMeta{APIVersion: GroupVersion, Kind: kind, Schema: schemas[kind]}
}

// Numbers of the schemas of what is kept or read back. A number is raised when a field comes, goes or means something
// else, once the number before was released. internal/repopolicy holds the fields of each number to it. A document
// without a number is of schema 1.
//
// A reader refuses unknown numbers and unknown fields: what it left out would be lost when it writes the document back.
const (
	JournalSchema  = 2
	PlanSchema     = 2
	SnapshotSchema = 2
)

// schemas are the numbers by kind. Kinds that are printed and never read have none.
var schemas = map[string]int{KindJournal: JournalSchema, KindPlan: PlanSchema, KindSnapshot: SnapshotSchema}
