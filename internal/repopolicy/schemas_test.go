package repopolicy

import (
	"flag"
	"os"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/machines"
	"github.com/transplant-dev/transplant/internal/schematest"
)

var update = flag.Bool("update", false, "list the fields of what is kept anew, where their number was not released")

const schemas = "testdata/schemas"

// TestWhatIsKeptChangesUnderANewNumberOnly holds every kind of document that is kept, or read back, to the fields that are listed under its number.
// internal/schematest has the types that break it.
func TestWhatIsKeptChangesUnderANewNumberOnly(t *testing.T) {
	for _, form := range []schematest.Form{
		{Name: "journal", Constant: "v1.JournalSchema", Number: v1.JournalSchema, Of: []any{v1.Journal{}}},
		{Name: "plan", Constant: "v1.PlanSchema", Number: v1.PlanSchema, Of: []any{v1.Plan{}}},
		{Name: "snapshot", Constant: "v1.SnapshotSchema", Number: v1.SnapshotSchema, Of: []any{v1.Snapshot{}}},
		{Name: "machines", Constant: "machines.RecordSchema", Number: machines.RecordSchema, Of: []any{machines.Kept{}}},
	} {
		if *update {
			if err := form.Update(schemas); err != nil {
				t.Fatal(err)
			}
		}
		broken, err := form.Broken(os.DirFS(schemas))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range broken {
			t.Error(line)
		}
	}
}
