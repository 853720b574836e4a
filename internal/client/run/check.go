package run

import (
	"context"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// CheckOptions say what Check judges, and how.
type CheckOptions struct {
	// Plan says which migration is asked about, and which findings are accepted.
	Plan client.PlanOptions
	// Snapshot is a file to judge; empty for the live cluster.
	Snapshot string
	// Strict has warnings block as well, but for those of level info.
	Strict bool
	// Wait is for how long the cluster is looked at again while all that blocks may pass by itself; 0 to look once.
	Wait time.Duration
}

// Check judges a cluster, and changes nothing. Of a cluster that is still blocked after the time to wait it returns the
// last report and client.ErrStillBlocked.
func Check(ctx context.Context, c *client.Client, o CheckOptions) (v1.CheckReport, error) {
	if err := check.ValidateAccept(o.Plan.CheckOptions().Accept); err != nil {
		return v1.CheckReport{}, err
	}
	var underWay underWay
	return c.WaitForCheck(ctx, o.Wait, o.Strict, func(ctx context.Context) (v1.CheckReport, error) {
		snap, err := c.SnapshotFrom(ctx, o.Snapshot, o.Plan.Options)
		if err != nil {
			return v1.CheckReport{}, err
		}
		underWay.note(ctx, c, &o.Plan)
		report, err := runChecks(c, snap, &o.Plan)
		if err != nil {
			return v1.CheckReport{}, err
		}
		if o.Strict {
			check.Strict(&report, o.Plan.CheckOptions())
		}
		client.NameDocs(report.Findings)
		return report, nil
	})
}

// underWay says once that a migration is under way.
type underWay struct{ said bool }

// note looks whether a live cluster has a migration that is not finished. What that has changed is no mistake, and
// nothing to repair by hand.
func (u *underWay) note(ctx context.Context, c *client.Client, o *client.PlanOptions) {
	if c.Kube == nil {
		return
	}
	j, err := journal.Open(ctx, c.Kube)
	if err != nil { // without a journal there is none under way
		return
	}
	doc := j.Doc()
	next := map[string]string{
		v1.RunApplying:    "transplant apply goes on with it, transplant rollback takes it back",
		v1.RunRollingBack: "transplant rollback goes on with it",
	}[doc.Phase]
	if o.InProgress = next != ""; o.InProgress && !u.said {
		u.said = true
		c.Narrate("migration %s is %s: %s; change nothing by hand", doc.Run, wording.StateWords(doc.Phase), next)
	}
}

// runChecks chooses the options that were left to the cluster and runs the checks.
func runChecks(c *client.Client, snap *v1.Snapshot, o *client.PlanOptions) (v1.CheckReport, error) {
	if err := o.Choose(c, snap); err != nil {
		return v1.CheckReport{}, err
	}
	return check.Run(snap, o.CheckOptions()), nil
}
