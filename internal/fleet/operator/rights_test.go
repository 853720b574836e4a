package operator

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
)

// refuse lets a seed show the Deployments of a namespace only while it is granted, and no namespace's but one by one. The
// operator must not run yet: a client that is in use bears no new reactor.
func refuse(t *testing.T, seed *fake.Clientset, namespace string, granted *atomic.Bool) *atomic.Int32 {
	asked := &atomic.Int32{}
	no := func(a clienttesting.Action) error {
		if a.GetNamespace() == "" {
			t.Errorf("%s of the Deployments of all namespaces", a.GetVerb())
		}
		if a.GetNamespace() != namespace || granted.Load() {
			return nil
		}
		asked.Add(1)
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", nil)
	}
	seed.PrependReactor("list", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := no(a)
		return err != nil, nil, err
	})
	seed.PrependWatchReactor("deployments", func(a clienttesting.Action) (bool, watch.Interface, error) {
		err := no(a)
		return err != nil, nil, err
	})
	return asked
}

func TestANamespaceWithoutRightsIsLeftAloneAndSaidAndGoesOnWithThem(t *testing.T) {
	var granted atomic.Bool
	var asked *atomic.Int32
	refused := func(o *Options) { asked = refuse(t, o.Kube.(*fake.Clientset), "cluster-a", &granted) }
	bubble(t, refused, func(w *world) {
		w.plane("a", 1)
		w.cluster("a", enabled)
		w.cluster("b", enabled)
		w.until("a", kubermaticv1.PhaseBlocked, time.Minute)
		w.until("b", kubermaticv1.PhaseCompleted, 10*time.Minute)
		message := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration].Message
		if !strings.Contains(message, "namespace cluster-a") || !strings.Contains(message, "transplant fleet rights") {
			t.Errorf("the condition says %q", message)
		}
		before := asked.Load()
		<-time.After(time.Hour)
		if n := asked.Load() - before; n == 0 || n > 2*31 {
			t.Errorf("the seed was asked %d times in an hour", n)
		}
		if began := strings.Join(w.began(), " "); strings.Contains(began, "a ") {
			t.Errorf("begun: %s", began)
		}
		granted.Store(true)
		w.until("a", kubermaticv1.PhaseCompleted, 20*time.Minute)
	})
}

// A namespace that has not answered yet may be one that the operator may not read, or hold a control plane that is
// scaled to zero.
func TestNothingIsBegunInANamespaceThatHasNotAnsweredYet(t *testing.T) {
	var answers atomic.Bool
	silent := func(o *Options) {
		o.Kube.(*fake.Clientset).PrependReactor("list", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetNamespace() != "cluster-a" || answers.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewServiceUnavailable("the seed is busy")
		})
	}
	bubble(t, silent, func(w *world) {
		w.cluster("b", enabled)
		w.until("b", kubermaticv1.PhaseCompleted, 10*time.Minute) // the operator leads
		w.plane("a", 1)
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseQueued, time.Minute)
		<-time.After(10 * time.Minute)
		if began := strings.Join(w.began(), " "); strings.Contains(began, "a ") {
			t.Errorf("begun: %s", began)
		}
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration]; c.Reason != kubermaticv1.PhaseQueued {
			t.Errorf("the cluster is in phase %s: %s", c.Reason, c.Message)
		}
		answers.Store(true)
		w.until("a", kubermaticv1.PhaseCompleted, 20*time.Minute)
	})
}

// An operator that may not read a seed's namespace keeps no other one from the cluster, and says what it lacks.
func TestAClusterIsNotClaimedWithoutTheRightToReadItsJournal(t *testing.T) {
	bubble(t, func(o *Options) { o.Installation = "system/operator" }, func(w *world) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "transplant-journal", nil)
		w.change("a", func(c *userCluster) { c.noJournal = fmt.Errorf("reading the journal of the handover: %w", forbidden) })
		w.cluster("a", enabled)
		<-time.After(time.Hour)
		if c := w.read("a"); c.Annotations[kubermaticv1.AnnotationOperator] != "" || len(c.Status.Conditions) > 0 {
			t.Errorf("it is claimed by %q and has %d conditions", c.Annotations[kubermaticv1.AnnotationOperator], len(c.Status.Conditions))
		}
		var told []string
		for len(w.recorder.Events) > 0 {
			if e := <-w.recorder.Events; strings.Contains(e, state.ReasonRightMissing) {
				told = append(told, e)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], `configmaps "transplant-journal" is forbidden`) || !strings.Contains(told[0], "in namespace cluster-a of the seed") {
			t.Errorf("events: %q", told)
		}
		w.mu.Lock()
		looks := w.seen
		w.mu.Unlock()
		if looks > 370 {
			t.Errorf("%d looks in an hour, one in ten seconds is due", looks)
		}
		w.change("a", func(c *userCluster) { c.noJournal = nil })
		w.until("a", kubermaticv1.PhaseCompleted, 2*time.Minute)
		if by := w.read("a").Annotations[kubermaticv1.AnnotationOperator]; by != "system/operator" {
			t.Errorf("it is claimed by %q once the right is given", by)
		}
	})
}

// Another error of the look is no reason to leave a cluster to others.
func TestAClusterWhoseJournalCannotBeReadNowIsClaimed(t *testing.T) {
	bubble(t, func(o *Options) { o.Installation = "system/operator" }, func(w *world) {
		w.change("a", func(c *userCluster) { c.noJournal = errors.New("connection refused") })
		w.cluster("a", enabled)
		<-time.After(time.Minute)
		if by := w.read("a").Annotations[kubermaticv1.AnnotationOperator]; by != "system/operator" {
			t.Errorf("it is claimed by %q", by)
		}
	})
}
