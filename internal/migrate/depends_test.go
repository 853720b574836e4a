package migrate

import (
	"testing"
)

// A host that was booted anew: its managers run, and ask in vain at the API server beside them whether they know who asks.
func TestAManagerThatDoesNotAnswerYetIsWaitedForBeforeItsAPIServerIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	deaf := func(is bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deaf[kcm+"@cp-1"] = is
	}
	waited := ""
	if step, err := w.run(p, func(o *Options) {
		o.Hook = func(point, id string) {
			if point == "before" && id == "external/"+kas+"@cp-1" {
				deaf(true)
			}
		}
		o.Tell = func(e Event) {
			if e.Kind == "waiting" && e.Step.ID == "external/"+kas+"@cp-1" {
				waited = e.Message
				deaf(false)
			}
		}
	}); err != nil {
		t.Fatalf("step %s: %v", step, err)
	}
	if waited == "" {
		t.Error("nobody was told what was waited for")
	}
	w.migrated(p)
}
