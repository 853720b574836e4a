package migrate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestAWholeMigrationAndItsRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	p, _ := w.begin()
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.migrated(p)
	w.onlyTheNeededHandovers()
	if w.restarts["kubelet@cp-1"] != 1 {
		t.Errorf("the kubelet of cp-1 was restarted %d times", w.restarts["kubelet@cp-1"])
	}
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Errorf("executing what is done: %v", err)
	}
	if w.restarts["kubelet@cp-1"] != 1 {
		t.Error("a kubelet was restarted for what was done already")
	}

	w.rollBack()
	w.rolledBack(files)
}

// migrated checks what a migration promises.
func (w *world) migrated(p *v1.Plan) {
	w.t.Helper()
	snap := w.snapshot()
	if why := manager.CompareOwners(snap.Managers, p.Steps[len(p.Steps)-1].Expect); why != "" {
		w.t.Error(why)
	}
	for _, h := range snap.Hosts {
		if have := h.Kubelet.Flags["cloud-provider"]; have != "external" {
			w.t.Errorf("the kubelet of %s has --cloud-provider=%s", h.Name, have)
		}
	}
	holds := layout.CCMToken
	if slices.ContainsFunc(p.Steps, func(s v1.Step) bool { return s.Derive == layout.OlderKubeconfig }) {
		holds = layout.CCMKubeconfig
	}
	for name, content := range w.files() {
		if strings.Contains(content, "enable-leader-migration") || strings.HasPrefix(name, "/cp-1"+layout.Dir) {
			w.t.Errorf("%s is left: %s", name, content)
		}
		if strings.Contains(content, "ccm-token") != strings.HasSuffix(name, holds) || strings.Contains(content, "ccm-token") && !strings.HasPrefix(content, "0600") {
			w.t.Errorf("the token is in %s", name)
		}
	}
	if w.holder(component.MigrationLease) != "" {
		w.t.Error("the migration lease is left")
	}
	if w.expired > 0 {
		w.t.Errorf("%d leases ran out: the loops had no owner for 15 s", w.expired)
	}
}

// rolledBack checks that everything is as it was.
func (w *world) rolledBack(files map[string]string) {
	w.t.Helper()
	if diff := cmp.Diff(files, w.files()); diff != "" {
		w.t.Errorf("files before and after (-before +after):\n%s", diff)
	}
	snap := w.snapshot()
	if why := manager.CompareOwners(
		snap.Managers,
		map[string]string{"service": component.KCM, "route": component.KCM, "cloud-node-lifecycle": component.KCM, "nodeipam": component.KCM},
	); why != "" {
		w.t.Error(why)
	}
	for _, o := range snap.Objects {
		if o.Present {
			w.t.Errorf("%s is left", o.Ref)
		}
	}
	for _, lease := range []string{component.MigrationLease, component.CCM} {
		if w.holder(lease) != "" {
			w.t.Errorf("lease %s is left", lease)
		}
	}
}

// killed is what a test panics with where a process of ours would die.
type killed struct{}

// past runs the plan with an engine that dies right after a step.
func (w *world) past(p *v1.Plan, step string) {
	w.t.Helper()
	died, err := w.runUntil(p, func(point, id string) bool { return point == "after" && id == step })
	if err != nil || !died {
		w.t.Fatalf("past step %s: %v, %v", step, died, err)
	}
}

// runUntil runs the plan with an engine that dies where it is told to; false when it never came there.
func (w *world) runUntil(p *v1.Plan, here func(point, step string) bool) (died bool, err error) {
	w.t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			died, err = true, nil
		}
	}()
	e := w.engine(func(o *step.Options) {
		o.Hook = func(at, id string) {
			if here(at, id) {
				panic(killed{})
			}
		}
	})
	doc := e.env.Journal.Doc()
	steps, err := trust.JournaledSteps(doc)
	if err != nil {
		w.t.Error(err)
	}
	for _, rec := range doc.Records { // wherever the last one died
		if err := trust.JudgeHandovers(doc, steps, rec, nil); err != nil {
			w.t.Errorf("record of step %s: %v", rec.ID, err)
		}
	}
	return false, e.Run(w.t.Context(), p, nil)
}

func TestAKillInEveryStepConverges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	p, _ := w.begin()
	died, last := map[string]bool{}, ""
	for {
		again, err := w.runUntil(p, func(point, step string) bool { // dies once in each step, in the order in which they come
			last = point + " " + step
			first := !died[last]
			died[last] = true
			return first && point == "during"
		})
		if err != nil {
			t.Fatalf("after a death %s: %v", last, err)
		}
		if !again {
			break
		}
	}
	for _, s := range p.Steps {
		if s.Kind != v1.StepVerify && !died["during "+s.ID] {
			t.Errorf("the engine did not die in step %s", s.ID)
		}
	}
	w.migrated(p)
	w.rollBack()
	w.rolledBack(files)
}

func TestAMigrationThatStopsBehindAnyStepGoesOnWithTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	done := func(id string) bool { return w.engine().env.Journal.Record(id).Ended != nil }
	last := map[string]string{} // step of each phase
	for _, s := range p.Steps {
		last[s.Phase] = s.ID
	}
	for _, s := range p.Steps { // each run is a process of its own, and is told to stop one step later
		if _, err := planstep.Until(p, s.ID); err != nil {
			t.Fatal(err)
		}
		part := *p
		part.Until = s.ID
		if _, err := w.run(&part); err != nil {
			t.Fatalf("until %s: %v", s.ID, err)
		}
		if !done(s.ID) {
			t.Errorf("until %s: it is not done", s.ID)
		}
		for _, o := range p.Steps {
			if last[s.Phase] == s.ID && o.Phase == s.Phase && !done(o.ID) {
				t.Errorf("until the end of phase %s: %s is not done", s.Phase, o.ID)
			}
		}
		for _, o := range p.Steps[positionOf(p, last[s.Phase])+1:] {
			if done(o.ID) {
				t.Errorf("until %s: %s of the next phase is done", s.ID, o.ID)
			}
		}
	}
	w.migrated(p)
}

// rollBackFromTheMiddle kills a migration of some hosts in the middle of a step, and rolls it back.
func rollBackFromTheMiddle(t *testing.T, hosts int, step string) {
	t.Parallel()
	w := newWorld(t, hosts)
	files := w.files()
	p, _ := w.begin()
	died, err := w.runUntil(p, func(at, id string) bool { return at == "during" && id == step })
	if err != nil || !died {
		t.Fatalf("died %v, %v", died, err)
	}
	w.rollBack()
	w.rolledBack(files)
}

func TestARollbackFromTheMiddleOfAStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{
		"create/RoleBinding/kube-system/" + layout.MigrationRole, "external/" + component.KCM + "@cp-1", "finish/" + component.CCM + "@cp-2",
	} {
		t.Run(strings.ReplaceAll(step, "/", "_"), func(t *testing.T) {
			rollBackFromTheMiddle(t, 2, step)
		})
	}
}

func TestTheOwnersGroupComesLastWhereverOwnershipWent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	if last := p.Steps[positionOf(p, "leader-migration/"+component.KCM+"@cp-1")+1].Phase; last != planstep.PhaseHandover {
		t.Fatalf("the plan does not put the owner cp-1 last, but before phase %s", last)
	}
	// Ownership moves to cp-2 after the plan was made: its kube-controller-manager wins.
	w.mu.Lock()
	w.lastPID++
	delete(w.procs, component.KCM+"@cp-1")
	w.elect(component.KCM, func(*process) bool { return false })
	w.clock.Step(16 * 1e9)
	w.elect(component.KCM, func(p *process) bool { return p.host == "cp-2" && p.component == component.KCM })
	w.expired = 0
	w.mu.Unlock()
	p.Steps = p.Steps[:positionOf(p, "leader-migration/"+component.KCM+"@cp-1")+1]
	var order, deferred []string
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventStarted && strings.HasPrefix(e.Step.ID, "leader-migration/") {
				order = append(order, e.Step.Host)
			}
			if e.Kind == step.EventDeferred && e.Step.Phase == planstep.PhaseMigration {
				deferred = append(deferred, e.Step.Host)
			}
		}
	}).Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cp-3", "cp-1", "cp-2"}, order); diff != "" {
		t.Errorf("order (-want +have):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cp-2"}, deferred); diff != "" {
		t.Errorf("deferred, and said once (-want +have):\n%s", diff)
	}
	if w.expired > 0 {
		t.Errorf("%d leases ran out", w.expired)
	}
}

func positionOf(p *v1.Plan, id string) int {
	for i, s := range p.Steps {
		if s.ID == id {
			return i
		}
	}
	return -1
}

// onlyTheNeededHandovers happened: three planned restarts of an owner, each of which gave up all that the owner held.
func (w *world) onlyTheNeededHandovers() {
	t := w.t
	t.Helper()
	j, err := journal.Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, r := range j.Doc().Records {
		for _, h := range r.Handovers {
			if h.Released == nil || h.Ended == nil || h.PID == 0 {
				t.Errorf("step %s: %+v", r.ID, h)
			}
			have = append(have, fmt.Sprintf("%s: %s@%s", h.Lease, h.Component, h.Host))
		}
	}
	for i, want := range []string{
		"kube-controller-manager: kube-controller-manager@cp-1", // leader migration on
		"kube-controller-manager: kube-controller-manager@cp-",  // external, with the loops
		"cloud-provider-extraction-migration: kube-controller-manager@cp-",
		"cloud-controller-manager: cloud-controller-manager@cp-", // leader migration off
		"cloud-provider-extraction-migration: cloud-controller-manager@cp-",
	} {
		if i >= len(have) || !strings.HasPrefix(have[i], want) {
			t.Errorf("handover %d is not %s: %v", i, want, have)
		}
	}
	if len(have) != 5 {
		t.Errorf("%d handovers: %v", len(have), have)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withoutConfig takes the cloud config from every host and every manifest, as --cloud-provider=aws alone leaves them.
func (w *world) withoutConfig() {
	for _, h := range w.hosts {
		for _, component := range []string{component.KAS, component.KCM} {
			path := manifests + component + ".yaml"
			text := strings.Replace(w.read(h.Name(), path), "    - --cloud-config=/etc/kubernetes/cloud.conf\n", "", 1)
			text, _, _ = strings.Cut(text, "    volumeMounts:\n")
			w.write(h.Name(), path, text, 0o600)
		}
		if err := os.Remove(w.at(h.Name(), "/etc/kubernetes/cloud.conf")); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAClusterWithoutACloudConfigIsMigratedAndRolledBack has the normal case of AWS.
func TestAClusterWithoutACloudConfigIsMigratedAndRolledBack(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct {
		hosts   int
		options v1.Options
	}{
		"leader migration": {2, v1.Options{}},
		"downtime":         {1, v1.Options{}},
		"volumes in tree":  {2, v1.Options{Volumes: v1.VolumesInTree}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, o.hosts, (*world).withoutConfig)
			files := w.files()
			p := w.beginWith(o.options)
			if err := w.engine().Run(t.Context(), p, nil); err != nil {
				t.Fatal(err)
			}
			w.migrated(p)
			for file, content := range w.files() {
				if strings.Contains(content, "cloud-config") || strings.HasSuffix(file, layout.CCMCloudConf) {
					t.Errorf("%s: a cloud config came from nothing: %s", file, content)
				}
			}
			w.rollBack()
			w.rolledBack(files)
		})
	}
}
