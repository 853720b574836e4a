package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// farSide is a load balancer on this machine: it accepts connections, and keeps them until it is told otherwise.
type farSide struct {
	t       *testing.T
	address string

	mu       sync.Mutex
	changed  *sync.Cond
	listener net.Listener
	stopped  bool
	conns    []*net.TCPConn
}

func newFarSide(t *testing.T) *farSide {
	t.Helper()
	f := &farSide{t: t, address: "127.0.0.1:0"}
	f.changed = sync.NewCond(&f.mu)
	f.start()
	t.Cleanup(func() { f.stop(); f.cut(false) })
	return f
}

func (f *farSide) start() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.address, f.listener, f.stopped = l.Addr().String(), l, false
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn.(*net.TCPConn))
			f.changed.Broadcast()
			f.mu.Unlock()
		}
	}()
}

func (f *farSide) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.listener.Close()
	f.stopped = true
	f.changed.Broadcast()
}

// awaitAccepted waits until a connection was accepted, which is later than it stands.
func (f *farSide) awaitAccepted(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	isIt := func(c *net.TCPConn) bool { return c.RemoteAddr().String() == conn.LocalAddr().String() }
	for !f.stopped && !slices.ContainsFunc(f.conns, isIt) {
		f.changed.Wait()
	}
}

// cut ends all connections, by a reset or in order.
func (f *farSide) cut(reset bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if reset {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
	f.conns = nil
}

// keptRun is a run of a prober with one port, which a farSide may listen on.
type keptRun struct {
	t      *testing.T
	events chan v1.ProbeEvent
	looked chan struct{}
	seen   []v1.ProbeEvent
	// taken are those of seen that waitFor has returned.
	taken map[int]bool
	stop  func()
}

func keepThrough(t *testing.T, f *farSide) *keptRun {
	t.Helper()
	r := &keptRun{t: t, taken: map[int]bool{}, events: make(chan v1.ProbeEvent, 1<<12), looked: make(chan struct{}, 1<<12)}
	dialer := &Dialer{}
	target := Target{Kind: v1.PathTCP, Path: "shop/web", Address: f.address, Owner: "Service shop/web"}
	p := New(Options{
		Interval: 50 * time.Millisecond,
		Targets:  func(context.Context) (Found, error) { return owners(target), nil },
		Look: func(ctx context.Context, t Target) error {
			defer func() { r.looked <- struct{}{} }()
			return dialer.Look(ctx, t)
		},
		Keep: func(ctx context.Context, t Target) (net.Conn, error) {
			conn, err := dialer.KeepOpen(ctx, t)
			if err == nil {
				f.awaitAccepted(conn)
			}
			return conn, err
		},
		Sink: func(e v1.ProbeEvent) { r.events <- e },
	})
	p.mustStand = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

// waitFor returns the next event of a kind of paths. Those of two kinds may come in either order.
func (r *keptRun) waitFor(kind, event string) v1.ProbeEvent {
	r.t.Helper()
	end := time.After(10 * time.Minute)
	for i := 0; ; i++ {
		if i == len(r.seen) {
			select {
			case e := <-r.events:
				r.seen = append(r.seen, e)
			case <-end:
				r.t.Fatalf("no event %s of %s: %+v", event, kind, r.seen)
			}
		}
		if e := r.seen[i]; e.Kind == kind && e.Event == event && !r.taken[i] {
			r.taken[i] = true
			return e
		}
	}
}

// sum ends the run.
func (r *keptRun) sum() *v1.Disruption {
	r.stop()
	for len(r.events) > 0 {
		r.seen = append(r.seen, <-r.events)
	}
	return Sum(r.seen)
}

func TestAKeptConnectionThatStaysIsNotCut(t *testing.T) {
	f := newFarSide(t)
	r := keepThrough(t, f)
	r.waitFor(v1.PathTCPKept, v1.ProbePath)
	for range 20 {
		<-r.looked
	}
	d := r.sum()
	if p := pathOf(t, d, v1.PathTCPKept, "shop/web"); len(p.Outages) > 0 || p.Looks != 1 || p.Reconnects > 0 {
		t.Errorf("path is %+v", p)
	}
	if s := Summary(*d); s != "1 paths, no outage; kept connections: none cut" {
		t.Errorf("summary is %q", s)
	}
}

func TestAKeptConnectionThatIsCutIsOutUntilANewOneStands(t *testing.T) {
	for _, c := range []struct {
		name        string
		reset, away bool
		want        string
	}{
		{"closed, and a new one opens at once", false, false, "the far side closed it"},
		{"reset, and a new one opens at once", true, false, "connection reset by peer"},
		{"closed, and nothing listens for a while", false, true, "the far side closed it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFarSide(t)
			r := keepThrough(t, f)
			r.waitFor(v1.PathTCPKept, v1.ProbePath)
			cut := time.Now()
			if c.away {
				f.stop()
			}
			f.cut(c.reset)
			r.waitFor(v1.PathTCPKept, v1.ProbeDown)
			back := cut
			if c.away {
				r.waitFor(v1.PathTCP, v1.ProbeDown)
				back = time.Now()
				f.start()
			}
			r.waitFor(v1.PathTCPKept, v1.ProbeUp)
			now := time.Now()
			d := r.sum()
			p := pathOf(t, d, v1.PathTCPKept, "shop/web")
			if len(p.Outages) != 1 || p.Looks != 2 || p.Outages[0].Open || !strings.Contains(p.Outages[0].Error, c.want) {
				t.Fatalf("path is %+v", p)
			}
			const rounding = 0.001
			o := p.Outages[0]
			within(t, "from the cut to the begin of the outage", o.Begin.Sub(cut).Seconds(), -rounding, now.Sub(cut).Seconds()+rounding)
			within(t, "from when it was back to the end of the outage", o.End.Sub(back).Seconds(), -rounding, now.Sub(back).Seconds()+rounding)
			within(t, "the outage", o.Seconds, o.End.Sub(o.Begin).Seconds()-rounding, now.Sub(cut).Seconds()+rounding)
			if s := KeptSummary(*d); !strings.HasPrefix(s, "kept connections: 1 cut, longest ") || !strings.HasSuffix(s, " until a new one") {
				t.Errorf("summary is %q", s)
			}
		})
	}
}

func TestNoConnectionIsKeptThroughAPortThatCannotBeReached(t *testing.T) {
	f := newFarSide(t)
	f.stop()
	r := keepThrough(t, f)
	r.waitFor(v1.PathTCP, v1.ProbeSkipped)
	d := r.sum()
	if len(d.Paths) > 0 || len(d.NotProbed) != 1 || d.NotProbed[0].Kind != v1.PathTCP {
		t.Errorf("disruption is %+v, want one port that is not probed", d)
	}
}

const refused = -1

// script has how long each connection lives, one after the other; the last stays open.
type script struct {
	mu    sync.Mutex
	lives []time.Duration
}

func (s *script) keep(context.Context, Target) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	near, far := net.Pipe()
	if len(s.lives) == 0 {
		return near, nil
	}
	life := s.lives[0]
	s.lives = s.lives[1:]
	if life == refused {
		return nil, errors.Join(errRefused, near.Close())
	}
	time.AfterFunc(life, func() { _ = far.Close() })
	return near, nil
}

// times is n times the same life.
func times(n int, life time.Duration) []time.Duration {
	var out []time.Duration
	for range n {
		out = append(out, life)
	}
	return out
}

func TestWhichEndsOfKeptConnectionsAreCuts(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name       string
		lives      []time.Duration
		cuts, idle int
		least      float64
		most       float64
	}{
		{"none ends", nil, 0, 0, 0, 0},
		{"a server closes what is silent for two minutes", times(4, 120*second), 0, 4, 0, 0},
		{"a load balancer closes after its usual 60 s", times(2, 60*second), 0, 2, 0, 0},
		{"a cut at a usual time of clouds", times(1, 60*second), 1, 0, 0, 0.001},
		{"cuts at two usual times of clouds", []time.Duration{60 * second, 240 * second}, 2, 0, 0, 0.001},
		{"a cut at a usual time, and one after a longer silence", []time.Duration{60 * second, 540 * second}, 2, 0, 0, 0.001},
		{"a longer silence disproves a timer", []time.Duration{120 * second, 120 * second, 540 * second}, 1, 2, 0, 0.001},
		{"no timer that was disproved is believed again", append(times(2, 60*second), 300*second, 60*second), 2, 2, 0, 0.001},
		{"a longer timer than the one before", append(times(2, 60*second), times(2, 300*second)...), 0, 4, 0, 0},
		{"an early cut among those", []time.Duration{60 * second, 20 * second, 60 * second}, 1, 2, 0, 0.001},
		{"cuts at different times", []time.Duration{13 * second, 30 * second, 75 * second}, 3, 0, 0, 0.001},
		{"regular cuts after a longer silence", []time.Duration{100 * second, 30 * second, 30 * second, 30 * second}, 4, 0, 0, 0.001},
		{"closed while idle, and none opens for 5 s", append(times(2, 120*second), times(10, refused)...), 1, 1, 4.5, 5.5},
		{"closed as late again, after an outage", append(append(times(1, 90*second), times(10, refused)...), 90*second), 1, 1, 4.5, 5.5},
		{"new ones are accepted and closed at once", append(times(1, 50*second), times(10, 10*time.Millisecond)...), 1, 0, 4.5, 6},
	} {
		bubble(t, c.name, func(t *testing.T) {
			w := newWorld()
			w.found = owners(tcp("web"))
			s := &script{lives: c.lives}
			o := w.options()
			o.Keep = s.keep
			d := w.probed(t, o, func() { sleep(16 * time.Minute) })
			p := pathOf(t, d, v1.PathTCPKept, "web")
			if len(p.Outages) != c.cuts || p.Reconnects != c.idle || len(s.lives) > 0 {
				t.Fatalf("%d cuts and %d closed while idle, want %d and %d: %+v", len(p.Outages), p.Reconnects, c.cuts, c.idle, p)
			}
			within(t, "the longest until a new one", p.LongestSeconds, c.least, c.most)
			if p.TotalSeconds < p.LongestSeconds || p.TotalSeconds > p.LongestSeconds+0.01 {
				t.Errorf("path is %+v, want one long outage at most", p)
			}
			if other := pathOf(t, d, v1.PathTCP, "web"); len(other.Outages) > 0 || len(d.NotProbed) > 0 {
				t.Errorf("the port is %+v, not probed are %+v", other, d.NotProbed)
			}
		})
	}
}

func TestWhenAPortGetsAKeptConnectionAfterOthers(t *testing.T) {
	bubble(t, "when a Service of the others is deleted", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("a"), tcp("b"), tcp("c"))
		o := w.options()
		o.Keep = (&script{}).keep
		counted := func() (kept, skipped int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			d := Sum(w.events)
			for _, p := range d.Paths {
				if p.Kind == v1.PathTCPKept {
					kept++
				}
			}
			for _, n := range d.NotProbed {
				if n.Kind == v1.PathTCPKept && n.Why == "connections through 2 other ports are kept already" {
					skipped++
				}
			}
			return kept, skipped
		}
		d := w.probedWith(t, o, func(p *Prober) { p.maxKept = 2 }, func() {
			sleep(time.Minute)
			if kept, skipped := counted(); kept != 2 || skipped != 1 {
				t.Errorf("%d ports have a kept connection and %d have none, want 2 and 1", kept, skipped)
			}
			w.mu.Lock()
			w.found = owners(tcp("b"), tcp("c"))
			w.mu.Unlock()
			sleep(time.Minute)
		})
		if p := pathOf(t, d, v1.PathTCPKept, "a"); !p.Gone {
			t.Errorf("path a is %+v, want it to be gone", p)
		}
		for _, path := range []string{"b", "c"} {
			if p := pathOf(t, d, v1.PathTCPKept, path); p.Gone || p.Looks != 1 || len(p.Outages) > 0 {
				t.Errorf("path %s is %+v, want one connection", path, p)
			}
		}
		if len(d.NotProbed) > 0 {
			t.Errorf("not probed are %+v", d.NotProbed)
		}
	})
}

func TestAPortThatClosesAtOnceKeepsNone(t *testing.T) {
	bubble(t, "from the start", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		o := w.options()
		o.Keep = (&script{lives: times(1000, time.Millisecond)}).keep
		d := w.probed(t, o, func() { sleep(time.Minute) })
		if len(d.NotProbed) != 1 || d.NotProbed[0].Kind != v1.PathTCPKept || !strings.Contains(d.NotProbed[0].Why, "closed within 1s: EOF") {
			t.Errorf("not probed are %+v", d.NotProbed)
		}
		if KeptSummary(*d) != "" || len(pathOf(t, d, v1.PathTCP, "web").Outages) > 0 {
			t.Errorf("disruption is %+v", d)
		}
	})
}

func TestWhatEndsAKeptConnectionAndIsNoCut(t *testing.T) {
	bubble(t, "its Service was deleted", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		o := w.options()
		o.Keep = (&script{lives: append(times(1, 25*time.Second), times(1000, refused)...)}).keep
		d := w.probed(t, o, func() {
			sleep(24 * time.Second)
			w.mu.Lock()
			w.found = owners()
			w.mu.Unlock()
			sleep(time.Minute)
		})
		if p := pathOf(t, d, v1.PathTCPKept, "web"); !p.Gone || len(p.Outages) > 0 {
			t.Errorf("path is %+v", p)
		}
	})
	bubble(t, "this machine slept", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		o := w.options()
		o.Keep = (&script{lives: times(1, 22*time.Second)}).keep
		d := w.probed(t, o, func() {
			sleep(21 * time.Second)
			w.mu.Lock()
			w.skew = time.Hour
			w.mu.Unlock()
			sleep(20 * time.Second)
		})
		if p := pathOf(t, d, v1.PathTCPKept, "web"); len(p.Outages) > 0 || len(d.Unobserved) != 1 {
			t.Errorf("path is %+v, unobserved are %+v", p, d.Unobserved)
		}
	})
}

func TestAFarSideThatStopsToAnswerWasAwayBefore(t *testing.T) {
	opened := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		err      error
		life     time.Duration
		at       time.Duration
		isSilent bool
	}{
		{io.EOF, time.Minute, time.Minute, false},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, time.Minute, time.Minute, false},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, time.Minute, time.Minute - silentFor, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EHOSTUNREACH)}, time.Minute, time.Minute - silentFor, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, time.Second, 0, true},
	} {
		t.Run(fmt.Sprint(c.err, " after ", c.life), func(t *testing.T) {
			e := endingOf(c.err, opened, opened.Add(c.life), c.life)
			if e.isSilent != c.isSilent || !e.at.Equal(opened.Add(c.at)) || !e.seen.Equal(opened.Add(c.life)) || e.err == nil {
				t.Errorf("ending is %+v", e)
			}
			if l := (life{longest: c.life, usual: true}); l.judge(&e) != nil || e.isIdle == c.isSilent {
				t.Errorf("closed while idle: %v", e.isIdle)
			}
		})
	}
}

func TestWhatProvesNoTimer(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name string
		ends []ending
	}{
		{"a far side that sends all the time", []ending{{quiet: 10 * time.Millisecond}, {quiet: 20 * time.Millisecond}}},
		{"a far side that fell silent", []ending{{quiet: 60 * second, isSilent: true}, {quiet: 60 * second}}},
		{"a far side that fell silent between the two", []ending{{quiet: 60 * second}, {quiet: 61 * second, isSilent: true}, {quiet: 60 * second}}},
		{"a far side that fell silent later", append(times60(), ending{quiet: 90 * second, isSilent: true}, ending{quiet: 90 * second})},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := life{}
			for i := range c.ends {
				l.judge(&c.ends[i])
			}
			if last := c.ends[len(c.ends)-1]; last.isIdle || l.usual {
				t.Errorf("closed while idle: %v, a timer is known: %v", last.isIdle, l.usual)
			}
		})
	}
	l := life{longest: 60 * second, usual: true}
	for _, e := range []ending{{quiet: 62 * second, isSilent: true}, {quiet: 20 * second}} {
		if l.judge(&e); e.isIdle || !l.usual {
			t.Errorf("%+v disproved a timer of 60 s, or was closed by it", e)
		}
	}
}

// times60 are two ends that prove a timer of a minute.
func times60() []ending { return []ending{{quiet: time.Minute}, {quiet: time.Minute}} }
