package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/transplant-dev/transplant/ccm/election"
)

// Gate decides whether a request that changes something may be sent. The fence that its context carries decides. A
// request whose context carries none comes from a goroutine of the provider that serves several callers. It may be sent
// while any lease of this process is held: a refusal would stop work that this process is responsible for. The zero
// value lets nothing pass that carries no fence.
type Gate struct {
	mu     sync.RWMutex
	fences []*election.Fence
}

// Use sets the fences of the process's leases, in place of those that were set before.
func (g *Gate) Use(fences ...*election.Fence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fences = slices.Clone(fences)
}

// Check returns nil if a request that changes something may be sent now, and an error that wraps election.ErrFenced
// otherwise.
func (g *Gate) Check(ctx context.Context) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return election.Guard(ctx, g.fences...)
}

// Ask is Check for a request of an operation. It notes a refusal for the call that the request is of, see Watch.
func (g *Gate) Ask(ctx context.Context, service, operation string) error {
	refusal := g.Check(ctx)
	if refusal == nil {
		return nil
	}
	err := fmt.Errorf("not sending %s %s: %w", service, operation, refusal)
	Note(ctx, err)
	return err
}

type refusalKey struct{}

// refusals keeps the first refusal of a call.
type refusals struct {
	mu    sync.Mutex
	first error
}

// Note keeps a refusal for the caller that watches this context.
func Note(ctx context.Context, refusal error) {
	if r, ok := ctx.Value(refusalKey{}).(*refusals); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.first == nil {
			r.first = refusal
		}
	}
}

// Watch returns a context for one call of a provider, and a function that corrects the call's error. Many providers
// format errors into text, or only log them. Then errors.Is could not find out that the fence was closed.
func Watch(ctx context.Context) (watched context.Context, correct func(error) error) {
	r := &refusals{}
	return context.WithValue(ctx, refusalKey{}, r), func(err error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.first == nil:
			return err
		case err == nil:
			return r.first
		}
		return refused{refusal: r.first, err: err}
	}
}

// refused is the provider's error, which is known to come from a refusal.
type refused struct{ refusal, err error }

func (r refused) Error() string   { return r.err.Error() }
func (r refused) Unwrap() []error { return []error{r.err, r.refusal} }
