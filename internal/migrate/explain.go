package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// explain is why a step is not verified yet. Where it starts pods and one of them is not Ready, that says more than
// what does not show because of it.
func (e *Engine) explain(ctx context.Context, s v1.Step, more *step.Explanation, why string) string {
	pods := more.Of(e.env, func(since time.Time) string {
		said := []string{e.explainPods(ctx, s, since), e.nodeFailures(ctx, s, since)}
		return strings.Join(slices.DeleteFunc(said, func(text string) bool { return text == "" }), "; ")
	})
	switch {
	case pods == "":
		return why
	case object.IsWorkload(s.Ref):
		return why + "; " + pods // which counts the pods
	}
	return pods
}

// explainPods says why a pod that the step starts is not Ready: a static pod, or one of a workload. It is empty where
// all are Ready, and where they cannot be read.
func (e *Engine) explainPods(ctx context.Context, s v1.Step, since time.Time) string {
	switch {
	case s.Host != "" && strings.HasPrefix(s.Path, controlplane.ManifestDir+"/"):
		return staticpod.Explain(ctx, e.env, s, since)
	case object.IsWorkload(s.Ref):
		live, err := object.ReadLive(ctx, e.env, s.Ref)
		if err != nil {
			return ""
		}
		return object.WhyPods(ctx, e.env, live)
	}
	return ""
}

// nodeFailures is what a manager that a step starts says of Nodes. One that cannot ask its cloud is not Ready, and its
// pod does not say why.
func (e *Engine) nodeFailures(ctx context.Context, s v1.Step, since time.Time) string {
	if s.Component != component.CCM && !planstep.IsManagerWorkload(s) {
		return ""
	}
	warnings := fields.Set{"involvedObject.kind": "Node", "type": corev1.EventTypeWarning}
	list, err := e.env.Kube.CoreV1().
		Events(metav1.NamespaceDefault).
		List(ctx, metav1.ListOptions{FieldSelector: warnings.String()})
	if err != nil {
		return ""
	}
	return failuresOf(list.Items, since)
}

// failuresOf is the last of what cloud controllers have said of Nodes since a moment, and of how many.
func failuresOf(events []corev1.Event, since time.Time) string {
	nodes := map[string]bool{}
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		from := cmp.Or(e.ReportingController, e.Source.Component)
		if !strings.HasPrefix(from, "cloud-") || podreason.EventTime(e).Before(since.Truncate(time.Second)) {
			continue
		}
		nodes[e.InvolvedObject.Name] = true
		if last == nil || podreason.EventTime(last).Before(podreason.EventTime(e)) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(
		"it fails for %s, last for %s: %s: %s",
		english.Count(len(nodes), "node"),
		last.InvolvedObject.Name,
		last.Reason,
		mask.Cut(last.Message, maxNodeFailure),
	)
}

// maxNodeFailure is how much of an event is told, in bytes.
const maxNodeFailure = 400

// unnamed is why a step is not done where its executor does not say it.
func (e *Engine) unnamed(s v1.Step) string {
	where := s.Ref
	if s.Host != "" {
		where = "host " + s.Host
		if what := cmp.Or(s.Path, s.Unit); what != "" {
			where = what + " on " + where
		}
	}
	return fmt.Sprintf("%s is not as step %s makes it", cmp.Or(where, "the cluster"), s.ID)
}

// describeUndo says, for a step whose effect does not show, who runs the loops meanwhile and how to go back.
func (e *Engine) describeUndo(ctx context.Context, s v1.Step) string {
	owners := e.ownersNow(ctx)
	if owners == "" || s.Kind == v1.StepVerify {
		return ""
	}
	return owners + ". Put right what is wrong and run the same command again, or take everything back with transplant rollback"
}

// ownersNow says who runs which loops; empty when no manager answers.
func (e *Engine) ownersNow(ctx context.Context) string {
	managers, err := manager.Ask(ctx, e.env, component.KCM, component.CCM)
	if err != nil {
		return ""
	}
	var out []string
	for _, m := range managers {
		if m.Error == "" && len(m.Loops) > 0 {
			loops := slices.Clone(m.Loops)
			slices.Sort(loops)
			out = append(out, fmt.Sprintf("%s on %s runs %s", m.Component, m.Host, strings.Join(loops, ", ")))
		}
	}
	slices.Sort(out)
	if idle := e.idle(managers); len(idle) > 0 {
		out = append(out, "no manager that answers runs "+strings.Join(idle, ", "))
	}
	return strings.Join(out, "; ")
}

// idle are the loops that the plan moves and that no manager says it runs, sorted.
func (e *Engine) idle(managers []v1.Manager) []string {
	loops := map[string]bool{}
	for _, s := range e.env.Plan.Steps {
		for loop, program := range s.Expect {
			if program == component.CCM {
				loops[loop] = true
			}
		}
	}
	for _, m := range managers {
		if m.Error == "" {
			for _, loop := range m.Loops {
				delete(loops, loop)
			}
		}
	}
	return slices.Sorted(maps.Keys(loops))
}

// Unowned are the loops that no answering manager runs when a run of the strategy downtime is stopped in its middle,
// sorted. There are none if that is not known.
func (e *Engine) Unowned(ctx context.Context) []string {
	if e.env.Plan == nil || e.env.Plan.Strategy != planstep.Downtime {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, step.LookTimeout)
	defer cancel()
	managers, err := manager.Ask(ctx, e.env, component.KCM, component.CCM)
	if err != nil {
		return nil
	}
	loops := map[string]bool{}
	for _, s := range e.env.Plan.Steps {
		for loop := range s.Expect {
			loops[loop] = true
		}
	}
	for _, m := range managers {
		if m.Error != "" {
			return nil
		}
		for _, loop := range m.Loops {
			delete(loops, loop)
		}
	}
	return slices.Sorted(maps.Keys(loops))
}
