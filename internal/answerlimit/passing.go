package answerlimit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// maxPassing is what the answers may take that all passing readers have in memory.
	maxPassing = 96 << 20
	// maxPassed is what one of them may. A page of 100 large nodes takes less than half of it.
	maxPassed = 32 << 20
	// small is for what no turn is taken: an object, and not a page. No cluster waits with these for another one.
	small = 512 << 10
	// longestTurn ends the turn of a reader that waits for something else, as a run does for a lease. An answer is
	// decoded in a tenth of that.
	longestTurn = time.Second
	// buffers is how often an answer is in memory while it is decoded: here, and in the buffer of client-go.
	buffers = 2
)

// passing is a reader that has one answer in memory at a time.
type passing struct {
	end context.CancelCauseFunc

	mu   sync.Mutex
	free func()           // gives back what its last answer took; nil for none
	kept map[*Total]*kept // what its parts have left
	held int64            // what it holds besides, until a Total is known
}

// Pass returns a context for a reader that goes through answers of user clusters one after the other, and keeps little
// of each. Where those of all such readers of the same Total take too much memory, an answer waits for its turn before
// it is decoded. A reader has its turn until it asks for its next answer, calls done, or has had it for long. A cluster
// has one turn at a time. Of answers that a reader has at the same time the last one counts.
//
// What its parts have left counts until done; see Keep. Where all readers keep too much, the context of the one that
// keeps the most ends.
func Pass(ctx context.Context) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	p := &passing{end: end, kept: map[*Total]*kept{}}
	return context.WithValue(ctx, readerKey{}, p), p.done
}

// Hold counts what a reader keeps until it is done, as if one of its parts had left it. It does nothing where the
// context is not one of Pass.
func Hold(ctx context.Context, bytes int64) {
	p, ok := readerOf(ctx).(*passing)
	if !ok {
		return
	}
	p.mu.Lock()
	p.held += bytes
	var known *Total
	for t := range p.kept {
		known = t
	}
	p.mu.Unlock()
	if known != nil {
		p.moveToTotal(known)
	}
}

// moveToTotal counts with a Total what no Total counts yet.
func (p *passing) moveToTotal(t *Total) {
	p.mu.Lock()
	n := p.held
	p.held = 0
	p.mu.Unlock()
	if n > 0 {
		p.countPart(t, n)
	}
}

func (p *passing) done() {
	p.next()
	p.mu.Lock()
	kept := p.kept
	p.kept = nil
	p.mu.Unlock()
	for t, k := range kept {
		t.forget(k)
	}
	p.end(nil)
}

// countPart counts what a part has left of the clusters of a Total. What comes after done is not counted.
func (p *passing) countPart(t *Total, n int64) {
	p.mu.Lock()
	k := p.kept[t]
	if k == nil && p.kept != nil {
		k = &kept{end: p.end}
		p.kept[t] = k
	}
	p.mu.Unlock()
	if k != nil {
		_ = t.countKept(k, n) // where that is too much, the context of the one that has the most ends
	}
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

func (p *passing) countAnswer(a *answer, weight int64) error {
	p.moveToTotal(a.cluster.total)
	turns := a.cluster.total.passing
	n := weight + buffers*int64(a.read)
	switch {
	case turns == nil || n <= small:
		return nil
	case n > maxPassed:
		return fmt.Errorf("it would take more than %d MiB of memory while it is decoded", maxPassed>>20)
	}
	p.next()
	ctx, cancel := a.cluster.total.untilCut(a)
	defer cancel(nil)
	if err := a.cluster.turn.Acquire(ctx, 1); err != nil {
		return notDecoded(ctx)
	}
	if err := turns.Acquire(ctx, n); err != nil {
		a.cluster.turn.Release(1)
		return notDecoded(ctx)
	}
	free := sync.OnceFunc(func() {
		turns.Release(n)
		a.cluster.turn.Release(1)
	})
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

func notDecoded(ctx context.Context) error {
	return fmt.Errorf("it waited for other answers to be decoded: %w", context.Cause(ctx))
}
