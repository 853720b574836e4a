package main

import (
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// heartbeat is how long nothing is said of a step that waits for the same thing.
const heartbeat = 30 * time.Second

// teller prints what happens during a run, and publishes it for onlookers elsewhere.
func (c *connection) teller(run string) func(step.Event) {
	if c.publish != nil {
		c.progress = lock.NewProgress(run, c.publish)
	}
	h := heart{said: map[string]time.Time{}}
	return func(e step.Event) {
		if c.progress != nil {
			c.progress.Saw(e)
		}
		if h.worth(e) {
			c.tell(e)
		}
	}
}

// heart decides what of the steps that wait is worth a line.
type heart struct {
	mu   sync.Mutex
	said map[string]time.Time // of a step, when the last line was printed
}

func (h *heart) worth(e step.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == "waiting" && e.Time.Sub(h.said[e.Step.ID]) < heartbeat {
		return false
	}
	h.said[e.Step.ID] = e.Time
	return true
}

// tell prints what happens to a step, a line each.
func (c *connection) tell(e step.Event) {
	at, l := e.Time.Format("15:04:05"), layout{ascii: c.ascii}
	switch e.Kind {
	case "started":
		c.narrate("%s [%2d/%d] %s", at, e.Number, e.Total, e.Step.Title)
	case "progress", "paused", "resumed":
		c.narrate("%s         %s", at, e.Message)
	case "waiting":
		c.narrate("%s         still waiting: %s", at, e.Message)
	case "done":
		c.narrate("%s       %s %s", at, l.mark(v1.Pass), e.Step.ID)
	case "already-done":
		c.narrate("%s [%2d/%d] %s %s (was so already)", at, e.Number, e.Total, l.mark(v1.Pass), e.Step.ID)
	case "skipped":
		c.narrate("%s [%2d/%d] %s %s is skipped: %s", at, e.Number, e.Total, l.mark(v1.Skip), e.Step.ID, e.Message)
	case "deferred":
		c.narrate("%s       %s %s waits: %s", at, l.mark(v1.Skip), e.Step.Group, e.Message)
	case "failed":
		c.narrate("%s       %s %s: %s", at, l.mark(v1.Fail), e.Step.ID, e.Message)
	}
}
