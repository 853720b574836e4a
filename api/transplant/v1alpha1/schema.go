package v1alpha1

// Numbers of the schemas of what is kept or read back. A number is raised when a field comes, goes or means something else, once the number before was
// released: internal/repopolicy holds the fields of each number to it. A document without a number is of schema 1.
//
// A reader refuses a number that it does not know, and fields that it does not know: what it left out would be lost when it writes the document back.
const (
	JournalSchema  = 2
	PlanSchema     = 2
	SnapshotSchema = 2
)

// schemas are the numbers by kind. Kinds that are printed and never read have none.
var schemas = map[string]int{KindJournal: JournalSchema, KindPlan: PlanSchema, KindSnapshot: SnapshotSchema}
