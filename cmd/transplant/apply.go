package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/migrate"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// changing are the flags of the commands that change a cluster.
type changing struct {
	yes, dryRun, steal bool
	// until is the step or phase behind which apply stops.
	until string
	// without are the hosts that are gone for good.
	without []string
	// accepted are the reasons for living with a difference that a verification finds, by object.
	accepted map[string]string
	// kubelets are options of a plan that was begun which this run may change.
	kubelets v1.Options
	// pinned is the plan that may be carried out.
	pinned pin
	// ownEnv tells that --ccm-env was given to this command.
	ownEnv bool
}

func (f *changing) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().BoolVar(&f.steal, "steal-lock", false, "take the lock from a holder that is certainly dead")
	f.withoutFlag(cmd)
	f.pinned.flag(cmd)
}

func newApply(c *connection) *cobra.Command {
	var f changing
	var o planFlags
	cmd := &cobra.Command{
		Use: "apply [PLAN]", Short: "Carry out a plan, or go on with the one that was begun", Args: cobra.MaximumNArgs(1),
		Example: "  transplant apply            # check, plan, ask, carry out\n" +
			"  transplant apply plan.yaml  # carry out a plan that was reviewed",
		Long: "Apply checks the cluster, makes a plan (or takes the one in the file), asks, and carries it out step by step. After an interruption of any kind the\n" +
			"same command goes on where it stopped; --until stops behind a step or a phase. Ctrl-C finishes the current step first; a second Ctrl-C stops at once.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.connect(); err != nil {
				return err
			}
			f.kubelets = o.options
			var err error
			if o.accept, f.accepted, err = splitAccepted(o.accept); err != nil {
				return err
			}
			return c.apply(cmd.Context(), args, f, o)
		},
	}
	f.flags(cmd)
	o.flags(cmd)
	c.probes.beside(cmd)
	cmd.Flags().StringVar(&f.until, "until", "", "stop behind this step or phase; the same command without it goes on with the rest")
	return cmd
}

func (c *connection) apply(ctx context.Context, args []string, f changing, o planFlags) error {
	if err := f.checkWithout(); err != nil {
		return err
	}
	f.ownEnv = len(flagsGiven(o.cmd, "ccm-env")) > 0 // checkAgainstPlan refuses another one than that of the plan
	j, err := journal.Open(ctx, c.kube)
	switch {
	case errors.Is(err, journal.ErrNoJournal):
	case err != nil:
		return err
	default:
		switch doc := j.Doc(); doc.Phase {
		case v1.RunApplied:
			c.narrate("migration %s is applied: nothing to do\nnext: transplant verify", doc.Run)
			return nil
		case v1.RunRollingBack:
			return withCode(exitError, "a rollback of migration %s was begun and not finished: run transplant rollback", doc.Run)
		case v1.RunApplying:
			if err := checkAgainstPlan(o.cmd, o.options, doc.Plan.Options, "migration "+doc.Run+", which was begun,", runFlags...); err != nil {
				return err
			}
			if err := c.openRest(ctx); err != nil {
				return err
			}
			return c.resumeApply(ctx, j, args, f)
		}
	}
	if len(f.without) > 0 {
		return withCode(exitError, "--without-host takes a host out of a migration that was begun, and none was: remove the Node of a host that is gone (kubectl delete node ...), and run the same command without it")
	}
	if err := c.openRest(ctx); err != nil {
		return err
	}
	return c.startApply(ctx, args, f, o)
}

func (c *connection) startApply(ctx context.Context, args []string, f changing, o planFlags) error {
	snap := c.gather(ctx, o.gathered(args))
	c.header(snap.Cluster)
	p, err := c.planFor(snap, args, o)
	if err != nil {
		return err
	}
	if err := f.pinned.check(p, "the plan"); err != nil {
		return err
	}
	if err := c.sameAgain(ctx, snap, p, args); err != nil {
		return err
	}
	if f.until == "" {
		f.until = p.Until
	}
	n, err := c.stepsUntil(p, f.until)
	if err != nil {
		return err
	}
	p.Until = "" // the journal's plan is whole: the next apply goes on with the rest
	if err := c.review(p, f); err != nil {
		return err
	}
	if err := precondition.Preflight(ctx, step.Options{Kube: c.kube, Dynamic: c.dynamic, Hosts: c.hosts}, p); err != nil {
		return fmt.Errorf("%w\nnothing was changed; make a new plan with transplant plan", err)
	}
	if err := kubelet.Changeable(ctx, step.Options{Kube: c.kube, Hosts: c.hosts, NodeNames: nodeNames(snap)}, p); err != nil {
		return withCode(exitBlocked, "%w", err)
	}
	if f.dryRun {
		return nil
	}
	if err := f.checkFileEnv(args, p); err != nil {
		return err
	}
	if err := c.approve(f.yes, fmt.Sprintf("carry out these %s on cluster %s", count(n, "step"), snap.Cluster.UID)); err != nil {
		return err
	}
	return c.locked(ctx, f, func(ctx context.Context) error {
		if err := c.stillUnbegun(ctx); err != nil {
			return err
		}
		now := time.Now().UTC()
		if err := c.noteApproval(p, now.Format(runFormat)); err != nil {
			return err
		}
		j, err := journal.Create(ctx, c.kube, v1.Journal{Run: now.Format(runFormat), Started: now, Phase: v1.RunApplying, User: userName(), Plan: *p}, snap)
		if err != nil {
			return err
		}
		return c.execute(ctx, j, p, n, snap, snap, f.accepted)
	})
}

// runFormat names a run by the time when it was begun.
const runFormat = "20060102-150405"

// unlike is replaced by tests that carry out parts of a plan.
var unlike = plan.Unlike

// sameAgain makes the plan of a file again and refuses it where the file's differs: then somebody has changed the file, or the cluster has changed. Where a fact has
// changed, that says it better. What is shown of its effects is said by this program, and not by the file.
func (c *connection) sameAgain(ctx context.Context, snap *v1.Snapshot, p *v1.Plan, args []string) error {
	if len(args) == 0 {
		return nil
	}
	made, differences, err := unlike(p, snap)
	if err == nil && len(differences) == 0 {
		p.Effects = made.Effects
		return nil
	}
	if stale := precondition.Preflight(ctx, step.Options{Kube: c.kube, Dynamic: c.dynamic, Hosts: c.hosts}, p); stale != nil {
		return fmt.Errorf("%w\nnothing was changed; make a new plan with transplant plan", stale)
	}
	if err != nil {
		return withCode(exitStale, "plan %s cannot be made again of this cluster: %w", args[0], err)
	}
	const most = 12
	rest := ""
	if n := len(differences) - most; n > 0 {
		differences, rest = differences[:most], fmt.Sprintf("\n  and %d more", n)
	}
	return withCode(exitStale, "plan %s is not the one that this version of transplant (%s; the file was made by %s) makes of the cluster as it is now:\n  %s%s\nnothing was changed; "+
		"make it anew with transplant plan --refresh %s, look at it with transplant diff %s, and have it approved again",
		args[0], version, orDash(p.ToolVersion), strings.Join(differences, "\n  "), rest, args[0], args[0])
}

// stillUnbegun refuses when somebody else has begun a migration, or carried one out, while this command looked at the cluster, asked, and waited for the lock.
func (c *connection) stillUnbegun(ctx context.Context) error {
	j, err := journal.Open(ctx, c.kube)
	if errors.Is(err, journal.ErrNoJournal) {
		return nil
	} else if err != nil {
		return err
	}
	switch doc := j.Doc(); doc.Phase {
	case v1.RunApplying:
		return withCode(exitError, "%s has begun migration %s meanwhile: nothing was changed; transplant apply without a plan goes on with it, transplant rollback takes it back", doc.User, doc.Run)
	case v1.RunRollingBack:
		return withCode(exitError, "a rollback of migration %s was begun meanwhile: nothing was changed; transplant rollback goes on with it", doc.Run)
	case v1.RunApplied:
		return withCode(exitError, "%s has carried out migration %s meanwhile: nothing was changed; transplant verify looks at it", doc.User, doc.Run)
	}
	return nil
}

// stepsUntil is how many of a plan's steps are carried out now.
func (c *connection) stepsUntil(p *v1.Plan, until string) (int, error) {
	if until == "" {
		return len(p.Steps), nil
	}
	n, err := planstep.Until(p, until)
	if err == nil && n < len(p.Steps) {
		c.narrate("stops behind %s (%d of %d steps); what remains: %s", p.Steps[n-1].ID, n, len(p.Steps), strings.Join(planstep.Remaining(p, n), ", "))
	}
	return n, err
}

// review prints a plan before it is carried out; with --dry-run it is the answer.
func (c *connection) review(p *v1.Plan, f changing) error {
	w := c.err
	if f.dryRun {
		w = c.out
	}
	return printPlan(w, p, c.layoutFor(w, false))
}

// planFor reads the plan file, or checks the cluster and makes a plan.
func (c *connection) planFor(snap *v1.Snapshot, args []string, o planFlags) (*v1.Plan, error) {
	if len(args) == 1 {
		p, err := readPlan(args[0])
		if err != nil {
			return nil, err
		}
		if p.Cluster.UID != snap.Cluster.UID {
			return nil, withCode(exitStale, "plan %s was made for the cluster with uid %s, this one has %s: check --context", args[0], p.Cluster.UID, snap.Cluster.UID)
		}
		if err := checkAgainstPlan(o.cmd, o.options, p.Options, "plan "+args[0]); err != nil {
			return nil, err
		}
		o.options = p.Options
		o.acceptAs(p) // the review shows it, and the plan's digest holds it
		if err := invariant.CheckAllowed(p, snap); err != nil {
			return nil, withCode(exitStale, "plan %s would do what no migration of this cluster does; make it anew with transplant plan --refresh %s:\n%w", args[0], args[0], err)
		}
		report := check.Run(snap, o.checkOptions())
		compare.ReplaceFindings(p, report.Findings)
		return p, c.blockedBy(report)
	}
	if err := o.choose(c, snap); err != nil {
		return nil, err
	}
	report := check.Run(snap, o.checkOptions())
	if err := c.blockedBy(report); err != nil {
		return nil, err
	}
	return plan.Make(snap, o.options, report.Findings, time.Now())
}

func (c *connection) blockedBy(report v1.CheckReport) error {
	if !report.Summary.Blocked {
		return nil
	}
	if err := printCheck(c.err, report, c.layoutFor(c.err, false)); err != nil {
		return err
	}
	return withCode(exitBlocked, "blocked by %s; nothing was changed", blocking(report))
}

// blocking counts the findings that block, in words.
func blocking(r v1.CheckReport) string {
	return count(r.Summary.Failed+r.Summary.Unknown-r.Summary.Accepted, "finding")
}

func (c *connection) resumeApply(ctx context.Context, j *journal.Journal, args []string, f changing) error {
	doc := j.Doc()
	if len(args) == 1 && !samePlan(args[0], doc.Plan) {
		return withCode(exitError, "migration %s was begun and is not finished: run transplant apply without a plan to go on with it, or transplant rollback", doc.Run)
	}
	before, err := journal.Before(ctx, c.kube)
	if err != nil {
		return err
	}
	if err := trust.CheckJournal(doc, nil); err != nil {
		return err
	}
	c.header(doc.Plan.Cluster)
	c.narrate("migration %s was begun %s by %s: %d of %d steps are done", doc.Run, doc.Started.Format(time.RFC3339), doc.User, stepsDone(doc), len(doc.Plan.Steps))
	if f.until == "" {
		f.until = behindCanary(doc)
	}
	n, err := c.stepsUntil(&doc.Plan, f.until)
	if err != nil {
		return err
	}
	if err := f.pinned.check(&doc.Plan, "the plan in the journal of migration "+doc.Run); err != nil {
		return err
	}
	stored := doc.Plan                                               // what the journal holds, without options of this run
	approved := len(args) == 1 || c.isApprovedHere(&stored, doc.Run) // a file of this machine that holds the same plan is an approval
	if err := overKubelets(&doc.Plan, f.kubelets); err != nil {
		return err
	}
	if f.dryRun {
		return printPlan(c.out, &doc.Plan, c.layoutFor(c.out, false))
	}
	if err := c.approveRest(f, doc, &stored, approved); err != nil {
		return err
	}
	return c.locked(ctx, f, func(ctx context.Context) error { return c.resumeLocked(ctx, f, n, before, approvalOf(&stored)) })
}

// journalUnseen says why a journal's plan is asked about its variables.
const journalUnseen = "the plan in the journal was not approved on this machine"

// approveRest asks whether the stored plan of a journal is to be gone on with, and shows what is left of one that nobody
// approved of on this machine.
func (c *connection) approveRest(f changing, doc v1.Journal, stored *v1.Plan, approved bool) error {
	if !approved {
		if err := c.reviewRest(doc); err != nil {
			return err
		}
	}
	if !approved {
		if err := f.checkEnv(journalUnseen, stored); err != nil {
			return err
		}
	}
	if err := f.pinned.checkApproved(f.yes, approved, stored, "transplant apply --dry-run"); err != nil {
		return err
	}
	return c.approve(f.yes, questionOfResume(f.without))
}

func questionOfResume(without []string) string {
	if len(without) == 0 {
		return "go on with it"
	}
	return "go on with it, without " + strings.Join(without, ", ") + " for good"
}

// resumeLocked goes on with the first n steps of the journal as it is under the lock: another command may have gone on with it before the lock was free. Its plan
// has to be the one that was approved before.
func (c *connection) resumeLocked(ctx context.Context, f changing, n int, before *v1.Snapshot, approved string) error {
	j, err := journal.Open(ctx, c.kube)
	if err != nil {
		return err
	}
	doc := j.Doc()
	if doc.Phase != v1.RunApplying {
		return withCode(exitError, "migration %s is %s by now", doc.Run, doc.Phase)
	}
	if err := f.pinned.check(&doc.Plan, "the plan in the journal of migration "+doc.Run); err != nil {
		return err
	}
	if approvalOf(&doc.Plan) != approved {
		return withCode(exitStale, "the plan in the journal of migration %s is another one than the one that was approved just now: nothing was changed; run the same command again and look at it", doc.Run)
	}
	if err := c.noteApproval(&doc.Plan, doc.Run); err != nil {
		return err
	}
	if err := c.takeOut(ctx, j, f, before); err != nil {
		return err
	}
	if err := overKubelets(&doc.Plan, f.kubelets); err != nil {
		return err
	}
	live := c.gather(ctx, doc.Plan.Options)
	if err := trust.CheckJournal(doc, live); err != nil {
		return err
	}
	return c.execute(ctx, j, &doc.Plan, n, before, live, f.accepted)
}

// reviewRest prints what is left of a plan that was not approved on this machine: it comes from the cluster, where others may have written it.
func (c *connection) reviewRest(doc v1.Journal) error {
	c.narrate("its plan was not approved on this machine (sha256 %s); what is left of it:", compare.Digest(&doc.Plan))
	rest := undone(&doc.Plan, doc)
	var b strings.Builder
	if err := printPlan(&b, &rest, c.layoutFor(c.err, false)); err != nil {
		return err
	}
	text := b.String()
	if i := strings.LastIndex(text, "plan sha256: "); i >= 0 {
		text = text[:i] // of the rest, which nobody pins
	}
	_, err := io.WriteString(c.err, text+managersGet(&doc.Plan))
	return err
}

// samePlan tells that a file holds the plan that a migration was begun with, wherever it says to stop: the journal keeps the whole.
// What the two accept may differ: the apply that began it may have accepted more, and no check is run when it is gone on with.
func samePlan(path string, begun v1.Plan) bool {
	p, err := readPlan(path)
	if err != nil {
		return false // it is of no use here, whatever is wrong with it
	}
	p.Findings = begun.Findings
	return compare.Digest(p) == compare.Digest(&begun)
}

// execute runs the plan's first steps with a recorder beside them, and writes how the run ended when they are all.
func (c *connection) execute(ctx context.Context, j *journal.Journal, p *v1.Plan, steps int, before, now *v1.Snapshot, accepted map[string]string) error {
	hard, stop, done := signals(ctx, c)
	defer done()
	doc := j.Doc()
	tell := c.teller(doc.Run) // also publishes the progress, and so comes before the probes
	stopRecorder, err := c.record(ctx, p, doc.Run)
	if err != nil {
		return err
	}
	defer stopRecorder()
	stopProbes, err := c.startProbes(ctx, p.Cluster.UID, doc.Run)
	if err != nil {
		return err
	}
	engine := migrate.New(step.Options{
		Kube: c.kube, Dynamic: c.dynamic, Hosts: c.hosts, HostsAreNodes: c.pods, NodeNames: nodeNames(now), Scrape: c.scrape, Version: c.versionOf, ToolVersion: version, Before: before, Live: now, Tell: tell, Clock: testClock(), Hook: testHook,
		Compare: c.comparing(j, before, accepted), Extend: c.extend,
	}, j)
	part := *p
	if part.Until = ""; steps < len(p.Steps) {
		part.Until = p.Steps[steps-1].ID
	}
	err = engine.Run(hard, &part, stop)
	stopProbes()
	if err != nil {
		if cause := context.Cause(hard); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		c.choices(err, p.Direction)
		if errors.Is(err, step.ErrInterrupted) {
			if idle := engine.Unowned(context.WithoutCancel(ctx)); len(idle) > 0 {
				c.narrate("this is the middle of the downtime: nobody runs %s until it goes on or back", strings.Join(idle, ", "))
			}
		}
		c.narrate("stopped. What was done stays; to go on: transplant %s", map[string]string{planstep.Forward: "apply; to go back: transplant rollback", planstep.Rollback: "rollback"}[p.Direction])
		return err
	}
	if rest := undone(p, j.Doc()); len(rest.Steps) > 0 {
		c.narrate("stopped behind %s, as asked: %d of %d steps are done; what remains: %s\nto go on: transplant apply; to go back: transplant rollback",
			part.Until, len(p.Steps)-len(rest.Steps), len(p.Steps), strings.Join(planstep.Remaining(&rest, 0), ", "))
		return nil
	}
	ended := time.Now().UTC()
	phase := map[string]string{planstep.Forward: v1.RunApplied, planstep.Rollback: v1.RunRolledBack}[p.Direction]
	if err := j.SetPhase(ctx, phase, nil, &ended); err != nil {
		return err
	}
	c.narrate("%s: %d steps in %s\nnext: transplant report", phase, len(p.Steps), ended.Sub(startOf(j.Doc(), p)).Round(time.Second))
	return nil
}

// startOf is when the first of the plan's steps was started.
func startOf(doc v1.Journal, p *v1.Plan) time.Time {
	ids := map[string]bool{}
	for _, s := range p.Steps {
		ids[s.ID] = true
	}
	for _, r := range doc.Records {
		if ids[r.ID] {
			return r.Started
		}
	}
	return doc.Started
}

// locked holds the lock on the cluster during f.
func (c *connection) locked(ctx context.Context, f changing, do func(context.Context) error) error {
	held, lock, err := lock.Acquire(ctx, c.kube, lockClock, lock.Taking{Holder: lock.Holder(userName()), Steal: f.steal, Tell: func(s string) { c.narrate("%s", s) }})
	if err != nil {
		return err
	}
	c.publish, c.extend = lock.Publish, lock.Extend
	err = do(held)
	return errors.Join(err, lock.Release(context.WithoutCancel(ctx)))
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// undone is a plan with the steps alone that are still to be done.
func undone(p *v1.Plan, doc v1.Journal) v1.Plan {
	results := map[string]string{}
	for _, r := range doc.Records {
		results[r.ID] = r.Result
	}
	rest := *p
	rest.Steps = nil
	for _, s := range p.Steps {
		if result := results[s.ID]; result != "done" && result != "already-done" && result != "skipped" {
			rest.Steps = append(rest.Steps, s)
		}
	}
	return rest
}

func stepsDone(doc v1.Journal) int {
	n := 0
	for _, r := range doc.Records {
		if r.Result == "done" || r.Result == "already-done" {
			n++
		}
	}
	return n
}
