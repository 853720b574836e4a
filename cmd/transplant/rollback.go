package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

func newRollback(c *connection) *cobra.Command {
	var f changing
	var accept []string
	cmd := &cobra.Command{
		Use: "rollback", Short: "Go back to the in-tree manager, from wherever the migration stands", Args: cobra.NoArgs,
		Example: "  transplant rollback",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.accepted, err = acceptedObjects(accept); err != nil {
				return err
			}
			if err := c.connect(); err != nil {
				return err
			}
			return c.rollback(cmd.Context(), f)
		},
	}
	f.flags(cmd)
	kubeletFlags(cmd.Flags(), &f.kubelets)
	c.probes.beside(cmd)
	cmd.Flags().StringArrayVar(&accept, "accept", nil, `live with a difference that the verification at the end finds, OBJECT="reason" or "OBJECT FIELD=reason"`)
	return cmd
}

func (c *connection) rollback(ctx context.Context, f changing) error {
	j, err := journal.Open(ctx, c.kube)
	if errors.Is(err, journal.ErrNoJournal) {
		return withCode(exitError, "no migration was started on this cluster: there is nothing to roll back")
	} else if err != nil {
		return err
	}
	doc := j.Doc()
	if doc.Phase == v1.RunRolledBack {
		c.narrate("migration %s is rolled back: nothing to do", doc.Run)
		return nil
	}
	if err := f.checkWithout(); err != nil {
		return err
	}
	if err := trust.CheckJournal(doc, nil); err != nil { // its options say which files of hosts are looked at
		return err
	}
	if err := c.openRest(ctx); err != nil {
		return err
	}
	all := c.hosts
	c.hosts = remaining(doc, all, f.without)
	snap := c.gather(ctx, doc.Plan.Options)
	c.header(snap.Cluster)
	p, err := rollbackPlan(doc, snap)
	if err != nil {
		return err
	}
	if err := f.pinned.check(p, "the rollback"); err != nil {
		return err
	}
	if len(f.without) == 0 { // else it is asked under the lock, when these hosts are taken out
		if err := c.managersRecorded(ctx, j); err != nil {
			return err
		}
	}
	if err := c.review(p, f); err != nil {
		return err
	}
	if f.dryRun {
		return nil
	}
	approved := c.isBackApproved(&doc, p, doc.Run)
	if err := f.pinned.checkApproved(f.yes, approved, p, f.rollbackDryRun()); err != nil {
		return err
	}
	if err := c.approve(f.yes, fmt.Sprintf("roll migration %s back in these %s", doc.Run, count(len(p.Steps), "step"))); err != nil {
		return err
	}
	shown := compare.Digest(p)
	return c.locked(ctx, f, func(ctx context.Context) error {
		c.hosts = all
		return c.rollbackLocked(ctx, f, snap, shown)
	})
}

// rollbackDryRun is the command that shows the same rollback: with the same hosts, since the others are looked at for it.
func (f changing) rollbackDryRun() string {
	command := "transplant rollback --dry-run"
	for _, host := range f.without {
		command += " --without-host=" + host
	}
	return command
}

// rollbackLocked makes the plan again from the journal as it is under the lock, and refuses another one than that with the digest that was shown. Only then
// the hosts of --without-host are taken out. Their steps stay in the plan and are skipped.
func (c *connection) rollbackLocked(ctx context.Context, f changing, snap *v1.Snapshot, shown string) error {
	before, err := journal.Before(ctx, c.kube)
	if err != nil {
		return err
	}
	j, err := journal.Open(ctx, c.kube)
	if err != nil {
		return err
	}
	p, err := rollbackPlan(j.Doc(), snap)
	if err != nil {
		return err
	}
	if compare.Digest(p) != shown {
		return withCode(exitStale, "the rollback of migration %s is another one than the one that was approved just now, because its journal has changed: nothing was changed; run the same command again and look at it",
			j.Doc().Run)
	}
	if err := c.takeOut(ctx, j, f, before); err != nil {
		return err
	}
	if len(f.without) > 0 {
		if p, err = rollbackPlan(j.Doc(), snap); err != nil {
			return err
		}
	}
	if err := f.pinned.check(p, "the rollback"); err != nil {
		return err
	}
	if err := c.noteApproval(p, rollbackRun(j.Doc().Run)); err != nil {
		return err
	}
	if err := overKubelets(p, f.kubelets); err != nil {
		return err
	}
	if err := c.managersRecorded(ctx, j); err != nil {
		return err
	}
	if err := j.SetPhase(ctx, v1.RunRollingBack, p, nil); err != nil {
		return err
	}
	return c.execute(ctx, j, p, len(p.Steps), before, snap, f.accepted)
}

// managersRecorded refuses a rollback that would leave a cloud-controller-manager running.
func (c *connection) managersRecorded(ctx context.Context, j *journal.Journal) error {
	return precondition.ManagersRecorded(ctx, step.Options{Kube: c.kube, Dynamic: c.dynamic, Hosts: c.hosts}, j)
}

// rollbackPlan goes on with a rollback that was begun, or makes a plan for one.
func rollbackPlan(doc v1.Journal, snap *v1.Snapshot) (*v1.Plan, error) {
	if err := trust.CheckJournal(doc, snap); err != nil {
		return nil, err
	}
	if trust.IsRollingBack(&doc) {
		return doc.Rollback, nil
	}
	p, err := rollback.Make(&doc, snap, time.Now())
	if err != nil {
		return nil, err
	}
	return p, invariant.CheckAllowed(p, snap)
}
