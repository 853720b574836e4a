package run

import (
	"context"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
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
	return c.WaitForCheck(ctx, o.Wait, o.Strict, func(ctx context.Context) (v1.CheckReport, error) {
		snap, err := c.SnapshotFrom(ctx, o.Snapshot, o.Plan.Options)
		if err != nil {
			return v1.CheckReport{}, err
		}
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

// runChecks chooses the options that were left to the cluster and runs the checks.
func runChecks(c *client.Client, snap *v1.Snapshot, o *client.PlanOptions) (v1.CheckReport, error) {
	if err := o.Choose(c, snap); err != nil {
		return v1.CheckReport{}, err
	}
	return check.Run(snap, o.CheckOptions()), nil
}
