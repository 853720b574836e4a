package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/cloudconfig"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// AddTo lets a command work on a control plane in a seed, when its flags say that there is one.
func AddTo(c *console.Console, cmd *cobra.Command, do func(ctx context.Context, h *Command) error) *cobra.Command {
	var f seedFlags
	f.flags(cmd)
	own := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.namespace == "" {
			if given := console.FlagsGiven(cmd, seedOnly...); len(given) > 0 {
				return fmt.Errorf(
					"%s needs --seed-namespace, the namespace of the cluster's control plane in the seed",
					strings.Join(given, ", "),
				)
			}
			return own(cmd, args)
		}
		if err := checkHostedFlags(cmd); err != nil {
			return err
		}
		if len(args) > 0 {
			return errors.New("a plan of a hosted control plane is made when it is carried out: leave the file out")
		}
		h := &Command{Console: c, cmd: cmd, part: hosted.Part(f.part)}
		if h.part == "" {
			h.part = hosted.Handover
		}
		if h.part != hosted.Handover && h.part != hosted.Finish {
			return fmt.Errorf("--part %q: the parts are %s and %s", f.part, hosted.Handover, hosted.Finish)
		}
		var err error
		if h.plane, err = hostedPlane(c, cmd, f); err != nil {
			return err
		}
		return do(cmd.Context(), h)
	}
	return cmd
}

// Command is one command on a hosted control plane.
type Command struct {
	*console.Console
	cmd   *cobra.Command
	plane *hosted.Plane
	part  hosted.Part
}

func (h *Command) output() *printer.Format {
	if f := h.cmd.Flags().Lookup("output"); f != nil {
		if out, ok := f.Value.(*printer.Format); ok {
			return out
		}
	}
	return &printer.Format{Value: "text"}
}

// Check judges a hosted control plane.
func Check(ctx context.Context, h *Command) error {
	snap := h.plane.Gather(ctx)
	h.NameCluster(snap.Cluster)
	report := h.plane.CheckPart(snap, h.part)
	shown := console.ReportFilter{Problems: console.BoolFlag(h.cmd, "problems"), Strict: console.BoolFlag(h.cmd, "strict")}
	if shown.Strict {
		check.Strict(
			&report,
			facts.Options{Accept: h.plane.Accept, AcceptedBy: client.UserName(), AcceptedAt: client.Now().UTC()},
		)
	}
	if err := h.PrintReport(h.output(), report, shown); err != nil {
		return err
	}
	if report.Summary.Blocked {
		return exitcode.With(exitcode.Blocked, "")
	}
	return nil
}

// Plan prints the plan of a part.
func Plan(ctx context.Context, h *Command) error {
	p, err := h.makePlan(ctx)
	if err != nil {
		return err
	}
	return h.output().Print(h.Out, p, map[string]func() error{
		"text":     func() error { return printer.PrintPlan(h.Out, p, h.LayoutFor(h.Out, false)) },
		"wide":     func() error { return printer.PrintPlan(h.Out, p, h.LayoutFor(h.Out, true)) },
		"markdown": func() error { return errors.New("a plan of a hosted control plane is printed as text, json or yaml") },
	})
}

func (h *Command) makePlan(ctx context.Context) (*v1.Plan, error) {
	snap := h.plane.Gather(ctx)
	h.NameCluster(snap.Cluster)
	p, err := h.plane.Plan(snap, h.part)
	return p, h.showRefusal(err)
}

// showRefusal shows the findings that refuse.
func (h *Command) showRefusal(err error) error {
	var blocked *hosted.BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	return run.BlockedBy(h.Console.Client, blocked.Report)
}

// reviewUnseen prints what is left of a plan that was not approved on this machine, and asks about the variables in it.
func (h *Command) reviewUnseen(doc v1.Journal) error {
	if err := run.ReviewRest(h.Console.Client, doc); err != nil {
		return err
	}
	given := run.Options{EnvGiven: slices.Equal(h.plane.Options.Env, doc.Plan.Options.Env), Pinned: h.pin()}
	return given.CheckEnv(run.JournalUnseen, &doc.Plan)
}

func (h *Command) pin() client.Pin { return client.Pin{Sha256: h.plane.Pinned} }

// approval is the name under which the approval of a part is kept.
func (h *Command) approval(part hosted.Part) string {
	return "hosted-" + h.plane.Namespace + "-" + string(part)
}

// where are the flags that name a part of this control plane.
func (h *Command) where(part hosted.Part) string {
	out := " --seed-namespace " + h.plane.Namespace
	if part == hosted.Finish {
		out += " --part finish"
	}
	return out
}

var _ hosted.Ledger = approvalLedger{}

var _ hosted.Ledger = SeenPlan{}

// Status says how a part stands and who runs the loops.
func Status(ctx context.Context, h *Command) error {
	s, err := h.plane.Status(ctx, h.part)
	if err != nil {
		return err
	}
	owners, err := h.plane.Owners(ctx)
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
	warnOfToken(ctx, h, &s)
	s.Next = hostedNext(h, s)
	h.NameCluster(s.Cluster)
	return h.output().
		Print(h.Out, s, map[string]func() error{
			"text": func() error { return printer.PrintStatus(h.Out, s, h.LayoutFor(h.Out, false), false) },
		})
}

// warnOfToken says when the manager's token cannot be used or not for long.
func warnOfToken(ctx context.Context, h *Command, s *v1.Status) {
	token, err := h.plane.ManagerToken(ctx)
	if err != nil {
		s.NotRead = append(s.NotRead, mask.Error(err))
	}
	if token == nil {
		return
	}
	if why := cloudconfig.TokenProblem(token, s.Time); why != "" {
		s.Health = append(s.Health, v1.Blocker{
			Level: "warning", Impact: findings.ImpactNoLoops,
			Message: "transplant renew --seed-namespace " + h.plane.Namespace + ": " + token.Path + " of the seed" + why,
		})
	}
}

// hostedNext is the command that comes next.
func hostedNext(h *Command, s v1.Status) string {
	at := " --seed-namespace " + h.plane.Namespace
	switch {
	case s.Untrusted != "":
		return "find out who wrote the journal's ConfigMap in namespace " + h.plane.Namespace + " of the seed"
	case s.Phase == v1.RunRollingBack:
		return "transplant rollback" + at
	case s.Phase == v1.RunApplied && h.part == hosted.Handover:
		return "transplant apply --part finish" + at + ", when the machines are done"
	case s.Phase == v1.RunApplied:
		return ""
	}
	return "transplant apply --part " + string(h.part) + at
}
