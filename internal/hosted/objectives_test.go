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
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatalf("with --slo=off: %v", describe(err))
	}
	w.fair()
	w.owns(component.CCM)
	if words := p.Objectives.Words(); !strings.Contains(words, "breached: nodesync_error_total") {
		t.Errorf("with --slo=off it is counted all the same, and the words are %q", words)
	}
}

// A pause that was asked for in the downtime, before the process ended, is one behind it for the next process, too.
func TestARunThatGoesOnInADowntimeWaitsBehindIt(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.plane()
	stopsAt := func(is func(step.Event) bool) (id string) {
		t.Helper()
		stop := make(chan struct{})
		err := p.Run(t.Context(), Handover, func(e step.Event) {
			if id == "" && is(e) {
				id = e.Step.ID
				close(stop)
			}
		}, stop)
		if !errors.Is(err, ErrInterrupted) {
			t.Fatalf("the run ends with %v", err)
		}
		return id
	}
	stopsAt(func(e step.Event) bool { return e.Kind == step.EventDone && strings.HasPrefix(e.Step.ID, "loops-off/") })
	j, err := p.Location(Handover).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pause.Request(t.Context(), p.Location(Handover), v1.Pause{Run: j.Doc().Run, By: "alice", At: w.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	if id := stopsAt(func(e step.Event) bool { return e.Kind == step.EventPaused }); !strings.HasPrefix(id, "verify/handed-over") {
		t.Errorf("it waits before %s", id)
	}
	w.fair()
	w.owns(component.CCM)
}

// What a run has asked for itself is for the way there.
func TestTheWayBackDoesNotWaitForWhatWasCountedOnTheWayThere(t *testing.T) {
	w := newWorld(t, 1, false)
	w.run(Handover)
	p := w.plane()
	p.Objectives = objectives.NewWatch(w.clock.Now())
	j, err := p.Location(Handover).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := v1.Pause{Run: j.Doc().Run, By: "the run itself", At: w.clock.Now(), Reason: "nodesync_error_total grew"}
	if _, err := pause.Request(t.Context(), p.Location(Handover), asked); err != nil {
		t.Fatal(err)
	}
	err = p.Rollback(t.Context(), func(e step.Event) {
		if e.Kind == step.EventPaused {
			t.Errorf("it waits before %s: %s", e.Step.ID, e.Message)
			_, _ = pause.Resume(t.Context(), p.Location(Handover), asked.Run)
		}
	}, nil)
	if err != nil {
		t.Fatal(describe(err))
	}
	w.fair()
	w.owns(component.KCM)
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

// balanced adds a Service, and what its manager has said of it since a while ago: that it fails, or nothing.
func (w *world) balanced(name string, since time.Duration, failing bool) {
	w.user.Put(w.t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	})
	if !failing {
		return
	}
	now := w.clock.Now()
	w.user.Put(w.t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: name},
		Reason:         "SyncLoadBalancerFailed", Message: "403 UnauthorizedOperation", Type: corev1.EventTypeWarning, Count: 3,
		FirstTimestamp: metav1.NewTime(now.Add(-since)), LastTimestamp: metav1.NewTime(now),
	})
}

const refused = "the load balancers of 1 Service cannot be kept, first that of shop/web: SyncLoadBalancerFailed: 403 UnauthorizedOperation"

// breached fails the test unless a run ends because of the Service web.
func (w *world) breached(err error) {
	w.t.Helper()
	if breach, is := errors.AsType[*BreachError](err); !is || !strings.HasPrefix(breach.Error(), refused) {
		w.t.Fatalf("the run ends with %v, want %q", err, refused)
	}
}

// After the finish nothing takes the loops back, so a manager that has not kept load balancers since the handover is found before it is begun. One that failed
// before the handover fails in no other way, though its old events have expired, and one that was made later has nothing to do with it.
func TestTheFinishIsNotBegunWhileServicesFailSinceTheHandover(t *testing.T) {
	w := newWorld(t, 1, false)
	w.balanced("old", time.Hour, true)
	w.balanced("web", 0, false)
	w.run(Handover)
	w.clock.Step(6 * time.Hour) // machines were restarted meanwhile
	w.balanced("old", 10*time.Minute, true)
	w.balanced("new", 10*time.Minute, true)

	judged := func() *Plane {
		p := w.plane()
		p.Objectives = objectives.NewWatch(w.clock.Now())
		return p
	}
	p := judged()
	w.balanced("web", 10*time.Minute, true)
	w.breached(p.Run(t.Context(), Finish, nil, nil))
	if phase, err := p.phase(t.Context(), Finish); phase != "" || err != nil {
		t.Errorf("the finish has the phase %q (error %v): there is no way back any longer", phase, err)
	}
	w.user.Delete("/api/v1/namespaces/shop/events/web.1")
	if err := judged().Run(t.Context(), Finish, nil, nil); err != nil {
		t.Fatalf("once it is kept: %v", describe(err))
	}
	w.fair()
	w.owns(component.CCM)
}

// A person who knows why, and a handover that was made by hand, are not held up.
func TestTheFinishOfOneWhoKnowsIsBegun(t *testing.T) {
	for name, change := range map[string]func(*world, *Plane){
		"the objectives are ignored": func(_ *world, p *Plane) { p.IgnoreObjectives = true },
		"there is no journal of the handover": func(w *world, p *Plane) {
			if err := p.forget(w.t.Context(), Handover); err != nil {
				w.t.Fatal(err)
			}
			maps := w.s.Kube.CoreV1().ConfigMaps(ns)
			list, err := maps.List(w.t.Context(), metav1.ListOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
			for _, cm := range list.Items {
				if strings.HasPrefix(cm.Name, "transplant") {
					w.seed.Delete("/api/v1/namespaces/" + ns + "/configmaps/" + cm.Name)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			w.balanced("web", 0, false)
			w.run(Handover)
			w.balanced("web", time.Minute, true)
			p := w.plane()
			p.Objectives = objectives.NewWatch(w.clock.Now())
			change(w, p)
			if err := p.Run(t.Context(), Finish, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
		})
	}
}

// Machines are replaced after a handover, and no load balancer would follow them.
func TestAHandoverEndsWhenItsManagerKeepsLoadBalancers(t *testing.T) {
	w := newWorld(t, 1, false)
	w.balanced("web", 0, false)
	for range 2 { // the second run goes on with the first one's journal
		p := w.plane()
		p.Objectives = objectives.NewWatch(w.clock.Now())
		p.Hook = func(point, id string) {
			if point == "after" && strings.HasPrefix(id, "start/"+component.CCM) {
				w.balanced("web", time.Second, true)
			}
		}
		w.breached(p.Run(t.Context(), Handover, nil, nil))
		w.fair()
		w.owns(component.CCM)
	}
	w.user.Delete("/api/v1/namespaces/shop/events/web.1")
	p := w.plane()
	p.Objectives = objectives.NewWatch(w.clock.Now())
	said := ""
	if err := p.Run(t.Context(), Handover, func(e step.Event) { said = e.Message }, nil); err != nil {
		t.Fatal(describe(err))
	}
	if !strings.Contains(said, "for 10s it is watched whether the load balancers are kept") {
		t.Errorf("the last word is %q", said)
	}
	w.run(Finish)
}
