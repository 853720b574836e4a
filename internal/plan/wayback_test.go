package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// TestEveryPlanHasAWayBack records every step of each plan as done and looks whether its rollback speaks of everything that was changed.
func TestEveryPlanHasAWayBack(t *testing.T) {
	for _, c := range compact {
		t.Run(c.name, func(t *testing.T) {
			s := c.snap()
			p := mustMake(t, s, c.options)
			j := &v1.Journal{Plan: *p}
			for _, step := range p.Steps {
				ended := now
				j.Records = append(j.Records, v1.StepRecord{ID: step.ID, Started: now, Ended: &ended, Result: v1.StepResultDone})
			}
			back, err := rollback.Make(j, s, now)
			if err != nil {
				t.Fatal(err)
			}
			if err := invariant.CheckWellFormed(back); err != nil {
				t.Error(err)
			}
			all := map[string]bool{}
			for _, step := range back.Steps {
				all[step.Restore] = true
				all[strings.TrimPrefix(step.ID, "undo/")] = true
				if step.Host != "" {
					all[step.Host+step.Path] = true
				}
				all[step.Ref] = step.Ref != "" || all[step.Ref]
			}
			for _, step := range p.Steps {
				switch step.Kind {
				case v1.StepVerify, v1.StepDeleteObject, v1.StepRemoveFile:
					continue
				default:
				}
				if !all[step.ID] && !all[step.Host+step.Path] && !all[step.Ref] {
					t.Errorf("nothing in the rollback undoes %s (%s)", step.ID, step.Kind)
				}
			}
		})
	}
}
