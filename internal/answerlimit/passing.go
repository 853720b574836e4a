package answerlimit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// maxPassing is what the answers may take that all passing readers have in memory. One page as heavy as may be fits.
	maxPassing = 96 << 20
	// longestTurn ends the turn of a reader that waits for something else, as a run does for a lease.
	longestTurn = 5 * time.Second
	// buffers is how often an answer is in memory while it is decoded: here, and in the buffer of client-go.
	buffers = 2
)

// passing is a reader that has one answer in memory at a time.
type passing struct {
	mu   sync.Mutex
	free func() // gives back what its last answer took; nil for none
}

// Pass returns a context for a reader that goes through answers of user clusters one after the other, and keeps little
// of each. Where those of all such readers of the same Total take too much memory, an answer waits for its turn before
// it is decoded. A reader has its turn until it asks for its next answer, calls done, or has had it for long. Of
// answers that it reads at the same time the last one counts.
func Pass(ctx context.Context) (_ context.Context, done func()) {
	p := &passing{}
	return context.WithValue(ctx, readerKey{}, p), p.next
}

func (p *passing) next() {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	if free != nil {
		free()
	}
}

func (p *passing) take(a *answer, weight int64) error {
	turns := a.cluster.total.passing
	if turns == nil {
		return nil
	}
	p.next()
	n := min(weight+buffers*int64(a.read), maxPassing)
	if turns.Acquire(a.ctx, n) != nil {
		return fmt.Errorf("it waited for the answers of other clusters to be decoded: %w", context.Cause(a.ctx))
	}
	free := sync.OnceFunc(func() { turns.Release(n) })
	late := time.AfterFunc(longestTurn, free)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		defer p.free() // of an answer that was read at the same time
	}
	p.free = func() {
		late.Stop()
		free()
	}
	return nil
}
