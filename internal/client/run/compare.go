package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
			report.Input{
				Journal:     doc,
				Before:      before,
				After:       after,
				Now:         client.Now(),
				ToolVersion: client.Version,
				Accept:      accepted,
			},
		)
		blame.Blame(ctx, c.Kube, before.TakenAt, r.Inventory.Differences)
		if err := j.Accept(ctx, met(accepted, r.Inventory.Differences)); err != nil {
			unknown = append(unknown, fmt.Sprintf("what --accept takes cannot be written into the journal: %s", err))
		}
		v := report.Verify(
			report.VerifyInput{
				Report:      r,
				Phase:       doc.Phase,
				Errors:      after.Errors,
				CloudBefore: before.Cloud != nil,
				CloudNow:    after.Cloud != nil,
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

// met are those reasons of --accept which the run needs. The journal keeps them, so that later verifications and the
// report do not call lost what the operator lives with.
func met(accepted map[string]string, differences []v1.Difference) []v1.AcceptedDifference {
	var out []v1.AcceptedDifference
	for _, key := range slices.Sorted(maps.Keys(accepted)) {
		if report.IsMet(key, differences) {
			out = append(out, v1.AcceptedDifference{
				Difference: key,
				Reason:     accepted[key],
				At:         client.Now().UTC(),
				By:         client.UserName(),
			})
		}
	}
	return out
}
