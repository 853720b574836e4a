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

func TestARunPausesBehindTheLastCanaryThatIsLeft(t *testing.T) {
	plan := v1.Plan{Options: v1.Options{PauseAfterCanary: true}, Steps: []v1.Step{
		{ID: "plane"}, {ID: "amd64", Canary: true}, {ID: "arm64", Canary: true}, {ID: "others"},
	}}
	older := v1.Plan{Options: plan.Options, Steps: []v1.Step{{ID: "plane"}, {ID: "amd64", Canary: true}, {ID: "arm64"}, {ID: "others"}}}
	without := plan
	without.Options = v1.Options{}
	for _, c := range []struct {
		name    string
		plan    v1.Plan
		results map[string]v1.StepResult
		want    string
	}{
		{"nothing is done", plan, nil, "arm64"},
		{"one canary is done", plan, map[string]v1.StepResult{"plane": v1.StepResultDone, "amd64": v1.StepResultDone}, "arm64"},
		{"the last one was taken back", plan, map[string]v1.StepResult{"amd64": v1.StepResultDone, "arm64": v1.StepResultFailed}, "arm64"},
		{"both are done", plan, map[string]v1.StepResult{"amd64": v1.StepResultDone, "arm64": v1.StepResultAlreadyDone}, ""},
		{"the host of the last one is excluded", plan, map[string]v1.StepResult{"arm64": v1.StepResultSkipped}, "amd64"},
		{"the host of one is excluded, and the other is done", plan,
			map[string]v1.StepResult{"amd64": v1.StepResultDone, "arm64": v1.StepResultSkipped}, ""},
		{"a plan of an earlier version", older, nil, "amd64"},
		{"a plan of an earlier version behind its canary", older, map[string]v1.StepResult{"amd64": v1.StepResultDone}, ""},
		{"no pause was asked for", without, nil, ""},
	} {
		doc := v1.Journal{Plan: c.plan}
		for _, s := range c.plan.Steps {
			if result, is := c.results[s.ID]; is {
				doc.Records = append(doc.Records, v1.StepRecord{ID: s.ID, Result: result})
			}
		}
		if have := stepOfCanaries(doc); have != c.want {
			t.Errorf("%s: it pauses behind %q, want %q", c.name, have, c.want)
		}
	}
}

// TestStepsOfHostsThatWereLeftOutAreNotToBeDone, so that what is done and what remains add up to the plan.
func TestStepsOfHostsThatWereLeftOutAreNotToBeDone(t *testing.T) {
	plan := v1.Plan{Steps: []v1.Step{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}}
	doc := v1.Journal{Plan: plan, Records: []v1.StepRecord{
		{ID: "a", Result: v1.StepResultDone}, {ID: "b", Result: v1.StepResultSkipped}, {ID: "c", Result: v1.StepResultFailed},
	}}
	if done, left := stepsDone(&plan, doc), len(StepsLeft(&plan, doc)); done != 2 || left != 2 {
		t.Errorf("%d steps are done and %d remain", done, left)
	}
}
