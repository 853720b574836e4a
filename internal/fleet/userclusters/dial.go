package userclusters

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialer keeps an eye on the connections that it has made. A transport's own closing leaves behind what was being
// dialed at that moment.
type dialer struct {
	net.Dialer
	writing time.Duration // bounds each write
	mu      sync.Mutex
	closed  bool
	open    map[*tracked]bool
}

// DialContext connects, unless everything was closed.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: c, dialer: d}
	d.mu.Lock()
	closed := d.closed
	if !closed {
		if d.open == nil {
			d.open = map[*tracked]bool{}
		}
		d.open[t] = true
	}
	d.mu.Unlock()
	if closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return t, nil
}

// closeAll closes every connection that there is, and those that come.
func (d *dialer) closeAll() {
	d.mu.Lock()
	d.closed = true
	open := d.open
	d.open = nil
	d.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
}

// tracked is a connection that tells when it is closed.
type tracked struct {
	net.Conn
	dialer *dialer
}

// Write ends the connection when it cannot write in time. Other goroutines wait for the lock that the writer holds.
func (t *tracked) Write(p []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(t.dialer.writing)); err != nil {
		return 0, err
	}
	n, err := t.Conn.Write(p)
	if err != nil {
		_ = t.Close()
	}
	return n, err
}

func (t *tracked) Close() error {
	t.dialer.mu.Lock()
	delete(t.dialer.open, t)
	t.dialer.mu.Unlock()
	return t.Conn.Close()
}
