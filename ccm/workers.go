package ccm

import (
	"context"
	"sync"
)

// workers are the goroutines that work under one lease. The lease is released once they have ended.
type workers struct {
	mu      sync.Mutex
	running int
	asked   chan struct{} // closed when nothing runs any more, once that was asked for; nil before
}

// begin counts one more worker, unless those that there were have been waited for.
func (w *workers) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked != nil && w.running == 0 {
		return false
	}
	w.running++
	return true
}

// working reports whether any worker runs.
func (w *workers) working() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running > 0
}

func (w *workers) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.asked != nil {
		close(w.asked)
	}
}

// drained is closed when no worker runs. No worker begins after that.
func (w *workers) drained() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == nil {
		w.asked = make(chan struct{})
		if w.running == 0 {
			close(w.asked)
		}
	}
	return w.asked
}

type workersKey struct{}

func withWorkers(ctx context.Context, w *workers) context.Context {
	return context.WithValue(ctx, workersKey{}, w)
}

// Go runs work in a goroutine that the lease of ctx waits for: when the process is told to end, ctx is cancelled, and the lease is released once
// work has returned, so that a successor does not meet its last calls. An InitFunc that starts its controller with a plain go statement has
// its later writes refused by the fence instead. Without a lease in ctx, as under upstream's app.Run, Go is a plain go statement.
func Go(ctx context.Context, work func(context.Context)) {
	w, ok := ctx.Value(workersKey{}).(*workers)
	if !ok {
		go work(ctx)
		return
	}
	if !w.begin() {
		return // it would begin under a lease that is released
	}
	go func() {
		defer w.end()
		work(ctx)
	}()
}
