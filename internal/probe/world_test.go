package probe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var errRefused = errors.New("connection refused")

// world is a cluster as probes see it, in the time of a synctest bubble.
type world struct {
	mu     sync.Mutex
	out    map[string]error // of targets and reads, by address or name
	hangs  map[string]bool
	found  Found
	looks  map[string]int
	at, by int // looks under way, and the most of them
	events []v1.ProbeEvent
	// skew is what the wall clock is ahead of the monotonic one.
	skew time.Duration
}

func newWorld() *world {
	return &world{out: map[string]error{}, hangs: map[string]bool{}, looks: map[string]int{}}
}

func (w *world) set(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out[what] = err
}

func (w *world) ask(ctx context.Context, what string) error {
	w.mu.Lock()
	w.looks[what]++
	w.at++
	w.by = max(w.by, w.at)
	hangs, err := w.hangs[what], w.out[what]
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		err = ctx.Err()
	} else {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock: a look takes a millisecond
	}
	w.mu.Lock()
	w.at--
	w.mu.Unlock()
	return err
}

func (w *world) targets(context.Context) (Found, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out["targets"]; err != nil {
		return Found{}, err
	}
	return w.found, nil
}

// options are those of a prober of this world: one read, and its targets.
func (w *world) options() Options {
	return Options{
		Reads:   map[string]func(context.Context) error{"read": func(ctx context.Context) error { return w.ask(ctx, "read") }},
		Targets: w.targets, Look: func(ctx context.Context, t Target) error { return w.ask(ctx, t.Address) },
		Sink: w.sink,
		Wall: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return time.Now().Add(w.skew)
		},
	}
}

func (w *world) sink(e v1.ProbeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// probed runs a prober while f does something to the world, and sums up what it saw.
func (w *world) probed(t *testing.T, o Options, f func()) *v1.Disruption {
	t.Helper()
	return w.probedWith(t, o, func(*Prober) {}, f)
}

// probedWith is probed with a prober that is changed before it runs.
func (w *world) probedWith(t *testing.T, o Options, change func(*Prober), f func()) *v1.Disruption {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o.Earlier = w.events
	p := New(o)
	change(p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	f()
	cancel()
	<-done
	return Sum(w.events)
}

// pathOf finds a path of a sum.
func pathOf(t *testing.T, d *v1.Disruption, kind, path string) v1.PathDisruption {
	t.Helper()
	for _, p := range d.Paths {
		if p.Kind == kind && p.Path == path {
			return p
		}
	}
	t.Fatalf("no path %s %s in %+v", kind, path, d.Paths)
	return v1.PathDisruption{}
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
}
