package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// TestPlantedRecordsSkipNoLeaderMigration: they say of each manager that it learned the lease and is external by now. The
// world fails the test when two managers run a loop.
func TestPlantedRecordsSkipNoLeaderMigration(t *testing.T) {
	t.Parallel()
	for _, result := range []v1.StepResult{v1.StepResultAlreadyDone, v1.StepResultDone} {
		t.Run(string(result), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			p, _ := w.begin()
			if p.Strategy != planstep.LeaderMigration {
				t.Fatalf("strategy %s", p.Strategy)
			}
			planted := 0
			for _, s := range p.Steps {
				if s.Component != component.KCM || !strings.HasPrefix(s.ID, "leader-migration/") && !strings.HasPrefix(s.ID, "external/") {
					continue
				}
				rec := v1.StepRecord{ID: s.ID, Result: result}
				if _, sum, err := w.engine().env.ReadFile(t.Context(), s.Host, s.Path); err != nil {
					t.Fatal(err)
				} else if result == v1.StepResultDone && strings.HasPrefix(s.ID, "external/") { // as if the step had written what is there
					rec.AfterSHA256 = sum
				}
				w.plant(rec)
				planted++
			}
			if planted != 4 {
				t.Fatalf("%d records are planted", planted)
			}
			learned := map[string]bool{}
			step, err := w.run(p, func(o *step.Options) {
				o.Tell = func(e step.Event) {
					if e.Kind == step.EventDone && strings.HasPrefix(e.Step.ID, "leader-migration/") {
						learned[e.Step.Host] = true
					}
				}
			})
			if len(learned) != 2 {
				t.Errorf("leader migration came on on %v", learned)
			}
			if err == nil {
				w.migrated(p)
				return
			}
			// The order believed the records, and the owner's host came first: nobody is there yet who could take over.
			says(t, err, step, "was not stopped, since no manager is ready")
			for key := range w.procs {
				if strings.HasPrefix(key, component.CCM+"@") {
					t.Errorf("%s runs", key)
				}
			}
		})
	}
}

// changedBefore changes the world right before a step is executed: what was asked and done until then is as the plan says.
func (w *world) changedBefore(p *v1.Plan, match func(v1.Step) bool, change func(v1.Step)) (failed string, err error) {
	w.t.Helper()
	steps := map[string]v1.Step{}
	for _, s := range p.Steps {
		steps[s.ID] = s
	}
	changed := false
	failed, err = w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "before" && match(steps[id]) && !changed {
				changed = true
				w.mu.Lock()
				defer w.mu.Unlock()
				change(steps[id])
			}
		}
	})
	if !changed {
		w.t.Fatalf("no such step was reached: %v", err)
	}
	return failed, err
}

// startOf is the first step that starts a new manager.
func startOf(t *testing.T, p *v1.Plan) string {
	t.Helper()
	i := slices.IndexFunc(p.Steps, precondition.StartsManager)
	if i < 0 {
		t.Fatal("the plan starts no manager")
	}
	return p.Steps[i].ID
}

// runsOnly is a host with one process.
type runsOnly struct {
	hostaccess.Host
	args []string
}

func (h runsOnly) Processes(context.Context, string) ([]v1.Process, error) {
	return []v1.Process{{PID: 1, StartTicks: 1, State: "S", Args: h.args}}, nil
}

// TestNoManagerStartsBesideOneThatRunsTheLoops: by its flags it is judged, as its process has them.
func TestNoManagerStartsBesideOneThatRunsTheLoops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options v1.Options
		flags   map[string]string
		says    string
	}{
		"leader migration is off": {flags: map[string]string{"cloud-provider": "aws"}, says: "without --enable-leader-migration"},
		"said to be off": {
			flags: map[string]string{"cloud-provider": "aws", "enable-leader-migration": "false"}, says: "without --enable-leader-migration",
		},
		"off in another spelling": {flags: map[string]string{"cloud-provider": "aws", "enable-leader-migration": "F"}, says: "without --enable-leader-migration"},
		"external no more":        {options: v1.Options{Strategy: planstep.Downtime}, flags: map[string]string{"cloud-provider": "aws"}, says: "is not external yet"},
		"external":                {flags: map[string]string{"cloud-provider": "external"}},
		"without a provider":      {options: v1.Options{Strategy: planstep.Downtime}, flags: map[string]string{}},
		"its loops are off": {
			options: v1.Options{Strategy: planstep.Downtime}, flags: map[string]string{"cloud-provider": "aws", "controllers": "*,-service,-route,-cloud-node-lifecycle"},
		},
		"one loop is on": {
			options: v1.Options{Strategy: planstep.Downtime}, says: "is not external yet",
			flags: map[string]string{"cloud-provider": "aws", "controllers": "*,-service,-cloud-node-lifecycle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			p := w.beginWith(c.options)
			start := startOf(t, p)
			var args []string
			for flag, value := range c.flags {
				args = append(args, "--"+flag+"="+value)
			}
			e := w.engine()
			e.env.Plan = p
			e.env.Hosts = []hostaccess.Host{runsOnly{e.env.HostsByName["cp-2"], append([]string{"/usr/bin/" + component.KCM}, args...)}}
			i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.ID == start })
			err := precondition.CheckOldManagers(t.Context(), e.env, p.Steps[i])
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.As(err, new(*step.StaleError)) {
				t.Fatalf("it ends with %v", err)
			}
			says(t, err, component.KCM+" on host cp-2 runs with --cloud-provider=aws", c.says, start, "transplant rollback")
		})
	}
}

// TestTheFlagsOfEachOldManagerAreAskedBeforeTheNewOneStarts: the run ends before the step, and no new manager comes.
func TestTheFlagsOfEachOldManagerAreAskedBeforeTheNewOneStarts(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{
		"leader migration": planstep.LeaderMigration, "downtime": planstep.Downtime,
		"leader migration of units": planstep.LeaderMigration, "downtime of units": planstep.Downtime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			if strings.HasSuffix(name, "units") {
				w.asUnits()
			}
			p := w.beginWith(v1.Options{Strategy: strategy})
			var start, other string
			failed, err := w.changedBefore(p, precondition.StartsManager, func(s v1.Step) { // a process that somebody started with its old flags
				start, other = s.ID, map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[s.Host]
				now := *w.procs[component.KCM+"@"+other]
				now.flags = map[string]string{"cloud-provider": "aws"}
				now.args = []string{component.KCM, "--cloud-provider=aws"}
				w.procs[component.KCM+"@"+other] = &now
			})
			if failed != start || !errors.As(err, new(*step.StaleError)) {
				t.Fatalf("it ends in %s with %v", failed, err)
			}
			says(t, err, component.KCM+" on host "+other)
			for key := range w.procs {
				if strings.HasPrefix(key, component.CCM+"@") {
					t.Errorf("%s runs", key)
				}
			}
		})
	}
}

// TestThePodsOfADeploymentAreAskedToo: a control plane of Deployments has no process on a host that is named.
func TestThePodsOfADeploymentAreAskedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(2)
	w.mu.Lock()
	w.catchUp()
	w.mu.Unlock()
	e := w.engineFor(t)
	e.env.Hosts = nil
	edit := v1.Step{ID: "external/" + component.KCM, Kind: v1.StepEditWorkload, Ref: "Deployment/kube-system/" + component.KCM, Component: component.KCM}
	start := v1.Step{ID: "start/" + component.CCM, Kind: v1.StepEnsureObject, Ref: "Deployment/kube-system/" + component.CCM, Component: component.CCM}
	e.env.Plan = &v1.Plan{Strategy: planstep.Downtime, Direction: planstep.Forward, Steps: []v1.Step{edit, start}}
	err := precondition.CheckOldManagers(t.Context(), e.env, start)
	says(t, err, component.KCM+" in pod "+component.KCM+"-", "--cloud-provider=aws", "is not external yet")
	pods, err := w.kube.CoreV1().Pods(component.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=kcm"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatal(len(pods.Items), err)
	}
	for _, p := range pods.Items {
		p.Status.Phase = corev1.PodFailed
		w.api.Put(t, &p)
	}
	if err := precondition.CheckOldManagers(t.Context(), e.env, start); err != nil {
		t.Errorf("when they have ended: %v", err)
	}
}

// TestTheManagerThatThePlanDoesNotNameIsAsked: a plan that edits a Deployment somewhere else says nothing of the one that runs the loops, nor does one that
// edits static pods. What a kubelet shows as its static pod is no manager: processes are asked for those.
func TestTheManagerThatThePlanDoesNotNameIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	e := w.engineFor(t)
	e.env.Hosts = nil
	put := func(namespace, name, provider string, annotations map[string]string) {
		w.api.Put(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "x", Command: []string{component.KCM, "--cloud-provider=" + provider}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	start := v1.Step{ID: "start/" + component.CCM, Kind: v1.StepEnsureObject, Ref: "Deployment/kube-system/" + component.CCM, Component: component.CCM}
	edit := v1.Step{ID: "external/" + component.KCM, Kind: v1.StepEditWorkload, Ref: "Deployment/a-tenant/" + component.KCM, Component: component.KCM}
	e.env.Plan = &v1.Plan{Strategy: planstep.Downtime, Direction: planstep.Forward, Steps: []v1.Step{edit, start}}
	put("a-tenant", "external", "external", nil)
	put("another-cluster", "in-tree", "aws", nil)
	put(component.Namespace, component.KCM+"-worker", "aws", map[string]string{corev1.MirrorPodAnnotationKey: "x"})
	if err := precondition.CheckOldManagers(t.Context(), e.env, start); err != nil {
		t.Fatal(err)
	}
	put(component.Namespace, "the-real-one", "aws", nil)
	says(t, precondition.CheckOldManagers(t.Context(), e.env, start), component.KCM+" in pod the-real-one", "--cloud-provider=aws", "is not external yet")
}

// TestAProcessOfADeploymentWithoutItsPodIsAskedToo: a pod that is deleted by force is gone while its process runs on. Its host has
// no manifest, but was no worker.
func TestAProcessOfADeploymentWithoutItsPodIsAskedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	e := w.engineFor(t)
	e.env.Before = &v1.Snapshot{
		Hosts:    []v1.Host{{Name: "cp-1", NodeName: "node-cp-1"}, {Name: "cp-2", NodeName: "node-cp-2"}},
		Hosted:   []v1.Component{{Name: component.KCM, Runs: v1.RunsDeployment, Manifest: "Deployment/kube-system/" + component.KCM}},
		Managers: []v1.Manager{{Component: component.KCM, Host: "cp-1"}},
	}
	args := []string{"/usr/bin/" + component.KCM, "--cloud-provider=aws"}
	e.env.Hosts = []hostaccess.Host{runsOnly{e.env.HostsByName["cp-1"], args}, runsOnly{e.env.HostsByName["cp-2"], args}}
	start := v1.Step{ID: "start/" + component.CCM, Kind: v1.StepEnsureObject, Ref: "Deployment/kube-system/" + component.CCM, Component: component.CCM}
	e.env.Plan = &v1.Plan{Strategy: planstep.Downtime, Direction: planstep.Forward, Steps: []v1.Step{start}}
	err := precondition.CheckOldManagers(t.Context(), e.env, start)
	says(t, err, component.KCM+" on host cp-1 runs with --cloud-provider=aws", "is not external yet")
	if err != nil && strings.Contains(err.Error(), "cp-2") {
		t.Errorf("a worker was asked: %v", err)
	}
}
