package migrate

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// plant writes a record into the journal, as everybody could who may write its ConfigMap.
func (w *world) plant(rec v1.StepRecord) {
	w.t.Helper()
	if err := w.engine().env.Journal.Save(w.t.Context(), rec); err != nil {
		w.t.Fatal(err)
	}
}

// claim is a handover of a lease as it is now, by a process that there never was.
func (w *world) claim(lease, component, host string) v1.HandoverRecord {
	w.t.Helper()
	var l coordinationv1.Lease
	if !w.api.Get(w.t, leasePath(lease), &l) {
		w.t.Fatalf("there is no lease %s", lease)
	}
	return v1.HandoverRecord{
		Lease: lease, Holder: *l.Spec.HolderIdentity, PID: 4711, StartTicks: 471100, Component: component, Host: host,
		Transitions: *l.Spec.LeaseTransitions, AcquireTime: l.Spec.AcquireTime.UTC(),
	}
}

// renewing lets the holder of a lease renew it so that clients see it, whether or not it is a process of the world.
func (w *world) renewing(lease string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	holder := w.holder(lease)
	w.more = func() {
		var l coordinationv1.Lease
		if w.holder(lease) == holder && w.api.Get(w.t, leasePath(lease), &l) {
			now := metav1.NewMicroTime(w.clock.Now())
			l.Spec.RenewTime, w.renewed[lease] = &now, w.clock.Now()
			w.api.Put(w.t, &l)
		}
	}
}

// backWithout rolls back until the first cloud-controller-manager is gone that is none of the owner's, and returns its step.
func (w *world) backWithout() (*v1.Plan, v1.Step) {
	w.t.Helper()
	p, _ := w.begin()
	if _, err := w.run(p); err != nil {
		w.t.Fatal(err)
	}
	back := w.planBack()
	var first v1.Step
	died, err := w.runUntil(back, func(point, id string) bool {
		if point != "after" || !strings.HasPrefix(id, "undo/start/"+component.CCM) {
			return false
		}
		for _, s := range back.Steps {
			if s.ID == id {
				first = s
			}
		}
		return true
	})
	if err != nil || !died || w.holder(component.CCM) == "" {
		w.t.Fatalf("died %v, %v; steps %+v", died, err, back.Steps)
	}
	return back, first
}

// TestAPlantedHandoverReleasesNoLeaseOfALivingHolder: the journal calls a holder gone that lives elsewhere.
func TestAPlantedHandoverReleasesNoLeaseOfALivingHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says   string
		change func(w *world, h *v1.HandoverRecord)
	}{
		"it leads on another host": {"and it is named after cp-", func(*world, *v1.HandoverRecord) {}},
		"it has been given a name that fits": {"says that it leads by lease " + component.CCM, func(w *world, h *v1.HandoverRecord) {
			w.rename(component.CCM, h.Host+"_9")
			h.Holder = h.Host + "_9"
		}},
		"it runs where no manager is asked": {"looking for 5s whether lease " + component.CCM + " is renewed", func(w *world, h *v1.HandoverRecord) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var l coordinationv1.Lease
			w.api.Get(w.t, leasePath(component.CCM), &l)
			h.Holder = h.Host + "_4711"
			l.Spec.HolderIdentity = &h.Holder
			w.api.Put(w.t, &l)
		}},
		"it does not answer": {"did not answer", func(w *world, h *v1.HandoverRecord) {
			w.rename(component.CCM, h.Host+"_9")
			h.Holder = h.Host + "_9"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			back, s := w.backWithout()
			h := w.claim(component.CCM, component.CCM, s.Host)
			c.change(w, &h)
			w.renewing(component.CCM)
			holder := w.holder(component.CCM)
			own := w.engine().env.Journal.Record(s.ID)
			w.plant(
				v1.StepRecord{
					ID:           s.ID,
					Started:      w.clock.Now(),
					Result:       v1.StepResultStarted,
					AfterSHA256:  step.Absent,
					Backup:       own.Backup,
					BackupSHA256: own.BackupSHA256,
					BackupMode:   own.BackupMode,
					Handovers:    []v1.HandoverRecord{h},
				},
			)
			step, err := w.run(back, func(o *step.Options) {
				o.Hook = func(at, id string) {
					for _, name := range w.hostNames() {
						w.deaf[component.CCM+"@"+name] = at == "during" && id == s.ID && name != s.Host && strings.Contains(c.says, "did not answer")
					}
				}
			})
			if now := w.holder(component.CCM); now != holder {
				t.Fatalf("the lease of %s, which lives, was released: it is held by %q", holder, now)
			}
			if step != s.ID {
				t.Errorf("it stopped in step %q, not in %s", step, s.ID)
			}
			says(t, err, c.says)
		})
	}
}

// rename gives the holder of a lease another identity; its process knows it by that.
func (w *world) rename(lease, identity string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		if w.holds(p, lease) {
			p.called = identity
		}
	}
	var l coordinationv1.Lease
	w.api.Get(w.t, leasePath(lease), &l)
	l.Spec.HolderIdentity = &identity
	w.api.Put(w.t, &l)
}

// TestAStepWhoseManifestIsThereBindsItsOwnerAgain: a record that says that an owner was handed over is none where the owner runs.
func TestAStepWhoseManifestIsThereBindsItsOwnerAgain(t *testing.T) {
	t.Parallel()
	id := "leader-migration/" + component.KCM + "@cp-1"
	released := func(w *world) v1.HandoverRecord {
		h, now := w.claim(component.KCM, component.KCM, "cp-1"), w.clock.Now()
		h.Ended, h.Released = &now, &now
		return h
	}
	for name, handovers := range map[string]func(w *world) []v1.HandoverRecord{
		"of another process": func(w *world) []v1.HandoverRecord {
			return []v1.HandoverRecord{w.claim(component.KCM, component.KCM, "cp-1")}
		},
		"that were all released":   func(w *world) []v1.HandoverRecord { return []v1.HandoverRecord{released(w)} },
		"that there were none of ": func(*world) []v1.HandoverRecord { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			p, _ := w.begin()
			if !strings.HasPrefix(w.holder(component.KCM), "cp-1_") {
				t.Fatalf("cp-1 does not lead: %s", w.holder(component.KCM))
			}
			sum := strings.Repeat("ab", 32)
			kept := hostaccess.SHA256([]byte(w.read("cp-1", kcmManifest)))
			w.plant(v1.StepRecord{ID: id, Started: w.clock.Now(), Result: v1.StepResultStarted, AfterSHA256: sum, BackupSHA256: kept, Handovers: handovers(w)})
			w.past(p, id)
			rec := w.engine().env.Journal.Record(id)
			if len(rec.Handovers) != 1 || rec.Handovers[0].PID == 4711 || rec.Handovers[0].Released == nil || w.expired > 0 {
				t.Errorf("the owner was not handed over: %+v, and %d leases ran out", rec.Handovers, w.expired)
			}
		})
	}
}

// TestAManagerThatLeadsIsMovedWhateverItsRecordSays: an API server is not restarted under it.
func TestAManagerThatLeadsIsMovedWhateverItsRecordSays(t *testing.T) {
	t.Parallel()
	w := upgradeWorld(t, 3)
	p := w.beginWith(v1.Options{TargetVersion: next, Strategy: planstep.Downtime})
	var first v1.Step
	for _, s := range p.Steps {
		if s.Component == component.KAS && strings.HasPrefix(w.holder(component.KCM), s.Host+"_") {
			first = s
			break
		}
	}
	if first.ID == "" {
		t.Fatal("no API server is restarted next to the owner")
	}
	h, now := w.claim(component.KCM, component.KCM, first.Host), w.clock.Now()
	h.Ended, h.Released = &now, &now
	sum := hostaccess.SHA256([]byte(w.read(first.Host, kcmManifest)))
	w.plant(
		v1.StepRecord{
			ID:           trust.MovingID(first, component.KCM),
			Started:      now,
			Result:       v1.StepResultStarted,
			Path:         kcmManifest,
			BackupSHA256: sum,
			AfterSHA256:  sum,
			Handovers:    []v1.HandoverRecord{h},
		},
	)
	if _, err := w.run(p); err != nil { // the world fails the test if the API server is restarted under an owner
		t.Fatal(err)
	}
	if rec := w.engine().env.Journal.Record(trust.MovingID(first, component.KCM)); len(rec.Handovers) == 0 || rec.Handovers[0].PID == 4711 {
		t.Errorf("the owner was not handed over: %+v", rec)
	}
}

// TestAPlantedMoveTouchesTheManagersOwnFileOnly: the path of a record that belongs to no step is in the journal alone.
func TestAPlantedMoveTouchesTheManagersOwnFileOnly(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{
		"another component's": manifests + "kube-apiserver.yaml",
		"a second manager's":  manifests + "zz.yaml",
		"cron's":              "/etc/cron.d/x",
		"cron's, by a detour": manifests + "../../cron.d/x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := upgradeWorld(t, 3)
			p := w.beginWith(v1.Options{TargetVersion: next, Strategy: planstep.Downtime})
			var first v1.Step
			for _, s := range p.Steps {
				if s.Component == component.KAS && !strings.HasPrefix(w.holder(component.KCM), s.Host+"_") {
					first = s
					break
				}
			}
			w.write(first.Host, "/etc/cron.d/x", "* * * * * root true\n", 0o644)
			before := w.read(first.Host, manifests+"kube-apiserver.yaml")
			w.plant(v1.StepRecord{ID: trust.MovingID(first, component.KCM), Started: w.clock.Now(), Result: v1.StepResultStarted, Path: at})
			doc := w.engine().env.Journal.Doc()
			if err := trust.CheckJournal(doc, w.snapshot()); !trust.IsUntrusted(err) {
				t.Errorf("the journal is not refused: %v", err)
			}
			if _, err := w.run(p); !trust.IsUntrusted(err) {
				t.Errorf("the step is not refused: %v", err)
			}
			if w.read(first.Host, manifests+"kube-apiserver.yaml") != before {
				t.Error("the manifest of the API server was written")
			}
		})
	}
}

// TestHandoversOfAJournalAreThoseOfItsSteps: others are refused before anything is done.
func TestHandoversOfAJournalAreThoseOfItsSteps(t *testing.T) {
	w := newWorld(t, 2)
	p, j := w.begin()
	live, now := w.snapshot(), time.Now()
	const id = "leader-migration/" + component.KCM + "@cp-1"
	was := w.claim(component.KCM, component.KCM, "cp-1")
	type change func(r *v1.StepRecord)
	each := func(f func(h *v1.HandoverRecord)) change { return func(r *v1.StepRecord) { f(&r.Handovers[0]) } }
	for name, c := range map[string]struct {
		says  string
		plant change
	}{
		"as it was made":                    {"", func(*v1.StepRecord) {}},
		"released":                          {"", each(func(h *v1.HandoverRecord) { h.Ended, h.Released = &now, &now })},
		"left alone":                        {"", each(func(h *v1.HandoverRecord) { h.Ended, h.Note = &now, "it has another holder" })},
		"another lease":                     {"the step hands over", each(func(h *v1.HandoverRecord) { h.Lease = "kube-scheduler" })},
		"another manager's lease":           {"the step hands over", each(func(h *v1.HandoverRecord) { h.Lease = component.CCM })},
		"another component":                 {"the holder is a " + component.CCM, each(func(h *v1.HandoverRecord) { h.Component = component.CCM })},
		"another host":                      {"the holder is on host \"cp-2\" (pod", each(func(h *v1.HandoverRecord) { h.Host = "cp-2" })},
		"a holder of another host":          {"holder cp-2_1 is on host cp-2", each(func(h *v1.HandoverRecord) { h.Holder = "cp-2_1" })},
		"a holder of the node of another":   {"is on host cp-2", each(func(h *v1.HandoverRecord) { h.Holder = "node-cp-2.lab.example_1" })},
		"no process":                        {"names no holder and process", each(func(h *v1.HandoverRecord) { h.PID = 0 })},
		"released while its holder had not": {"without an end", each(func(h *v1.HandoverRecord) { h.Released = &now })},
		"twice":                             {"handed over twice", func(r *v1.StepRecord) { r.Handovers = append(r.Handovers, r.Handovers[0]) }},
		"of a step that there is not":       {"no plan in the journal has step", func(r *v1.StepRecord) { r.ID = "x" }},
		"of a step without a manager":       {"hands nothing over", func(r *v1.StepRecord) { r.ID = p.Steps[0].ID }},
		"of a move before no API server":    {"restarts no API server", func(r *v1.StepRecord) { r.ID += "/moving-" + component.KCM }},
		"of a move of another component":    {"no manager that hands over", func(r *v1.StepRecord) { r.ID = "external/" + component.KAS + "@cp-1/moving-kube-scheduler" }},
	} {
		doc := j.Doc()
		r := v1.StepRecord{ID: id, Result: v1.StepResultStarted, Handovers: []v1.HandoverRecord{was}}
		c.plant(&r)
		doc.Records = append(doc.Records, r)
		if err := trust.CheckJournal(doc, live); c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: it is not refused with %q: %v", name, c.says, err)
		}
	}
}

// TestAPlanForASeedIsNotCarriedOutInAClusterThatRunsItsOwn: by the namespace of a seed a plan says which Deployments are its own.
func TestAPlanForASeedIsNotCarriedOutInAClusterThatRunsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, j := w.begin()
	w.api.Put(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "victim"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop", Command: []string{"shop", component.KCM}}}},
			},
		},
	})
	planted := *p
	planted.Cluster.Seed = "victim"
	planted.Steps = append(
		[]v1.Step{{ID: "stop", Phase: p.Steps[0].Phase, Kind: v1.StepScale, Ref: "Deployment/victim/shop", Component: component.KCM, Replicas: new(int32)}},
		p.Steps...)
	if err := w.engine().Run(t.Context(), &planted, nil); !trust.IsUntrusted(err) {
		t.Errorf("it is not refused: %v", err)
	}
	var d appsv1.Deployment
	if w.api.Get(t, "/apis/apps/v1/namespaces/victim/deployments/shop", &d); *d.Spec.Replicas != 3 {
		t.Errorf("a Deployment of others has %d replicas", *d.Spec.Replicas)
	}
	for name, plant := range map[string]func(doc *v1.Journal){
		"its plan": func(doc *v1.Journal) { doc.Plan.Cluster.Seed = "victim" },
		"its rollback": func(doc *v1.Journal) {
			back := doc.Plan
			back.Direction, back.Cluster.Seed, back.Steps = planstep.Rollback, "victim", nil
			doc.Rollback = &back
		},
	} {
		doc := j.Doc()
		plant(&doc)
		if err := trust.CheckJournal(doc, w.snapshot()); !trust.IsUntrusted(err) || !strings.Contains(err.Error(), "namespace victim of a seed") {
			t.Errorf("%s is not refused: %v", name, err)
		}
	}
}

// TestAWorkloadOfAnotherProgramIsNotScaled, whatever its name is.
func TestAWorkloadOfAnotherProgramIsNotScaled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(2)
	d := w.deployment()
	d.Spec.Template.Spec.Containers[0].Command, d.Spec.Template.Spec.Containers[0].Args = []string{"/shop"}, nil
	w.api.Put(t, &d)
	_, err := w.run(
		w.given(v1.Step{ID: "stop", Phase: "p", Kind: v1.StepScale, Ref: "Deployment/kube-system/" + component.KCM, Component: component.KCM, Replicas: new(int32)}),
	)
	says(t, err, "has 0 containers that run "+component.KCM)
	if d := w.deployment(); *d.Spec.Replicas != 2 {
		t.Errorf("it has %d replicas", *d.Spec.Replicas)
	}
}

// TestAHostThatRunsAManagerIsNotOut, though the journal says so and names a node that there is not.
func TestAHostThatRunsAManagerIsNotOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, j := w.begin()
	if err := j.Exclude(t.Context(), []v1.HostOut{{Name: "cp-2", Node: "never-was", At: w.clock.Now(), By: "x"}}); err != nil {
		t.Fatal(err)
	}
	before := w.read("cp-1", kcmManifest)
	_, err := w.run(p)
	says(t, err, "host cp-2 was excluded from this migration, and "+component.KCM+" runs on it")
	if w.read("cp-1", kcmManifest) != before {
		t.Error("the migration went on without it")
	}
}

// TestAHostThatIsLeftOutOnTheWordOfAJournalIsAskedFor where no access reaches it: its own node, whatever node the journal
// names, and the leases.
func TestAHostThatIsLeftOutOnTheWordOfAJournalIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remove func(w *world, node string)
		says   string
	}{
		"its node is Ready":  {func(*world, string) {}, "its node node-%s is Ready"},
		"it holds a lease":   {func(w *world, node string) { w.api.Delete("/api/v1/nodes/" + node) }, "lease " + component.KCM + " is held by %s_"},
		"its node is silent": {func(w *world, node string) { w.silent(strings.TrimPrefix(node, "node-")) }, "lease " + component.KCM + " is held by %s_"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			p, j := w.begin()
			owner, _, _ := strings.Cut(w.holder(component.KCM), "_")
			if err := j.Exclude(t.Context(), []v1.HostOut{{Name: owner, Node: "never-was", At: w.clock.Now(), By: "x"}}); err != nil {
				t.Fatal(err)
			}
			c.remove(w, "node-"+owner)
			w.renewing(component.KCM)
			files := w.files()
			_, err := w.run(p, func(o *step.Options) {
				o.Hosts = slices.DeleteFunc(slices.Clone(o.Hosts), func(h hostaccess.Host) bool { return h.Name() == owner })
			})
			says(t, err, "host "+owner+" was excluded from this migration", strings.ReplaceAll(c.says, "%s", owner))
			w.same(files)
		})
	}
}

// TestALeaseThatALostHostLeftBehindRunsOut: the migration goes on without that host.
func TestALeaseThatALostHostLeftBehindRunsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	var told []string
	e := w.engine(func(o *step.Options) {
		o.Tell = func(ev step.Event) { told = append(told, string(ev.Kind)+": "+ev.Message) }
	})
	e.env.Plan = p
	owner, _, _ := strings.Cut(w.holder(component.KCM), "_")
	w.mu.Lock()
	w.procs = map[string]*process{}
	w.mu.Unlock()
	if lease, _, err := lostnode.HeldLease(t.Context(), e.env, []string{owner}, []string{component.KCM, component.CCM}); lease != "" || err != nil {
		t.Errorf("lease %q, %v", lease, err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "progress: lease "+component.KCM+" is held by "+owner) || !strings.Contains(told[0], "up to 45s") {
		t.Errorf("what is waited for is not said once: %q", told)
	}
}

// TestAHostWithoutRecordsHoldsNoLeaseOfTheNewManager: a rollback leaves a host alone that the migration has not changed.
func TestAHostWithoutRecordsHoldsNoLeaseOfTheNewManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	back := w.planBack()
	e := w.engine()
	owner, _, _ := strings.Cut(w.holder(component.CCM), "_")
	doc := e.env.Journal.Doc()
	doc.Records = nil
	doc.Without = []v1.HostOut{{Name: owner, Node: "never-was"}}
	e.env.Journal = journal.Of(doc)
	e.env.Plan, e.env.ExcludedHosts = back, nil
	w.renewing(component.CCM)
	says(t, lostnode.RejectReturnedHosts(t.Context(), e.env), "host "+owner+" was excluded from this migration", "lease "+component.CCM+" is held by "+owner)
}
