package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
	// idle is after how much silence it closes a connection; zero means never.
	idle time.Duration

	mu       sync.Mutex
	listener net.Listener
	conns    []*net.TCPConn
}

func newFarSide(t *testing.T, idle time.Duration) *farSide {
	t.Helper()
	f := &farSide{t: t, address: "127.0.0.1:0", idle: idle}
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
	f.address, f.listener = l.Addr().String(), l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn.(*net.TCPConn))
			f.mu.Unlock()
			if f.idle > 0 {
				time.AfterFunc(f.idle, func() { _ = conn.Close() })
			}
		}
	}()
}

func (f *farSide) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.listener.Close()
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
	stop   func()
}

func keepThrough(t *testing.T, address string) *keptRun {
	t.Helper()
	r := &keptRun{t: t, events: make(chan v1.ProbeEvent, 1<<12), looked: make(chan struct{}, 1<<12)}
	dialer := &Dialer{}
	target := Target{Kind: v1.PathTCP, Path: "shop/web", Address: address, Owner: "Service shop/web"}
	p := New(Options{
		Interval: 50 * time.Millisecond,
		Targets:  func(context.Context) (Found, error) { return owners(target), nil },
		Look: func(ctx context.Context, t Target) error {
			defer func() { r.looked <- struct{}{} }()
			return dialer.Look(ctx, t)
		},
		Keep: dialer.KeepOpen,
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

// waitFor returns the next event of a kind of paths.
func (r *keptRun) waitFor(kind, event string) v1.ProbeEvent {
	r.t.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case e := <-r.events:
			r.seen = append(r.seen, e)
			if e.Kind == kind && e.Event == event {
				return e
			}
		case <-end:
			r.t.Fatalf("no event %s of %s: %+v", event, kind, r.seen)
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
	f := newFarSide(t, 0)
	r := keepThrough(t, f.address)
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
			f := newFarSide(t, 0)
			r := keepThrough(t, f.address)
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
			within(t, "from the cut to the begin of the outage", o.Begin.Sub(cut).Seconds(), 0, now.Sub(cut).Seconds())
			within(t, "from when it was back to the end of the outage", o.End.Sub(back).Seconds(), 0, now.Sub(back).Seconds())
			within(t, "the outage", o.Seconds, o.End.Sub(o.Begin).Seconds()-rounding, now.Sub(cut).Seconds()+rounding)
			if s := KeptSummary(*d); !strings.HasPrefix(s, "kept connections: 1 cut, longest ") || !strings.HasSuffix(s, " until a new one") {
				t.Errorf("summary is %q", s)
			}
		})
	}
}

func TestAConnectionThatIsClosedWhileIdleIsNoOutage(t *testing.T) {
	f := newFarSide(t, 400*time.Millisecond)
	r := keepThrough(t, f.address)
	r.waitFor(v1.PathTCPKept, v1.ProbeDown)
	idle := r.waitFor(v1.PathTCPKept, v1.ProbeIdle)
	r.waitFor("", v1.ProbeAlive)
	d := r.sum()
	p := pathOf(t, d, v1.PathTCPKept, "shop/web")
	for _, o := range p.Outages {
		if o.Begin.Equal(*idle.Since) {
			t.Errorf("a close while idle is an outage still: %+v", o)
		}
	}
	if p.Reconnects < 2 {
		t.Errorf("%d connections were closed while idle, want some", p.Reconnects)
	}
}

func TestNoConnectionIsKeptThroughAPortThatCannotBeReached(t *testing.T) {
	f := newFarSide(t, 0)
	f.stop()
	r := keepThrough(t, f.address)
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
		{"a load balancer closes after its usual 60 s", times(1, 60*second), 0, 1, 0, 0},
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
			d := w.probed(t, o, func() { sleep(12 * time.Minute) })
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
