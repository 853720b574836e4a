package ccm

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transplant-dev/transplant/ccm/election"
)

// closed reports whether a channel is closed now.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestALeaseWaitsForItsWorkers(t *testing.T) {
	w := &workers{}
	ctx := withWorkers(t.Context(), w)
	first, second := make(chan struct{}), make(chan struct{})
	Go(ctx, func(context.Context) { <-first })
	Go(ctx, func(context.Context) { <-second })
	drained := w.drained()
	close(first)
	if closed(drained) {
		t.Fatal("the workers count as drained while one runs")
	}
	close(second)
	<-drained
	if !closed(w.drained()) {
		t.Error("asked again, the workers are not drained")
	}
}

func TestNothingBeginsUnderALeaseThatIsReleased(t *testing.T) {
	w := &workers{}
	if !closed(w.drained()) {
		t.Fatal("a lease without workers has to be waited for")
	}
	Go(withWorkers(t.Context(), w), func(context.Context) { t.Error("it ran") })
	if w.addWorker() {
		t.Error("a worker began")
	}
}

func TestAWorkerMayStartAnotherWhileItIsWaitedFor(t *testing.T) {
	w := &workers{}
	ctx := withWorkers(t.Context(), w)
	asked, ended := make(chan struct{}), make(chan struct{})
	Go(ctx, func(ctx context.Context) {
		<-asked
		Go(ctx, func(context.Context) { <-ended })
	})
	drained := w.drained()
	close(asked)
	if closed(drained) {
		t.Fatal("the workers count as drained while one runs")
	}
	close(ended)
	<-drained
}

func TestWithoutALeaseItIsAPlainGoroutine(t *testing.T) {
	ran := make(chan context.Context)
	Go(t.Context(), func(ctx context.Context) { ran <- ctx })
	if ctx := <-ran; ctx != t.Context() {
		t.Error("the work got another context")
	}
}

func TestAWorkerThatNeverEndsIsNotWaitedForOnceTheProcessHasEnded(t *testing.T) {
	p := &process{ended: make(chan struct{}), start: newProviderStart()}
	g := &group{}
	p.groups = []*group{g}
	g.workers.addWorker() // and never ends
	drained := p.drained(g)
	close(p.ended)
	receive(t, drained)
	if closed(p.start.stop) {
		t.Error("the provider is told to end while a worker runs")
	}
}

func TestALeaseWaitsForCallsThatItsWorkersGaveUpAndTheProviderForThoseOfAllLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{ended: make(chan struct{}), start: newProviderStart()}
		first, second := &group{fence: election.Unfenced(time.Now())}, &group{fence: election.Unfenced(time.Now())}
		p.groups = []*group{first, second}
		returned := first.fence.NoteAbandoned()
		drained, other := p.drained(first), p.drained(second)
		synctest.Wait()
		if closed(drained) || !closed(other) {
			t.Errorf("drained: %v for the lease of the call, %v for the other", closed(drained), closed(other))
		}
		if closed(p.start.stop) {
			t.Error("the provider is told to end while a call runs")
		}
		returned()
		synctest.Wait()
		if !closed(drained) || !closed(p.start.stop) {
			t.Errorf("when the call has returned, drained: %v, the provider is told to end: %v", closed(drained), closed(p.start.stop))
		}
	})
}

func TestACallThatNeverReturnsIsNotWaitedForOnceTheProcessHasEnded(t *testing.T) {
	p := &process{ended: make(chan struct{}), start: newProviderStart()}
	g := &group{fence: election.Unfenced(time.Now())}
	p.groups = []*group{g}
	g.fence.NoteAbandoned() // and never returns
	drained := p.drained(g)
	close(p.ended)
	receive(t, drained)
}
