package run

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// rollbackDryRun is the command that shows the same rollback: with the same hosts, since the others are looked at for
// it.
func (f Options) rollbackDryRun() string {
	command := "transplant rollback --dry-run"
	for _, host := range f.Without {
		command += " --without-host=" + host
	}
	return command
}

// Rollback takes a migration back, from wherever it stands.
func Rollback(ctx context.Context, c *client.Client, f Options) error {
	j, err := journal.Open(ctx, c.Kube)
	if errors.Is(err, journal.ErrNoJournal) {
		return exitcode.With(exitcode.Error, "no migration was started on this cluster: there is nothing to roll back")
	} else if err != nil {
		return err
	}
	doc := j.Doc()
	if doc.Phase == v1.RunRolledBack {
		c.NameCluster(c.DescribeCluster(ctx, &doc))
		c.Narrate("migration %s is rolled back: nothing to do", doc.Run)
		return nil
	}
	if err := f.checkWithout(); err != nil {
		return err
	}
	if err := trust.CheckJournal(doc, nil); err != nil { // its options say which files of hosts are looked at
		return err
	}
	if err := c.OpenHostsAndCloud(ctx); err != nil {
		return err
	}
	all := c.Hosts
	c.Hosts = remaining(doc, all, f.Without)
	snap := c.Gather(ctx, doc.Plan.Options)
	c.NameCluster(snap.Cluster)
	p, err := rollbackPlan(doc, snap)
	if err != nil {
		return err
	}
	if err := f.Pinned.Check(p, "the rollback"); err != nil {
		return err
	}
	if err := f.mayTakeBack(ctx, c, j, p); err != nil {
		return err
	}
	view := client.PlanView{Answer: f.DryRun}
	if trust.IsRollingBack(&doc) {
		view.Results = resultsOf(doc)
		c.Narrate(
			"the rollback of migration %s was begun and is not finished: its journal says that %d of its %d steps are done; what the cluster does not show is done again",
			doc.Run,
			stepsDone(p, doc),
			len(p.Steps),
		)
	}
	view.DryRuns = f.TryOnServer(ctx, step.Options{Dynamic: c.Dynamic}, StepsLeft(p, doc))
	if err := c.ShowPlan(p, view); err != nil {
		return err
	}
	if f.DryRun {
		return Refused(view.DryRuns)
	}
	if err := f.mayRollBack(c, snap, &doc, p); err != nil {
		return err
	}
	if err := c.Approve(client.Question{Yes: f.Yes, What: fmt.Sprintf(
		"roll migration %s back in these %s on %s",
		doc.Run,
		english.Count(len(p.Steps), "step"),
		client.NameForApproval(snap.Cluster),
	)}); err != nil {
		return err
	}
	return withLock(ctx, c, f, func(ctx context.Context) error {
		c.Hosts = all
		return rollbackLocked(ctx, c, f, snap, &doc, p)
	})
}

// mayTakeBack says why a rollback would leave something of the migration behind, or stop in its middle.
func (f *Options) mayTakeBack(ctx context.Context, c *client.Client, j *journal.Journal, p *v1.Plan) error {
	if len(f.Without) == 0 { // else it is asked under the lock, when these hosts are excluded
		if err := managersRecorded(ctx, c, j); err != nil {
			return err
		}
	}
	return filesUnchanged(ctx, c, j, p)
}

// mayRollBack says why a rollback is not begun: its hosts are not clear, it was not approved, or its effect would not
// be seen.
func (f *Options) mayRollBack(c *client.Client, now *v1.Snapshot, doc *v1.Journal, p *v1.Plan) error {
	if err := checkHosts(now); err != nil {
		return err
	}
	if err := seesProcesses(c); err != nil {
		return err
	}
	return f.Pinned.CheckApproved(f.Yes, c.IsBackApproved(doc, p, doc.Run), p, f.rollbackDryRun())
}

// rollbackLocked executes the plan that was shown. Where the journal has changed until the lock was free, it makes
// the plan again, and refuses one with another digest. Only then the hosts of --without-host are excluded. Their steps
// stay in the plan and are skipped.
func rollbackLocked(
	ctx context.Context,
	c *client.Client,
	f Options,
	snap *v1.Snapshot,
	seen *v1.Journal,
	shown *v1.Plan,
) error {
	before, err := journal.Before(ctx, c.Kube)
	if err != nil {
		return err
	}
	j, err := journal.Open(ctx, c.Kube)
	if err != nil {
		return err
	}
	p := shown
	if doc := j.Doc(); !reflect.DeepEqual(&doc, seen) {
		if p, err = rollbackPlan(doc, snap); err != nil {
			return err
		}
	}
	if compare.Digest(p) != compare.Digest(shown) {
		return exitcode.With(
			exitcode.Stale,
			"the rollback of migration %s is another one than the one that was approved just now, because its journal has changed: nothing was changed; run the same command again and look at it",
			j.Doc().Run,
		)
	}
	if err := excludeHosts(ctx, c, j, f, before); err != nil {
		return err
	}
	if len(f.Without) > 0 {
		if p, err = rollbackPlan(j.Doc(), snap); err != nil {
			return err
		}
	}
	if err := f.Pinned.Check(p, "the rollback"); err != nil {
		return err
	}
	if err := c.NoteApproval(p, client.RollbackRun(j.Doc().Run)); err != nil {
		return err
	}
	if err := overrideKubeletOptions(p, f.Kubelets); err != nil {
		return err
	}
	if err := managersRecorded(ctx, c, j); err != nil {
		return err
	}
	if err := filesUnchanged(ctx, c, j, p); err != nil {
		return err
	}
	if err := j.SetPhase(ctx, v1.RunRollingBack, p, nil); err != nil {
		return err
	}
	return execute(ctx, c, j, p, whole(p), before, snap, f)
}

// managersRecorded refuses a rollback that would leave a cloud-controller-manager running.
func managersRecorded(ctx context.Context, c *client.Client, j *journal.Journal) error {
	return precondition.ManagersRecorded(ctx, step.Options{Kube: c.Kube, Dynamic: c.Dynamic, Hosts: c.Hosts}, j)
}

// filesUnchanged refuses a rollback that would come upon a file in its middle that it must not overwrite.
func filesUnchanged(ctx context.Context, c *client.Client, j *journal.Journal, p *v1.Plan) error {
	err := precondition.FilesUnchanged(ctx, step.Options{Kube: c.Kube, Hosts: c.Hosts}, j, p)
	if err != nil {
		return fmt.Errorf("nothing was changed by this command: %w", err)
	}
	return nil
}

// rollbackPlan goes on with a rollback that was begun, or makes a plan for one.
func rollbackPlan(doc v1.Journal, snap *v1.Snapshot) (*v1.Plan, error) {
	if err := trust.CheckJournal(doc, snap); err != nil {
		return nil, err
	}
	if trust.IsRollingBack(&doc) {
		return plan.RewordedRollback(&doc, snap), nil
	}
	p, err := rollback.Make(&doc, snap, time.Now())
	if err != nil {
		return nil, err
	}
	return p, invariant.CheckAllowed(p, snap)
}
