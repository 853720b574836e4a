package operator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// A journal, an object or an answer of one cluster holds what nobody has thought of.
func TestARunThatPanicsEndsNoOtherCluster(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("bad", func(c *userCluster) {
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error { panic("index out of range [7]") }
		})
		w.cluster("bad", enabled)
		w.cluster("good", enabled)
		w.until("good", kubermaticv1.PhaseCompleted, time.Minute)
		w.until("bad", kubermaticv1.PhaseFailed, 10*time.Minute)
		message := w.read("bad").Status.Conditions[kubermaticv1.ConditionMigration].Message
		if !strings.Contains(message, "panic: index out of range [7]") {
			t.Errorf("the condition says %q", message)
		}
		tries := len(w.began()) - 2 // handover and finish of the good one
		if tries < 2 || tries > 5 {
			t.Errorf("it was tried %d times", tries)
		}
		if got := testutil.ToFloat64(w.Metrics.panics.WithLabelValues("run")); int(got) != tries {
			t.Errorf("%v panics are counted of %d", got, tries)
		}
		if !w.told("Warning "+state.ReasonPanicked, "index out of range") {
			t.Error("no event tells of it")
		}
	})
}

func TestALookThatPanicsIsALookThatFailed(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("bad", func(c *userCluster) { c.panics = true })
		w.cluster("bad", enabled)
		w.cluster("good", enabled)
		w.until("good", kubermaticv1.PhaseCompleted, time.Minute)
		w.until("bad", kubermaticv1.PhaseComponents, time.Minute)
		<-time.After(time.Hour)
		looks := testutil.ToFloat64(w.Metrics.panics.WithLabelValues("owners"))
		if looks == 0 || looks > 60 {
			t.Errorf("in an hour it was looked at %v times", looks)
		}
		if c := w.read("bad").Status.Conditions[kubermaticv1.ConditionCCMReady]; !strings.Contains(c.Message, "panic: a look") {
			t.Errorf("the condition says %+v", c)
		}
		w.change("bad", func(c *userCluster) { c.panics = false })
		w.until("bad", kubermaticv1.PhaseCompleted, 20*time.Minute)
	})
}

// A decision is made of the Cluster itself.
func TestADecisionThatPanicsIsTriedAgain(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.user.refuses = func(name string) {
			if name == "bad" {
				panic("a rule")
			}
		}
		w.cluster("bad", enabled)
		w.cluster("good", enabled)
		w.until("good", kubermaticv1.PhaseCompleted, time.Minute)
		if testutil.ToFloat64(w.Metrics.panics.WithLabelValues("decision")) == 0 {
			t.Error("no panic is counted")
		}
		w.user.mu.Lock()
		w.user.refuses = nil
		w.user.mu.Unlock()
		w.until("bad", kubermaticv1.PhaseCompleted, 10*time.Minute)
	})
}

// told reports whether an event begins with one text and contains another; events before it are discarded.
func (w *world) told(begin, contains string) bool {
	for len(w.recorder.Events) > 0 {
		if e := <-w.recorder.Events; strings.HasPrefix(e, begin) && strings.Contains(e, contains) {
			return true
		}
	}
	return false
}
