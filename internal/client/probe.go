package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/probe"
)

// ProbeOptions are the flags of the commands that probe.
type ProbeOptions struct {
	// On is --probe of a command that does something else too.
	On                        bool
	Interval, Timeout, Budget time.Duration
	Urls                      []string
	// ConnectTo are pairs of probe.ParseConnectTo.
	ConnectTo []string
	// Given reports whether a flag of that name was on the command line.
	Given func(string) bool
}

// Check refuses what cannot be meant.
func (f *ProbeOptions) Check() error {
	if f.Interval < 50*time.Millisecond {
		return fmt.Errorf("an interval of %s between two looks: give 50ms or more", f.Interval)
	}
	if f.Timeout < f.Interval/10 || f.Timeout <= 0 {
		return fmt.Errorf("a timeout of %s for a look: give a tenth of the interval or more", f.Timeout)
	}
	if f.Budget < 0 {
		return fmt.Errorf("a budget of %s: give a duration, such as 5s", f.Budget)
	}
	for _, u := range f.Urls {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return fmt.Errorf("URL %q: give one with its scheme, http or https, and its host", u)
		}
		if parsed.User != nil {
			return errors.New("a URL with a password: it would be written into the log and the report; remove it")
		}
	}
	_, err := probe.ParseConnectTo(f.ConnectTo)
	return err
}

// goesOn are the flags with what the run before was told, where this one was not told otherwise.
func (f ProbeOptions) goesOn(earlier []v1.ProbeEvent) ProbeOptions {
	for _, e := range slices.Backward(earlier) {
		if e.Event != v1.ProbeBegin {
			continue
		}
		if !f.Given("probe-interval") && e.IntervalSeconds > 0 {
			f.Interval = time.Duration(e.IntervalSeconds * float64(time.Second))
		}
		if !f.Given("probe-connect-to") {
			f.ConnectTo = e.ConnectTo
		}
		if !f.Given("probe-budget") && e.BudgetSeconds != nil {
			f.Budget = time.Duration(*e.BudgetSeconds * float64(time.Second))
		}
		break
	}
	return f
}

// NewProber makes a prober of this cluster.
func (c *Client) NewProber(f ProbeOptions, earlier []v1.ProbeEvent, sink func(v1.ProbeEvent)) (*probe.Prober, error) {
	kube, reads, err := probe.Clients(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making the clients of the probes: %w", err)
	}
	to, err := probe.ParseConnectTo(f.ConnectTo)
	if err != nil {
		return nil, err
	}
	dialer := &probe.Dialer{ConnectTo: to}
	return probe.New(probe.Options{
		Interval:  f.Interval,
		Timeout:   f.Timeout,
		Budget:    f.Budget,
		Kube:      kube,
		Reads:     reads,
		Targets:   probe.Balancers(kube, f.Urls),
		Look:      dialer.Look,
		Keep:      dialer.KeepOpen,
		ConnectTo: f.ConnectTo,
		Earlier:   earlier,
		Sink:      sink,
	}), nil
}

// StartProbes starts to probe next to a run of apply or rollback, or continues if the run was probed before. It returns
// the function that ends it.
func (c *Client) StartProbes(ctx context.Context, uid, run string) (func(), error) {
	f := c.Probes
	path, err := c.DisruptionPath(uid, run)
	if err != nil {
		return nil, err
	}
	earlier, err := ReadProbes(path)
	if err != nil {
		return nil, err
	}
	if !f.On && (len(earlier) == 0 || f.Given("probe")) {
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
	p, err := c.NewProber(f, earlier, func(e v1.ProbeEvent) {
		events = append(events, e)
		if e.Event == v1.ProbeAlive && c.Progress != nil {
			publishProbes(c.Progress, events)
		}
		if err := file.Append(e); err != nil {
			once.Do(func() { c.Narrate("the report will not show what clients noticed: %v", err) })
		}
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if len(earlier) > 0 && !f.On {
		c.Narrate("goes on probing, as the run before did (--probe=false does not)")
	}
	stop := RunProbes(ctx, p)
	return func() {
		stop()
		if err := file.Close(); err != nil {
			c.Narrate("closing the disruption log %s: %v", path, err)
		}
		c.Narrate("probes: %s", probe.Summary(*probe.Sum(events)))
	}, nil
}

// publishProbes gives onlookers the sum of a disruption log, which has a line at least.
func publishProbes(progress *lock.Progress, events []v1.ProbeEvent) {
	seen := *probe.Sum(events)
	progress.Disrupted("probes: "+probe.Summary(seen), probe.Totals(seen))
}

// RunProbes runs a prober until what it returns is called.
func RunProbes(ctx context.Context, p *probe.Prober) func() {
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

// ReadProbes reads a disruption log; none when there is no such file.
func ReadProbes(path string) ([]v1.ProbeEvent, error) {
	return readLog(path, "disruption log", true, probe.ReadLog)
}

// readDisruption reads the disruption log of a run: the one that was named, or what apply kept on this machine, if
// anything.
func (c *Client) readDisruption(path string, doc v1.Journal) ([]v1.ProbeEvent, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("reading the disruption log: %w", err)
		}
		return ReadProbes(path)
	}
	path, err := c.DisruptionPath(doc.Plan.Cluster.UID, doc.Run)
	if err != nil {
		return nil, err
	}
	return ReadProbes(path)
}

// DisruptionPath is where the disruption log of a run is kept on this machine: next to its ownership log.
func (c *Client) DisruptionPath(uid, run string) (string, error) {
	path, err := c.LogPath(uid, run)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), run+".disruption.jsonl"), nil
}
