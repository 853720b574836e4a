package loadbalancer

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer answers /readyz as it is told to, and its name elsewhere.
type apiServer struct {
	*httptest.Server
	ready atomic.Bool
}

func newAPIServer(t *testing.T, name string, ready bool) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.ready.Store(ready)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && !s.ready.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, name) // the client misses it
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) addr() string { return s.Listener.Addr().String() }

func start(t *testing.T, servers ...*apiServer) *Balancer {
	t.Helper()
	o := Options{Listen: "127.0.0.1:0", Interval: 5 * time.Millisecond, TLS: trust(servers[0])}
	for _, s := range servers {
		o.Backends = append(o.Backends, s.addr())
	}
	b, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func trust(s *apiServer) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// waitReady waits until exactly the backends at these positions are ready.
func waitReady(t *testing.T, b *Balancer, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		got := ""
		for _, s := range b.Backends() {
			got += map[bool]string{true: "1", false: "0"}[s.Ready]
		}
		if got == want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("ready backends are %s, want %s: %+v", got, want, b.Backends())
		case <-tick.C:
		}
	}
}

// ask makes n requests on connections of their own and counts who answered.
func ask(t *testing.T, b *Balancer, tlsConfig *tls.Config, n int) map[string]int {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: tlsConfig}}
	out := map[string]int{}
	for range n {
		resp, err := client.Get("https://" + b.Addr() + "/api")
		if err != nil {
			t.Fatal(err)
		}
		name, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[string(name)]++
	}
	return out
}

func TestConnectionsGoInTurnToReadyServersOnly(t *testing.T) {
	a, b, c := newAPIServer(t, "a", true), newAPIServer(t, "b", false), newAPIServer(t, "c", true)
	lb := start(t, a, b, c)
	waitReady(t, lb, "101")
	got := ask(t, lb, trust(a), 12)
	if got["b"] != 0 || got["a"] == 0 || got["c"] == 0 {
		t.Errorf("answers came from %v, want only a and c, both of them", got)
	}
	b.ready.Store(true)
	a.ready.Store(false)
	waitReady(t, lb, "011")
	if got := ask(t, lb, trust(a), 6); got["a"] != 0 {
		t.Errorf("answers came from %v after a became unready", got)
	}
	if s := lb.Backends()[0]; s.Err == nil || !strings.Contains(s.Err.Error(), "500") {
		t.Errorf("status of a is %+v, want the answer of its health check", s)
	}
}

func TestWithoutAReadyServerAllAreTried(t *testing.T) {
	a := newAPIServer(t, "a", false)
	lb := start(t, a)
	if got := ask(t, lb, trust(a), 1); got["a"] != 1 {
		t.Errorf("answers came from %v", got)
	}
}

func TestAServerThatStoppedListeningCostsNoRequest(t *testing.T) {
	a, b := newAPIServer(t, "a", true), newAPIServer(t, "b", true)
	lb := start(t, a, b)
	waitReady(t, lb, "11")
	a.Close()
	if got := ask(t, lb, trust(b), 8); got["b"] != 8 {
		t.Errorf("answers came from %v", got)
	}
	waitReady(t, lb, "01")
}

func TestAStrangersCertificateIsNotReady(t *testing.T) {
	a := newAPIServer(t, "a", true)
	lb, err := Start(Options{
		Listen: "127.0.0.1:0", Backends: []string{a.addr()}, Interval: 5 * time.Millisecond,
		TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer lb.Close()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if s := lb.Backends()[0]; s.Err != nil && strings.Contains(s.Err.Error(), "certificate") {
			if s.Ready {
				t.Error("it is ready")
			}
			return
		}
		select {
		case <-deadline:
			t.Fatalf("status is %+v, want the certificate to be refused", lb.Backends()[0])
		case <-tick.C:
		}
	}
}

func TestCloseEndsOpenConnections(t *testing.T) {
	a := newAPIServer(t, "a", true)
	lb := start(t, a)
	waitReady(t, lb, "1")
	conn, err := tls.Dial("tcp", lb.Addr(), trust(a))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was closed by the other side
	if n := lb.Backends()[0].Connections; n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
	lb.Close()
	_, _ = io.ReadAll(conn) // returns, with or without an error, because the connection has ended
	if n := lb.Backends()[0].Connections; n != 0 {
		t.Errorf("%d connections are counted after the end", n)
	}
	if _, err := net.Dial("tcp", lb.Addr()); err == nil {
		t.Error("it still accepts connections")
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	if _, err := Start(Options{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("a balancer without backends started")
	}
	if _, err := Start(Options{Listen: "127.0.0.1:notaport", Backends: []string{"127.0.0.1:1"}}); err == nil {
		t.Error("a balancer without an address started")
	}
}
