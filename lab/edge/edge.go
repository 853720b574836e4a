// Package edge decides what passes between two components of a lab: every connection from one to the other goes through
// an Edge, a TCP proxy that can be cut, made silent or slowed down. So a partition can be made without root.
//
//	            Cut: new connections are refused, existing ones are reset
//	Healed ---> Blackhole: connections are accepted and stay open, no byte passes; held bytes pass after Heal
//	            Delay: every byte arrives later by a fixed time
package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transplant-dev/transplant/lab/poll"
)

// Options describes an edge.
type Options struct {
	Name   string // from->to, for example "cp-1/kube-scheduler->kube-apiserver"
	Listen string // host:port that the client side connects to; port 0 chooses one
	Target string // host:port behind it
	// DialTimeout bounds a connection attempt to the target. Default: 5 s.
	DialTimeout time.Duration
}

// Mode is what an edge does with traffic.
type Mode string

// The modes of an edge.
const (
	Healed     Mode = "healed"
	Cut        Mode = "cut"
	Blackholed Mode = "blackholed"
)

// Stats counts what has passed since the edge was started.
type Stats struct {
	Accepted   int64 // connections taken from the client side
	Open       int64 // connections now
	Reset      int64 // connections ended by Cut
	DialErrors int64 // connections closed because the target could not be reached
	Up, Down   int64 // bytes delivered to the target, and to the client side
}

// Edge is a running proxy. All methods may be called concurrently.
type Edge struct {
	name, target string
	addr         string
	dialer       net.Dialer
	ctx          context.Context
	stop         context.CancelFunc
	wg           sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while cut or closed
	closed   bool
	mode     Mode
	delay    time.Duration
	changed  chan struct{} // closed at every change of mode or delay
	links    map[*link]struct{}

	accepted, open, reset, dialErrors, up, down atomic.Int64
}

// Start begins to listen. The target need not be there yet: a connection is closed when it cannot be reached.
func Start(o Options) (*Edge, error) {
	if o.DialTimeout == 0 {
		o.DialTimeout = 5 * time.Second
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("opening edge %q: %w", o.Name, err)
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // an edge lives until Close, whoever started it
	e := &Edge{
		name: o.Name, target: o.Target, addr: l.Addr().String(),
		dialer: net.Dialer{Timeout: o.DialTimeout},
		ctx:    ctx, stop: stop,
		listener: l, mode: Healed, changed: make(chan struct{}), links: map[*link]struct{}{},
	}
	e.serve(l)
	return e, nil
}

// Name returns the edge's name, from->to.
func (e *Edge) Name() string { return e.name }

// Addr returns the host:port of the client side.
func (e *Edge) Addr() string { return e.addr }

// Mode returns what the edge does now.
func (e *Edge) Mode() Mode {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode
}

// Stats returns the counters.
func (e *Edge) Stats() Stats {
	return Stats{
		Accepted: e.accepted.Load(), Open: e.open.Load(), Reset: e.reset.Load(), DialErrors: e.dialErrors.Load(),
		Up: e.up.Load(), Down: e.down.Load(),
	}
}

// Cut refuses new connections and resets the existing ones, as a firewall that answers does.
func (e *Edge) Cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if e.listener != nil {
		_ = e.listener.Close() // it only stops listening
		e.listener = nil
	}
	e.set(Cut, e.delay)
	for l := range e.links {
		l.reset()
		e.reset.Add(1)
		delete(e.links, l) // its goroutines need not have ended by the next cut, which would count it again
	}
}

// Blackhole keeps connections and lets no byte pass, as a network that loses every packet does. What was sent meanwhile
// is held and arrives after Heal, as TCP's retransmissions would.
func (e *Edge) Blackhole() error { return e.reopen(Blackholed) }

// Heal lets everything pass again. A delay stays.
func (e *Edge) Heal() error { return e.reopen(Healed) }

// Delay makes every byte arrive later by d in each direction; zero ends it.
func (e *Edge) Delay(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(e.mode, d)
}

// Close ends the edge and waits until nothing of it is left.
func (e *Edge) Close() {
	e.mu.Lock()
	e.closed = true
	e.stop()
	if e.listener != nil {
		_ = e.listener.Close() // nothing can be done about an error
		e.listener = nil
	}
	for l := range e.links {
		l.reset()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

func (e *Edge) reopen(m Mode) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("changing edge %q: %w", e.name, net.ErrClosed)
	}
	if e.listener == nil {
		l, err := net.Listen("tcp", e.addr)
		if err != nil {
			return fmt.Errorf("reopening edge %q: %w", e.name, err)
		}
		e.listener = l
		e.serve(l)
	}
	e.set(m, e.delay)
	return nil
}

// set changes the state and wakes everyone who waits for a change. The caller holds mu.
func (e *Edge) set(m Mode, delay time.Duration) {
	e.mode, e.delay = m, delay
	close(e.changed)
	e.changed = make(chan struct{})
}

// state returns what to do now and a channel that is closed when that changes.
func (e *Edge) state() (Mode, time.Duration, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode, e.delay, e.changed
}

// serve accepts connections until the listener is closed.
func (e *Edge) serve(l net.Listener) {
	e.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				if !poll.Pause(e.ctx, 50*time.Millisecond) { // out of descriptors: it passes
					return
				}
				continue
			}
			e.accepted.Add(1)
			e.wg.Go(func() { e.connect(conn) })
		}
	})
}
