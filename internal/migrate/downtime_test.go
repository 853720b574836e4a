package migrate

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
)

func TestADowntimeOnOneHostAndItsWayBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	files := w.files()
	p, _ := w.begin()
	if p.Strategy != plan.Downtime {
		t.Fatalf("strategy %s", p.Strategy)
	}
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.migrated(p)
	w.rollBack()
	w.rolledBack(files)
}

func TestAKillInEveryStepOfADowntimeConverges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	files := w.files()
	p, _ := w.begin()
	w.afterEveryDeath(p)
	w.migrated(p)
	w.backAfterEveryDeath()
	w.rolledBack(files)
}

func TestARollbackFromTheMiddleOfADowntime(t *testing.T) {
	t.Parallel()
	probe := newWorld(t, 1)
	p, _ := probe.begin()
	for _, step := range p.Steps {
		if step.Component != kcm && step.Component != kas && step.Component != ccm {
			continue
		}
		t.Run(strings.ReplaceAll(step.ID, "/", "_"), func(t *testing.T) {
			rollBackFromTheMiddle(t, 1, step.ID)
		})
	}
}

func TestADowntimeOfThreeHostsHasNoTwoOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	files := w.files()
	p := w.beginWith(v1.Options{Strategy: plan.Downtime})
	if err := w.engine().Run(t.Context(), p, nil); err != nil { // the world fails the test when two managers run a loop
		t.Fatal(err)
	}
	w.migrated(p)
	w.rollBack()
	w.rolledBack(files)
}

func TestARollbackDaysAfterLeaderMigrationWasDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	p, _ := w.begin()
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.clock.Step(72 * 3600 * 1e9)
	for lease := range w.renewed { // the managers have gone on renewing
		w.renewed[lease] = w.clock.Now()
	}
	w.mu.Unlock()
	w.backAfterEveryDeath()
	w.rolledBack(files)
}

// The last holder of the migration lease died without giving it up, as in a power cut, when nobody was left to want the lease: it names a holder that never was
// seen again, until a rollback switches leader migration on.
func TestALeaseWhoseHolderDiedLongAgoKeepsNobodyFromGoingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	p, _ := w.begin()
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	var l coordinationv1.Lease
	w.api.Get(t, leasePath(plan.DefaultLease), &l)
	died := metav1.NewMicroTime(w.clock.Now())
	l.Name, l.Namespace = plan.DefaultLease, namespace
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = ptr.To("cp-1_dead"), ptr.To[int32](15), &died
	w.api.Put(t, &l)
	w.mu.Unlock()
	w.rollBack()
	w.rolledBack(files)
}
