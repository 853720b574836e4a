// Package seed has the commands for a control plane that runs as Deployments in another cluster, the seed.
package seed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/cli/printer/exposition"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/hostedrun"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/objectives"
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
			return errors.New("a plan of a hosted control plane is made when it is executed: leave the file out")
		}
		h := &Command{Console: c, Migration: hostedrun.Migration{Client: c.Client, Part: hosted.Part(f.part)}, cmd: cmd}
		if h.Part == "" {
			h.Part = hosted.Handover
		}
		if h.Part != hosted.Handover && h.Part != hosted.Finish {
			return fmt.Errorf("--part %q: the parts are %s and %s", f.part, hosted.Handover, hosted.Finish)
		}
		_, accept := hostedOptions(cmd)
		maps.DeleteFunc(accept, func(key, _ string) bool { return strings.Contains(key, "/") }) // differences of a verification
		if err := check.ValidateAccept(accept); err != nil {
			return err
		}
		var err error
		if h.Plane, err = hostedPlane(c, cmd, f, &h.reach); err != nil {
			return err
		}
		h.Now = h.reach.now
		h.SeedContext, h.SeedServer = seedAddress(f)
		return do(cmd.Context(), h)
	}
	return cmd
}

// Command is one command on a hosted control plane.
type Command struct {
	*console.Console
	hostedrun.Migration
	cmd   *cobra.Command
	reach reach
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
	shown := console.ReportFilter{Problems: console.BoolFlag(h.cmd, "problems"), Strict: console.BoolFlag(h.cmd, "strict")}
	wait, err := h.cmd.Flags().GetDuration("wait")
	if err != nil {
		return err
	}
	report, err := h.Migration.Check(ctx, shown.Strict, wait)
	isStillBlocked := errors.Is(err, client.ErrStillBlocked)
	if err != nil && !isStillBlocked {
		return err
	}
	asked := slices.Concat(hostedFlags["plan"], seedOnly, []string{"seed-namespace"})
	flags := console.GivenWords(h.cmd, slices.DeleteFunc(asked, func(name string) bool { return name == "output" })...)
	shown.Next = strings.Join(slices.Concat([]string{"transplant plan"}, flags, h.GivenWords()), " ")
	if err := h.PrintReport(h.output(), report, shown); err != nil {
		return err
	}
	return console.EndCheck(report, isStillBlocked, wait)
}

// Plan prints the plan of a part.
func Plan(ctx context.Context, h *Command) error {
	p, err := h.MakePlan(ctx)
	if err != nil {
		return err
	}
	return h.output().Print(h.Out, p, map[string]func() error{
		"text":     func() error { return h.ShowPlan(p, client.PlanView{Answer: true, Made: true}) },
		"wide":     func() error { return printer.PrintPlan(h.Out, p, h.LayoutFor(h.Out, true)) },
		"markdown": func() error { return errors.New("a plan of a hosted control plane is printed as text, json or yaml") },
	})
}

// Apply executes a part, or goes on with it.
func Apply(ctx context.Context, h *Command) error {
	defer signal.Reset(syscall.SIGPIPE)
	return h.Migration.Apply(ctx, h.options())
}

// Rollback takes a hosted migration back.
func Rollback(ctx context.Context, h *Command) error {
	defer signal.Reset(syscall.SIGPIPE)
	return h.Migration.Rollback(ctx, h.options())
}

func (h *Command) options() run.Options {
	o := run.Options{
		Yes:              console.BoolFlag(h.cmd, "yes"),
		IgnoreObjectives: h.cmd.Flag("slo").Value.String() == objectives.FlagOff,
	}
	o.DryRun, o.AskServer = console.DryRunOf(h.cmd)
	return o
}

// Status says how a part stands and who runs the loops.
func Status(ctx context.Context, h *Command) error {
	if console.BoolFlag(h.cmd, "watch") {
		return h.watchStatus(ctx)
	}
	s := h.Migration.Status(ctx)
	h.Console.NameCluster(s.Cluster)
	return h.output().
		Print(h.Out, s, map[string]func() error{
			"text":       func() error { return h.printStatus(s, false) },
			"wide":       func() error { return h.printStatus(s, true) },
			"prometheus": func() error { return exposition.Print(h.Out, s, h.Part) },
		})
}

func (h *Command) printStatus(s v1.Status, wide bool) error {
	s.Next = h.AsCalled(s.Next)
	return printer.PrintStatus(h.Out, s, h.LayoutFor(h.Out, wide), wide || h.Verbose)
}
