package hosted

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// shown is the plan that a person looks at: nobody has made the account yet by which managers are asked.
func (w *world) shown() []v1.Step {
	w.t.Helper()
	p := w.plane()
	p.Scrape = func(ctx context.Context, name, pod, address string) (v1.Manager, error) {
		_, err := w.u.Kube.CoreV1().ServiceAccounts(component.Namespace).Get(ctx, layout.Observer, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return v1.Manager{}, ErrNoObserver
		}
		return w.scrape(ctx, name, pod, address)
	}
	made, err := p.Plan(p.Gather(w.t.Context()), Handover)
	if err != nil {
		w.t.Fatal(describe(err))
	}
	return made.Steps
}

// TestManagersThatAreAskedLaterAreWarnedOf, by the reason of the error and not by its words.
func TestManagersThatAreAskedLaterAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want v1.Outcome
	}{
		"an account that the migration makes": {ErrNoObserver, v1.Warn},
		"other words of it, of a server":      {errors.New("dialing: the address is not there yet"), v1.Unknown},
	} {
		w := newWorld(t, 1, false)
		p := w.plane()
		p.Scrape = func(context.Context, string, string, string) (v1.Manager, error) { return v1.Manager{}, c.err }
		found := v1.Outcome("")
		for _, f := range p.CheckPart(p.Gather(t.Context()), Handover).Findings {
			if f.Code == "HCP-005" {
				found = f.Outcome
			}
		}
		if found != c.want {
			t.Errorf("%s: %s, want %s", name, found, c.want)
		}
	}
}

func TestAPlanIsCarriedOutAsItWasConfirmed(t *testing.T) {
	for _, replicas := range []int32{1, 2} {
		w := newWorld(t, replicas, false)
		p := w.plane()
		p.Confirmed = Confirmation(w.shown())
		if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
			t.Fatalf("with %d replicas: %s", replicas, describe(err))
		}
		w.owns(component.CCM)
	}
}

func TestAnotherPlanThanTheConfirmedOneIsNotBegun(t *testing.T) {
	w := newWorld(t, 1, false)
	confirmation := Confirmation(w.shown())
	d, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(d.Spec.Template.Spec.Containers[0].Args, "*,bootstrapsigner,tokencleaner")
	d.Spec.Template.Spec.Containers[0].Args[at] = "*,-ttl"
	if _, err := w.s.Kube.AppsV1().Deployments(ns).Update(t.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		w.clock.Step(10 * time.Second)
		w.catchUp()
	}
	p := w.plane()
	p.Confirmed = confirmation
	err = p.Run(t.Context(), Handover, nil, nil)
	var other *UnconfirmedError
	if !errors.As(err, &other) || !slices.ContainsFunc(other.Other, func(id string) bool { return strings.HasPrefix(id, "loops-off/") }) {
		t.Fatalf("it ends with %v", err)
	}
	if len(other.New)+len(other.Gone) > 0 || !strings.Contains(err.Error(), "changed ") {
		t.Errorf("it says %v", err)
	}
	if _, err := w.s.Kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "transplant-journal", metav1.GetOptions{}); err == nil {
		t.Error("a journal was begun")
	}
	w.owns(component.KCM)

	p.Confirmed = Confirmation(w.shown()) // confirmed again
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	w.owns(component.CCM)
}

func TestWhatWasBegunGoesOnWhateverIsConfirmed(t *testing.T) {
	w := newWorld(t, 1, false)
	if !killed(w, "during", "start/"+component.CCM, func(ctx context.Context, p *Plane) error { return p.Run(ctx, Handover, nil, nil) }) {
		t.Fatal("the step was not reached")
	}
	p := w.plane()
	p.Confirmed = "of something else"
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	w.owns(component.CCM)
}

func TestStepsAreComparedByWhatTheyDo(t *testing.T) {
	steps := []v1.Step{{ID: "a", Title: "does a", EstimateSeconds: 1}, {ID: "b", Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "x", Value: "1"}}}}
	confirmation := Confirmation(steps)
	words := slices.Clone(steps)
	words[0].Title, words[0].Why, words[0].EstimateSeconds = "does a as before", "because", 2
	if err := confirmed(confirmation, words); err != nil {
		t.Errorf("other words are %v", err)
	}
	if err := confirmed("", steps); err != nil {
		t.Errorf("nothing confirmed is %v", err)
	}
	for want, other := range map[string][]v1.Step{
		"changed b":                         {steps[0], {ID: "b", Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "x", Value: "2"}}}},
		"gone b":                            {steps[0]},
		"new c":                             {steps[0], steps[1], {ID: "c"}},
		"is not the one that was confirmed": {steps[1], steps[0]},
	} {
		if err := confirmed(confirmation, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, have %v", want, err)
		}
	}
	if err := confirmed(Sum(steps), steps[:1]); err == nil {
		t.Error("the sum alone decides nothing")
	}
}
