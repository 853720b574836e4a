// Package loadbalancer decides which kube-apiserver a client talks to: a TCP load balancer that sends new connections
// only to API servers whose /readyz says ok, as the load balancer in front of a replicated control plane should.
//
// A balancer that only connects sends clients to an API server whose caches are still cold, which answers 403 to
// everybody for a moment. If no backend is ready, all of them are tried: a wrong health check must not be an outage.
package loadbalancer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options describes a load balancer.
type Options struct {
	Listen   string   // host:port that clients connect to; port 0 chooses one
	Backends []string // host:port of each API server, at least one
	// TLS verifies the API servers during health checks. Default: the system's authorities.
	TLS *tls.Config
	// Interval is the time between two health checks of a backend. Default: 300 ms.
	Interval time.Duration
	// Timeout bounds a health check, and a connection attempt for a client. Default: 1 s.
	Timeout time.Duration
}

// Balancer is a running load balancer. All methods may be called concurrently.
type Balancer struct {
	addr     string
	listener net.Listener
	backends []*backend
	dialer   net.Dialer
	next     atomic.Uint32
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Start begins to listen and to check the backends. Until its first check has succeeded, a backend is not ready.
func Start(o Options) (*Balancer, error) {
	if len(o.Backends) == 0 {
		return nil, errors.New("starting load balancer: it has no backends")
	}
	if o.Interval == 0 {
		o.Interval = 300 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting load balancer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // a balancer lives until Close, whoever started it
	b := &Balancer{
		addr: l.Addr().String(), listener: l, dialer: net.Dialer{Timeout: o.Timeout},
		ctx: ctx, stop: stop, conns: map[net.Conn]struct{}{},
	}
	client := &http.Client{Timeout: o.Timeout, Transport: &http.Transport{
		// A new connection each time: an API server that shuts down goes on serving the old ones.
		DisableKeepAlives: true, TLSClientConfig: o.TLS,
	}}
	for _, addr := range o.Backends {
		be := &backend{addr: addr, err: errors.New("not checked yet")}
		b.backends = append(b.backends, be)
		b.wg.Go(func() { be.watch(ctx, client, o.Interval) })
	}
	b.wg.Go(b.serve)
	return b, nil
}

// Addr returns the host:port that clients connect to.
func (b *Balancer) Addr() string { return b.addr }

// Backends returns the state of every backend, in the order of the options.
func (b *Balancer) Backends() []Status {
	out := make([]Status, 0, len(b.backends))
	for _, be := range b.backends {
		out = append(out, be.status())
	}
	return out
}

// Close ends the balancer and its connections and waits until nothing of it is left.
func (b *Balancer) Close() {
	b.stop()
	_ = b.listener.Close() // nothing can be done about an error
	b.mu.Lock()
	for c := range b.conns {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *Balancer) serve() {
	for {
		conn, err := b.listener.Accept()
		if err == nil {
			b.wg.Go(func() { b.carry(conn) })
			continue
		}
		if b.ctx.Err() != nil {
			return
		}
		select { // out of descriptors: it passes
		case <-b.ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// carry connects a client with a backend until either has finished.
func (b *Balancer) carry(client net.Conn) {
	defer client.Close() //nolint:errcheck // both sides have finished
	if !b.track(client) {
		return
	}
	defer b.untrack(client)
	target, be := b.dial()
	if target == nil {
		return
	}
	defer target.Close() //nolint:errcheck // as above
	if !b.track(target) {
		return
	}
	defer b.untrack(target)
	be.connections.Add(1)
	defer be.connections.Add(-1)

	var wg sync.WaitGroup
	wg.Go(func() { pipe(target, client) })
	wg.Go(func() { pipe(client, target) })
	wg.Wait()
}

// pipe copies until from ends and then tells to. If to takes no more, from is told at once instead of when it next
// writes.
func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = from.Close()
		_ = to.Close()
		return
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // it may be gone already
	}
}

// dial connects to the next backend in turn, ready ones first.
func (b *Balancer) dial() (net.Conn, *backend) {
	first := int(b.next.Add(1))
	for _, wantReady := range []bool{true, false} {
		for i := range b.backends {
			be := b.backends[(first+i)%len(b.backends)]
			if be.status().Ready != wantReady {
				continue
			}
			if conn, err := b.dialer.DialContext(b.ctx, "tcp", be.addr); err == nil {
				return conn, be
			}
		}
	}
	return nil, nil
}

// track remembers an open connection for Close; false if the balancer is closed.
func (b *Balancer) track(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *Balancer) untrack(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}
