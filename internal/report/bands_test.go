package report

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestABandBeginsWithItsEarliestStep: the owner's host comes last, wherever ownership has gone since the plan was made, so that the plan's first step of a
// phase need not be the first that was carried out.
func TestABandBeginsWithItsEarliestStep(t *testing.T) {
	r := v1.Report{Started: at(0), Ended: at(100), Steps: []v1.StepReport{
		{ID: "external/kcm@cp-1", Phase: "handover", Result: "done", Started: atp(60), DurationSeconds: 10}, // the owner's by then
		{ID: "external/kcm@cp-2", Phase: "handover", Result: "done", Started: atp(20), DurationSeconds: 10},
		{ID: "external/kcm@cp-3", Phase: "handover", Result: "done", Started: atp(40), DurationSeconds: 10},
		{ID: "verify/handed-over", Phase: "verify", Result: "done", Started: atp(80), DurationSeconds: 5},
	}}
	bands, _ := drawSteps(r, drawn(r))
	if len(bands) != 2 || bands[0].X != percent(20) || bands[0].W != percent(50) || !strings.Contains(bands[0].Title, "3 steps") {
		t.Errorf("the bands are %+v, want handover from 20%% for 50%%", bands)
	}
}
