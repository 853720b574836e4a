package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/status"
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
		return report, nil
	})
}

// AfterCheck is the command that comes where a check blocks nothing: of a snapshot in a file, or of the live cluster.
// Flags are those that say which plan the check was about.
func AfterCheck(ctx context.Context, c *client.Client, from string, flags []string) string {
	first := strings.Join(append([]string{"transplant plan --out plan.yaml"}, flags...), " ")
	if from != "" {
		return first + " --from-snapshot " + wording.QuoteWord(from)
	}
	j, err := journal.Open(ctx, c.Kube)
	if err != nil { // none, as a rule
		return first
	}
	switch doc := j.Doc(); {
	case doc.IsUnderWay():
		return "transplant status"
	case doc.Phase == v1.RunApplied:
		return "transplant verify"
	}
	return first
}

// underWay says once that a migration is under way. It keeps the journal that it has read and what it said of the run,
// so that what comes after needs no second read.
type underWay struct {
	said bool
	doc  v1.Journal
	run  string
}

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
	u.doc = j.Doc()
	if o.InProgress = u.doc.IsUnderWay(); o.InProgress && !u.said {
		u.said, u.run = true, describeRun(ctx, c, u.doc)
		c.Narrate("%s; change nothing by hand", u.run)
	}
}

// describeRun says of a run that was begun and has not ended which process executes it, and what goes on with it where
// none does.
func describeRun(ctx context.Context, c *client.Client, doc v1.Journal) string {
	run, next := "migration "+doc.Run, "transplant apply goes on with it, transplant rollback takes it back"
	if doc.Phase == v1.RunRollingBack {
		run, next = "the rollback of "+run, "transplant rollback goes on with it"
	}
	held, err := lock.Read(ctx, c.Kube)
	switch {
	case errors.Is(err, lock.ErrNoLock):
		return fmt.Sprintf("%s was begun and is not finished, and no command executes it now: %s", run, next)
	case err != nil: // who may not read the lock learns what goes on with it
		return fmt.Sprintf("%s was begun and is not finished: %s", run, next)
	}
	if status.Judge(status.Facts{Now: c.ServerTime(), Lock: held}).Lock.Expired {
		return fmt.Sprintf("%s was begun and is not finished, and %s no longer renews its lock: see transplant status", run, held.Who())
	}
	return fmt.Sprintf("%s is under way: %s executes it (transplant status --watch shows it)", run, held.Who())
}

// runChecks chooses the options that were left to the cluster and runs the checks.
func runChecks(c *client.Client, snap *v1.Snapshot, o *client.PlanOptions) (v1.CheckReport, error) {
	if err := o.Choose(c, snap); err != nil {
		return v1.CheckReport{}, err
	}
	return check.Run(snap, o.CheckOptions()), nil
}
