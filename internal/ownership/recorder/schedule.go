package recorder

import (
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// scrapeScheduler decides how often each manager is scraped: fast while it may be about to become an owner, slowly
// otherwise.
//
//	lease changed hands, or an owner ended --> candidates for that lease are boosted
//	one of them leads it and runs loops    --> they cool down, as they do after a while anyway
type scrapeScheduler struct {
	hotFor time.Duration

	mu      sync.Mutex
	targets map[Target]*targetState
}

// targetState is what is known of one target.
type targetState struct {
	leads  []string
	failed bool // it did not answer last
	absent bool // it has no process
	boosts map[string]boost
	wake   chan struct{}
}

// boost is why a target is scraped fast.
type boost struct {
	until time.Time
	// led reports whether it led the lease before: that it still says so is no news.
	led bool
}

func newScrapeScheduler(hotFor time.Duration) *scrapeScheduler {
	return &scrapeScheduler{hotFor: hotFor, targets: map[Target]*targetState{}}
}

func (h *scrapeScheduler) add(t Target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.targets[t] = &targetState{failed: true, boosts: map[string]boost{}, wake: make(chan struct{}, 1)}
}

func (h *scrapeScheduler) remove(t Target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.targets, t)
}

// wake is signalled when the target is boosted or its process appears.
func (h *scrapeScheduler) wake(t Target) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.targets[t]; w != nil {
		return w.wake
	}
	return nil
}

func (w *targetState) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// leaseChanged boosts those that may lead the lease next.
func (h *scrapeScheduler) leaseChanged(lease string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warm(lease, now)
}

// processEnded forgets what the ended manager led, and boosts those that may lead it next.
func (h *scrapeScheduler) processEnded(o ownership.Owner, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, w := range h.targets {
		if t.owner() != o {
			continue
		}
		leads := w.leads
		w.leads, w.failed = nil, true
		for _, lease := range leads {
			h.warm(lease, now)
		}
	}
}

func (h *scrapeScheduler) warm(lease string, now time.Time) {
	for _, t := range h.candidates(lease) {
		w := h.targets[t]
		w.boosts[lease] = boost{until: now.Add(h.hotFor), led: slices.Contains(w.leads, lease)}
		w.signal()
	}
}

// candidates for a component's own lease are its instances. Another lease, the migration lease, is contended by those
// who lead their own one, and perhaps by those that did not answer.
func (h *scrapeScheduler) candidates(lease string) []Target {
	var own, others []Target
	for t, w := range h.targets {
		switch {
		case w.absent:
		case t.Component == lease:
			own = append(own, t)
		case w.failed || slices.Contains(w.leads, t.Component):
			others = append(others, t)
		}
	}
	if len(own) > 0 {
		return own
	}
	return others
}

// recordAnswer records an answer, and cools the candidates for a lease whose new leader has begun its loops.
func (h *scrapeScheduler) recordAnswer(t Target, m v1.Manager) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.targets[t]
	if w == nil {
		return
	}
	w.leads, w.failed = m.Leads, false
	for lease, reason := range w.boosts {
		if reason.led || !slices.Contains(m.Leads, lease) || !loopsRun(lease, t.Component, m.Loops) {
			continue
		}
		for _, other := range h.targets {
			delete(other.boosts, lease)
		}
	}
}

// loopsRun reports whether the loops that a lease governs run.
func loopsRun(lease, component string, loops []string) bool {
	if lease == component {
		return len(loops) > 0
	}
	return slices.ContainsFunc(loops, func(l string) bool { return slices.Contains(ownership.CoreLoops(), l) })
}

func (h *scrapeScheduler) recordFailure(t Target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.targets[t]; w != nil {
		w.failed = true
	}
}

// processes records whether the manager has a process at all.
func (h *scrapeScheduler) processes(o ownership.Owner, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, w := range h.targets {
		if t.owner() != o {
			continue
		}
		if w.absent && some {
			w.signal()
		}
		w.absent = !some
	}
}

// isAbsent reports whether the manager has no process: there is no process to ask.
func (h *scrapeScheduler) isAbsent(t Target) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.targets[t]
	return w != nil && w.absent
}

// isHot reports whether the target is to be scraped fast.
func (h *scrapeScheduler) isHot(t Target, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.targets[t]
	if w == nil {
		return false
	}
	is := false
	for lease, reason := range w.boosts {
		if now.Before(reason.until) {
			is = true
		} else {
			delete(w.boosts, lease)
		}
	}
	return is
}

// mayEnd reports whether the end of the manager's process may be the end of an owner: it leads a lease, or does not
// answer.
func (h *scrapeScheduler) mayEnd(o ownership.Owner) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, w := range h.targets {
		if t.owner() == o {
			return !w.absent && (w.failed || len(w.leads) > 0)
		}
	}
	return true
}
