package run

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/report"
	"github.com/transplant-dev/transplant/internal/snapshot/blame"
)

// checksNotRepeated are the checks of transplant verify that a run's own verification does not repeat. The run is not
// finished, it asks for the owners itself, and probes are judged when they have ended.
var checksNotRepeated = map[string]bool{
	"finished":   true,
	"owners":     true,
	"hosts":      true,
	"disruption": true,
	"facts":      true,
}

// compareWithBefore is the comparison of transplant verify for the steps of a run that verify. So a migration that
// passes one also passes the other.
func compareWithBefore(
	c *client.Client,
	j *journal.Journal,
	before *v1.Snapshot,
	accepted map[string]string,
) func(context.Context) (problems, unknown []string) {
	return func(ctx context.Context) (problems, unknown []string) {
		doc := j.Doc()
		after := c.Gather(ctx, doc.Plan.Options)
		r := report.Build(
			report.Input{Journal: doc, Before: before, After: after, Now: client.Now(), ToolVersion: client.Version},
		)
		blame.Blame(ctx, c.Kube, before.TakenAt, r.Inventory.Differences)
		v, _ := report.Verify(
			report.VerifyInput{
				Report:      r,
				Phase:       doc.Phase,
				Errors:      after.Errors,
				CloudBefore: before.Cloud != nil,
				CloudNow:    after.Cloud != nil,
				Accept:      accepted,
			},
		)
		for _, check := range v.Checks {
			switch {
			case checksNotRepeated[check.Name]:
			case check.Outcome == v1.Fail:
				problems = append(problems, check.Problems...)
			case check.Outcome == v1.Unknown:
				unknown = append(unknown, check.Problems...)
			}
		}
		return problems, unknown
	}
}
