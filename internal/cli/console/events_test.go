package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// A program that reads the lines need not take a sentence apart to know who made a plan stale.
func TestTheLastLineHasWhatMakesAPlanStale(t *testing.T) {
	t.Parallel()
	changed := v1.ChangedFact{
		Fact: "node:worker-1:providerID", Message: "node worker-1 has another provider id", Object: "Node/worker-1",
		ChangedBy: "kubectl-edit", ChangedAt: ptr.To(time.Date(2026, 11, 30, 12, 3, 0, 0, time.UTC)),
	}
	stale := fmt.Errorf("%w\nnothing was changed", &step.StaleError{Changed: []v1.ChangedFact{changed}})
	last := func(code int, err error) v1.RunEvent {
		var out bytes.Buffer
		c := New(Streams{})
		c.events = &eventStream{w: &out}
		c.Finish(code, err)
		var e v1.RunEvent
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	if diff := cmp.Diff([]v1.ChangedFact{changed}, last(exitcode.Stale, stale).Changed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if e := last(exitcode.Error, fmt.Errorf("something else")); e.Changed != nil {
		t.Errorf("%+v", e.Changed)
	}
}

// A program that makes hosts where a plan waits for them has to know that it waits.
func TestALineSaysThatAStepWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event step.Event
		want  v1.RunEvent
	}{
		"for people":         {step.Event{Kind: step.EventProgress, Message: step.WaitingPrefix + "node a is still there"}, v1.RunEvent{Waiting: true, Message: "node a is still there"}},
		"for a component":    {step.Event{Kind: step.EventWaiting, Message: "the pod"}, v1.RunEvent{Waiting: true, Message: "the pod"}},
		"it says what to do": {step.Event{Kind: step.EventProgress, Message: "take node a down"}, v1.RunEvent{Message: "take node a down"}},
	} {
		var out bytes.Buffer
		s := &eventStream{w: &out}
		s.step(c.event)
		var e v1.RunEvent
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != v1.EventStepProgress || e.Waiting != c.want.Waiting || e.Message != c.want.Message {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
