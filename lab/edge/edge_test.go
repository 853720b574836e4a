package edge

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends back every byte and ends when its client does.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn) // ends with the connection
				_ = conn.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func start(t *testing.T, target string) *Edge {
	t.Helper()
	e, err := Start(Options{Name: "a->b", Listen: "127.0.0.1:0", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, e *Edge) *client {
	t.Helper()
	conn, err := net.Dial("tcp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{Conn: conn, lines: bufio.NewReader(conn)}
}

func (c *client) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear reads one line within the time limit.
func (c *client) hear(limit time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	return c.lines.ReadString('\n')
}

func (c *client) expect(t *testing.T, want string) {
	t.Helper()
	if got, err := c.hear(10 * time.Second); err != nil || got != want+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func (c *client) expectSilence(t *testing.T) {
	t.Helper()
	var timeout net.Error
	if got, err := c.hear(60 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("heard %q, %v; want silence on an open connection", got, err)
	}
}

func TestHealedEdgeCarriesEverythingAndEndsBothSides(t *testing.T) {
	e := start(t, echo(t))
	c := dial(t, e)
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data) // never fails
	go func() {
		_, _ = c.Write(data) // what is lost is missed below
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back, want the %d that were sent", len(got), len(data))
	}
	s := e.Stats()
	if s.Accepted != 1 || s.Up != int64(len(data)) || s.Down != int64(len(data)) {
		t.Errorf("stats are %+v", s)
	}
}

func TestCutResetsConnectionsAndRefusesNewOnesUntilHealed(t *testing.T) {
	e := start(t, echo(t))
	c := dial(t, e)
	c.say(t, "one")
	c.expect(t, "one")
	e.Cut()
	if _, err := c.hear(10 * time.Second); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("existing connection: %v, want a reset", err)
	}
	if _, err := net.Dial("tcp", e.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("new connection: %v, want it refused", err)
	}
	e.Cut() // again: nothing changes
	if s := e.Stats(); s.Reset != 1 || e.Mode() != Cut {
		t.Errorf("stats are %+v in mode %s, want one reset", s, e.Mode())
	}
	if err := e.Heal(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, e)
	c.say(t, "two")
	c.expect(t, "two")
}

func TestBlackholeHoldsBytesUntilHealed(t *testing.T) {
	e := start(t, echo(t))
	old := dial(t, e)
	old.say(t, "before")
	old.expect(t, "before")
	if err := e.Blackhole(); err != nil {
		t.Fatal(err)
	}
	fresh := dial(t, e) // is accepted
	old.say(t, "held")
	fresh.say(t, "held too")
	old.expectSilence(t)
	fresh.expectSilence(t)
	if err := e.Heal(); err != nil {
		t.Fatal(err)
	}
	old.expect(t, "held")
	fresh.expect(t, "held too")
}

func TestCutEndsABlackhole(t *testing.T) {
	e := start(t, echo(t))
	if err := e.Blackhole(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, e)
	c.say(t, "lost")
	c.expectSilence(t)
	e.Cut()
	if _, err := c.hear(10 * time.Second); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("held connection: %v, want a reset", err)
	}
}

func TestDelayPostponesEveryByteInBothDirections(t *testing.T) {
	e := start(t, echo(t))
	c := dial(t, e)
	const delay = 60 * time.Millisecond
	e.Delay(delay)
	begin := time.Now()
	c.say(t, "late")
	c.expect(t, "late")
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("round trip took %s, want at least %s", took, 2*delay)
	}
	e.Delay(time.Hour)
	c.say(t, "freed")
	c.expectSilence(t)
	e.Delay(0)
	c.expect(t, "freed")
}

func TestUnreachableTargetEndsTheConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	e := start(t, target)
	conn, err := net.Dial("tcp", e.Addr())
	if err == nil { // the end may be seen only by reading
		_, err = io.ReadAll(conn)
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("client saw %v, want a reset", err)
	}
	if s := e.Stats(); s.DialErrors != 1 {
		t.Errorf("stats are %+v, want one dial error", s)
	}
}

func TestClosedEdgeLeavesNothingAndCannotBeHealed(t *testing.T) {
	target := echo(t)
	for name, before := range map[string]func(*Edge) error{
		"healed":     func(*Edge) error { return nil },
		"cut":        func(e *Edge) error { e.Cut(); return nil },
		"blackholed": (*Edge).Blackhole,
		"delayed":    func(e *Edge) error { e.Delay(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, target)
			c := dial(t, e)
			c.say(t, "hello")
			c.expect(t, "hello")
			if err := before(e); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, "more\n") // a cut connection refuses it
			e.Close()
			if s := e.Stats(); s.Open != 0 {
				t.Errorf("%d connections are open", s.Open)
			}
			e.Cut()
			if err := e.Heal(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("healing: %v, want net.ErrClosed", err)
			}
			if _, err := net.Dial("tcp", e.Addr()); err == nil {
				t.Error("it still accepts connections")
			}
		})
	}
}

func TestAddressInUseIsAnErrorThatNamesTheEdge(t *testing.T) {
	target := echo(t)
	_, err := Start(Options{Name: "a->b", Listen: target, Target: target})
	if !errors.Is(err, syscall.EADDRINUSE) || !bytes.Contains([]byte(err.Error()), []byte(`"a->b"`)) {
		t.Errorf("error is %v", err)
	}
}
