package precondition

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// oldManager is a kube-controller-manager that runs, with the flags that its process or its pod has.
type oldManager struct {
	where string
	flags map[string]string
}

// CheckOldManagers refuses a step after which the new manager runs the loops, or may. It does so while a
// kube-controller-manager runs with other flags than the plan says: both would run the loops. What was done before the
// step is said by records in a ConfigMap, and by them alone two owners must not come about. So each
// kube-controller-manager is asked.
func CheckOldManagers(ctx context.Context, e *step.Env, s v1.Step) error {
	starts := StartsManager(s)
	alone := leavesLease(s)
	if e.Plan.Direction == planstep.Rollback || !starts && !alone {
		return nil
	}
	found, err := oldManagers(ctx, e)
	if err != nil {
		return fmt.Errorf("asking which flags each %s runs with: %w", component.KCM, err)
	}
	var wrong []v1.ChangedFact
	for _, m := range found {
		shares := e.Plan.Strategy == planstep.LeaderMigration && !alone && isOn(m.flags, "enable-leader-migration")
		if shares || runsNoLoop(m.flags) {
			continue
		}
		wrong = append(wrong, *changedTo("%s %s runs with --cloud-provider=%s and %s",
			component.KCM, m.where, m.flags["cloud-provider"], missingFlag(e, m.flags, alone)))
	}
	if len(wrong) == 0 {
		return nil
	}
	wrong = append(wrong, *changedTo("after %s a %s would run the same loops at once. The journal says that the steps "+
		"before it are done: find out who changed the flags or the journal, then run transplant rollback", s.ID, component.CCM))
	return &step.StaleError{Changed: wrong}
}

// missingFlag says what keeps a kube-controller-manager from leaving the loops to the new manager.
func missingFlag(e *step.Env, flags map[string]string, alone bool) string {
	switch {
	case e.Plan.Strategy == planstep.LeaderMigration && !alone:
		return "without --enable-leader-migration"
	case isOn(flags, "enable-leader-migration"):
		return "still with --enable-leader-migration"
	}
	return "is not external yet"
}

// StartsManager reports whether a step starts a cloud-controller-manager.
func StartsManager(s v1.Step) bool {
	return s.Component == component.CCM &&
		(s.Kind == v1.StepAddManifest || s.Kind == v1.StepEnsureObject && object.IsWorkload(s.Ref))
}

// leavesLease reports whether a step takes a cloud-controller-manager from under the lease that both managers
// respect.
func leavesLease(s v1.Step) bool {
	return s.Component == component.CCM && (s.Kind == v1.StepReplacePod ||
		slices.ContainsFunc(s.Edits, func(e v1.Edit) bool {
			return e.Name == "enable-leader-migration" && e.Op == v1.EditUnsetFlag
		}))
}

func isOn(flags map[string]string, name string) bool {
	on, err := strconv.ParseBool(flags[name]) // as pflag reads it; a flag without a value is listed with true
	return err == nil && on
}

// runsNoLoop reports whether a kube-controller-manager has no provider, or all cloud loops switched off.
func runsNoLoop(flags map[string]string) bool {
	if p := flags["cloud-provider"]; p == "" || p == "external" {
		return true
	}
	for _, loop := range clusterview.MovedLoopNames() {
		if !clusterview.IsSwitchedOff(flags["controllers"], loop) {
			return false
		}
	}
	return true
}

// oldManagers are the kube-controller-managers that run: processes on hosts, whatever starts them, pods of the
// control plane, and pods in the seed. A host that is out of reach is left out: its steps come after the others.
func oldManagers(ctx context.Context, e *step.Env) ([]oldManager, error) {
	if e.Seed != nil {
		pods, err := manager.SeedPods(ctx, e, component.KCM)
		return inPods(pods), err
	}
	var out []oldManager
	for _, h := range e.Hosts {
		if e.IsWorker(h.Name()) || e.RecentlyUnreachable(h.Name()) != nil {
			continue
		}
		procs, err := h.Processes(ctx, component.KCM)
		e.NoteUnreachable(err)
		if hostaccess.IsUnreachable(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, p := range procs {
			out = append(out, oldManager{"on host " + h.Name(), commandline.FlagsOf(commandline.Unwrapped(p.Args))})
		}
	}
	deployed, err := deployedOldManagers(ctx, e)
	return append(out, deployed...), err
}

// deployedOldManagers are the kube-controller-managers in pods of kube-system, whatever made them and whichever of them
// the plan changes. Static pods are asked as processes: what the API says of one lags behind, and is its kubelet's
// word.
func deployedOldManagers(ctx context.Context, e *step.Env) ([]oldManager, error) {
	pods, err := e.Kube.CoreV1().Pods(component.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods in %s: %w", component.Namespace, err)
	}
	return inPods(workloads.SeedPods(pods.Items, component.KCM)), nil
}

func inPods(pods []collect.SeedPod) []oldManager {
	var out []oldManager
	for _, p := range pods {
		if !p.Ended {
			out = append(out, oldManager{"in pod " + p.Name, p.Flags})
		}
	}
	return out
}
