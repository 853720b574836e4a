package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/cloudconfig"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Hosted is the migration of a control plane that runs as Deployments in another cluster, the seed. Of the Options of
// its runs, Yes and DryRun count; the rest is in the plane.
type Hosted struct {
	Client *client.Client
	Plane  *hosted.Plane
	Part   hosted.Part
}

// Apply carries a part out, or goes on with it.
func (h *Hosted) Apply(ctx context.Context, o Options) error {
	s, err := h.Plane.Status(ctx, h.Part)
	if err != nil {
		return err
	}
	var p *v1.Plan
	question := "go on with the " + string(h.Part) + " of the control plane in namespace " + h.Plane.Namespace
	switch s.Phase {
	case v1.RunApplied:
		h.Client.Narrate("migration %s is applied: nothing to do", s.Run)
		return nil
	case v1.RunApplying:
		h.Client.Narrate(
			"migration %s was begun %s: %d of %d steps are done",
			s.Run,
			s.Started.Format(time.RFC3339),
			s.StepsDone,
			s.StepsTotal,
		)
		doc, err := h.Plane.Journal(ctx, h.Part)
		if err != nil {
			return err
		}
		p = &doc.Plan
		approved := h.Client.IsApprovedHere(p, h.approval(h.Part))
		if o.DryRun {
			return h.Client.ShowPlan(p, true)
		}
		if !approved {
			if err := h.reviewUnseen(doc); err != nil {
				return err
			}
		}
		if err := h.pin().CheckApproved(o.Yes, approved, p, "transplant apply --dry-run"+h.where(h.Part)); err != nil {
			return err
		}
	default:
		if p, err = h.MakePlan(ctx); err != nil {
			return err
		}
		if err := h.Client.ShowPlan(p, false); err != nil {
			return err
		}
		question = fmt.Sprintf(
			"carry out these %s on the control plane in namespace %s",
			wording.Count(len(p.Steps), "step"),
			h.Plane.Namespace,
		)
	}
	if o.DryRun {
		return nil
	}
	if err := h.Client.Approve(o.Yes, question); err != nil {
		return err
	}
	if s.Phase == v1.RunApplying {
		if err := h.Client.NoteApproval(p, h.approval(h.Part)); err != nil {
			return err
		}
	}
	h.Plane.Ledger = approvalLedger{h}
	return h.runInterruptibly(ctx, func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
		return h.Plane.Run(ctx, h.Part, tell, stop)
	})
}

// Rollback takes the handover back, from wherever it stands.
func (h *Hosted) Rollback(ctx context.Context, o Options) error {
	s, err := h.Plane.Status(ctx, hosted.Handover)
	switch {
	case err != nil:
		return err
	case s.Phase == v1.StateNotStarted:
		return exitcode.With(exitcode.Error, "no migration was started on this cluster: there is nothing to roll back")
	case s.Phase == v1.RunRolledBack:
		h.Client.Narrate("migration %s is rolled back: nothing to do", s.Run)
		return nil
	}
	p, doc, err := h.Plane.PlanRollback(ctx)
	if err != nil {
		return err
	}
	if o.DryRun {
		h.Client.Narrate(
			"migration %s is %s: its %s is taken away, and %s gets its cloud loops again",
			s.Run,
			s.Phase,
			component.CCM,
			component.KCM,
		)
		return h.Client.ShowPlan(p, true)
	}
	approved := h.Client.IsBackApproved(&doc, p, h.approval(hosted.Handover))
	if !approved {
		h.Client.Narrate("migration %s was not approved on this machine; its rollback:", s.Run)
		if err := h.Client.ShowPlan(p, false); err != nil {
			return err
		}
	}
	if err := h.pin().
		CheckApproved(o.Yes, approved, p, "transplant rollback --dry-run"+h.where(hosted.Handover)); err != nil {
		return err
	}
	if err := h.Client.Approve(
		o.Yes,
		fmt.Sprintf(
			"roll migration %s back: its %s is taken away, and %s gets its cloud loops again",
			s.Run,
			component.CCM,
			component.KCM,
		),
	); err != nil {
		return err
	}
	if err := h.Client.NoteApproval(p, client.RollbackRun(h.approval(hosted.Handover))); err != nil {
		return err
	}
	if h.Plane.Pinned == "" {
		h.Plane.Pinned = hosted.Sum(p.Steps)
	}
	h.Plane.Ledger = SeenPlan{Plan: &doc.Plan}
	return h.runInterruptibly(ctx, h.Plane.Rollback)
}

// runInterruptibly runs something that may be interrupted, and tells what happens.
func (h *Hosted) runInterruptibly(
	ctx context.Context,
	do func(context.Context, func(step.Event), <-chan struct{}) error,
) error {
	hard, stop, done := h.Client.Interruptible(ctx)
	defer done()
	heart := Heartbeat{Said: map[string]time.Time{}}
	started := client.Now()
	err := do(hard, func(e step.Event) {
		if heart.IsDue(e) {
			h.Client.Tell(e)
		}
	}, stop)
	if err != nil {
		h.Client.Narrate("stopped. What was done stays; the same command goes on")
		return h.showRefusal(err)
	}
	h.Client.Narrate("done in %s", client.Now().Sub(started).Round(time.Second))
	return nil
}

// Check judges the control plane; strictly, where warnings block as well.
func (h *Hosted) Check(ctx context.Context, strict bool) v1.CheckReport {
	snap := h.Plane.Gather(ctx)
	h.Client.NameCluster(snap.Cluster)
	report := h.Plane.CheckPart(snap, h.Part)
	if strict {
		check.Strict(
			&report,
			facts.Options{Accept: h.Plane.Accept, AcceptedBy: client.UserName(), AcceptedAt: client.Now().UTC()},
		)
	}
	return report
}

// MakePlan checks the cluster and makes the plan of the part. Findings that refuse are shown.
func (h *Hosted) MakePlan(ctx context.Context) (*v1.Plan, error) {
	snap := h.Plane.Gather(ctx)
	h.Client.NameCluster(snap.Cluster)
	p, err := h.Plane.Plan(snap, h.Part)
	return p, h.showRefusal(err)
}

// showRefusal shows the findings that refuse.
func (h *Hosted) showRefusal(err error) error {
	var blocked *hosted.BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	return BlockedBy(h.Client, blocked.Report)
}

// reviewUnseen prints what is left of a plan that was not approved on this machine, and asks about the variables in it.
func (h *Hosted) reviewUnseen(doc v1.Journal) error {
	if err := ReviewRest(h.Client, doc); err != nil {
		return err
	}
	given := Options{EnvGiven: slices.Equal(h.Plane.Options.Env, doc.Plan.Options.Env), Pinned: h.pin()}
	return given.CheckEnv(JournalUnseen, &doc.Plan)
}

func (h *Hosted) pin() client.Pin { return client.Pin{Sha256: h.Plane.Pinned} }

// approval is the name under which the approval of a part is kept.
func (h *Hosted) approval(part hosted.Part) string {
	return "hosted-" + h.Plane.Namespace + "-" + string(part)
}

// where are the flags that name a part of this control plane.
func (h *Hosted) where(part hosted.Part) string {
	out := " --seed-namespace " + h.Plane.Namespace
	if part == hosted.Finish {
		out += " --part finish"
	}
	return out
}

// Status says how the part stands and who runs the loops.
func (h *Hosted) Status(ctx context.Context) (v1.Status, error) {
	s, err := h.Plane.Status(ctx, h.Part)
	if err != nil {
		return s, err
	}
	owners, err := h.Plane.Owners(ctx)
	if err != nil {
		s.NotRead = append(s.NotRead, mask.Error(err))
	}
	s.Owners, s.OwnersFrom = map[string]string{}, map[string]string{}
	for loop, o := range owners.Loops {
		if o.Component != "" {
			s.Owners[loop], s.OwnersFrom[loop] = o.Component+"@"+o.Pod, "gauges"
		}
		for _, also := range o.Also {
			s.Health = append(
				s.Health,
				v1.Blocker{Level: "error", Impact: "two owners", Message: fmt.Sprintf("loop %s also runs in %s", loop, also)},
			)
		}
	}
	s.NotRead = append(s.NotRead, owners.Unknown...)
	h.warnOfToken(ctx, &s)
	s.Next = h.next(s)
	return s, nil
}

// warnOfToken says when the manager's token cannot be used or not for long.
func (h *Hosted) warnOfToken(ctx context.Context, s *v1.Status) {
	token, err := h.Plane.ManagerToken(ctx)
	if err != nil {
		s.NotRead = append(s.NotRead, mask.Error(err))
	}
	if token == nil {
		return
	}
	if why := cloudconfig.TokenProblem(token, s.Time); why != "" {
		s.Health = append(s.Health, v1.Blocker{
			Level: "warning", Impact: findings.ImpactNoLoops,
			Message: "transplant renew --seed-namespace " + h.Plane.Namespace + ": " + token.Path + " of the seed" + why,
		})
	}
}

// next is the command that comes next.
func (h *Hosted) next(s v1.Status) string {
	at := " --seed-namespace " + h.Plane.Namespace
	switch {
	case s.Untrusted != "":
		return "find out who wrote the journal's ConfigMap in namespace " + h.Plane.Namespace + " of the seed"
	case s.Phase == v1.RunRollingBack:
		return "transplant rollback" + at
	case s.Phase == v1.RunApplied && h.Part == hosted.Handover:
		return "transplant apply --part finish" + at + ", when the machines are done"
	case s.Phase == v1.RunApplied:
		return ""
	}
	return "transplant apply --part " + string(h.Part) + at
}

var _ hosted.Ledger = approvalLedger{}

var _ hosted.Ledger = SeenPlan{}
