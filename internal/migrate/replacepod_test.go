package migrate

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
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
