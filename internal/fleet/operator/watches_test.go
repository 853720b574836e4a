package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// telling are user clusters that tell when their machines change.
type telling struct {
	*user
	mu sync.Mutex
	// changed are the watches under way, by cluster; begun counts those that ever were.
	changed map[string]func()
	breaks  map[string]chan error
	begun   int
	refused error
}

func (m *telling) Watch(ctx context.Context, t Target, changed func()) error {
	m.mu.Lock()
	m.begun++
	if m.refused != nil {
		defer m.mu.Unlock()
		return m.refused
	}
	m.changed[t.Name], m.breaks[t.Name] = changed, make(chan error)
	breaks := m.breaks[t.Name]
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.changed, t.Name)
	}()
	changed()
	select {
	case <-ctx.Done():
		return nil
	case err := <-breaks:
		return err
	}
}

func (m *telling) watched() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.changed)
}

// tellingBubble is a bubble with such clusters.
func tellingBubble(t *testing.T, prepare func(*Options), f func(*world, *telling)) {
	t.Helper()
	m := &telling{changed: map[string]func(){}, breaks: map[string]chan error{}}
	bubble(t, func(o *Options) {
		m.user = o.Machines.(*user)
		o.Machines = m
		if prepare != nil {
			prepare(o)
		}
	}, func(w *world) { f(w, m) })
}

// looks are how often user clusters were looked at in so much time.
func (w *world) looks(d time.Duration) int {
	synctest.Wait()
	w.user.mu.Lock()
	before := w.seen
	w.user.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	w.user.mu.Lock()
	defer w.user.mu.Unlock()
	return w.seen - before
}

func TestMachinesAreWatchedWhileTheyAreWaitedForAndLookedAtWhenTheyChange(t *testing.T) {
	tellingBubble(t, nil, func(w *world, m *telling) {
		w.change("a", func(c *userCluster) { c.machines = &state.Machines{Total: 2} })
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseMachines, time.Minute)
		<-time.After(time.Minute)
		if n := w.looks(time.Hour); n > 3*61 || n == 0 { // owners, parts and machines, once a minute
			t.Errorf("an hour in which nothing happens costs %d looks", n)
		}
		w.change("a", func(c *userCluster) { c.machines = &state.Machines{Total: 2, Migrated: 1} })
		m.mu.Lock()
		m.changed["a"]()
		m.mu.Unlock()
		<-time.After(w.Limits.Look/2 + 2*time.Second)
		synctest.Wait()
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionMachines]; !strings.HasPrefix(c.Message, "1 of 2") {
			t.Errorf("half an interval behind a change it says %q", c.Message)
		}
		w.change("a", func(c *userCluster) { c.machines = nil })
		m.mu.Lock()
		m.changed["a"]()
		m.mu.Unlock()
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
		synctest.Wait()
		if m.watched() != 0 {
			t.Error("the machines of a completed cluster are watched")
		}
	})
}

func TestMachinesArePolledWhileTheirWatchIsBroken(t *testing.T) {
	tellingBubble(t, nil, func(w *world, m *telling) {
		m.refused = errors.New("watch is not allowed")
		w.change("a", func(c *userCluster) { c.machines = &state.Machines{Total: 2} })
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseMachines, time.Minute)
		if n := w.looks(time.Hour); n < 3*300 {
			t.Errorf("in an hour without a watch there were %d looks", n)
		}
		m.mu.Lock()
		if m.begun > 40 {
			t.Errorf("a watch that is refused was tried %d times in an hour", m.begun)
		}
		m.refused = nil
		m.mu.Unlock()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if m.watched() != 1 {
			t.Fatal("the watch was not begun again")
		}
		m.breaks["a"] <- nil // as an API server ends each after a while
		<-time.After(time.Minute)
		synctest.Wait()
		if m.watched() != 1 {
			t.Error("a watch that came to its end is not begun again")
		}
	})
}

func TestNoMoreClustersAreWatchedThanMayBeAndNoneBehindTheLease(t *testing.T) {
	tellingBubble(t, func(o *Options) { o.MaxWatches = 2 }, func(w *world, m *telling) {
		for n := range 4 {
			name := fmt.Sprint("c", n)
			w.change(name, func(c *userCluster) { c.machines = &state.Machines{Total: 1} })
			w.cluster(name, enabled)
		}
		for n := range 4 {
			w.until(fmt.Sprint("c", n), kubermaticv1.PhaseMachines, time.Minute)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := m.watched(); n != 2 {
			t.Errorf("%d clusters are watched", n)
		}
		if err := w.dynamic.Resource(objects.Resource(kubermaticv1.GroupName)).Delete(t.Context(), "c0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.patch("c1", `{"spec":{"pause":true}}`)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := m.watched(); n != 2 || m.changed["c0"] != nil || m.changed["c1"] != nil {
			t.Errorf("with one deleted and one paused, %d are watched", n)
		}
		w.end()
		if n := m.watched(); n != 0 {
			t.Errorf("%d are watched by an operator that does not lead", n)
		}
	})
}

func TestAPlanThatIsNotTheConfirmedOneBlocksUntilItIsConfirmedAnew(t *testing.T) {
	bubble(t, nil, func(w *world) {
		differs := &hosted.UnconfirmedError{Confirmed: "0123456789", Made: "abcdef0123", Other: []string{"loops-off/x"}}
		w.change("a", func(c *userCluster) {
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error { return differs }
		})
		w.cluster("a", enabled, func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.CSIMigrationNeeded: "", kubermaticv1.AnnotationPlan: "0123456789"})
		})
		w.until("a", kubermaticv1.PhaseBlocked, time.Second)
		c := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration]
		for _, words := range []string{"(01234567 then, abcdef01 now)", "changed loops-off/x", kubermaticv1.AnnotationPlan} {
			if !strings.Contains(c.Message, words) {
				t.Errorf("the message does not say %q: %s", words, c.Message)
			}
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if w.phase("a") != kubermaticv1.PhaseBlocked {
			t.Errorf("after an hour it is %s", w.phase("a"))
		}
		w.change("a", func(c *userCluster) { c.run = nil })
		w.patch("a", fmt.Sprintf(`{"metadata":{"annotations":{%q:"abcdef0123"}}}`, kubermaticv1.AnnotationPlan))
		if took := w.until("a", kubermaticv1.PhaseHandover, time.Minute); took > 2*time.Second {
			t.Errorf("what was confirmed again is begun after %s", took)
		}
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
		if _, there := w.read("a").Annotations[kubermaticv1.AnnotationPlan]; there {
			t.Error("what was confirmed is still there when it was executed")
		}
	})
}

func TestAnObjectThatCannotBeReadIsLeftAlone(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.cluster("a", enabled, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "perhaps", "spec", "features", kubermaticv1.FeatureExternalCloudProvider)
		})
		w.cluster("b")
		w.until("b", kubermaticv1.PhaseNotNeeded, time.Second)
		u, err := w.dynamic.Resource(objects.Resource(kubermaticv1.GroupName)).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, there, _ := unstructured.NestedMap(u.Object, "status"); there || slices.Contains(w.began(), "a handover") {
			t.Errorf("it was written to: %v; runs %v", u.Object["status"], w.began())
		}
	})
}
