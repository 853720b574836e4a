package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/probe"
)

// probeFlags are the flags of the commands that probe.
type probeFlags struct {
	// on is --probe of a command that does something else too.
	on                        bool
	interval, timeout, budget time.Duration
	urls                      []string
	// given tells that a flag of that name was on the command line.
	given func(string) bool
}

// beside adds --probe and what belongs to it to a command that changes a cluster.
func (f *probeFlags) beside(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "probe", false, "measure beside it what the cluster's clients notice: API, endpoints, load balancers; see transplant probe")
	f.settings(cmd.Flags(), "probe-")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		f.given = func(name string) bool { return cmd.Flags().Changed(name) }
		if !f.on {
			if err := refuseFlags(cmd, "nothing is probed without --probe; a run that was probed before goes on as it was told first", "probe-interval", "probe-timeout", "probe-budget", "probe-url"); err != nil {
				return err
			}
		}
		return f.check()
	}
}

func (f *probeFlags) settings(fs *pflag.FlagSet, prefix string) {
	fs.DurationVar(&f.interval, prefix+"interval", probe.DefaultInterval, "time between two looks at a path")
	fs.DurationVar(&f.timeout, prefix+"timeout", probe.DefaultTimeout, "when a look without an answer has failed")
	fs.DurationVar(&f.budget, prefix+"budget", 0, "longest outage that a path may have: decides pass or fail in the report and in verify, and stops nothing")
	fs.StringArrayVar(&f.urls, prefix+"url", nil, "also GET this URL; an answer below 500 is good (repeatable)")
}

// check refuses what cannot be meant.
func (f *probeFlags) check() error {
	if f.interval < 50*time.Millisecond {
		return fmt.Errorf("an interval of %s between two looks: give 50ms or more", f.interval)
	}
	if f.timeout < f.interval/10 || f.timeout <= 0 {
		return fmt.Errorf("a timeout of %s for a look: give a tenth of the interval or more", f.timeout)
	}
	if f.budget < 0 {
		return fmt.Errorf("a budget of %s: give a duration, such as 5s", f.budget)
	}
	for _, u := range f.urls {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return fmt.Errorf("URL %q: give one with its scheme, http or https, and its host", u)
		}
		if parsed.User != nil {
			return errors.New("a URL with a password: it would be written into the log and the report; take it out")
		}
	}
	return nil
}

// disruptionPath is where the disruption log of a run is kept on this machine: beside its ownership log.
func (c *connection) disruptionPath(uid, run string) (string, error) {
	path, err := c.logPath(uid, run)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), run+".disruption.jsonl"), nil
}

// prober makes a prober of this cluster.
func (c *connection) prober(f probeFlags, earlier []v1.ProbeEvent, sink func(v1.ProbeEvent)) (*probe.Prober, error) {
	kube, reads, err := probe.Clients(c.config)
	if err != nil {
		return nil, fmt.Errorf("making the clients of the probes: %w", err)
	}
	return probe.New(probe.Options{
		Interval: f.interval, Timeout: f.timeout, Budget: f.budget, Kube: kube, Reads: reads, Targets: probe.Balancers(kube, f.urls), Earlier: earlier, Sink: sink,
	}), nil
}

// startProbes begins to probe beside a run of apply or rollback, or goes on with it where the run was probed before; it returns what ends it.
func (c *connection) startProbes(ctx context.Context, uid, run string) (func(), error) {
	f := c.probes
	path, err := c.disruptionPath(uid, run)
	if err != nil {
		return nil, err
	}
	earlier, err := readProbes(path)
	if err != nil {
		return nil, err
	}
	if !f.on && (len(earlier) == 0 || f.given("probe")) {
		return func() {}, nil
	}
	f = f.goesOn(earlier)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making a place for the disruption log: %w; name another with --state-dir", err)
	}
	file, err := probe.OpenLog(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name another place with --state-dir", err)
	}
	var once sync.Once
	events := slices.Clone(earlier)
	p, err := c.prober(f, earlier, func(e v1.ProbeEvent) {
		events = append(events, e)
		if e.Event == v1.ProbeAlive && c.progress != nil {
			c.progress.Disrupted("probes: " + probe.Summary(*probe.Sum(events)))
		}
		if err := file.Append(e); err != nil {
			once.Do(func() { c.narrate("the report will not show what clients noticed: %v", err) })
		}
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if len(earlier) > 0 && !f.on {
		c.narrate("goes on probing, as the run before did (--probe=false does not)")
	}
	stop := runProbes(ctx, p)
	return func() {
		stop()
		if err := file.Close(); err != nil {
			c.narrate("closing the disruption log %s: %v", path, err)
		}
		c.narrate("probes: %s", probe.Summary(*probe.Sum(events)))
	}, nil
}

// goesOn are the flags with what the run before was told, where this one was not told otherwise.
func (f probeFlags) goesOn(earlier []v1.ProbeEvent) probeFlags {
	for _, e := range slices.Backward(earlier) {
		if e.Event != v1.ProbeBegin {
			continue
		}
		if !f.given("probe-interval") && e.IntervalSeconds > 0 {
			f.interval = time.Duration(e.IntervalSeconds * float64(time.Second))
		}
		if !f.given("probe-budget") && e.BudgetSeconds != nil {
			f.budget = time.Duration(*e.BudgetSeconds * float64(time.Second))
		}
		break
	}
	return f
}

// runProbes runs a prober until what it returns is called.
func runProbes(ctx context.Context, p *probe.Prober) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// readProbes reads a disruption log; none when there is no such file.
func readProbes(path string) ([]v1.ProbeEvent, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the disruption log: %w", err)
	}
	defer file.Close()
	events, err := probe.ReadLog(file)
	if err != nil {
		return nil, fmt.Errorf("disruption log %s: %w", path, err)
	}
	return events, nil
}

// readDisruption reads the disruption log of a run: the one that was named, or what apply kept on this machine, if anything.
func (c *connection) readDisruption(path string, doc v1.Journal) ([]v1.ProbeEvent, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("reading the disruption log: %w", err)
		}
		return readProbes(path)
	}
	path, err := c.disruptionPath(doc.Plan.Cluster.UID, doc.Run)
	if err != nil {
		return nil, err
	}
	return readProbes(path)
}

func newProbe(c *connection) *cobra.Command {
	var f probeFlags
	var length time.Duration
	var log string
	var output *format
	cmd := &cobra.Command{
		Use: "probe", Short: "Measure what a cluster's clients notice, until Ctrl-C", Args: cobra.NoArgs,
		Example: "  transplant probe --for 10m --budget 5s\n  transplant probe --url https://shop.example.com/healthz -o json",
		Long: "Probe asks the API over a kept connection, over a new one each time and through a watch, follows the endpoints of every Service, and connects to each TCP\n" +
			"port of each load balancer that can be reached from here, again and again. At the end it prints for each path how often and for how long it was out.\n" +
			"It changes nothing. To measure a migration, run apply --probe instead: its report has the same table, and the steps that each outage fell into.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := c.connect(); err != nil {
				return err
			}
			return c.probe(cmd.Context(), f, length, log, output)
		},
	}
	f.settings(cmd.Flags(), "")
	cmd.Flags().DurationVar(&length, "for", 0, "end after this time (default: at Ctrl-C)")
	cmd.Flags().StringVar(&log, "log", "", "also append every event to this file, as JSON lines; what is in it already counts too")
	output = formatFlag(cmd, "text", "wide", "json", "yaml")
	return cmd
}

func (c *connection) probe(ctx context.Context, f probeFlags, length time.Duration, log string, output *format) error {
	var events []v1.ProbeEvent
	keep := func(v1.ProbeEvent) error { return nil }
	if log != "" {
		var err error
		if events, err = readProbes(log); err != nil {
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
	p, err := c.prober(f, slices.Clone(events), func(e v1.ProbeEvent) {
		events = append(events, e)
		c.narrateProbe(e)
		if err := keep(e); err != nil && failed == nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	c.narrate("probing %s every %s; %s", c.config.Host, f.interval, until(length))
	stop := runProbes(ctx, p)
	awaitEnd(ctx, length)
	stop()
	if failed != nil {
		return failed
	}
	return c.printDisruption(*probe.Sum(events), output)
}

func until(length time.Duration) string {
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
func (c *connection) narrateProbe(e v1.ProbeEvent) {
	at := e.Time.Local().Format(time.TimeOnly)
	switch e.Event {
	case v1.ProbeDown:
		c.narrate("%s out: %s: %s", at, probe.Title(e.Kind, e.Path), e.Error)
	case v1.ProbeUp:
		c.narrate("%s back: %s", at, probe.Title(e.Kind, e.Path))
	case v1.ProbeSkipped:
		c.narrate("%s not probed: %s: %s", at, probe.Title(e.Kind, e.Path), strings.ReplaceAll(e.Error, "\n", "; "))
	}
}

// printDisruption prints the table, and fails where the budget was not kept.
func (c *connection) printDisruption(d v1.Disruption, output *format) error {
	table := func(wide bool) func() error {
		return func() error { return printDisruption(c.out, d, c.layoutFor(c.out, wide)) }
	}
	if err := output.print(c.out, d, map[string]func() error{"text": table(false), "wide": table(true)}); err != nil {
		return err
	}
	if d.Result == v1.DisruptionOver || d.Result == v1.DisruptionUnknown {
		return withCode(exitUnverified, "%s", strings.Join(d.Reasons, "\n"))
	}
	return nil
}
