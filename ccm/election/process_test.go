package election_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

const (
	mainLease      = "cloud-controller-manager"
	migrationLease = "cloud-provider-extraction-migration"

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}

// world is an API and the processes that contend by it.
type world struct {
	*api
	t *testing.T

	mu     sync.Mutex
	writes []write
}

// write is one that a fence let pass.
type write struct {
	lease, process string
	at             time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{api: newAPI(), t: t}
	t.Cleanup(w.exclusive)
	return w
}

// exclusive checks that no process wrote after the first write of a later leader.
func (w *world) exclusive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	current, over := map[string]string{}, map[string]bool{}
	for _, x := range w.writes {
		if current[x.lease] == x.process {
			continue
		}
		if over[x.lease+x.process] {
			w.t.Errorf("%s wrote under lease %s at %s, after %s had taken over", x.process, x.lease, x.at, current[x.lease])
			return
		}
		over[x.lease+current[x.lease]] = true
		current[x.lease] = x.process
	}
}

// forget makes the names of processes usable again.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = nil
}

// process is one manager.
type process struct {
	name   string
	w      *world
	client *client
	clock  *clock
	stop   context.CancelFunc

	*election.Elector
	done chan error // gets what Run returned

	mu     sync.Mutex
	starts map[string]chan struct{} // closed when the workers under a lease start
	ended  map[string]time.Time     // when the workers' context ended
	drain  map[string]chan struct{}
	busy   time.Duration // for how long workers go on after their context ended
}

func both() []election.Lease {
	return []election.Lease{
		{Namespace: namespace, Name: mainLease, Contend: true},
		{Namespace: namespace, Name: migrationLease, Contend: true, After: mainLease},
	}
}

func one() []election.Lease { return both()[:1] }

// start begins a process that contends for leases. change may alter it and its config before.
func (w *world) start(name string, leases []election.Lease, change ...func(*process, *election.Config)) *process {
	w.t.Helper()
	p := &process{
		name: name, w: w, client: w.client(name), clock: newClock(), done: make(chan error, 1),
		starts: map[string]chan struct{}{}, ended: map[string]time.Time{}, drain: map[string]chan struct{}{},
	}
	config := election.Config{
		Identity: name, Client: p.client, Leases: leases, Clock: p.clock,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, DrainTimeout: 20 * time.Second,
		OnStarted: p.work,
		Drained: func(lease string) <-chan struct{} {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.drain[lease]
		},
	}
	for _, c := range change {
		c(p, &config)
	}
	for _, l := range leases {
		p.drain[l.Name], p.starts[l.Name] = make(chan struct{}), make(chan struct{})
	}
	var err error
	if p.Elector, err = election.New(config); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.done <- p.Run(ctx) }()
	return p
}

// work is a controller's: it writes ten times a second while the fence lets it, drains for as long as it is busy, and ends.
func (p *process) work(ctx context.Context, lease string) {
	p.mu.Lock()
	drained := p.drain[lease]
	p.mu.Unlock()
	close(p.starts[lease])
	defer close(drained)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	fence, done := election.FromContext(ctx), ctx.Done()
	var busy <-chan time.Time
	for {
		p.w.mu.Lock()
		if !p.client.isStopped() && fence.Check() == nil {
			p.w.writes = append(p.w.writes, write{lease, p.name, time.Now()})
		}
		p.w.mu.Unlock()
		select {
		case <-tick.C:
		case <-done:
			p.mu.Lock()
			p.ended[lease] = time.Now()
			p.mu.Unlock()
			done, busy = nil, time.After(p.busy)
		case <-busy:
			return
		}
	}
}

// crash ends the process without a word: it makes no request any more.
func (p *process) crash() {
	p.client.partition(true)
	for _, l := range []string{mainLease, migrationLease} {
		if f := p.Fence(l); f != nil {
			f.Revoke("crashed")
		}
	}
	p.stop()
}

// gone waits for the end of a process that crashed.
func (p *process) gone() {
	<-p.done //nolint:errcheck // it could not release, or had won nothing
}

func (p *process) endedAt(lease string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[lease]
}

// terminate is SIGTERM, and waits for the end.
func (p *process) terminate() {
	p.w.t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		p.w.t.Errorf("%s ended with: %v", p.name, err)
	}
}

// until waits for a condition, in steps of a bubble's hundredth of a second.
func (w *world) until(what string, limit time.Duration, condition func() bool) {
	w.t.Helper()
	timeout := time.After(limit)
	for !condition() {
		select {
		case <-timeout:
			w.t.Fatalf("not within %s: %s", limit, what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) leads(p *process, lease string, limit time.Duration) {
	w.t.Helper()
	select {
	case <-p.starts[lease]:
	case <-time.After(limit):
		w.t.Fatalf("%s does not lead %s after %s", p.name, lease, limit)
	}
}

func (w *world) stops(p *process, limit time.Duration) error {
	w.t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(limit):
		w.t.Fatalf("%s has not ended after %s", p.name, limit)
		return nil
	}
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}
