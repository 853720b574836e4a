package edge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 32 << 10
	inFlight  = 32 // chunks held per direction while nothing passes; then the sender's own buffers fill up
)

// link is one connection through an edge.
type link struct {
	edge *Edge
	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	conns  []net.Conn
	broken bool
}

// connect carries one client connection to the target until either side has finished.
func (e *Edge) connect(client net.Conn) {
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	l := &link{edge: e, ctx: ctx, stop: stop}
	if !l.adopt(client) || !e.register(l) {
		l.reset()
		return
	}
	defer e.forget(l)
	if !l.passable() { // during a blackhole not even the handshake reaches the target
		l.reset()
		return
	}
	target, err := e.dialer.DialContext(ctx, "tcp", e.target)
	if err != nil {
		e.dialErrors.Add(1)
		l.reset()
		return
	}
	if !l.adopt(target) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.carry(client, target, &e.up) })
	wg.Go(func() { l.carry(target, client, &e.down) })
	wg.Wait()
	_ = client.Close() // both directions are finished
	_ = target.Close()
}

func (e *Edge) register(l *link) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.mode == Cut {
		return false
	}
	e.links[l] = struct{}{}
	e.open.Add(1)
	return true
}

func (e *Edge) forget(l *link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.links, l)
	e.open.Add(-1)
}

// adopt makes conn part of the link, so that reset reaches it; false if the link was reset before.
func (l *link) adopt(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		closeNow(conn)
		return false
	}
	l.conns = append(l.conns, conn)
	return true
}

// reset ends the link at once; both sides see a connection reset.
func (l *link) reset() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for _, c := range l.conns {
		closeNow(c)
	}
}

func closeNow(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // reset instead of an orderly end; on an error the end is orderly
	}
	_ = conn.Close()
}

// chunk is a piece of the stream with the time it was read; the last one has no data but the error that ended the
// stream.
type chunk struct {
	data []byte
	err  error
	read time.Time
}

// carry moves bytes in one direction: a reader keeps taking them from the sender, and this goroutine delivers each one
// when the edge lets it pass and its delay is over.
func (l *link) carry(from, to net.Conn, count *atomic.Int64) {
	chunks := make(chan chunk, inFlight)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(chunks)
		buf := make([]byte, chunkSize)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case chunks <- chunk{data: bytes.Clone(buf[:n]), read: time.Now()}:
				case <-l.ctx.Done():
					return
				}
			}
			if err != nil {
				select {
				case chunks <- chunk{err: err, read: time.Now()}:
				case <-l.ctx.Done():
				}
				return
			}
		}
	})
	defer wg.Wait()
	for c := range chunks {
		if !l.due(c.read) || !l.deliver(to, c, count) {
			l.reset() // ends the reader as well
		}
	}
}

// deliver hands one chunk over; an orderly end ends the direction, and the other one goes on. False ends the link.
func (l *link) deliver(to net.Conn, c chunk, count *atomic.Int64) bool {
	if c.err != nil {
		if !errors.Is(c.err, io.EOF) {
			return false // the sender is gone, and would not take an answer
		}
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // the receiver may be gone already
		}
		return true
	}
	n, err := to.Write(c.data)
	count.Add(int64(n))
	return err == nil
}

// due waits until what was read at that time may pass; false if the link ends before.
func (l *link) due(read time.Time) bool {
	for {
		if !l.passable() {
			return false
		}
		mode, delay, changed := l.edge.state()
		wait := time.Until(read.Add(delay))
		if mode == Healed && wait <= 0 {
			return true
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-l.ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// passable waits out a blackhole; false if the link ends.
func (l *link) passable() bool {
	for {
		mode, _, changed := l.edge.state()
		switch {
		case l.ctx.Err() != nil, mode == Cut:
			return false
		case mode == Healed:
			return true
		}
		select {
		case <-l.ctx.Done():
		case <-changed:
		}
	}
}
