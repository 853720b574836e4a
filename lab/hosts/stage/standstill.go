package stage

import (
	"context"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	// pulse is how often a Standstills looks at the clock, and longest how late it may be. One that is later did not run:
	// the machine stood still, as a paused virtual machine does, or its disk or its clock did.
	pulse   = 200 * time.Millisecond
	longest = 2 * time.Second
)

// span is a time between two looks.
type span struct{ from, to time.Time }

// Standstills notes when the whole machine stood still. No manager could act then, and whatever is measured on it says
// nothing of the product.
type Standstills struct {
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	last   time.Time
	spans  []span
}

// WatchStandstills begins to look.
func WatchStandstills(ctx context.Context) *Standstills {
	ctx, cancel := context.WithCancel(ctx)
	s := &Standstills{cancel: cancel, done: make(chan struct{}), last: time.Now().Round(0)}
	go func() {
		defer close(s.done)
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.see(time.Now())
			}
		}
	}()
	return s
}

// see notes a look. It goes by the clock on the wall, as the times of gaps do: that of a machine that was paused jumps.
func (s *Standstills) see(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = now.Round(0)
	if now.Sub(s.last) > longest {
		s.spans = append(s.spans, span{s.last, now})
	}
	s.last = now
}

// Stop ends the looking.
func (s *Standstills) Stop() {
	s.cancel()
	<-s.done
}

// During is for how long the machine stood still in a gap.
func (s *Standstills) During(g v1.Gap) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out time.Duration
	for _, each := range s.spans {
		from, to := each.from, each.to
		if from.Before(g.Start) {
			from = g.Start
		}
		if to.After(g.End) {
			to = g.End
		}
		out += max(0, to.Sub(from))
	}
	return out
}
