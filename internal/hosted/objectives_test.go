package hosted

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// failing counts another failed synchronisation of nodes at each look at a pod of a component.
func (w *world) failing(p *Plane, of string) {
	failures := 0.0
	p.Scrape = func(ctx context.Context, component, pod, address string) (v1.Manager, error) {
		m, err := w.scrape(ctx, component, pod, address)
		if component == of && err == nil {
			w.mu.Lock()
			failures += 2
			m.Series = []v1.Series{{Name: objectives.SeriesErrors, Sum: failures}}
			w.mu.Unlock()
		}
		return m, err
	}
}

// A provider that fails is not given further loops: the run waits for a person, and says why.
func TestARunInASeedIsPausedWhereManagersBreachTheirObjectives(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.plane()
	w.failing(p, component.KCM)
	p.Objectives = objectives.NewWatch(w.clock.Now())
	for range 2 { // the reader next to the run looks by the real clock, and this run takes no time
		w.clock.Step(time.Minute)
		readCounts(t.Context(), p)
	}
	stop := make(chan struct{})
	said := ""
	err := p.Run(t.Context(), Handover, func(e step.Event) {
		if e.Kind == step.EventPaused {
			said = e.Message
			close(stop)
		}
	}, stop)
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("the run ended with %v", err)
	}
	for _, want := range []string{"paused by the run itself", "nodesync_error_total grew", component.KCM + "@", "--slo=off"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	j, err := p.Location(Handover).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if doc := j.Doc(); len(doc.Records) > 0 || len(doc.Pauses) == 0 {
		t.Errorf("%d steps were begun, with %d pauses", len(doc.Records), len(doc.Pauses))
	}

	p.IgnoreObjectives = true
	control := p.Location(Handover).Name(pause.ControlName)
	if err := w.s.Kube.CoreV1().ConfigMaps(ns).Delete(t.Context(), control, metav1.DeleteOptions{}); err != nil { // nobody asks for a pause any longer
		t.Fatal(err)
	}
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatalf("with --slo=off: %v", describe(err))
	}
	w.fair()
	w.owns(component.CCM)
	if words := p.Objectives.Words(); !strings.Contains(words, "breached: nodesync_error_total") {
		t.Errorf("with --slo=off it is counted all the same, and the words are %q", words)
	}
}

// A manager that does not answer has counted nothing that would be known.
func TestWhatManagersInASeedHaveCountedIsRead(t *testing.T) {
	w := newWorld(t, 2, false)
	w.catchUp()
	p := w.plane()
	w.failing(p, component.KCM)
	p.Objectives = objectives.NewWatch(w.clock.Now())
	w.deaf = func(string) bool { return true }
	readCounts(t.Context(), p)
	if words := p.Objectives.Words(); words != "" {
		t.Errorf("of managers that do not answer it says %q", words)
	}
	w.deaf = nil
	readCounts(t.Context(), p)
	if words := p.Objectives.Words(); words != "kept so far" {
		t.Errorf("after one look it says %q", words)
	}
}
