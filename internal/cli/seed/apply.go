// Package seed has the commands for a control plane that runs as Deployments in another cluster, the seed.
package seed

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Apply carries a part out, or goes on with it.
func Apply(ctx context.Context, h *Command) error {
	s, err := h.plane.Status(ctx, h.part)
	if err != nil {
		return err
	}
	yes, dryRun := console.BoolFlag(h.cmd, "yes"), console.BoolFlag(h.cmd, "dry-run")
	var p *v1.Plan
	question := "go on with the " + string(h.part) + " of the control plane in namespace " + h.plane.Namespace
	switch s.Phase {
	case v1.RunApplied:
		h.Narrate("migration %s is applied: nothing to do", s.Run)
		return nil
	case v1.RunApplying:
		h.Narrate(
			"migration %s was begun %s: %d of %d steps are done",
			s.Run,
			s.Started.Format(time.RFC3339),
			s.StepsDone,
			s.StepsTotal,
		)
		doc, err := h.plane.Journal(ctx, h.part)
		if err != nil {
			return err
		}
		p = &doc.Plan
		approved := h.IsApprovedHere(p, h.approval(h.part))
		if dryRun {
			return printer.PrintPlan(h.Out, p, h.LayoutFor(h.Out, false))
		}
		if !approved {
			if err := h.reviewUnseen(doc); err != nil {
				return err
			}
		}
		if err := h.pin().CheckApproved(yes, approved, p, "transplant apply --dry-run"+h.where(h.part)); err != nil {
			return err
		}
	default:
		if p, err = h.makePlan(ctx); err != nil {
			return err
		}
		if err := printer.PrintPlan(h.Err, p, h.LayoutFor(h.Err, false)); err != nil {
			return err
		}
		question = fmt.Sprintf(
			"carry out these %s on the control plane in namespace %s",
			wording.Count(len(p.Steps), "step"),
			h.plane.Namespace,
		)
	}
	if dryRun {
		return nil
	}
	if err := h.Approve(yes, question); err != nil {
		return err
	}
	if s.Phase == v1.RunApplying {
		if err := h.NoteApproval(p, h.approval(h.part)); err != nil {
			return err
		}
	}
	h.plane.Ledger = approvalLedger{Command: h}
	return h.runInterruptibly(ctx, func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
		return h.plane.Run(ctx, h.part, tell, stop)
	})
}

// Rollback takes a hosted migration back.
func Rollback(ctx context.Context, h *Command) error {
	s, err := h.plane.Status(ctx, hosted.Handover)
	switch {
	case err != nil:
		return err
	case s.Phase == v1.StateNotStarted:
		return exitcode.With(exitcode.Error, "no migration was started on this cluster: there is nothing to roll back")
	case s.Phase == v1.RunRolledBack:
		h.Narrate("migration %s is rolled back: nothing to do", s.Run)
		return nil
	}
	p, doc, err := h.plane.PlanRollback(ctx)
	if err != nil {
		return err
	}
	if console.BoolFlag(h.cmd, "dry-run") {
		h.Narrate(
			"migration %s is %s: its %s is taken away, and %s gets its cloud loops again",
			s.Run,
			s.Phase,
			component.CCM,
			component.KCM,
		)
		return printer.PrintPlan(h.Out, p, h.LayoutFor(h.Out, false))
	}
	approved := h.IsBackApproved(&doc, p, h.approval(hosted.Handover))
	if !approved {
		h.Narrate("migration %s was not approved on this machine; its rollback:", s.Run)
		if err := printer.PrintPlan(h.Err, p, h.LayoutFor(h.Err, false)); err != nil {
			return err
		}
	}
	yes := console.BoolFlag(h.cmd, "yes")
	if err := h.pin().
		CheckApproved(yes, approved, p, "transplant rollback --dry-run"+h.where(hosted.Handover)); err != nil {
		return err
	}
	if err := h.Approve(
		yes,
		fmt.Sprintf(
			"roll migration %s back: its %s is taken away, and %s gets its cloud loops again",
			s.Run,
			component.CCM,
			component.KCM,
		),
	); err != nil {
		return err
	}
	if err := h.NoteApproval(p, client.RollbackRun(h.approval(hosted.Handover))); err != nil {
		return err
	}
	if h.plane.Pinned == "" {
		h.plane.Pinned = hosted.Sum(p.Steps)
	}
	h.plane.Ledger = SeenPlan{Plan: &doc.Plan}
	return h.runInterruptibly(ctx, h.plane.Rollback)
}

// runInterruptibly runs something that may be interrupted, and tells what happens.
func (h *Command) runInterruptibly(
	ctx context.Context,
	do func(context.Context, func(step.Event), <-chan struct{}) error,
) error {
	hard, stop, done := console.Signals(ctx, h.Console)
	defer done()
	defer signal.Reset(syscall.SIGPIPE)
	heart := run.Heartbeat{Said: map[string]time.Time{}}
	started := client.Now()
	err := do(hard, func(e step.Event) {
		if heart.IsDue(e) {
			h.Tell(e)
		}
	}, stop)
	if err != nil {
		h.Narrate("stopped. What was done stays; the same command goes on")
		return h.showRefusal(err)
	}
	h.Narrate("done in %s", client.Now().Sub(started).Round(time.Second))
	return nil
}
