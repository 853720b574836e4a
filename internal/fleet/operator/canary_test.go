package operator

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// logged keeps what a log says.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) write(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(args + "\n")
}

func TestConditionsEventsAndLogsShowNoSecretOfAnError(t *testing.T) {
	secrets, planted := canary.PlantError()
	for name, behave := range map[string]func(c *userCluster){
		"a run that fails": func(c *userCluster) {
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error { return planted }
		},
		"a run that fails while the API server is down": func(c *userCluster) {
			c.journal.Handover, c.down = state.Begun, planted
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error { return planted }
		},
		"a run that waits": func(c *userCluster) {
			c.run = func(ctx context.Context, tell func(step.Event), _ <-chan struct{}) error {
				tell(step.Event{Step: v1.Step{Title: "a step"}, Kind: step.EventStarted, Number: 1, Total: 2})
				tell(step.Event{Step: v1.Step{Title: "a step"}, Kind: step.EventWaiting, Message: planted.Error()})
				tell(step.Event{Step: v1.Step{Title: planted.Error()}, Kind: step.EventStarted, Number: 2, Total: 2})
				<-ctx.Done()
				return ctx.Err()
			}
		},
		"parts and machines": func(c *userCluster) {
			c.parts = &PartsSeen{Did: []string{planted.Error()}, Parts: state.Parts{CSI: planted.Error(), Waiting: []string{planted.Error()}}}
			c.machines = &state.Machines{Total: 1, Reasons: []string{planted.Error()}, Regression: planted.Error()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			bubble(t, func(o *Options) { o.Log = mask.Logger(funcr.New(log.write, funcr.Options{Verbosity: 9})) }, func(w *world) {
				w.change("a", behave)
				w.cluster("a", enabled)
				<-time.After(10 * time.Minute)
				synctest.Wait()
				status, err := json.Marshal(w.read("a").Status)
				if err != nil {
					t.Fatal(err)
				}
				events := ""
				for range len(w.recorder.Events) {
					events += <-w.recorder.Events + "\n"
				}
				log.mu.Lock()
				defer log.mu.Unlock()
				for where, text := range map[string]string{"the status": string(status), "an event": events, "the log": log.text.String()} {
					if found := secrets.In(text); len(found) > 0 {
						t.Errorf("%s shows the secret of %q", where, found)
					}
				}
				if !strings.Contains(string(status)+events, "(masked)") {
					t.Errorf("nothing is said to be masked, so that nothing is proven: %s", status)
				}
			})
		})
	}
}
