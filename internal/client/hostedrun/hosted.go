// Package hostedrun does what commands are about on a control plane that runs as Deployments in another cluster, the
// seed. It checks, plans, has plans approved, and has package hosted execute them.
package hostedrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// Migration is a part of the migration of a hosted control plane. Of the options of its runs, Yes, DryRun and AskServer
// count; the rest is in the plane.
type Migration struct {
	Client *client.Client
	Plane  *hosted.Plane
	Part   hosted.Part
	// Now is the time of the seed's API server; that of the plane when nil.
	Now func() time.Time
	// SeedContext and SeedServer are the seed's context and API server, for questions.
	SeedContext, SeedServer string
}

// PlaneName names the control plane in a question: who agrees must see that it is the one that is meant.
func (m *Migration) PlaneName() string {
	return fmt.Sprintf(
		"the control plane of cluster %s in namespace %s (seed: context %s, server %s)",
		wording.OrDash(m.Plane.Name),
		m.Plane.Namespace,
		wording.OrDash(m.SeedContext),
		wording.OrDash(mask.Server(m.SeedServer)),
	)
}

// wordFor is what has to be typed to agree to a plan: the cluster's name, if no rollback takes all of it back. It is
// typed once.
func (m *Migration) wordFor(p *v1.Plan) string {
	if !run.IsIrreversible(p) || m.Client.IsApprovedHere(p, m.approval(m.Part)) {
		return ""
	}
	return cmp.Or(m.Plane.Name, m.Plane.Namespace)
}

// Apply executes a part, or goes on with it.
func (m *Migration) Apply(ctx context.Context, o run.Options) error {
	s, err := m.Plane.Status(ctx, m.Part)
	if err != nil {
		return err
	}
	var p *v1.Plan
	question := "go on with the " + string(m.Part) + " of " + m.PlaneName()
	switch s.Phase {
	case v1.RunApplied:
		m.Client.Narrate("migration %s is applied: nothing to do", s.Run)
		return nil
	case v1.RunApplying:
		m.Client.Narrate(
			"migration %s was begun %s: its journal says that %d of %d steps are done",
			s.Run,
			s.Started.Format(time.RFC3339),
			s.StepsDone,
			s.StepsTotal,
		)
		if p, err = m.resumed(ctx, o); err != nil {
			return err
		}
		if o.DryRun {
			return nil
		}
	default:
		if p, err = m.MakePlan(ctx); err != nil {
			return err
		}
		if err := m.pin().Check(p, "the plan"); err != nil {
			return err
		}
		view := client.PlanView{Answer: o.DryRun, Made: true, DryRuns: m.tryOnServers(ctx, o, p.Steps)}
		if err := m.Client.ShowPlan(p, view); err != nil {
			return err
		}
		if o.DryRun {
			return run.Refused(view.DryRuns)
		}
		question = fmt.Sprintf(
			"execute these %s on %s",
			english.Count(len(p.Steps), "step"),
			m.PlaneName(),
		)
	}
	if err := m.Client.Approve(client.Question{Yes: o.Yes, What: question, Word: m.wordFor(p)}); err != nil {
		return err
	}
	if s.Phase == v1.RunApplying {
		if err := m.Client.NoteApproval(p, m.approval(m.Part)); err != nil {
			return err
		}
	}
	m.Plane.Ledger = approvalLedger{m}
	m.Plane.IgnoreObjectives = o.IgnoreObjectives
	return m.runInterruptibly(ctx, func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
		return m.Plane.Run(ctx, m.Part, tell, stop)
	})
}

// showOnly shows a plan that is not executed, with what the API servers say of its steps if they are asked.
func (m *Migration) showOnly(ctx context.Context, o run.Options, p *v1.Plan, steps []v1.Step) error {
	view := client.PlanView{Answer: true, DryRuns: m.tryOnServers(ctx, o, steps)}
	return cmp.Or(m.Client.ShowPlan(p, view), run.Refused(view.DryRuns))
}

// tryOnServers has both clusters' API servers judge what steps write.
func (m *Migration) tryOnServers(ctx context.Context, o run.Options, steps []v1.Step) []v1.DryRun {
	seed := &step.Seed{Kube: m.Plane.Seed.Kube, Dynamic: m.Plane.Seed.Dynamic, Namespace: m.Plane.Namespace}
	return o.TryOnServer(ctx, step.Options{Dynamic: m.Plane.User.Dynamic, Seed: seed}, steps)
}

// resumed is the plan of the journal that a run goes on with. Unless it is only shown, it was approved here, or is
// reviewed now.
func (m *Migration) resumed(ctx context.Context, o run.Options) (*v1.Plan, error) {
	doc, shown, err := m.Plane.Journal(ctx, m.Part)
	if err != nil {
		return nil, err
	}
	stored := &doc.Plan
	if err := m.pin().Check(stored, "the plan in the journal of migration "+doc.Run); err != nil {
		return nil, err
	}
	if o.DryRun {
		return stored, m.showOnly(ctx, o, shown, run.StepsLeft(shown, doc))
	}
	approved := m.Client.IsApprovedHere(stored, m.approval(m.Part))
	if !approved {
		if err := m.reviewUnseen(doc, shown); err != nil {
			return nil, err
		}
	}
	look := "transplant apply --dry-run" + m.Where(m.Part)
	return stored, m.pin().CheckApproved(o.Yes, approved, stored, look)
}

// Rollback takes the handover back, from wherever it stands.
func (m *Migration) Rollback(ctx context.Context, o run.Options) error {
	s, err := m.Plane.Status(ctx, hosted.Handover)
	switch {
	case err != nil:
		return err
	case s.Phase == v1.StateNotStarted:
		return exitcode.With(exitcode.Error, "no migration was started on this cluster: there is nothing to roll back")
	case s.Phase == v1.RunRolledBack:
		m.Client.Narrate("migration %s is rolled back: nothing to do", s.Run)
		return nil
	}
	hide := m.showGathering()
	p, doc, err := m.Plane.PlanRollback(ctx)
	hide()
	if err != nil {
		return err
	}
	if err := m.pin().Check(p, "the rollback"); err != nil {
		return err
	}
	if o.DryRun {
		m.Client.Narrate(
			"migration %s is %s: its %s is taken away, and %s gets its cloud loops again",
			s.Run,
			s.Phase,
			component.CCM,
			component.KCM,
		)
		return m.showOnly(ctx, o, p, p.Steps)
	}
	approved := m.Client.IsBackApproved(&doc, p, m.approval(hosted.Handover))
	if !approved {
		m.Client.Narrate("migration %s was not approved on this machine; its rollback:", s.Run)
		if err := m.Client.ShowPlan(p, client.PlanView{}); err != nil {
			return err
		}
	}
	if err := m.pin().
		CheckApproved(o.Yes, approved, p, "transplant rollback --dry-run"+m.Where(hosted.Handover)); err != nil {
		return err
	}
	if err := m.Client.Approve(client.Question{Yes: o.Yes, What: fmt.Sprintf(
		"roll migration %s of %s back: its %s is removed, and %s gets its cloud loops again",
		s.Run,
		m.PlaneName(),
		component.CCM,
		component.KCM,
	)}); err != nil {
		return err
	}
	if err := m.Client.NoteApproval(p, client.RollbackRun(m.approval(hosted.Handover))); err != nil {
		return err
	}
	if m.Plane.Pinned == "" {
		m.Plane.Pinned = hosted.Sum(p.Steps)
	}
	m.Plane.Ledger = SeenPlan{Plan: &doc.Plan}
	m.Plane.IgnoreObjectives = o.IgnoreObjectives
	return m.runInterruptibly(ctx, m.Plane.Rollback)
}

// runInterruptibly runs something that may be interrupted, and tells what happens.
func (m *Migration) runInterruptibly(
	ctx context.Context,
	do func(context.Context, func(step.Event), <-chan struct{}) error,
) error {
	hard, stop, done := m.Client.Interruptible(ctx)
	defer done()
	heart := run.Heartbeat{Said: map[string]time.Time{}}
	started := client.Now()
	m.Plane.Objectives = objectives.NewWatch(started)
	hide := m.showGathering() // the clusters are looked at once more before the first step
	defer hide()
	err := do(hard, func(e step.Event) {
		hide()
		if heart.IsDue(e) {
			m.Client.Tell(e)
		}
	}, stop)
	hide()
	if err != nil {
		m.Client.Narrate("stopped. What was done stays; the same command goes on")
		err = m.showRefusal(err)
		if exitcode.Of(err) != exitcode.Blocked {
			run.SuggestBundle(m.Client, err, " --seed-namespace "+m.Plane.Namespace+" --kubeconfig FILE")
		}
		return err
	}
	run.NarrateObjectives(m.Client, m.Plane.Objectives)
	m.Client.Narrate("done in %s", client.Now().Sub(started).Round(time.Second))
	return nil
}

// Gather looks at the control plane once, and shows what it waits for.
func (m *Migration) Gather(ctx context.Context) *v1.Snapshot {
	defer m.showGathering()()
	return m.Plane.Gather(ctx)
}

// showGathering shows what the plane waits for whenever it looks at the clusters, until stop is called.
func (m *Migration) showGathering() (stop func()) {
	m.Plane.Progress = &collect.Progress{}
	hide := client.ShowGathering(m.Client, m.Plane.Progress)
	return sync.OnceFunc(func() {
		hide()
		m.Plane.Progress = nil
	})
}

// Check judges the control plane; strictly, where warnings block as well. For as long as wait says it looks again while
// all that blocks may pass by itself. Of one that is still blocked then it returns client.ErrStillBlocked as well.
func (m *Migration) Check(ctx context.Context, strict bool, wait time.Duration) (v1.CheckReport, error) {
	isNamed := false
	return m.Client.WaitForCheck(ctx, wait, strict, func(ctx context.Context) (v1.CheckReport, error) {
		snap := m.Gather(ctx)
		if !isNamed {
			m.Client.NameCluster(snap.Cluster)
			isNamed = true
		}
		report := m.Plane.CheckPart(snap, m.Part)
		if strict {
			check.Strict(
				&report,
				facts.Options{Accept: m.Plane.Accept, AcceptedBy: client.UserName(), AcceptedAt: client.Now().UTC()},
			)
		}
		return report, nil
	})
}

// MakePlan checks the cluster and makes the plan of the part. Findings that refuse are shown.
func (m *Migration) MakePlan(ctx context.Context) (*v1.Plan, error) {
	snap := m.Gather(ctx)
	m.Client.NameCluster(snap.Cluster)
	p, err := m.Plane.Plan(snap, m.Part)
	return p, m.showRefusal(err)
}

// showRefusal shows the findings that refuse.
func (m *Migration) showRefusal(err error) error {
	var blocked *hosted.BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	return run.BlockedBy(m.Client, blocked.Report)
}

// reviewUnseen prints a plan that was not approved on this machine, in the words of the shown one, and asks
// about the variables in it.
func (m *Migration) reviewUnseen(doc v1.Journal, shown *v1.Plan) error {
	doc.Plan = *shown
	if err := run.ReviewUnseen(m.Client, doc); err != nil {
		return err
	}
	given := run.Options{EnvGiven: slices.Equal(m.Plane.Options.Env, doc.Plan.Options.Env), Pinned: m.pin()}
	return given.CheckEnv(run.JournalUnseen, &doc.Plan)
}

func (m *Migration) pin() client.Pin { return client.Pin{Sha256: m.Plane.Pinned} }

// approval is the name under which the approval of a part is kept.
func (m *Migration) approval(part hosted.Part) string {
	return "hosted-" + m.Plane.Namespace + "-" + string(part)
}

// Where are the flags that name a part of this control plane.
func (m *Migration) Where(part hosted.Part) string {
	out := " --seed-namespace " + m.Plane.Namespace
	if part == hosted.Finish {
		out += " --part finish"
	}
	return out
}

var _ hosted.Ledger = approvalLedger{}

var _ hosted.Ledger = SeenPlan{}
