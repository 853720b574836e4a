package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// Further values of --details, beside none.
const (
	detailsShort = "short"
	detailsWhole = "whole"
)

// waving are the flags that make waves.
type waving struct {
	selecting
	options        v1.FleetOptions
	soak, patience time.Duration
	images         map[string]string
	parallel       int
	direct         bool
}

func (f *waving) flags(cmd *cobra.Command) {
	f.selecting.flags(cmd)
	o := &f.options
	cmd.Flags().StringSliceVar(&o.Waves, "waves", []string{"1", "10%", "50%", "100%"}, "how many clusters are migrated when each wave is over: numbers, or percentages of all that are in the plan")
	cmd.Flags().IntVar(&o.MaxParallel, "max-parallel", 10, "how many clusters are under way at a time")
	cmd.Flags().IntVar(&o.MaxFailures, "max-failures", 0, "how many clusters may fail before no further one is started")
	cmd.Flags().StringVar(&o.Until, "until", fleet.UntilCompleted, "when a cluster counts as done: completed, or handover (the control plane is external; its machines are left to their owners)")
	cmd.Flags().DurationVar(&f.soak, "soak", 0, "for how long the clusters of a wave are watched before the next one begins")
	cmd.Flags().DurationVar(&f.patience, "patience", 5*time.Minute, "for how long a cluster may be blocked, be stuck from the command's beginning on, or be taken up by no operator, before it counts as failed")
	cmd.Flags().StringSliceVar(&o.First, "first", nil, "names of clusters that come before all others, in this order; the others come by age, the oldest first")
	cmd.Flags().StringSliceVar(&o.Except, "except", nil, "names of clusters that are left out")
	cmd.Flags().BoolVar(&o.ReleaseHolds, "release-holds", false, "take in clusters that somebody holds (annotation transplant.dev/hold), and take those holds off")
	cmd.Flags().BoolVar(&o.RestartMachines, "restart-machines", false, "let the operator restart the MachineDeployments of every cluster that is started: its machines are replaced")
	complete(cmd, "until", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{fleet.UntilCompleted, fleet.UntilHandover}, cobra.ShellCompDirectiveNoFileComp
	})
}

// settled are the options as they count, judged before anything is read.
func (f *waving) settled() (v1.FleetOptions, error) {
	o := f.options
	o.SoakSeconds, o.PatienceSeconds = f.soak.Seconds(), f.patience.Seconds()
	o.Selector, o.Providers = f.selector, f.providers
	if err := errors.Join(fleet.CheckOptions(o), rules.CheckImages("image", f.images)); err != nil {
		return o, withCode(exitError, "%w", err)
	}
	_, err := f.labels()
	return o, err
}

// lookingInto are the flags about the plans of the clusters themselves.
func (f *waving) lookingInto(cmd *cobra.Command) {
	cmd.Flags().StringToStringVar(&f.images, "image", nil, "image of the cloud-controller-manager by provider, as the operator was given: aws=...")
	cmd.Flags().IntVar(&f.parallel, "look-parallel", 8, "into how many clusters is looked at a time")
	cmd.Flags().BoolVar(&f.direct, "seed-direct", false, "the addresses of the seed's pods are reached from here; else the managers are asked through the seed's API server (pods/portforward)")
}

func newFleetPlan(c *connection) *cobra.Command {
	var f waving
	var output *format
	details := format{value: detailsShort, allowed: []string{detailsNone, detailsShort, detailsWhole}}
	cmd := &cobra.Command{
		Use: "plan [CLUSTER...]", Short: "In which waves the clusters are migrated, and what is done to each; changes nothing",
		Example: "  transplant fleet plan                                   # a canary, a tenth, half, all\n" +
			"  transplant fleet plan --waves 5,100% --selector env=staging --details none\n" +
			"  transplant fleet plan --except crh4xbxz5f -o yaml > plan.yaml",
		Long: "Plan puts the clusters into waves: those of --first, then the others by age, the oldest first, so that a new cluster changes no earlier wave. What is under\n" +
			"way or done keeps its place. Clusters that are made external, paused, held by somebody, being deleted, under both API groups or refused by the rules\n" +
			"are left out, and named.\n\n" +
			"Into each cluster that is to be started it looks as the operator will: the checks are run and the plan is made, in its namespace of the seed and in the\n" +
			"user cluster. --details whole prints the steps of every plan; --details none looks into no cluster.",
		RunE: func(cmd *cobra.Command, names []string) error {
			f.names = names
			return c.fleetPlan(cmd.Context(), &f, output, details.value)
		},
	}
	output = formatFlag(cmd, "text", "wide", "json", "yaml")
	cmd.Flags().Var(&details, "details", "of each cluster's own plan: none, short or whole")
	f.flags(cmd)
	f.lookingInto(cmd)
	return cmd
}

func (c *connection) fleetPlan(ctx context.Context, f *waving, output *format, details string) error {
	p, objects, err := c.makeFleetPlan(ctx, f)
	if err != nil {
		return err
	}
	if details != detailsNone {
		c.lookInto(ctx, p, objects, f)
	}
	text := func(wide bool) func() error {
		return func() error {
			return printFleetPlan(c.out, p, c.layoutFor(c.out, wide), details == detailsWhole)
		}
	}
	if err := output.print(c.out, p, map[string]func() error{"text": text(false), "wide": text(true)}); err != nil {
		return err
	}
	if blocked := fleetBlocked(p); len(blocked) > 0 {
		return withCode(exitBlocked, "the checks refuse or cannot judge %s: %s", count(len(blocked), "cluster"), strings.Join(blocked, ", "))
	}
	return nil
}

// makeFleetPlan reads the fleet and makes waves.
func (c *connection) makeFleetPlan(ctx context.Context, f *waving) (*v1.FleetPlan, []fleet.Object, error) {
	o, err := f.settled()
	if err != nil {
		return nil, nil, err
	}
	seed, err := c.seed()
	if err != nil {
		return nil, nil, err
	}
	rows, objects, notRead, err := c.readFleet(ctx, &f.selecting)
	if err != nil {
		return nil, nil, err
	}
	waves, left, err := fleet.Waves(rows, fleet.Refused(objects, rules.Facts{RunsInTree: true, Driver: parts.Known}), o)
	if err != nil {
		return nil, nil, withCode(exitError, "%w", err)
	}
	return &v1.FleetPlan{TypeMeta: v1.Type(v1.KindFleetPlan), Created: c.fleetTime(), ToolVersion: version, Seed: seed, Options: o, Waves: waves, Left: left, NotRead: notRead}, objects, nil
}

// fleetBlocked are the clusters that would be started and that the checks refuse, or that could not be looked into: unknown blocks as a failure does.
func fleetBlocked(p *v1.FleetPlan) []string {
	var out []string
	for _, w := range p.Waves {
		for _, m := range w.Clusters {
			if m.Error != "" || m.Report != nil && m.Report.Summary.Blocked {
				out = append(out, m.Name)
			}
		}
	}
	return out
}

// lookInto runs the checks and makes the plan of every cluster that is to be started, so many at a time.
func (c *connection) lookInto(ctx context.Context, p *v1.FleetPlan, objects []fleet.Object, f *waving) {
	byKey := map[fleet.Key]fleet.Object{}
	for _, o := range objects {
		byKey[o.Key()] = o
	}
	var todo []*v1.FleetMember
	for i := range p.Waves {
		for j := range p.Waves[i].Clusters {
			if m := &p.Waves[i].Clusters[j]; m.Do != "" {
				todo = append(todo, m)
			}
		}
	}
	if len(todo) == 0 {
		return
	}
	c.narrate("looking into %s", count(len(todo), "cluster"))
	open := openPlanes(c, f)
	defer open.close()
	places := make(chan struct{}, max(1, f.parallel))
	var wg sync.WaitGroup
	for _, m := range todo {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			open.member(ctx, byKey[fleet.Key{Group: m.Group, Name: m.Name}], m)
		})
	}
	wg.Wait()
}

// trimmed is a report without what passed and what was skipped: of many clusters nobody reads that.
func trimmed(r v1.CheckReport) *v1.CheckReport {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f v1.Finding) bool { return f.Outcome == v1.Pass || f.Outcome == v1.Skip })
	return &r
}

// fleetPlanWords are a member's plan in short.
func fleetPlanWords(m v1.FleetMember) string {
	switch {
	case m.Error != "":
		return "unknown: " + m.Error
	case m.Report != nil && m.Report.Summary.Blocked:
		var codes []string
		for _, f := range blockingFindings(*m.Report, false) {
			codes = append(codes, f.Code)
		}
		return fmt.Sprintf("blocked by %s: %s", blocking(*m.Report), strings.Join(codes, ", "))
	case m.Plan == nil:
		return ""
	}
	seconds := 0.0
	for _, s := range m.Plan.Steps {
		seconds += s.EstimateSeconds
	}
	words := fmt.Sprintf("%s, %s", count(len(m.Plan.Steps), "step"), m.Plan.Strategy)
	if seconds > 0 {
		words += ", about " + compact(seconds)
	}
	if m.Report != nil && m.Report.Summary.Warned > 0 {
		words += ", " + count(m.Report.Summary.Warned, "warning")
	}
	return words
}
