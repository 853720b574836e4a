package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
)

// TestHowLongThePhasesOfAPlanTake leaves out the times in which nothing was executed, and counts what goes on until now.
func TestHowLongThePhasesOfAPlanTake(t *testing.T) {
	at := func(before time.Duration) time.Time { return noon.Add(-before) }
	record := func(id string, began, ended time.Duration) v1.StepRecord {
		return v1.StepRecord{ID: id, Started: at(began), Ended: ptr.To(at(ended)), Result: v1.StepResultDone}
	}
	// Two steps prepare, the handover is under way, and the plan of somebody else has a phase that no plan has.
	begun := func(f *Facts) {
		f.Journal.Started = at(10 * time.Minute)
		f.Journal.Plan.Steps = []v1.Step{
			{ID: "a", Phase: "prepare"}, {ID: "b", Phase: "prepare"}, {ID: "c", Phase: "handover"}, {ID: "d", Phase: "handover"},
			{ID: "x", Phase: "planted7hunter2"}, {ID: "e", Phase: "finish"},
		}
		f.Journal.Records = []v1.StepRecord{
			record("a", 10*time.Minute, 9*time.Minute), record("b", 9*time.Minute, 7*time.Minute), record("x", 7*time.Minute, 6*time.Minute),
			record("c", 3*time.Minute, 2*time.Minute), {ID: "d", Started: at(time.Minute), Result: v1.StepResultStarted},
		}
	}
	within := func(from, to time.Duration) func(*Facts) {
		return func(f *Facts) { f.Journal.Stops = append(f.Journal.Stops, v1.StopRecord{From: at(from), To: at(to)}) }
	}
	prepared := v1.SectionTime{Section: "prepare", Result: v1.StepResultDone, Seconds: 180}
	handing := func(result v1.StepResult, seconds float64) []v1.SectionTime {
		return []v1.SectionTime{prepared, {Section: "handover", Result: result, Seconds: seconds}}
	}
	for name, c := range map[string]struct {
		change changes
		want   []v1.SectionTime
	}{
		"nothing was begun":               {changes{func(f *Facts) { f.Journal.Records = nil }}, nil},
		"a phase is under way":            {nil, handing(v1.StepResultStarted, 180)},
		"a stop in its middle":            {changes{within(150*time.Second, 130*time.Second)}, handing(v1.StepResultStarted, 160)},
		"a stop between two phases":       {changes{within(6*time.Minute, 4*time.Minute)}, handing(v1.StepResultStarted, 180)},
		"no command executes it":          {changes{func(f *Facts) { f.Lock = nil }}, handing(v1.StepResultStarted, 120)},
		"its step failed":                 {changes{func(f *Facts) { f.Lock, f.Journal.Records[4].Error = nil, "x" }}, handing(v1.StepResultFailed, 120)},
		"the clock of its machine is off": {changes{func(f *Facts) { f.Lock = lockAged(0, -30*time.Second) }}, handing(v1.StepResultStarted, 150)},
		"it failed before its next step": {changes{ended, func(f *Facts) { f.Lock = nil }}, []v1.SectionTime{
			{Section: "prepare", Result: v1.StepResultFailed, Seconds: 60},
		}},
		"the run has ended": {changes{func(f *Facts) {
			f.Journal.Phase, f.Journal.Ended, f.Lock = v1.RunApplied, ptr.To(at(time.Second)), nil
			f.Journal.Records[4].Result, f.Journal.Records[4].Ended = v1.StepResultDone, ptr.To(at(30*time.Second))
		}}, handing(v1.StepResultDone, 150)},
		"the host of a step was excluded": {changes{func(f *Facts) {
			f.Journal.Records[4] = v1.StepRecord{ID: "d", Result: v1.StepResultSkipped}
		}}, handing(v1.StepResultDone, 60)},
		"it is rolled back": {changes{func(f *Facts) {
			f.Journal.Phase = v1.RunRollingBack
			f.Journal.Rollback = &v1.Plan{Steps: []v1.Step{{ID: "back", Phase: "rollback-handover"}}}
			f.Journal.Records = append(f.Journal.Records, v1.StepRecord{ID: "back", Started: at(5 * time.Second), Result: v1.StepResultStarted})
		}}, []v1.SectionTime{{Section: "rollback-handover", Result: v1.StepResultStarted, Seconds: 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Judge(underWay(append(changes{begun}, c.change...)...)).SectionTimes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFindingsAreThoseOfChecksThatThereAre: who may write a journal may write any code, level and outcome into its plan.
func TestFindingsAreThoseOfChecksThatThereAre(t *testing.T) {
	all := check.All()
	first, second, last := all[0], all[1], all[len(all)-1]
	s := Judge(underWay(func(f *Facts) {
		f.Journal.Plan.Findings = []v1.Finding{
			{Code: last.Code, Level: "planted7hunter2", Outcome: v1.Unknown}, {Code: "planted7hunter2", Outcome: v1.Fail},
			{Code: second.Code, Outcome: "planted7hunter2"}, {Code: first.Code, Outcome: v1.Warn}, {Code: first.Code, Outcome: v1.Fail},
			{Code: all[2].Code, Outcome: v1.Pass, Accepted: "it was needed once"},
		}
	}))
	want := []v1.PlanFinding{
		{Code: first.Code, Level: first.Level, Outcome: v1.Fail}, {Code: last.Code, Level: last.Level, Outcome: v1.Unknown},
	}
	if diff := cmp.Diff(want, s.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
