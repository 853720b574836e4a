// Package probe decides what a cluster's clients would notice of a migration. It asks again and again, over every path
// that clients take, whether an answer comes, and writes down when none did. It never stops a migration; the sum of
// what it saw is judged afterwards, against a budget.
//
//	API watch       pushed    broken off, or silent while a list shows a change
//	API reads       polled    over a kept connection, and over a new one each time
//	endpoints       pushed    a Service that had ready endpoints has none
//	TCP, HTTP       polled    load balancers that can be reached from here
//	TCP, kept       pushed    a connection that stays open through each of them was cut
//	     │
//	     └─> one line per change, and a heartbeat ─> log ─> Sum ─> Disruption
//
// An outage lasts from the last moment at which its path was seen to work to the first at which it was again. So it
// never comes out too short. A time without looks is unobserved, and neither an outage nor none.
package probe

import (
	"context"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Defaults of a Prober.
const (
	DefaultInterval = 500 * time.Millisecond
	DefaultTimeout  = 2 * time.Second
)

const (
	heartbeat = 5 * time.Second
	// countEvery is how many heartbeats pass between two that have the counts: those of a thousand paths are a hundred
	// kilobytes.
	countEvery = 12
	// retrySkipped is how often a path that could not be reached at the start is tried again.
	retrySkipped = 30 * time.Second
	// refreshEvery is how often Targets is asked for.
	refreshEvery = 30 * time.Second
	// maxConnections are opened at a time, of which paths that are out have half at most: they wait for their timeout.
	maxConnections = 64
	// maxPerSecond bounds the looks at targets; with more targets than that allows, each is asked less often. Connections
	// that are kept, and were cut, are tried again at the same pace next to them.
	maxPerSecond = 200
	// maxJump is how far the wall clock may get from the monotonic one before the run of the probes counts as interrupted.
	maxJump = time.Second
)

// Target is an address to connect to.
type Target struct {
	// Kind is v1.PathTCP or v1.PathHTTP.
	Kind string
	// Path names it in the report.
	Path string
	// Address is host:port, or the URL.
	Address string
	// Owner is what the target comes and goes with; empty for one that was named by hand and stays.
	Owner string
}

// Found are the targets of a moment.
type Found struct {
	Targets []Target
	// NotProbed are the paths that cannot be probed by their kind, e.g. a UDP port.
	NotProbed []v1.NotProbed
	// Owners that there are. A target whose Owner is no longer among them has ended.
	Owners map[string]bool
}

// Options of a Prober. What is nil is not probed.
type Options struct {
	// Interval between two looks at a path; zero means 500 ms. Timeout of a look; zero means 2 s.
	Interval, Timeout time.Duration
	// Budget is written into the log for who judges it; zero means none.
	Budget time.Duration
	// Reads ask the API for one object each, by the name of the path.
	Reads map[string]func(context.Context) error
	// Kube watches leases in kube-system and EndpointSlices, and looks whether a Service is still there. It should have a
	// connection of its own.
	Kube kubernetes.Interface
	// Targets are asked for at the start and every 30 s.
	Targets func(context.Context) (Found, error)
	// ConnectTo is written into the log for runs that go on; Look has it already.
	ConnectTo []string
	// Look asks a target once; (&Dialer{}).Look when nil.
	Look func(context.Context, Target) error
	// Keep connects to a port of a load balancer for a connection that stays open. When nil, none is kept.
	Keep func(context.Context, Target) (net.Conn, error)
	// Earlier are the lines that the log has already: what was probed before is not skipped because it does not answer
	// now.
	Earlier []v1.ProbeEvent
	// Sink takes the lines, one at a time.
	Sink func(v1.ProbeEvent)
	// Wall is the wall clock; time.Now when nil.
	Wall func() time.Time
}

// Prober probes.
type Prober struct {
	Options
	known map[key]bool
	mu    sync.Mutex // serialises Sink, and guards known
	// mustStand is how long a new connection has to stay open until it counts as one that is kept.
	mustStand time.Duration
	// maxKept is through how many ports a connection is kept.
	maxKept int
}

// key names a path.
type key struct{ kind, path string }

func (k key) String() string { return k.kind + " " + k.path }

// New returns a prober; Run starts it.
func New(o Options) *Prober {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Look == nil {
		o.Look = (&Dialer{}).Look
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	p := &Prober{
		Options:   o,
		known:     map[key]bool{},
		mustStand: mustStand,
		maxKept:   maxKept,
	}
	for _, e := range o.Earlier {
		switch e.Event {
		case v1.ProbePath:
			p.known[key{e.Kind, e.Path}] = true
		case v1.ProbeGone:
			delete(p.known, key{e.Kind, e.Path})
		}
	}
	return p
}

// Run probes until ctx ends, and returns when every look has ended and the last line is written.
func (p *Prober) Run(ctx context.Context) {
	why := ""
	for ctx.Err() == nil {
		r := p.newRun()
		why = r.runProbes(ctx, why)
	}
}

// run is a time in which the wall clock and the monotonic one went alike.
type run struct {
	*Prober
	wg sync.WaitGroup
	// start is a moment on both clocks: times are wall plus what has passed since.
	start time.Time
	wall  time.Time
	// slots are taken by looks that are under way, and slow in addition by those of paths that are out. Who waits for one
	// gets it in turn.
	slots, slow chan struct{}
	// silent tells the watch of endpoints that the connection which it shares with the API watch delivers nothing, and
	// since when.
	silent chan time.Time

	lock  sync.Mutex
	paths map[key]*path
	// stops end the looks at a target.
	stops map[key]context.CancelFunc
	// lost is when the looks at a whole kind began to fail, with the reason; see watches.
	lost map[string]loss
	// pace is the time between two looks at a target.
	pace time.Duration
	// kept is how many ports a connection is kept through.
	kept int
}

type loss struct {
	since time.Time
	err   error
}

func (p *Prober) newRun() *run {
	return &run{
		Prober: p,
		start:  time.Now(),
		wall:   p.Wall().Round(0).UTC(),
		slots:  make(chan struct{}, maxConnections),
		slow:   make(chan struct{}, maxConnections/2),
		silent: make(chan time.Time, 1),
		paths:  map[key]*path{},
		stops:  map[key]context.CancelFunc{},
		lost:   map[string]loss{},
		pace:   p.Interval,
	}
}

// now is the time of an event.
func (r *run) now() time.Time { return r.wall.Add(time.Since(r.start)) }

// runProbes runs until ctx ends, or until the clocks part, and returns why it had to begin again.
func (r *run) runProbes(ctx context.Context, why string) string {
	begin := v1.ProbeEvent{
		Time:            r.wall,
		Event:           v1.ProbeBegin,
		IntervalSeconds: r.Interval.Seconds(),
		ConnectTo:       r.ConnectTo,
		Error:           why,
	}
	if r.Budget > 0 {
		budget := r.Budget.Seconds()
		begin.BudgetSeconds = &budget
	}
	r.sink(begin)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for name, read := range r.Reads {
		r.startProbe(inner, key{v1.PathAPIRead, name}, read, func() time.Duration { return r.Interval })
	}
	if r.Kube != nil {
		r.wg.Go(func() { r.watchAPI(inner) })
		r.wg.Go(func() { r.watchEndpoints(inner) })
	}
	if r.Targets != nil {
		r.wg.Go(func() { r.followTargets(inner) })
	}
	why = r.beat(inner)
	cancel()
	r.wg.Wait()
	r.writeLosses()
	r.sink(r.counted(v1.ProbeEvent{Time: r.now(), Event: v1.ProbeEnd, Error: why}))
	return why
}

// beat writes heartbeats until ctx ends, or says why the run has to begin again.
func (r *run) beat(ctx context.Context) string {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
		if r.hasJumped() {
			return "this machine slept, or its clock was set, by " + r.jump().Round(100*time.Millisecond).String()
		}
		r.writeLosses()
		e := v1.ProbeEvent{Time: r.now(), Event: v1.ProbeAlive}
		if n%countEvery == 0 {
			e = r.counted(e)
		}
		r.sink(e)
	}
}

// jump is how far the wall clock is from the monotonic one.
func (r *run) jump() time.Duration { return r.Wall().Round(0).Sub(r.now()) }

// hasJumped reports whether this machine slept, or its clock was set, since the run of the probes began.
func (r *run) hasJumped() bool { return r.jump().Abs() > maxJump }

// counted adds the counts of all paths.
func (r *run) counted(e v1.ProbeEvent) v1.ProbeEvent {
	r.lock.Lock()
	defer r.lock.Unlock()
	e.Looks, e.Reconnects, e.SlowestSeconds = map[string]int{}, map[string]int{}, map[string]float64{}
	for k, p := range r.paths {
		looks, reconnects, slowest := p.counts()
		if looks > 0 {
			e.Looks[k.String()] = looks
		}
		if reconnects > 0 {
			e.Reconnects[k.String()] = reconnects
		}
		if slowest > 0 {
			e.SlowestSeconds[k.String()] = slowest.Round(time.Millisecond).Seconds()
		}
	}
	return e
}

// lose notes that the looks at a whole kind fail since a moment; found that they succeed again.
func (r *run) lose(kind string, since time.Time, err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if _, already := r.lost[kind]; !already {
		r.lost[kind] = loss{since, err}
	}
}

func (r *run) found(kind string) {
	r.writeLosses()
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.lost, kind)
}

// writeLosses writes down for how long which kinds were not looked at so far.
func (r *run) writeLosses() {
	r.lock.Lock()
	lost := make(map[string]loss, len(r.lost))
	for kind, l := range r.lost {
		lost[kind] = l
	}
	r.lock.Unlock()
	for kind, l := range lost {
		r.sink(v1.ProbeEvent{
			Time:  r.now(),
			Event: v1.ProbeLost,
			Kind:  kind,
			Since: &l.since,
			Error: l.err.Error(),
		})
	}
}

// pathOf returns the state of a path; the same one for the same key.
func (r *run) pathOf(k key, interval time.Duration) *path {
	r.lock.Lock()
	defer r.lock.Unlock()
	p := r.paths[k]
	if p == nil {
		p = &path{
			run:      r,
			key:      k,
			interval: interval,
			known:    r.hasWorked(k),
		}
		r.paths[k] = p
	}
	return p
}

// probed remembers across runs that a path has worked.
func (p *Prober) probed(k key, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is {
		p.known[k] = true
	} else {
		delete(p.known, k)
	}
}

// hasWorked reports whether a path has worked, as far as probed remembers.
func (p *Prober) hasWorked(k key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[k]
}

func (p *Prober) sink(e v1.ProbeEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Sink(e)
}
