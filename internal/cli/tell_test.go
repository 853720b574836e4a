package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

func TestWhatIsToldIsPublishedAndNotRepeated(t *testing.T) {
	var out bytes.Buffer
	var published []string
	c := console.New(console.Streams{Err: &out})
	c.Publish = func(s string) { published = append(published, s) }
	tell := run.Reporter(c.Client, "run-1")
	planned := v1.Step{ID: "a", Title: "do a"}
	for _, e := range []step.Event{
		{Kind: step.EventStarted, Time: client.Now()}, {Kind: step.EventWaiting, Message: "the node", Time: client.Now().Add(time.Second)}, {
			Kind:    step.EventWaiting,
			Message: "the node",
			Time:    client.Now().Add(20 * time.Second),
		},
		{Kind: step.EventWaiting, Message: "the node", Time: client.Now().Add(31 * time.Second)}, {Kind: step.EventPaused, Message: "paused by boss",
			Time: client.Now().Add(32 * time.Second)},
		{Kind: step.EventDone, Time: client.Now().Add(33 * time.Second)},
	} {
		e.Step, e.Number, e.Total = planned, 1, 1
		tell(e)
	}
	if n := strings.Count(out.String(), "still waiting (31s): the node"); n != 1 || !strings.Contains(out.String(), "paused by boss") {
		t.Errorf("told %d times that it waits:\n%s", n, out.String())
	}
	if last := published[len(published)-1]; !strings.Contains(strings.Join(published, "\n"), `"waiting":"the node"`) || last != `{"run":"run-1"}` {
		t.Errorf("published %v", published)
	}
}
