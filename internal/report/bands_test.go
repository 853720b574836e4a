package report

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestABandBeginsWithItsEarliestStep: the owner's host comes last, wherever ownership has gone since the plan was made, so that the plan's first step of a
// phase need not be the first that was executed.
func TestABandBeginsWithItsEarliestStep(t *testing.T) {
	r := v1.Report{Started: at(0), Ended: at(100), Steps: []v1.StepReport{
		{ID: "external/kcm@cp-1", Phase: "handover", Result: v1.StepResultDone, Started: atp(60), DurationSeconds: 10}, // the owner's by then
		{ID: "external/kcm@cp-2", Phase: "handover", Result: v1.StepResultDone, Started: atp(20), DurationSeconds: 10},
		{ID: "external/kcm@cp-3", Phase: "handover", Result: v1.StepResultDone, Started: atp(40), DurationSeconds: 10},
		{ID: "verify/handed-over", Phase: "verify", Result: v1.StepResultDone, Started: atp(80), DurationSeconds: 5},
	}}
	bands, _ := drawSteps(r, drawn(r))
	if len(bands) != 2 || bands[0].X != percent(20) || bands[0].W != percent(50) || !strings.Contains(bands[0].Title, "3 steps") {
		t.Errorf("the bands are %+v, want handover from 20%% for 50%%", bands)
	}
}

// TestStepsAreListedAsTheyRan: the table shows a phase in the order of time, and those that did not start last.
func TestStepsAreListedAsTheyRan(t *testing.T) {
	steps := []v1.StepReport{
		{ID: "prepare", Phase: "prepare", Started: atp(5)},
		{ID: "owner", Phase: "handover", Started: atp(60)},
		{ID: "waits", Phase: "handover"},
		{ID: "first", Phase: "handover", Started: atp(20)},
		{ID: "waits too", Phase: "handover"},
		{ID: "second", Phase: "handover", Started: atp(40)},
		{ID: "verify", Phase: "verify", Started: atp(1)},
	}
	var got []string
	for _, s := range inOrder(steps) {
		got = append(got, s.ID)
	}
	if want := "prepare, first, second, owner, waits, waits too, verify"; strings.Join(got, ", ") != want {
		t.Errorf("the order is %s, want %s", strings.Join(got, ", "), want)
	}
	if steps[1].ID != "owner" {
		t.Error("the report's own steps were sorted: their order is the plan's")
	}
}
