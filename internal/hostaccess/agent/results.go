package agent

import (
	"context"
	"sync"
	"time"
)

const (
	// keepFor is how long a result is kept after the call has ended: longer than any client asks again.
	keepFor = 10 * time.Minute
	// keepMost bounds how many results are kept; a client has a handful of calls under way.
	keepMost = 4096
)

// results does each call once.
type results struct {
	now func() time.Time

	mu    sync.Mutex
	calls map[string]*result
}

type result struct {
	done   chan struct{}
	answer []byte
	ended  time.Time
}

// once starts the call of this ID, or finds it, and waits for what comes of it. The call goes on when no caller waits
// any longer.
func (r *results) once(ctx context.Context, id string, call func() []byte) ([]byte, error) {
	r.mu.Lock()
	c, ok := r.calls[id]
	if !ok {
		r.forget()
		c = &result{done: make(chan struct{})}
		r.calls[id] = c
		go func() {
			answer := call()
			r.mu.Lock()
			defer r.mu.Unlock()
			c.answer, c.ended = answer, r.now()
			close(c.done)
		}()
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return c.answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget drops what is old.
func (r *results) forget() {
	full := len(r.calls) >= keepMost
	for id, c := range r.calls {
		if !c.ended.IsZero() && (full || r.now().Sub(c.ended) > keepFor) {
			delete(r.calls, id)
		}
	}
}

// running counts the calls that have not ended.
func (r *results) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.calls {
		if c.ended.IsZero() {
			n++
		}
	}
	return n
}
