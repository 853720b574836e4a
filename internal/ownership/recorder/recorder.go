// Package recorder watches who runs which loop: leases, gauges and processes of managers, each look with the time at
// which it was sure. It writes what it saw into a log, which package ownership judges.
package recorder

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
)

const defaultInterval = 100 * time.Millisecond

const defaultSlow = time.Second

const defaultTimeout = 2 * time.Second

const defaultHotFor = 5 * time.Second

// Target is a manager to look at.
type Target struct {
	Component string
	Host      string
	// Address is host:port of /metrics.
	Address string
}

func (t Target) owner() ownership.Owner { return ownership.Owner{Component: t.Component, Host: t.Host} }

// RecorderOptions say what a recorder looks at and how often. Client, Namespace, Targets, Scrape and Sink are needed.
type RecorderOptions struct {
	// Client reads and watches the leases: get, list and watch on leases, by name.
	Client    kubernetes.Interface
	Namespace string
	Leases    []string
	// Targets are asked for every SlowInterval: managers come and go during a migration.
	Targets func() []Target
	Scrape  func(context.Context, Target) (v1.Manager, error)
	// Processes lists a component's processes on a host; nil when hosts cannot be reached, so that no end is ever proven.
	Processes func(ctx context.Context, host, component string) ([]v1.Process, error)
	// Interval is the time between two looks at the process of an owner. It is also the time between two scrapes of a
	// manager that may be about to become one. Zero means 100 ms. Everything else is looked at every SlowInterval,
	// processes twice as often; zero means 1 s. A scrape costs a kube-controller-manager some ten milliseconds of
	// processor time.
	Interval     time.Duration
	SlowInterval time.Duration
	// Timeout of one look; zero means 2 s.
	Timeout time.Duration
	// Heartbeat is how often a source is written down though nothing changed; zero means 5 s.
	Heartbeat time.Duration
	// HotFor is how long a candidate is scraped fast after a lease changed hands or an owner ended; zero means 5 s.
	HotFor time.Duration
	Clock  clock.Clock
	// Sink takes the events, one at a time.
	Sink func(v1.OwnershipEvent)
}

// Recorder writes an ownership log.
type Recorder struct {
	opts      RecorderOptions
	scheduler *scrapeScheduler
	wg        sync.WaitGroup

	mu      sync.Mutex // serialises Sink
	scrapes map[Target]context.CancelFunc
	lookers map[ownership.Owner]*processLooker
}

// NewRecorder returns a recorder; Run starts it.
func NewRecorder(o RecorderOptions) *Recorder {
	setDefault(&o.Interval, defaultInterval)
	setDefault(&o.SlowInterval, defaultSlow)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.Heartbeat, ownership.DefaultHeartbeat)
	setDefault(&o.HotFor, defaultHotFor)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Recorder{
		opts:      o,
		scheduler: newScrapeScheduler(o.HotFor),
		scrapes:   map[Target]context.CancelFunc{},
		lookers:   map[ownership.Owner]*processLooker{},
	}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Run looks until ctx ends, and returns when every look has ended and the last state of each source has been written. A
// recorder runs once.
func (r *Recorder) Run(ctx context.Context) {
	for _, lease := range r.opts.Leases {
		r.wg.Go(func() { r.followLease(ctx, lease) })
	}
	for ctx.Err() == nil {
		r.refresh(ctx)
		r.wait(ctx, r.opts.SlowInterval, nil)
	}
	r.wg.Wait()
}

// refresh starts looking at new targets and stops looking at those that are gone. A process is looked at until it has
// ended, though its manifest is gone already: its end is what proves that it no longer acts.
func (r *Recorder) refresh(ctx context.Context) {
	wanted := map[Target]bool{}
	owners := map[ownership.Owner]bool{}
	for _, t := range r.opts.Targets() {
		wanted[t], owners[t.owner()] = true, true
	}
	for t, stop := range r.scrapes {
		if !wanted[t] {
			stop()
			delete(r.scrapes, t)
			r.scheduler.remove(t)
		}
	}
	for o, p := range r.lookers {
		p.linger.Store(!owners[o])
		if p.done.Load() {
			delete(r.lookers, o)
		}
	}
	for t := range wanted {
		if r.scrapes[t] == nil {
			scraping, stop := context.WithCancel(ctx)
			r.scrapes[t] = stop
			r.scheduler.add(t)
			r.wg.Go(func() { r.scrapeTarget(scraping, t) })
		}
		if o := t.owner(); r.opts.Processes != nil && r.lookers[o] == nil {
			p := &processLooker{Owner: o, known: map[process]v1.Process{}}
			r.lookers[o] = p
			r.wg.Go(func() { r.lookForProcesses(ctx, p) })
		}
	}
}

// wait returns after d, on a wake-up, or when ctx ends.
func (r *Recorder) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := r.opts.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-wake:
	}
}

func (r *Recorder) sink(e v1.OwnershipEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Sink(e)
}

// source remembers what was written about one source, so that only changes are, and heartbeats.
type source struct {
	r *Recorder
	// looked is when the last successful look began; nil before the first.
	looked  *time.Time
	written time.Time
	state   string
	failing bool
	// pending is the last successful look when it was not written.
	pending *v1.OwnershipEvent
	// series were written last, of the process that was started then.
	series  []v1.Series
	started *time.Time
}

// ok records a successful look. The state is what has to change for the look to be written before the next heartbeat.
func (s *source) ok(e v1.OwnershipEvent, state string) {
	e.Looked = s.looked
	began := ownership.Began(e)
	first := s.looked == nil
	s.looked = &began
	s.pending = &e
	if first || s.failing || state != s.state || e.Time.Sub(s.written) >= s.r.opts.Heartbeat {
		s.flush()
	}
	s.state, s.failing = state, false
}

// flush writes the last successful look, if it is not written yet. At the end of a recording the last state rests on
// it.
func (s *source) flush() {
	if s.pending != nil {
		s.leaveOutSeries()
		s.r.sink(*s.pending)
		s.written, s.pending = s.pending.Time, nil
	}
}

// leaveOutSeries leaves the series out of a line that has the same as the one before, of the same process.
func (s *source) leaveOutSeries() {
	e := s.pending
	if e.Series == nil {
		return
	}
	if ownership.IsSameStart(s.started, e.ProcessStarted) && equality.Semantic.DeepEqual(e.Series, s.series) {
		e.Series = nil
		return
	}
	s.series, s.started = e.Series, e.ProcessStarted
}

// recordFailure records a failed look, once per transition.
func (s *source) recordFailure(e v1.OwnershipEvent, err error) {
	if s.failing {
		return
	}
	e.Looked, e.Error = s.looked, err.Error()
	s.failing, s.pending = true, nil
	s.r.sink(e)
}
