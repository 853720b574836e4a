// Package run is what check, plan, apply and rollback do. A plan that is to be executed is checked and approved
// first. Then it takes the lock, and runs the engine with a recorder and probes next to it.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// ApplyOptions say what Apply executes, and how. With none of them it checks the cluster, makes a plan, and asks.
type ApplyOptions struct {
	Options
	// Plan says how a plan is made, and which findings are accepted. What it accepts of objects is for the verification
	// at the end.
	Plan client.PlanOptions
	// File holds the plan; empty for one that is made now.
	File string
	// Until is the step or phase behind which Apply stops; empty for the end of the plan.
	Until string
}

// Apply executes a plan: the one in a file, or one that it makes. It goes on with a migration that was begun. The
// client is connected to the cluster.
func Apply(ctx context.Context, c *client.Client, o ApplyOptions) (err error) {
	if o.Plan.Accept, o.Accepted, err = client.SplitAccepted(o.Plan.Accept); err != nil {
		return err
	}
	if err := check.ValidateAccept(o.Plan.CheckOptions().Accept); err != nil {
		return err
	}
	o.Kubelets = o.Plan.Options
	if err := o.checkWithout(); err != nil {
		return err
	}
	if len(o.Nodes) > 0 && o.Until != "" {
		return exitcode.With(exitcode.Error, "--node and --until both say where the run ends: give one of them")
	}
	o.EnvGiven = len(o.Plan.Given.Among("ccm-env")) > 0 // CheckAgainstPlan refuses another one than that of the plan
	o.ImageGiven = len(o.Plan.Given.Among("image")) > 0
	o.ProviderGiven = len(o.Plan.Given.Among("credential-provider")) > 0
	j, err := journal.Open(ctx, c.Kube)
	switch {
	case errors.Is(err, journal.ErrNoJournal):
	case err != nil:
		return err
	case slices.Contains([]string{v1.RunApplying, v1.RunApplied, v1.RunRollingBack}, j.Doc().Phase):
		return continueMigration(ctx, c, j, o)
	}
	if len(o.Nodes) > 0 {
		return exitcode.With(
			exitcode.Error,
			"--node goes on with the workers of a migration whose control plane is done, and none was started on this cluster: run transplant apply without it, or with --until, first",
		)
	}
	if len(o.Without) > 0 {
		return exitcode.With(
			exitcode.Error,
			"--without-host excludes a host from a migration that was started, and none was; delete the Node of a host that is gone (kubectl delete node ...), and run the same command without the flag",
		)
	}
	if err := c.OpenHostsAndCloud(ctx); err != nil {
		return err
	}
	return startApply(ctx, c, o)
}

// continueMigration goes on with a migration that was started and not brought back.
func continueMigration(ctx context.Context, c *client.Client, j *journal.Journal, o ApplyOptions) error {
	doc := j.Doc()
	switch doc.Phase {
	case v1.RunApplied:
		c.NameCluster(c.DescribeCluster(ctx, &doc))
		c.Narrate("migration %s is applied: nothing to do\nnext: transplant verify", doc.Run)
		return nil
	case v1.RunRollingBack:
		return exitcode.With(
			exitcode.Error,
			"a rollback of migration %s was begun and not finished: run transplant rollback",
			doc.Run,
		)
	}
	if err := client.CheckAgainstPlan(
		o.Plan.Given,
		o.Plan.Options,
		doc.Plan.Options,
		"migration "+doc.Run+", which was begun,",
		client.RunFlags...); err != nil {
		return fmt.Errorf(
			"%w; go on without these flags, or take the migration back with transplant rollback and plan another one with them",
			err,
		)
	}
	if err := o.checkNodes(ctx, c, doc); err != nil {
		return err
	}
	if err := c.OpenHostsAndCloud(ctx); err != nil {
		return err
	}
	return resumeApply(ctx, c, j, o)
}

func startApply(ctx context.Context, c *client.Client, o ApplyOptions) error {
	snap := c.Gather(ctx, o.Plan.GatherOptions(o.File))
	c.NameCluster(snap.Cluster)
	p, err := planFor(c, snap, o.File, o.Plan)
	if err != nil {
		return err
	}
	if err := o.Pinned.Check(p, "the plan"); err != nil {
		return err
	}
	if err := refuseOtherPlan(ctx, c, snap, p, o.File); err != nil {
		return err
	}
	if o.Until == "" {
		o.Until = p.Until
	}
	n, err := StepsUntil(c, p, o.Until)
	if err != nil {
		return err
	}
	p.Until = "" // the journal's plan is whole: the next apply goes on with the rest
	view := client.PlanView{Answer: o.DryRun, Made: o.File == "" || !hasRiskyOptions(p)}
	view.DryRuns = o.TryOnServer(ctx, step.Options{Dynamic: c.Dynamic}, p.Steps[:n])
	if err := c.ShowPlan(p, view); err != nil {
		return err
	}
	if err := checkStart(ctx, c, p, snap, o.File); err != nil || o.DryRun {
		return cmp.Or(err, Refused(view.DryRuns))
	}
	if err := o.checkApproved(c, p); err != nil {
		return err
	}
	if err := c.Approve(client.Question{
		Yes:  o.Yes,
		What: fmt.Sprintf("execute these %s on %s", english.Count(n, "step"), client.NameForApproval(snap.Cluster)),
		Word: wordFor(p, snap.Cluster),
	}); err != nil {
		return err
	}
	return withLock(ctx, c, o.Options, func(ctx context.Context) error {
		if err := refuseBegunMigration(ctx, c); err != nil {
			return err
		}
		now := time.Now().UTC()
		if err := c.NoteApproval(p, now.Format(runFormat)); err != nil {
			return err
		}
		j, err := journal.Create(
			ctx,
			c.Kube,
			v1.Journal{
				Run:     now.Format(runFormat),
				Started: now,
				Phase:   v1.RunApplying,
				User:    client.UserName(),
				Plan:    *p,
			},
			snap,
		)
		if err != nil {
			return err
		}
		return execute(ctx, c, j, p, extent{steps: n}, snap, snap, o.Options)
	})
}

// IsIrreversible reports whether no rollback takes all of a plan back.
func IsIrreversible(p *v1.Plan) bool { return len(outline.Of(p).Irreversible) > 0 }

// wordFor is what has to be typed to agree to a plan on a cluster, as the question names it.
func wordFor(p *v1.Plan, cluster v1.Cluster) string {
	if !IsIrreversible(p) {
		return ""
	}
	return client.WordFor(cluster)
}

// checkStart asks the cluster and the hosts whether what a plan relies on is there. Nothing has been changed by then.
func checkStart(ctx context.Context, c *client.Client, p *v1.Plan, snap *v1.Snapshot, path string) error {
	if err := precondition.Preflight(ctx, step.Options{Kube: c.Kube, Dynamic: c.Dynamic, Hosts: c.Hosts}, p); err != nil {
		return fmt.Errorf("%w\nnothing was changed; %s", err, planAgain(path))
	}
	if err := precondition.FilesThere(ctx, step.Options{Kube: c.Kube, Hosts: c.Hosts}, p); err != nil {
		return exitcode.With(exitcode.Blocked, "nothing was changed: %w", err)
	}
	on := step.Options{Kube: c.Kube, Hosts: c.Hosts, NodeNames: client.NodesOfHosts(snap)}
	if err := kubelet.Changeable(ctx, on, p); err != nil {
		return exitcode.With(exitcode.Blocked, "%w", err)
	}
	return nil
}

// planAgain says how a stale plan is made again: that of a file, or one that no file holds.
func planAgain(path string) string {
	if path == "" {
		return "make a new plan with transplant plan"
	}
	return "make the plan again with transplant plan --refresh " + wording.QuoteWord(path)
}

// refuseOtherPlan makes the plan of a file again and refuses the file if it differs: the file or the cluster has
// changed. Where a fact has changed, that says it better. What is shown of its effects is said by this program, and not
// by the file.
func refuseOtherPlan(ctx context.Context, c *client.Client, snap *v1.Snapshot, p *v1.Plan, path string) error {
	if path == "" {
		return nil
	}
	made, differences, err := FindDifferences(p, snap)
	if err == nil && len(differences) == 0 {
		p.Effects = made.Effects
		return nil
	}
	if stale := precondition.Preflight(
		ctx,
		step.Options{Kube: c.Kube, Dynamic: c.Dynamic, Hosts: c.Hosts},
		p,
	); stale != nil {
		return fmt.Errorf("%w\nnothing was changed; %s", stale, planAgain(path))
	}
	if err != nil {
		return exitcode.With(exitcode.Stale, "plan %s cannot be made again of this cluster: %w", path, err)
	}
	const most = 12
	rest := ""
	if n := len(differences) - most; n > 0 {
		differences, rest = differences[:most], fmt.Sprintf("\n  and %d more", n)
	}
	return exitcode.With(
		exitcode.Stale,
		"plan %s is not the one that this version of transplant (%s; the file was made by %s) makes of the cluster as it is now:\n  %s%s\nnothing was changed; "+
			"make it again with transplant plan --refresh %s, look at it with transplant diff %s, and have it approved again",
		path,
		client.Version,
		wording.OrDash(p.ToolVersion),
		strings.Join(differences, "\n  "),
		rest,
		path,
		path,
	)
}

// FindDifferences is replaced by tests that execute parts of a plan.
var FindDifferences = plan.FindDifferences

// refuseBegunMigration refuses when another process has started or executed a migration while this command read the
// cluster, asked, and waited for the lock.
func refuseBegunMigration(ctx context.Context, c *client.Client) error {
	j, err := journal.Open(ctx, c.Kube)
	if errors.Is(err, journal.ErrNoJournal) {
		return nil
	} else if err != nil {
		return err
	}
	switch doc := j.Doc(); doc.Phase {
	case v1.RunApplying:
		return exitcode.With(
			exitcode.Error,
			"%s has begun migration %s meanwhile: nothing was changed; transplant apply without a plan goes on with it, transplant rollback takes it back",
			doc.User,
			doc.Run,
		)
	case v1.RunRollingBack:
		return exitcode.With(
			exitcode.Error,
			"a rollback of migration %s was begun meanwhile: nothing was changed; transplant rollback goes on with it",
			doc.Run,
		)
	case v1.RunApplied:
		return exitcode.With(
			exitcode.Error,
			"%s has applied migration %s meanwhile: nothing was changed; transplant verify looks at it",
			doc.User,
			doc.Run,
		)
	}
	return nil
}

// StepsUntil is how many of a plan's steps are executed now. It says where they stop, if that is not the end.
func StepsUntil(c *client.Client, p *v1.Plan, until string) (int, error) {
	if until == "" {
		return len(p.Steps), nil
	}
	n, err := planstep.Until(p, until)
	if err == nil && n < len(p.Steps) {
		c.Narrate(
			"stops after %s (%d of %d steps); what remains: %s",
			p.Steps[n-1].ID,
			n,
			len(p.Steps),
			strings.Join(planstep.Remaining(p, n), ", "),
		)
	}
	return n, err
}

// planFor reads the plan file, or checks the cluster and makes a plan.
func planFor(c *client.Client, snap *v1.Snapshot, path string, o client.PlanOptions) (*v1.Plan, error) {
	if path != "" {
		p, err := client.ReadPlan(path)
		if err != nil {
			return nil, err
		}
		if p.Cluster.UID != snap.Cluster.UID {
			return nil, client.OtherCluster(path, p, snap.Cluster.UID)
		}
		if err := client.CheckAgainstFile(o.Given, o.Options, p.Options, path); err != nil {
			return nil, err
		}
		o.Options = p.Options
		o.AcceptAs(p) // the review shows it, and the plan's digest holds it
		if err := invariant.CheckAllowed(p, snap); err != nil {
			return nil, exitcode.With(
				exitcode.Stale,
				"plan %s would do what no migration of this cluster does; make it again with transplant plan --refresh %s:\n%w",
				path,
				path,
				err,
			)
		}
		report := check.Run(snap, o.CheckOptions())
		compare.ReplaceFindings(p, report.Findings)
		return p, BlockedBy(c, report)
	}
	if err := o.Choose(c, snap); err != nil {
		return nil, err
	}
	report := check.Run(snap, o.CheckOptions())
	if err := BlockedBy(c, report); err != nil {
		return nil, err
	}
	return plan.Make(snap, o.Options, report.Findings, time.Now())
}

// BlockedBy shows findings that block, and returns an error; nil where nothing blocks.
func BlockedBy(c *client.Client, report v1.CheckReport) error {
	if !report.Summary.Blocked {
		return nil
	}
	if err := c.ShowReport(report); err != nil {
		return err
	}
	return exitcode.With(exitcode.Blocked, "blocked by %s; nothing was changed", client.Blocking(report))
}

// runFormat names a run by the time when it was begun.
const runFormat = "20060102-150405"
