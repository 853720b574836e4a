package run

import (
	"context"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// PlanOptions say which plan Plan makes.
type PlanOptions struct {
	// Plan says how the plan is made, and which findings are accepted.
	Plan client.PlanOptions
	// Snapshot is a file to plan for; empty for the live cluster. One file gives one plan, byte for byte.
	Snapshot string
	// Until is the step or phase behind which Apply stops; empty for the end of the plan.
	Until string
}

// Plan makes a plan, and changes nothing. The report says whether it is blocked.
func Plan(ctx context.Context, c *client.Client, o PlanOptions) (*v1.Plan, v1.CheckReport, error) {
	if err := check.ValidateAccept(o.Plan.CheckOptions().Accept); err != nil {
		return nil, v1.CheckReport{}, err
	}
	snap, err := c.SnapshotFrom(ctx, o.Snapshot, o.Plan.Options)
	if err != nil {
		return nil, v1.CheckReport{}, err
	}
	c.NameCluster(snap.Cluster)
	if o.Snapshot == "" {
		var underWay underWay
		underWay.note(ctx, c, &o.Plan)
	}
	report, err := runChecks(c, snap, &o.Plan)
	if err != nil {
		return nil, report, err
	}
	at := client.Now()
	if o.Snapshot != "" {
		at = snap.TakenAt
	}
	p, err := plan.Make(snap, o.Plan.Options, report.Findings, at)
	if err != nil {
		return nil, report, exitcode.With(exitcode.Blocked, "no plan can be made: %w%s", err, nextCommand(ctx, c, o.Snapshot))
	}
	if o.Until != "" {
		n, err := planstep.Until(p, o.Until)
		if err != nil {
			return nil, report, err
		}
		p.Until = p.Steps[n-1].ID
	}
	return p, report, nil
}

// nextCommand says what to do where no plan can be made because a migration was begun.
func nextCommand(ctx context.Context, c *client.Client, from string) string {
	if from != "" || c.Kube == nil {
		return ""
	}
	j, err := journal.Open(ctx, c.Kube)
	if err != nil {
		return ""
	}
	switch doc := j.Doc(); {
	case doc.IsUnderWay():
		return "\n" + describeRun(ctx, c, doc) + "; another plan can be made of the cluster when it is rolled back"
	case doc.Phase == v1.RunApplied:
		return fmt.Sprintf(
			"\nmigration %s is applied: look at it with transplant verify, or go back with transplant rollback",
			doc.Run,
		)
	}
	return ""
}
