package migrate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// journal is what the cluster has of the run.
func (w *world) journal() *journal.Journal {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func TestAPausedRunWaitsBeforeItsNextStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	third := p.Steps[2].ID
	var told []step.Event
	looks := 0
	w.more = func() { // each look at the world is a while later
		if !slices.ContainsFunc(told, func(e step.Event) bool { return e.Kind == step.EventPaused }) {
			return
		}
		if looks++; looks == 3 {
			if _, err := pause.Resume(context.Background(), journal.InCluster(w.kube), w.journal().Doc().Run); err != nil { //nolint:usetesting // the world has no context
				t.Error(err)
			}
		}
	}
	engine := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			told = append(told, e)
			if e.Kind == step.EventDone || e.Kind == step.EventAlreadyDone {
				if e.Step.ID == p.Steps[1].ID {
					if _, err := pause.Request(t.Context(), journal.InCluster(w.kube), v1.Pause{Run: w.journal().Doc().Run, By: "ops@bastion", At: noon, Reason: "lunch"}); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
	if err := engine.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range told {
		if e.Step.ID == third {
			kinds = append(kinds, string(e.Kind))
		}
		if e.Kind == step.EventPaused && e.Message != "paused by ops@bastion at 12:00:00 UTC: lunch; transplant resume lets it go on" {
			t.Errorf("told: %s", e.Message)
		}
	}
	if len(kinds) < 3 || kinds[0] != "paused" || kinds[1] != "resumed" {
		t.Errorf("the third step: %v", kinds)
	}
	pauses := w.journal().Doc().Pauses
	if len(pauses) != 1 || pauses[0].By != "ops@bastion" || pauses[0].Before != third || pauses[0].To == nil ||
		pauses[0].To.Sub(pauses[0].From) < pause.PauseInterval {
		t.Errorf("written down: %+v", pauses)
	}
}

func TestAPausedRunIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, j := w.begin()
	if _, err := pause.Request(t.Context(), journal.InCluster(w.kube), v1.Pause{Run: j.Doc().Run, By: "ops@bastion", At: noon}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventPaused {
				close(stop)
			}
		}
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, step.ErrInterrupted) {
		t.Errorf("stopped while paused: %v", err)
	}
	if doc := w.journal().Doc(); len(doc.Records) != 0 || len(doc.Pauses) != 1 || doc.Pauses[0].To == nil {
		t.Errorf("written down: %d steps, %+v", len(doc.Records), doc.Pauses)
	}
}

// fails is what a manager shows that has failed so often.
func fails(at time.Time, errors float64) objectives.Reading {
	return objectives.Reading{At: at, Manager: "cloud-controller-manager@cp-1", Series: []v1.Series{{Name: objectives.SeriesErrors, Sum: errors}}}
}

// An operator who has seen it goes on: what was counted until then does not pause the run once more, and what comes after it does.
func TestARunWhoseManagersBreachTheirObjectivesIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	watch := objectives.NewWatch(w.clock.Now())
	watch.Add(fails(w.clock.Now(), 7))
	counted, done, paused := 7.0, 0, []string{}
	w.more = func() {
		if len(paused) == 0 {
			return
		}
		if _, err := pause.Resume(context.Background(), journal.InCluster(w.kube), w.journal().Doc().Run); err != nil { //nolint:usetesting // the world has no context
			t.Error(err)
		}
	}
	if err := w.engine(func(o *step.Options) {
		o.Objectives = watch
		o.Tell = func(e step.Event) {
			switch e.Kind {
			case step.EventDone, step.EventAlreadyDone:
				if done++; done == 2 || done == 5 {
					counted += 2
				}
				watch.Add(fails(w.clock.Now(), counted))
			case step.EventPaused:
				paused = append(paused, e.Message)
			default:
			}
		}
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if len(paused) != 2 || !strings.HasPrefix(paused[0], "paused by the run itself at 12:") ||
		!strings.Contains(paused[0], ": nodesync_error_total grew by up to 2 in 15 minutes (cloud-controller-manager@cp-1), and less than 1 is the objective;") ||
		!strings.Contains(paused[0], "--slo=off") || !strings.HasSuffix(paused[0], "; transplant resume lets it go on") {
		t.Errorf("paused: %q", paused)
	}
	pauses := w.journal().Doc().Pauses
	if len(pauses) != 2 || pauses[0].Before != p.Steps[2].ID || pauses[1].Before != p.Steps[5].ID {
		t.Errorf("written down: %+v", pauses)
	}
}

func TestARunThatCannotBePausedStopsWhereObjectivesAreBreached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, pause.ControlName) && forbid(rw)
	}
	watch := objectives.NewWatch(w.clock.Now())
	watch.Add(fails(w.clock.Now(), 0))
	watch.Add(fails(w.clock.Now(), 2))
	err := w.engine(func(o *step.Options) { o.Objectives = watch }).Run(t.Context(), p, nil)
	if err == nil || !strings.Contains(err.Error(), "the managers do not keep their objectives: nodesync_error_total grew by up to 2 in 15 minutes") ||
		!strings.Contains(err.Error(), "--slo=off") {
		t.Errorf("the run ends with: %v", err)
	}
	if doc := w.journal().Doc(); len(doc.Records) != 0 {
		t.Errorf("%d steps were begun", len(doc.Records))
	}
}

func forbid(rw http.ResponseWriter) bool {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusForbidden)
	_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not for you","code":403}`))
	return true
}

func TestARunThatMayNotReadWhetherItIsPausedGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, pause.ControlName) && forbid(rw)
	}
	var said []string
	if err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if strings.Contains(e.Message, "cannot be paused") {
				said = append(said, e.Message)
			}
		}
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 {
		t.Errorf("said %d times: %v", len(said), said)
	}
}
