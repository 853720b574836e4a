package object

import (
	"os"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/schematest"
)

// TestHowATaintIsKeptChangesUnderANewNumberOnly is about what no listing of the journal's fields shows: the JSON in StepRecord.Before.
func TestHowATaintIsKeptChangesUnderANewNumberOnly(t *testing.T) {
	form := schematest.Form{Name: "taint", Constant: "v1.JournalSchema", Number: v1.JournalSchema, Of: []any{taintRecord{}}}
	broken, err := form.Broken(os.DirFS("testdata/schemas"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}
