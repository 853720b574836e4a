package migrate

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// A host that was booted again: its managers run, and ask without success at the API server next to them whether they know who asks.
func TestAManagerThatDoesNotAnswerYetIsWaitedForBeforeItsAPIServerIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	deaf := func(is bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deaf[component.KCM+"@cp-1"] = is
	}
	waited := ""
	if step, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "before" && id == "external/"+component.KAS+"@cp-1" {
				deaf(true)
			}
		}
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventWaiting && e.Step.ID == "external/"+component.KAS+"@cp-1" {
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

// A host that was booted again, once more: what an earlier run has done is there, and does not run yet. Nothing is handed over or restarted for it.
func TestAStepThatWasDoneIsWaitedForAndNotDoneAgainWhileItsHostBoots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	const planned = "external/" + component.KAS + "@cp-1"
	part := *p
	for i, s := range p.Steps {
		if s.ID == "external/kubelet@cp-1" {
			part.Until = p.Steps[i-1].ID
		}
	}
	if at, err := w.run(&part); err != nil {
		t.Fatalf("step %s: %v", at, err)
	}
	ready := func(is corev1.ConditionStatus) {
		path := "/api/v1/namespaces/kube-system/pods/" + component.KAS + "-node-cp-1"
		var pod corev1.Pod
		if !w.api.Get(t, path, &pod) {
			t.Fatalf("there is no %s", path)
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
		w.api.Put(t, &pod)
	}
	ready(corev1.ConditionFalse)
	restarts := maps.Clone(w.restarts)
	waited := false
	if at, err := w.run(p, func(o *step.Options) {
		o.Hook = func(_, id string) {
			if id == planned {
				t.Errorf("%s is done again", id)
			}
		}
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventWaiting && e.Step.ID == planned {
				waited = true
				ready(corev1.ConditionTrue)
			}
		}
	}); err != nil {
		t.Fatalf("step %s: %v", at, err)
	}
	if !waited {
		t.Error("nobody was told what was waited for")
	}
	for _, component := range []string{component.KAS, component.KCM} {
		if key := component + "@cp-1"; w.restarts[key] != restarts[key] {
			t.Errorf("%s was restarted", key)
		}
	}
	w.migrated(p)
}
