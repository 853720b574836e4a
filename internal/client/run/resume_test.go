package run

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestThePlanOfAJournalIsMadeOnceForItsWords, unless the journal has changed since the question was asked.
func TestThePlanOfAJournalIsMadeOnceForItsWords(t *testing.T) {
	plan := func(title string) *v1.Plan {
		return &v1.Plan{Steps: []v1.Step{{ID: "a", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/x", Title: title}}}
	}
	seen := reviewed{stored: plan("write"), shown: plan("write /etc/x")}
	if have := seen.reworded(plan("write"), nil); have != seen.shown {
		t.Errorf("it is made again, with the title %q", have.Steps[0].Title)
	}
	have := seen.reworded(plan("nothing"), nil)
	if have == seen.shown || have.Steps[0].Title == "nothing" {
		t.Errorf("of a journal that has changed, it has the title %q", have.Steps[0].Title)
	}
}
