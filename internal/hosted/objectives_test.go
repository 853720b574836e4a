package hosted

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// After the finish nothing takes the loops back, so a manager that has not kept load balancers since the handover is found before it is begun.
func TestTheFinishIsNotBegunWhileServicesFailSinceTheHandover(t *testing.T) {
	w := newWorld(t, 1, false)
	w.run(Handover)
	moved := w.clock.Now()
	w.clock.Step(6 * time.Hour) // machines were restarted meanwhile
	balanced := func(name string, first time.Time) {
		w.user.Put(t, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name + ".1"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: name},
			Reason:         "SyncLoadBalancerFailed", Message: "403 UnauthorizedOperation", Type: corev1.EventTypeWarning, Count: 70,
			FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(w.clock.Now()),
		})
	}
	balanced("new", moved.Add(time.Hour))
	balanced("web", moved.Add(time.Minute))

	p := w.plane()
	p.Objectives = objectives.NewWatch(w.clock.Now())
	err := p.Run(t.Context(), Finish, nil, nil)
	const want = "the load balancers of 1 Service cannot be kept, first that of shop/web: SyncLoadBalancerFailed: 403 UnauthorizedOperation; " +
		"this began when the cloud-controller-manager took over"
	if unplanned, is := errors.AsType[*UnplannedError](err); !is || !strings.Contains(unplanned.Error(), want) {
		t.Fatalf("the finish ends with %v, want %q", err, want)
	}
	if phase, err := p.phase(t.Context(), Finish); phase != "" || err != nil {
		t.Errorf("the finish has the phase %q (error %v): there is no way back any longer", phase, err)
	}

	p.IgnoreObjectives = true
	if err := p.Run(t.Context(), Finish, nil, nil); err != nil {
		t.Fatalf("with --slo=off: %v", describe(err))
	}
	w.fair()
	w.owns(component.CCM)
}
