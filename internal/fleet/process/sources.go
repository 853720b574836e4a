package process

import (
	"net"
	"sync"
)

// perSource is a listener that closes what one address opens beyond most connections. A single pod could else take all
// of a port's. The kubelet's probes would find none left, and the operator be restarted again and again.
type perSource struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[string]int
}

func limitPerSource(l net.Listener, most int) net.Listener {
	return &perSource{Listener: l, most: most, open: map[string]int{}}
}

func (l *perSource) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := conn.RemoteAddr().String()
		if host, _, err := net.SplitHostPort(source); err == nil {
			source = host
		}
		if l.tryTakeSlot(source) {
			return &sourceConn{Conn: conn, closed: sync.OnceFunc(func() { l.give(source) })}, nil
		}
		_ = conn.Close() // it has had nothing
	}
}

func (l *perSource) tryTakeSlot(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source] >= l.most {
		return false
	}
	l.open[source]++
	return true
}

func (l *perSource) give(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source]--; l.open[source] == 0 {
		delete(l.open, source)
	}
}

// sourceConn is a connection that is counted until it is closed.
type sourceConn struct {
	net.Conn
	closed func()
}

func (c *sourceConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
