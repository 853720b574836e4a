package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/probe"
)

func newProbe(c *console.Console) *cobra.Command {
	var f client.ProbeOptions
	var length time.Duration
	var log string
	var output *printer.Format
	cmd := &cobra.Command{
		Use:     "probe",
		Short:   "Measure what a cluster's clients notice, until Ctrl-C",
		Args:    cobra.NoArgs,
		Example: "  transplant probe --for 10m --budget 5s\n  transplant probe --url https://shop.example.com/healthz -o json",
		Long: "Probe asks the API over a kept connection, over a new one each time and through a watch. It follows the endpoints of every Service. Again and again it connects\n" +
			"to each TCP port of each load balancer that can be reached from here. It also keeps one connection open through each of them, and sees when that is cut.\n" +
			"At the end it prints how often and for how long each path was out.\n" +
			"It changes nothing. To measure a migration, run apply --probe instead: its report has the same table, and the steps that each outage fell into.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			if err := c.Connect(); err != nil {
				return err
			}
			c.NameCluster(c.DescribeCluster(cmd.Context(), nil))
			return runProbe(cmd.Context(), c, f, length, log, output)
		},
	}
	console.AddProbeSettings(&f, cmd.Flags(), "")
	console.DurationVar(cmd.Flags(), &length, "for", 0, "end after this time (default: at Ctrl-C)")
	cmd.Flags().
		StringVar(&log, "log", "", "also append every event to this file, as JSON lines; what is in it already counts too")
	output = console.AddFormatFlag(cmd, "text", "wide", "json", "yaml")
	return cmd
}

func runProbe(
	ctx context.Context,
	c *console.Console,
	f client.ProbeOptions,
	length time.Duration,
	log string,
	output *printer.Format,
) error {
	var events []v1.ProbeEvent
	keep := func(v1.ProbeEvent) error { return nil }
	if log != "" {
		var err error
		if events, err = client.ReadProbes(log); err != nil {
			return err
		}
		file, err := probe.OpenLog(log)
		if err != nil {
			return err
		}
		defer file.Close()
		keep = file.Append
	}
	var failed error
	p, err := c.NewProber(f, slices.Clone(events), func(e v1.ProbeEvent) {
		events = append(events, e)
		narrateProbe(c, e)
		if err := keep(e); err != nil && failed == nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	c.Narrate("probing %s every %s; %s", c.Config.Host, f.Interval, describeEnd(length))
	stop := client.RunProbes(ctx, p)
	awaitEnd(ctx, length)
	stop()
	if failed != nil {
		return failed
	}
	return printDisruption(c, *probe.Sum(events), output)
}

func describeEnd(length time.Duration) string {
	if length > 0 {
		return "for " + length.String() + ", or until Ctrl-C"
	}
	return "Ctrl-C ends it and prints the table"
}

// awaitEnd waits for Ctrl-C, or until the time is over.
func awaitEnd(ctx context.Context, length time.Duration) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var over <-chan time.Time
	if length > 0 {
		t := time.NewTimer(length)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-over:
	}
}

// narrateProbe tells of outages as they come and go.
func narrateProbe(c *console.Console, e v1.ProbeEvent) {
	at := e.Time.Local().Format(time.TimeOnly)
	switch e.Event {
	case v1.ProbeDown:
		c.Narrate("%s out: %s: %s", at, probe.Title(e.Kind, e.Path), e.Error)
	case v1.ProbeUp:
		c.Narrate("%s back: %s", at, probe.Title(e.Kind, e.Path))
	case v1.ProbeIdle:
		c.Narrate("%s %s", at, describeIdle(e))
	case v1.ProbeSkipped:
		c.Narrate("%s not probed: %s: %s", at, probe.Title(e.Kind, e.Path), strings.ReplaceAll(e.Error, "\n", "; "))
	}
}

// describeIdle says which outage was none.
func describeIdle(e v1.ProbeEvent) string {
	began := e.Time
	if e.Since != nil {
		began = *e.Since
	}
	return fmt.Sprintf(
		"%s is closed each time that it was idle for as long: the outage at %s is taken back",
		probe.Title(e.Kind, e.Path),
		began.Local().Format(time.TimeOnly),
	)
}

// printDisruption prints the table, and fails where the budget was not kept.
func printDisruption(c *console.Console, d v1.Disruption, output *printer.Format) error {
	table := func(wide bool) func() error {
		return func() error { return printer.PrintDisruption(c.Out, d, c.LayoutFor(c.Out, wide)) }
	}
	if err := output.Print(c.Out, d, map[string]func() error{"text": table(false), "wide": table(true)}); err != nil {
		return err
	}
	if d.Result == v1.DisruptionOver || d.Result == v1.DisruptionUnknown {
		return exitcode.With(exitcode.Unverified, "%s", strings.Join(d.Reasons, "\n"))
	}
	return nil
}
