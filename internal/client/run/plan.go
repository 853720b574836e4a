package run

import (
	"context"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/dryrun"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
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
	var underWay underWay
	if o.Snapshot == "" {
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
		return nil, report, exitcode.With(exitcode.Blocked, "no plan can be made: %w%s", err, underWay.nextCommand())
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

// LastWrites says of facts of an older plan that have changed who wrote them last, and when, by the fact. A fact of
// which that is not known is not in it.
func LastWrites(ctx context.Context, c *client.Client, older *v1.Plan, facts []string) map[string]string {
	on, writes := step.Options{Kube: c.Kube, Dynamic: c.Dynamic, Hosts: c.Hosts}, map[string]string{}
	for _, changed := range precondition.Changes(ctx, on, older, facts) {
		writes[changed.Fact] = step.LastWrite(changed)
	}
	return writes
}

// TryOnServer sends what steps write to the API server, which stores nothing of it. It returns the answers; nil where
// no dry run on the server was asked for.
func (f Options) TryOnServer(ctx context.Context, clusters step.Options, steps []v1.Step) []v1.DryRun {
	if !f.DryRun || !f.AskServer {
		return nil
	}
	return dryrun.Run(ctx, clusters, steps)
}

// StepsLeft are the steps of a plan that have not ended, as the records of its journal say.
func StepsLeft(p *v1.Plan, doc v1.Journal) []v1.Step { return remainingPlan(p, doc).Steps }

// Refused is an error where the API server refuses an object of a dry run, or gives no answer. What it can only judge
// behind an earlier step is neither.
func Refused(answers []v1.DryRun) error {
	refused, silent := 0, 0
	for _, d := range answers {
		switch {
		case d.OK || d.Later:
		case d.Unanswered:
			silent++
		default:
			refused++
		}
	}
	if refused+silent == 0 {
		return nil
	}
	return exitcode.With(
		exitcode.Blocked,
		"of %s in the dry run the API server refused %d and gave no answer to %d; nothing was changed",
		english.Count(len(answers), "object"),
		refused,
		silent,
	)
}

// nextCommand says what to do where no plan can be made because a migration was begun.
func (u *underWay) nextCommand() string {
	switch {
	case u.doc.IsUnderWay():
		return "\n" + u.run + "; another plan can be made of the cluster when it is rolled back"
	case u.doc.Phase == v1.RunApplied:
		return fmt.Sprintf(
			"\nmigration %s is applied: look at it with transplant verify, or go back with transplant rollback",
			u.doc.Run,
		)
	}
	return ""
}
