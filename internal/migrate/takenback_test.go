package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// planBack makes the rollback's plan and begins it.
func (w *world) planBack() *v1.Plan {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	doc := j.Doc()
	back, err := rollback.Make(&doc, w.snapshot(), w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := j.SetPhase(w.t.Context(), v1.RunRollingBack, back, nil); err != nil {
		w.t.Fatal(err)
	}
	return back
}

// With downtime and a new version an owner becomes a standby before its API server is restarted. No step of its own says so.
func TestAManagerThatWasStoppedToHandOverIsStartedByTheRollback(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, w *world, p *v1.Plan){
		"it died": func(t *testing.T, w *world, p *v1.Plan) {
			n := 0
			died, err := w.runUntil(p, func(point, step string) bool {
				if point == "during" && strings.HasSuffix(step, "/moving-"+component.KCM) {
					n++
				}
				return n == 2
			})
			if err != nil || !died {
				t.Fatal(died, err)
			}
		},
		"its process took too long to end": func(t *testing.T, w *world, p *v1.Plan) {
			stuck := func(on bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, h := range w.hostNames() {
					w.stuck[component.KCM+"@"+h] = on
				}
			}
			stuck(true)
			_, err := w.run(p)
			says(t, err, "did not end")
			stuck(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := upgradeWorld(t, 3)
			files := w.files()
			stop(t, w, w.beginWith(v1.Options{TargetVersion: next, Strategy: planstep.Downtime}))
			w.rollBack()
			w.rolledBack(files)
			w.all("v1.26.0")
		})
	}
}

const daemonSet = "/apis/apps/v1/namespaces/kube-system/daemonsets/" + component.CCM

// daemons is a DaemonSet controller of update strategy OnDelete: a process and a pod on each host for as long as the DaemonSet is there. A pod that was deleted
// comes back from the present template. The world is locked.
func (w *world) daemons() {
	var d appsv1.DaemonSet
	there := w.api.Get(w.t, daemonSet, &d)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name, UID: d.UID, Controller: ptr.To(true)}}
	hash := w.revision(&d, there, owner)
	n, updated, ready := int32(0), int32(0), int32(0)
	for _, h := range w.hostNames() {
		key, name := component.CCM+"@"+h, component.CCM+"-"+h
		path := "/api/v1/namespaces/kube-system/pods/" + name
		var pod corev1.Pod
		if !there || !w.api.Get(w.t, path, &pod) {
			if w.procs[key] != nil {
				w.ended[key] = w.clock.Now()
			}
			delete(w.procs, key)
		}
		if !there {
			w.api.Delete(path)
			continue
		}
		n++
		if w.procs[key] == nil && w.clock.Since(w.ended[key]) < time.Second {
			continue // its kubelet has not started it yet
		}
		if w.procs[key] == nil {
			command := d.Spec.Template.Spec.Containers[0].Command
			if file := commandline.FlagsOf(command)["leader-migration-config"]; file != "" && !w.mounts(&d, h, file) {
				continue // it ends at once, for ever
			}
			w.lastPID++
			w.restarts[key]++
			w.procs[key] = &process{pid: w.lastPID, args: command, flags: commandline.FlagsOf(command), component: component.CCM, host: h, unit: true}
			labels := maps.Clone(d.Spec.Template.Labels)
			labels[appsv1.ControllerRevisionHashLabelKey] = hash
			pod = corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: component.Namespace, Labels: labels, OwnerReferences: owner, UID: types.UID(fmt.Sprint(w.lastPID))},
				Spec:       d.Spec.Template.Spec,
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			pod.Spec.NodeName = "node-" + h
			w.api.Put(w.t, &pod)
		}
		ready++
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
			updated++
		}
	}
	status := appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: n, UpdatedNumberScheduled: updated, NumberReady: ready}
	if there && !reflect.DeepEqual(d.Status, status) {
		d.Status = status
		w.api.Put(w.t, &d)
	}
}

// mounts reports whether a DaemonSet's pods see a file of a host.
func (w *world) mounts(d *appsv1.DaemonSet, host, file string) bool {
	return w.read(host, file) != "(absent)" && slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && v.HostPath.Path == file && slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == v.Name && m.MountPath == file
		})
	})
}

// revision keeps a ControllerRevision for each template that the DaemonSet had, the newest with the highest number, and returns the hash of the present one.
func (w *world) revision(d *appsv1.DaemonSet, there bool, owner []metav1.OwnerReference) string {
	if !there {
		return ""
	}
	data, err := json.Marshal(d.Spec.Template)
	if err != nil {
		w.t.Error(err)
	}
	hash := hostaccess.SHA256(data)[:10]
	path := "/apis/apps/v1/namespaces/kube-system/controllerrevisions/" + d.Name + "-" + hash
	var r appsv1.ControllerRevision
	if w.api.Get(w.t, path, &r) && r.Revision == w.revisions {
		return hash
	}
	w.revisions++
	w.api.Put(w.t, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-" + hash, Namespace: component.Namespace, OwnerReferences: owner,
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}},
		Revision: w.revisions,
	})
	return hash
}

// A rollback that left the DaemonSet for somebody else's would start the in-tree managers next to it.
func TestADaemonSetThatSomebodyChangedIsStillThisMigrations(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{planstep.Downtime, planstep.LeaderMigration} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.mu.Lock()
			w.more = w.daemons
			w.mu.Unlock()
			p := w.beginWith(v1.Options{Strategy: strategy, Shape: v1.ShapeDaemonSet})
			w.past(p, "start/"+component.CCM)
			var d appsv1.DaemonSet
			w.api.Get(t, daemonSet, &d)
			d.Spec.Template.Spec.Containers[0].Image += "-fixed"
			w.api.Put(t, &d)
			_, err := w.run(p)
			says(t, err, "was changed outside this migration since the migration made it", "transplant rollback deletes it")
			w.rollBack()
			if w.api.Get(t, daemonSet, &d) {
				t.Error("the DaemonSet is left")
			}
			for loop, owners := range w.owners() {
				if len(owners) != 1 || !strings.HasPrefix(owners[0], component.KCM+"@") {
					t.Errorf("%s is run by %v", loop, owners)
				}
			}
		})
	}
}

// crashes lets managers crash right after they have got their lease, as a kube-controller-manager does whose controllers do not start, and stay away for a
// kubelet's longest back-off.
func (w *world) crashes(component string, broken func(*process) bool) {
	var last time.Time
	w.more = func() {
		for key, p := range w.procs {
			if p.component != component || !broken(p) {
				continue
			}
			if w.holds(p, component) {
				last = w.clock.Now()
			}
			if !last.IsZero() && w.clock.Now().Sub(last) < 5*time.Minute {
				delete(w.procs, key)
			}
		}
	}
}

func TestTheWayBackStaysOpenBesideAManagerThatCrashes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{component.KCM, component.CCM} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			files := w.files()
			p := w.beginWith(v1.Options{Strategy: planstep.Downtime})
			w.mu.Lock()
			w.crashes(program, func(p *process) bool { return program == component.CCM || p.flags["cloud-provider"] == "external" })
			w.mu.Unlock()
			_, err := w.run(p)
			says(t, err, program+" on cp-1 did not answer")
			w.rollBack()
			w.rolledBack(files)
		})
	}
}

func TestAPatchThatIsMadeAnewKeepsWhatWasBeforeTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	cm := func(a, b string) {
		w.api.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: component.Namespace}, Data: map[string]string{"a": a, "b": b}})
	}
	cm("1", "2")
	p := w.given(v1.Step{ID: "patch/c", Phase: "p", Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/c", Patch: `{"data":{"a":"8","b":"9"}}`})
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	cm("8", "7") // somebody else's
	_, err := w.run(p)
	says(t, err, "was changed outside this migration since step patch/c was started")
	cm("8", "2") // put back by hand
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.backAfterEveryDeath()
	var have corev1.ConfigMap
	w.api.Get(t, "/api/v1/namespaces/kube-system/configmaps/c", &have)
	if have.Data["a"] != "1" || have.Data["b"] != "2" {
		t.Errorf("after the rollback: %v", have.Data)
	}
}

func TestARollbackOverwritesNothingOfSomebodyElse(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, err error) {
		t.Helper()
		says(t, err, "was changed outside this migration after the migration wrote it", "put your change aside")
		if _, ok := errors.AsType[*step.StaleError](err); !ok {
			t.Errorf("%T: %v", err, err)
		}
	}
	t.Run("unit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 2)
		w.asUnits()
		w.past(w.beginWith(v1.Options{}), "leader-migration/"+component.KCM+"@cp-2")
		path := "/etc/default/" + component.KCM
		theirs := strings.Replace(w.read("cp-2", path), "--cluster-name=lab", "--cluster-name=theirs", 1)
		w.write("cp-2", path, theirs, 0o640)
		_, err := w.run(w.planBack())
		refused(t, err)
		if w.read("cp-2", path) != theirs {
			t.Error("it was overwritten")
		}
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 2)
		p, _ := w.begin()
		w.past(p, "start/"+component.CCM+"@cp-2")
		theirs := w.read("cp-2", layout.CCMCloudConf) + "DisableSecurityGroupIngress = true\n"
		w.write("cp-2", layout.CCMCloudConf, theirs, 0o600)
		back := w.planBack()
		_, err := w.run(back)
		refused(t, err)
		if w.read("cp-2", layout.CCMCloudConf) != theirs {
			t.Error("it was removed")
		}
	})
	t.Run("workload", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.deployed(1)
		p := w.given(v1.Step{
			ID: "external/" + component.KCM, Phase: "p", Kind: v1.StepEditWorkload, Ref: "Deployment/kube-system/" + component.KCM, Component: component.KCM,
			Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
		})
		if _, err := w.run(p); err != nil {
			t.Fatal(err)
		}
		theirs := []string{"--v=4", "--theirs=1"}
		d := w.deployment()
		d.Spec.Template.Spec.Containers[0].Args = theirs
		w.api.Put(t, &d)
		_, err := w.run(w.planBack())
		refused(t, err)
		if have := w.deployment().Spec.Template.Spec.Containers[0].Args; !slices.Equal(have, theirs) {
			t.Errorf("it was overwritten: %v", have)
		}
	})
}

func TestAPauseWaitsForTheEndOfADowntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	var said []string
	_, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, step string) {
			if point == "during" && step == "stop/"+component.KCM+"@cp-1" { // the step that is under way is finished first
				if _, err := pause.Request(t.Context(), journal.InCluster(w.kube), v1.Pause{Run: "run-1", By: "ann", At: w.clock.Now()}); err != nil {
					t.Error(err)
				}
			}
		}
		o.Tell = func(e step.Event) {
			switch {
			case strings.Contains(e.Message, "the middle of the downtime"):
				said = append(said, e.Message)
			case e.Kind == step.EventPaused:
				if w.owners()["service"] == nil {
					t.Errorf("paused before %s, when no manager runs the loops: %v", e.Step.ID, w.owners())
				}
				said = append(said, "paused")
				if _, err := pause.Resume(t.Context(), journal.InCluster(w.kube), "run-1"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "it waits after step start/"+component.CCM+"@cp-1") || said[1] != "paused" {
		t.Errorf("said: %q", said)
	}
}

func TestALostHostThatWasNotMigratedYetIsNotInTheWayOfARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	w.past(p, "create/ServiceAccount/kube-system/"+component.CCM)
	w.lose("cp-2")
	w.silent("cp-2")
	if err := w.takeOut("cp-2"); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
}

func TestAStandbyThatOwnsTheLoopsByTheNextRunHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	id := "leader-migration/" + component.KCM + "@cp-2" // cp-1 owns the loops
	if died, err := w.runUntil(p, func(point, step string) bool { return point == "during" && step == id }); err != nil || !died {
		t.Fatal(died, err)
	}
	w.mu.Lock()
	old := w.procs[component.KCM+"@cp-1"]
	delete(w.procs, component.KCM+"@cp-1")
	w.elect(component.KCM, func(*process) bool { return false })
	w.clock.Step(16 * time.Second)
	w.elect(component.KCM, func(p *process) bool { return p.host == "cp-2" && p.component == component.KCM })
	old.pid = 5000
	w.procs[component.KCM+"@cp-1"] = old
	leads := w.holds(w.procs[component.KCM+"@cp-2"], component.KCM)
	w.expired = 0
	w.mu.Unlock()
	if !leads {
		t.Fatal("cp-2 does not lead")
	}
	if _, err := w.runUntil(p, func(point, step string) bool { return point == "after" && step == id }); err != nil {
		t.Fatal(err)
	}
	if rec := w.engine().env.Journal.Record(id); len(rec.Handovers) == 0 || w.expired > 0 {
		t.Errorf("the owner was restarted in place: %d leases ran out, handovers %v", w.expired, rec.Handovers)
	}
}

func TestAPauseWaitsForTheEndOfADowntimeOnTheWayBackToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	back := w.planBack()
	started := "undo/start/stop/" + component.KCM + "@cp-1"
	idle := false
	for i, s := range back.Steps {
		want := ""
		if idle {
			want = started
		}
		if have := planstep.IdleUntil(back, i); have != want {
			t.Errorf("before %s a stop has to wait for %q, not %q", s.ID, want, have)
		}
		switch {
		case s.ID == started:
			idle = false
		case s.ID == "undo/start/"+component.CCM+"@cp-1":
			idle = true
		}
	}
}

// TestADaemonSetStartsOnNoNodeThatOnlyHasTheLabel: the root of a worker with the label would read the manager's token.
func TestADaemonSetStartsOnNoNodeThatOnlyHasTheLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.mu.Lock()
	w.more = w.daemons
	w.mu.Unlock()
	p := w.beginWith(v1.Options{Shape: v1.ShapeDaemonSet})
	start := p.Steps[slices.IndexFunc(p.Steps, precondition.StartsManager)]
	label := func(name, ip string) {
		w.api.Put(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}},
		})
	}
	label("cp-1", "10.0.0.1")
	label("worker-1", "10.0.0.7")
	w.api.Put(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	})
	e := w.engine()
	e.env.Plan = p
	err := e.env.ProvesControlPlane(t.Context(), start)
	says(t, err, "each Node with the label node-role.kubernetes.io/control-plane would get what only the control plane has",
		"Node worker-1 is labelled as control plane, and no API server announces one of its addresses (10.0.0.7)")
	if !trust.IsUntrusted(err) {
		t.Errorf("it ends with %v", err)
	}
	if failed, err := w.run(p); failed != "" || !trust.IsUntrusted(err) || !strings.Contains(err.Error(), "nothing was changed by this run") {
		t.Errorf("the run ends at step %q with %v", failed, err)
	}
	w.api.Delete("/api/v1/nodes/worker-1")
	if err := e.env.ProvesControlPlane(t.Context(), start); err != nil {
		t.Error(err)
	}
}
