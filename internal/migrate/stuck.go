package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// whyStuck is why the step's pod does not come up, where its kubelet says that; else the reason that was known before.
func (e *Engine) whyStuck(ctx context.Context, s v1.Step, reason string) string {
	for _, p := range e.podsOfStep(ctx, s) {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			w := c.State.Waiting
			if w == nil || !slices.Contains(hostaccess.StuckReasons, w.Reason) {
				continue
			}
			out := fmt.Sprintf(
				"pod %s/%s on node %s: %s of image %s",
				p.Namespace,
				p.Name,
				p.Spec.NodeName,
				w.Reason,
				imageOf(p, c),
			)
			if w.Message != "" {
				out += " (" + w.Message + ")"
			}
			if last := c.LastTerminationState.Terminated; last != nil {
				out += fmt.Sprintf(
					"; it ended last with exit code %d: see kubectl -n %s logs --previous %s",
					last.ExitCode,
					p.Namespace,
					p.Name,
				)
			}
			return out
		}
	}
	return reason
}

func imageOf(p corev1.Pod, c corev1.ContainerStatus) string {
	for _, spec := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if spec.Name == c.Name {
			return spec.Image
		}
	}
	return c.Image
}

// podsOfStep are the pods that the step starts: a static pod's mirror, or those of a workload. That they cannot be read
// is not worth a word here.
func (e *Engine) podsOfStep(ctx context.Context, s v1.Step) []corev1.Pod {
	switch {
	case s.Host != "" && strings.HasPrefix(s.Path, controlplane.ManifestDir+"/"):
		f, sum, err := e.env.ReadFile(ctx, s.Host, s.Path)
		if err != nil || sum == step.Absent {
			return nil
		}
		m, err := controlplane.Parse(f.Data)
		if err != nil {
			return nil
		}
		pod, err := staticpod.MirrorPod(ctx, e.env, s, m)
		if err != nil || !staticpod.HasCommand(pod, m.Command()) {
			return nil // of the old manifest
		}
		return []corev1.Pod{*pod}
	case object.IsWorkload(s.Ref):
		live, err := object.ReadLive(ctx, e.env, s.Ref)
		if err != nil {
			return nil
		}
		pods, err := object.PodsOf(ctx, e.env, live)
		if err != nil {
			return nil
		}
		return pods
	}
	return nil
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
