package workload

import (
	"os"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/schematest"
)

// TestHowACommandIsKeptChangesUnderANewNumberOnly is about what no listing of the journal's fields shows: the JSON in StepRecord.Before.
func TestHowACommandIsKeptChangesUnderANewNumberOnly(t *testing.T) {
	form := schematest.Form{Name: "kept", Constant: "v1.JournalSchema", Number: v1.JournalSchema, Of: []any{WorkloadBefore{}}}
	broken, err := form.Broken(os.DirFS("testdata/schemas"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}
