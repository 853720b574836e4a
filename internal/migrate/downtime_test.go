package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestADowntimeOnOneHostAndItsWayBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	files := w.files()
	p, _ := w.begin()
	if p.Strategy != planstep.Downtime {
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
		if step.Component != component.KCM && step.Component != component.KAS && step.Component != component.CCM {
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
	p := w.beginWith(v1.Options{Strategy: planstep.Downtime})
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
	w.api.Get(t, leasePath(component.MigrationLease), &l)
	died := metav1.NewMicroTime(w.clock.Now())
	l.Name, l.Namespace = component.MigrationLease, component.Namespace
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = ptr.To("cp-1_dead"), ptr.To[int32](15), &died
	w.api.Put(t, &l)
	w.mu.Unlock()
	w.rollBack()
	w.rolledBack(files)
}

// trying is a host on which images can be tried.
type trying struct {
	hostaccess.Host
	answer func(image string, command []string) error
}

func (h trying) TryImage(_ context.Context, image string, command []string) error {
	return h.answer(image, command)
}

func TestNoManagerIsStoppedBeforeTheImageOfTheNewOneIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	old := func() int {
		found, err := w.hosts[0].Processes(t.Context(), component.KCM)
		if err != nil {
			t.Error(err)
		}
		return len(found)
	}
	var tried []string
	var answer error
	with := func(o *step.Options) {
		o.Hosts = []hostaccess.Host{trying{Host: w.hosts[0], answer: func(image string, command []string) error {
			if old() != 1 {
				t.Error("the old manager was stopped before")
			}
			tried = append(tried, image+" "+strings.Join(command, " "))
			return answer
		}}}
	}
	answer = &hostaccess.ImageError{Host: "cp-1", Image: p.Options.Image, Why: "ImagePullBackOff: no such host"}
	err := w.engine(with).Run(t.Context(), p, nil)
	says(
		t,
		err,
		"image "+p.Options.Image+" cannot be used on host cp-1: ImagePullBackOff: no such host. The old manager still runs, and this step changed nothing",
		"transplant rollback",
	)
	if !errors.Is(err, context.DeadlineExceeded) || old() != 1 {
		t.Errorf("%d managers run, and the error is %v", old(), err)
	}
	answer = errors.New("nobody answers")
	says(t, w.engine(with).Run(t.Context(), p, nil), "nobody answers; the old manager still runs, and nothing was changed")
	answer = nil
	if err := w.engine(with).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if len(tried) != 3 || !strings.HasPrefix(tried[2], p.Options.Image+" ") || !strings.HasSuffix(tried[2], " --version") {
		t.Errorf("tried %q", tried)
	}
	w.migrated(p)
}

func TestAnImageOfWhichNobodyKnowsIsNamedBeforeADowntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	var said []string
	if err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if strings.Contains(e.Message, p.Options.Image) && e.Kind == step.EventProgress {
				said = append(said, e.Message)
			}
		}
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "is not proven") || !strings.Contains(said[0], "host cp-1") {
		t.Errorf("said %q", said)
	}
}

func TestWhatNobodyRunsIsKnownInTheMiddleOfADowntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	stop := make(chan struct{})
	e := w.engine(func(o *step.Options) {
		o.Hook = func(point, step string) {
			if point == "after" && strings.HasPrefix(step, "stop/"+component.KCM) {
				close(stop)
			}
		}
	})
	if err := e.Run(t.Context(), p, stop); !errors.Is(err, step.ErrInterrupted) {
		t.Fatalf("error: %v", err)
	}
	if idle := e.Unowned(t.Context()); !slices.Contains(idle, "service") || !slices.Contains(idle, "cloud-node-lifecycle") {
		t.Errorf("nobody runs %q", idle)
	}
	e = w.engine()
	if err := e.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if idle := e.Unowned(t.Context()); len(idle) > 0 {
		t.Errorf("at the end nobody runs %q", idle)
	}
}
