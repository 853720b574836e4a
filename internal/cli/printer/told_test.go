package printer

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestAnEditIsToldByWhatIsPrinted: a change from a value to itself is not printed, and of a text only the first line is.
func TestAnEditIsToldByWhatIsPrinted(t *testing.T) {
	edit := v1.Edit{Op: v1.EditSetFlag, Name: "feature-gates", Value: "AllAlpha=true"}
	for name, c := range map[string]struct {
		change v1.Change
		told   bool
	}{
		"as it is":              {v1.Change{Field: "--feature-gates", Before: "X=true", After: "AllAlpha=true"}, true},
		"from itself to itself": {v1.Change{Field: "--feature-gates", Before: "AllAlpha=true", After: "AllAlpha=true"}, false},
		"of another flag":       {v1.Change{Field: "--v", After: "AllAlpha=true"}, false},
	} {
		if got := isTold([]v1.Change{c.change}, edit); got != c.told {
			t.Errorf("%s: %v", name, got)
		}
	}
	edit.Value = "X=true\nAllAlpha=true"
	if isTold([]v1.Change{{Field: "--feature-gates", After: edit.Value}}, edit) {
		t.Error("its second line counts as told")
	}
}
