package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// withDaemons is a world whose manager is to be a DaemonSet, and the plan for it.
func withDaemons(t *testing.T, hosts int) (*world, *v1.Plan) {
	t.Helper()
	w := newWorld(t, hosts)
	w.mu.Lock()
	w.more = w.daemons
	w.mu.Unlock()
	return w, w.beginWith(v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeDaemonSet})
}

// lastBefore is the step before another one that changes something.
func lastBefore(p *v1.Plan, id string) (last string) {
	for _, s := range p.Steps {
		if s.ID == id {
			break
		}
		if s.Kind != v1.StepVerify {
			last = s.ID
		}
	}
	return last
}

// replaced are the hosts whose pods the records say were replaced, in the order in which that was begun.
func (w *world) replaced() (hosts []string, handovers int) {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range j.Doc().Records {
		if host, found := strings.CutPrefix(r.ID, "finish/"+component.CCM+"@"); found {
			hosts = append(hosts, host)
			handovers += len(r.Handovers)
		}
	}
	return hosts, handovers
}

func TestThePodsOfADaemonSetAreReplacedOneAfterTheOtherAndTheOwnersLast(t *testing.T) {
	t.Parallel()
	w, p := withDaemons(t, 3)
	files := w.files()
	w.past(p, lastBefore(p, "finish/"+component.CCM))
	owner, _, _ := strings.Cut(w.holder(component.CCM), "_")
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	hosts, handovers := w.replaced()
	if len(hosts) != 3 || hosts[2] != owner || handovers != 2 {
		t.Errorf("replaced %v with %d handovers, and the owner was %s", hosts, handovers, owner)
	}
	for _, h := range hosts {
		if got := w.procs[component.CCM+"@"+h]; got.flags["enable-leader-migration"] != "" || w.restarts[component.CCM+"@"+h] != 2 {
			t.Errorf("%s was started %d times, and runs with %v", h, w.restarts[component.CCM+"@"+h], got.args)
		}
	}
	if w.expired > 0 {
		t.Errorf("%d leases ran out", w.expired)
	}
	if _, err := w.run(p); err != nil || w.restarts[component.CCM+"@"+owner] != 2 {
		t.Errorf("a second run: %v, %d starts", err, w.restarts[component.CCM+"@"+owner])
	}

	w.rollBack()
	w.rolledBack(files)
	if w.expired > 0 {
		t.Errorf("on the way back %d leases ran out", w.expired)
	}
}

// TestAReplacedPodIsFollowedAfterACrash has the program die right before each pod is deleted, and right after.
func TestAReplacedPodIsFollowedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"during", "deleted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w, p := withDaemons(t, 3)
			files := w.files()
			crashed := map[string]bool{}
			for died := true; died; {
				var err error
				died, err = w.runUntil(p, func(at, id string) bool {
					h, found := strings.CutPrefix(id, "finish/"+component.CCM+"@")
					if !found || at != "during" || crashed[h] {
						return false
					}
					crashed[h] = true
					if point == "deleted" {
						w.api.Delete("/api/v1/namespaces/kube-system/pods/" + component.CCM + "-" + h)
					}
					return true
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if hosts, _ := w.replaced(); len(hosts) != 3 || len(crashed) != 3 {
				t.Errorf("replaced %v, with crashes on %v", hosts, crashed)
			}
			w.rollBack()
			w.rolledBack(files)
		})
	}
}

// TestNoPodIsReplacedBeforeTheControllerHasSeenTheTemplate: it would come back as it was.
func TestNoPodIsReplacedBeforeTheControllerHasSeenTheTemplate(t *testing.T) {
	t.Parallel()
	w, p := withDaemons(t, 2)
	w.past(p, "finish/"+component.CCM)
	var d appsv1.DaemonSet
	w.api.Get(t, daemonSet, &d)
	d.Generation = 7
	w.api.Put(t, &d)
	w.mu.Lock()
	w.more = nil // the controller stands still
	w.mu.Unlock()
	_, err := w.run(p)
	says(t, err, "its controller has not seen the change yet", "run the same command again")
	for _, h := range w.hostNames() {
		if w.restarts[component.CCM+"@"+h] != 1 {
			t.Errorf("the pod on %s was replaced", h)
		}
	}
	w.mu.Lock()
	w.more = w.daemons
	w.mu.Unlock()
	if _, err := w.run(p); err != nil {
		t.Error(err)
	}
}

// TestTheWayBackFromEachPlaceOfTheLastPhase: pods of both templates may be there.
func TestTheWayBackFromEachPlaceOfTheLastPhase(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", "@cp-1", "@cp-2"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w, p := withDaemons(t, 3)
			files := w.files()
			w.past(p, "finish/"+component.CCM+place)
			w.rollBack()
			w.rolledBack(files)
		})
	}
}

// TestADaemonSetThatIsDeletedIsFollowedAfterACrash has the program die when it has bound who leads, and when the DaemonSet is deleted, too.
func TestADaemonSetThatIsDeletedIsFollowedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint(deleted), func(t *testing.T) {
			t.Parallel()
			w, p := withDaemons(t, 3)
			files := w.files()
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			back := w.planBack()
			died, err := w.runUntil(back, func(at, id string) bool {
				if id != "undo/start/"+component.CCM || at != "during" {
					return false
				}
				if deleted {
					w.api.Delete(daemonSet)
				}
				return true
			})
			if err != nil || !died {
				t.Fatalf("%v, %v", died, err)
			}
			if _, err := w.run(back); err != nil {
				t.Fatal(err)
			}
			w.rolledBack(files)
		})
	}
}

// earlier is the plan as versions made it that had one step for the template and its pods.
func earlier(p *v1.Plan) {
	p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepReplacePod })
	for i := range p.Steps {
		if s := &p.Steps[i]; s.ID == "finish/"+component.CCM {
			s.Leases, s.Successors = []string{component.CCM, p.Options.LeaseName}, []string{component.CCM}
		}
	}
}

func TestAPlanOfAnEarlierVersionWaitsForItsPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.mu.Lock()
	w.more = w.daemons
	w.mu.Unlock()
	files := w.files()
	p := w.beginAs(v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeDaemonSet}, earlier)
	_, err := w.run(p)
	says(t, err, "0 of 3 pods are updated", "delete them one after the other, the leader's last")

	// Somebody does so. A holder is known by the name that a kubelet puts on its Node.
	for _, h := range w.hostNames() {
		var n corev1.Node
		w.api.Get(t, "/api/v1/nodes/node-"+h, &n)
		n.Labels = map[string]string{corev1.LabelHostname: h}
		w.api.Put(t, &n)
	}
	w.mu.Lock()
	owner, _, _ := strings.Cut(w.holder(component.CCM), "_")
	w.mu.Unlock()
	for _, h := range append(slices.DeleteFunc(w.hostNames(), func(h string) bool { return h == owner }), owner) {
		w.api.Delete("/api/v1/namespaces/kube-system/pods/" + component.CCM + "-" + h)
		w.mu.Lock()
		w.catchUp()
		w.mu.Unlock()
		w.clock.Step(2 * time.Second)
	}
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
	w.rolledBack(files)
}

// TestARecordAloneSupersedesNoTemplate: a client that may write the journal could plant the record of a later step. The template would not be put back, and its
// pods would run the loops next to the in-tree manager.
func TestARecordAloneSupersedesNoTemplate(t *testing.T) {
	t.Parallel()
	w, p := withDaemons(t, 2)
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	_, back := w.wayBack()
	for _, planted := range []string{"undo/finish/" + component.CCM + "@cp-1", "undo/start/" + component.CCM} {
		e := w.engine()
		e.env.Plan = back
		if err := e.env.Journal.Save(t.Context(), v1.StepRecord{ID: planted, Started: w.clock.Now(), Result: v1.StepResultDone}); err != nil {
			t.Fatal(err)
		}
		s := back.Steps[slices.IndexFunc(back.Steps, func(s v1.Step) bool { return s.ID == "undo/finish/"+component.CCM })]
		if is, err := e.superseded(t.Context(), s); is || err != nil {
			t.Errorf("%s supersedes %s: %v, %v", planted, s.ID, is, err)
		}
	}
	w.api.Delete(daemonSet)
	e := w.engine()
	e.env.Plan = back
	if is, err := e.superseded(t.Context(), v1.Step{ID: "undo/finish/" + component.CCM, Ref: layout.CCMDaemonSet}); !is || err != nil {
		t.Errorf("a DaemonSet that is gone: %v, %v", is, err)
	}
}

// TestHandoversOfADaemonSetAreThoseOfItsPods: one that another host's process or another lease is in is refused before anything is done.
func TestHandoversOfADaemonSetAreThoseOfItsPods(t *testing.T) {
	t.Parallel()
	w, p := withDaemons(t, 2)
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.planBack()
	was := v1.HandoverRecord{Lease: p.Options.LeaseName, Holder: "cp-1_7", PID: 7, StartTicks: 700, Component: component.CCM, Host: "cp-1"}
	replaced, deleted := "undo/finish/"+component.CCM+"@cp-1", "undo/start/"+component.CCM
	for name, c := range map[string]struct {
		step, says string
		change     func(h *v1.HandoverRecord)
	}{
		"of a pod":                       {replaced, "", func(*v1.HandoverRecord) {}},
		"of a pod on another host":       {replaced, `the holder is on host "cp-2"`, func(h *v1.HandoverRecord) { h.Host = "cp-2" }},
		"of another lease":               {replaced, "the step hands over", func(h *v1.HandoverRecord) { h.Lease = component.KCM }},
		"of the DaemonSet":               {deleted, "", func(*v1.HandoverRecord) {}},
		"of the DaemonSet, elsewhere":    {deleted, "", func(h *v1.HandoverRecord) { h.Host, h.Holder = "cp-2", "cp-2_7" }},
		"of the DaemonSet, on no host":   {deleted, "which the plan does not know", func(h *v1.HandoverRecord) { h.Host = "worker-1" }},
		"of the DaemonSet, of a manager": {deleted, "the holder is a " + component.KCM, func(h *v1.HandoverRecord) { h.Component = component.KCM }},
		"of the DaemonSet, of its lease": {deleted, "the step hands over", func(h *v1.HandoverRecord) { h.Lease = component.CCM }},
		"of the DaemonSet, of another":   {deleted, "is on host cp-2", func(h *v1.HandoverRecord) { h.Holder = "cp-2_7" }},
	} {
		doc, h := w.engine().env.Journal.Doc(), was
		c.change(&h)
		doc.Records = append(doc.Records, v1.StepRecord{ID: c.step, Result: v1.StepResultStarted, Handovers: []v1.HandoverRecord{h}})
		err := trust.CheckJournal(doc, nil)
		if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: it is not judged with %q: %v", name, c.says, err)
		}
	}
}
