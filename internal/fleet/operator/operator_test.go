package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/served"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

func TestAClusterWhoseFeatureIsSwitchedOnEndsCompleted(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.cluster("a")
		w.until("a", kubermaticv1.PhaseNotNeeded, time.Second)
		w.enable("a")
		w.until("a", kubermaticv1.PhaseHandover, time.Second)
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
		if got := w.began(); !slices.Equal(got, []string{"a handover", "a finish"}) {
			t.Errorf("the runs were %v", got)
		}
		c := w.read("a")
		done := c.Status.Conditions[kubermaticv1.ConditionCSIKubeletMigrationCompleted]
		if done.Status != corev1.ConditionTrue || done.Reason != "CSIKubeletMigrationSuccess" || done.LastTransitionTime.IsZero() {
			t.Errorf("the original's condition is %+v", done)
		}
		raw, err := w.dynamic.Resource(objects.Resource(kubermaticv1.GroupName)).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if kept, _, _ := unstructured.NestedString(raw.Object, "spec", "cloud", "aws", "secretAccessKey"); kept != "secret" {
			t.Error("what our types do not know of a Cluster was lost")
		}
		if !w.closed["a"] {
			t.Error("the connections to a completed cluster are kept")
		}
	})
}

// Two installations that both acted would overwrite each other's conditions, a dozen times a second, and put each other's changes back.
func TestAClusterBelongsToTheInstallationThatBeginsWithIt(t *testing.T) {
	bubble(t, func(o *Options) { o.Installation = "system/operator" }, func(w *world) {
		claim := func(name string) string { return w.read(name).Annotations[kubermaticv1.AnnotationOperator] }
		w.cluster("ours")
		w.until("ours", kubermaticv1.PhaseNotNeeded, time.Second)
		if by := claim("ours"); by != "" {
			t.Errorf("a cluster that nobody wants to be migrated is claimed by %q", by)
		}
		w.enable("ours")
		w.until("ours", kubermaticv1.PhaseCompleted, time.Minute)
		if by := claim("ours"); by != "system/operator" {
			t.Errorf("the cluster that was migrated is claimed by %q", by)
		}

		w.cluster("theirs", enabled, func(u *unstructured.Unstructured) {
			u.SetAnnotations(
				map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.CSIMigrationNeeded: "", kubermaticv1.AnnotationOperator: "other/operator"},
			)
		})
		<-time.After(time.Hour)
		if c := w.read("theirs"); len(c.Status.Conditions) > 0 || slices.Contains(w.began(), "theirs handover") {
			t.Errorf("another installation's cluster is not left alone: %+v", c.Status.Conditions)
		}
		w.patch("theirs", `{"metadata":{"annotations":{"`+kubermaticv1.AnnotationOperator+`":null}}}`)
		w.until("theirs", kubermaticv1.PhaseCompleted, time.Minute)

		w.cluster("lost")
		w.change("lost", func(c *userCluster) {
			c.run = func(_ context.Context, _ func(step.Event), stop <-chan struct{}) error {
				<-stop
				return step.ErrInterrupted
			}
		})
		w.enable("lost")
		<-time.After(time.Minute)
		if !slices.Contains(w.began(), "lost handover") {
			t.Fatal("no run was begun")
		}
		w.patch("lost", `{"metadata":{"annotations":{"`+kubermaticv1.AnnotationOperator+`":"other/operator"}}}`)
		<-time.After(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.active["lost"] != 0 {
			t.Error("a run goes on for a cluster that somebody gave to another installation")
		}
	})
}

// TestATwinOfAClusterStopsNoRun: whoever may make Clusters of the other group could leave a control plane without a manager in the middle of its handover.
func TestATwinOfAClusterStopsNoRun(t *testing.T) {
	for name, twin := range map[string]func(*unstructured.Unstructured){
		"of another installation": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.AnnotationOperator: "other/operator"})
		},
		"that cannot be read": func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, "none", "spec", "features"); err != nil {
				t.Fatal(err)
			}
		},
		"that wants it too": enabled,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) { o.Installation = "system/operator" }, func(w *world) {
				goOn := make(chan struct{})
				w.cluster("a")
				w.change("a", func(c *userCluster) {
					c.run = func(_ context.Context, _ func(step.Event), stop <-chan struct{}) error {
						select {
						case <-stop:
						case <-goOn:
						}
						return step.ErrInterrupted
					}
				})
				w.enable("a")
				<-time.After(time.Minute)
				if !slices.Contains(w.began(), "a handover") {
					t.Fatal("no run was begun")
				}
				w.change("a", func(c *userCluster) { c.journal = state.Journal{Known: true, Handover: state.Begun} })
				<-time.After(time.Hour) // the journal is looked at
				w.object(kubermaticv1.LegacyGroupName, "a", twin)
				<-time.After(time.Minute)
				w.mu.Lock()
				active := w.active["a"]
				w.mu.Unlock()
				if active != 1 {
					t.Errorf("%d runs are under way: the twin has stopped it", active)
				}
				w.change("a", func(c *userCluster) { c.run = nil })
				close(goOn)
				<-time.After(time.Minute)
				if err := w.dynamic.Resource(objects.Resource(kubermaticv1.LegacyGroupName)).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				w.until("a", kubermaticv1.PhaseCompleted, time.Hour)
			})
		})
	}
}

func TestNoClusterRunsTwiceAndNoMoreRunThanMay(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxParallel = 3 }, func(w *world) {
		for n := range 30 {
			w.cluster(fmt.Sprint("c", n), enabled)
		}
		for n := range 30 {
			w.until(fmt.Sprint("c", n), kubermaticv1.PhaseCompleted, 10*time.Minute)
		}
		if w.twice || w.most > 3 || w.most < 3 {
			t.Errorf("runs of one cluster at a time: %t; at most %d at a time", w.twice, w.most)
		}
		if n := len(w.began()); n != 60 {
			t.Errorf("30 clusters took %d runs", n)
		}
	})
}

func TestTenClustersThatHangKeepNobodyElseWaiting(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxParallel = 10 }, func(w *world) {
		for n := range 500 {
			w.cluster(fmt.Sprint("c", n))
		}
		for n := range 10 {
			name := fmt.Sprint("c", n)
			w.change(name, func(c *userCluster) {
				c.hangs = true
				c.run = func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
					tell(step.Event{Kind: step.EventStarted, Number: 1, Total: 9})
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-stop:
						return step.ErrInterrupted
					}
				}
			})
			w.change(name, func(c *userCluster) { c.journal.Handover = state.Begun })
			w.enable(name)
			w.until(name, kubermaticv1.PhaseHandover, time.Minute)
		}
		w.enable("c250")
		if took := w.until("c250", kubermaticv1.PhaseQueued, time.Second); took > time.Second {
			t.Errorf("the change was seen after %s", took)
		}
		if took := w.until("c250", kubermaticv1.PhaseHandover, 3*time.Minute); took > w.StallAfter+w.StallAfter/2 {
			t.Errorf("its run began after %s, with a limit for stalled ones of %s", took, w.StallAfter)
		}
		w.enable("c251")
		if took := w.until("c251", kubermaticv1.PhaseHandover, time.Minute); took > time.Second {
			t.Errorf("with places given up, the next run began after %s", took)
		}
		w.until("c250", kubermaticv1.PhaseCompleted, 2*time.Minute)
		w.until("c251", kubermaticv1.PhaseCompleted, 2*time.Minute)
	})
}

func TestFiveHundredIdleClustersCostNothing(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits = state.DefaultLimits(); o.Limits.Audit = 0 }, func(w *world) {
		for n := range 500 {
			if n%2 == 0 {
				w.cluster(fmt.Sprint("c", n))
				continue
			}
			w.cluster(fmt.Sprint("c", n), enabled, func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedMap(
					u.Object,
					map[string]any{"status": "True", "reason": kubermaticv1.ReasonMigrationSuccess, "message": kubermaticv1.MessageMigrationSuccess},
					"status",
					"conditions",
					string(kubermaticv1.ConditionCSIKubeletMigrationCompleted),
				)
			})
		}
		<-time.After(time.Minute)
		synctest.Wait()
		w.kube.ClearActions()
		w.dynamic.ClearActions()
		seen := w.seen
		<-time.After(time.Hour)
		synctest.Wait()
		discoveries := 0
		for _, a := range w.kube.Actions() {
			if a.Matches("get", "resource") {
				discoveries++
				continue
			}
			t.Errorf("a request to the seed: %s %s", a.GetVerb(), a.GetResource())
		}
		if n := len(w.dynamic.Actions()); n != 0 || w.seen != seen || discoveries > 2*121 {
			t.Errorf("an hour costs %d requests about Clusters, %d looks and %d questions about groups", n, w.seen-seen, discoveries)
		}
	})
}

func TestAnOperatorThatLosesItsLeaseEndsWhatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		warm, cool := context.WithCancel(t.Context())
		cooled := make(chan struct{})
		go func() { defer close(cooled); w.Warm(warm) }()
		w.begin(t.Context())
		stopped := make(chan error, 1)
		w.change("a", func(c *userCluster) {
			c.run = func(ctx context.Context, _ func(step.Event), stop <-chan struct{}) error {
				select {
				case <-ctx.Done():
					stopped <- ctx.Err()
				case <-stop:
					stopped <- step.ErrInterrupted
				}
				return step.ErrInterrupted
			}
		})
		w.cluster("a", enabled)
		<-time.After(time.Second)
		synctest.Wait()
		if got := w.began(); len(got) != 1 {
			t.Fatalf("the runs were %v", got)
		}
		w.end()
		select {
		case err := <-stopped:
			if err == nil {
				t.Error("the run ended without a reason")
			}
		default:
			t.Error("the run was not told to end")
		}
		w.enable("a")
		<-time.After(time.Hour)
		if got := w.began(); len(got) != 1 {
			t.Errorf("an operator that does not lead began %v", got)
		}
		cool()
		<-cooled
	})
}

func TestAClusterUnderBothGroupsIsRefusedUntilOneIsGone(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.object(kubermaticv1.LegacyGroupName, "a")
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseBlocked, time.Second)
		if got := w.began(); len(got) != 0 {
			t.Errorf("the runs were %v", got)
		}
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration]; !strings.Contains(c.Message, kubermaticv1.LegacyGroupName) {
			t.Errorf("the message does not name the groups: %s", c.Message)
		}
		if err := w.dynamic.Resource(objects.Resource(kubermaticv1.LegacyGroupName)).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

func TestTheOldGroupAloneIsMigratedAsWell(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.plane("a", 1)
		w.object(kubermaticv1.LegacyGroupName, "a", enabled)
		<-time.After(time.Minute)
		synctest.Wait()
		if !w.readIn(kubermaticv1.LegacyGroupName, "a").MigrationCompleted() {
			t.Error("it is not completed")
		}
	})
}

func TestAGroupThatComesLaterIsWatchedAndOneThatGoesIsForgotten(t *testing.T) {
	var served atomic.Bool
	bubble(t, func(o *Options) {
		o.Kube.(*fake.Clientset).PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !served.Load() {
				return true, nil, apierrors.NewNotFound(objects.Resource(kubermaticv1.GroupName).GroupResource(), "")
			}
			return false, nil, nil
		})
	}, func(w *world) {
		w.cluster("a")
		<-time.After(time.Minute)
		synctest.Wait()
		if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "deploy/crds") {
			t.Errorf("without CRDs, readiness says %v", err)
		}
		served.Store(true)
		<-time.After(time.Minute)
		synctest.Wait()
		if err := w.Ready(); err != nil {
			t.Errorf("with the CRD, readiness says %v", err)
		}
		w.enable("a")
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
		served.Store(false)
		<-time.After(time.Minute)
		synctest.Wait()
		if all, _ := w.List(); len(all) != 0 {
			t.Errorf("Clusters of a group that is gone are still there: %v", all)
		}
	})
}

func TestAnAPIServerThatIsDownIsWaitedForAndNotTakenForAFailure(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("a", func(c *userCluster) {
			c.journal.Handover, c.down = state.Begun, errDown
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error {
				return errors.New("no process of x runs on host cp-1")
			}
		})
		w.cluster("a", enabled)
		<-time.After(time.Hour)
		synctest.Wait()
		if phase := w.phase("a"); phase != kubermaticv1.PhaseHandover {
			t.Fatalf("after an hour it is %s", phase)
		}
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionStuck]; c.Status != corev1.ConditionTrue {
			t.Errorf("it is not said to be stuck: %+v", c)
		}
		if n := len(w.began()); n < 10 || n > 40 {
			t.Errorf("in an hour there were %d runs", n)
		}
		w.change("a", func(c *userCluster) { c.down, c.run = nil, nil })
		w.until("a", kubermaticv1.PhaseCompleted, 20*time.Minute)
	})
}

func TestARunThatFailsThreeTimesIsTakenBackAndStays(t *testing.T) {
	bubble(t, nil, func(w *world) {
		tries := 0
		w.change("a", func(c *userCluster) {
			c.owners = state.Owners{Unowned: loops}
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error {
				if tries++; tries > 3 {
					return nil // the way back
				}
				w.change("a", func(c *userCluster) { c.journal.Handover = state.Begun })
				return errors.New("verifying: the image cannot be pulled")
			}
		})
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseFailed, 10*time.Minute)
		<-time.After(time.Hour)
		synctest.Wait()
		if tries != 4 || w.phase("a") != kubermaticv1.PhaseFailed {
			t.Errorf("after %d tries it is %s", tries, w.phase("a"))
		}
		failed := 0
		for len(w.recorder.Events) > 0 {
			if strings.Contains(<-w.recorder.Events, state.ReasonMigrationFailed) {
				failed++
			}
		}
		if failed != 3 {
			t.Errorf("there were %d events about failures", failed)
		}
		w.change("a", func(c *userCluster) { c.run = nil })
		w.patch("a", fmt.Sprintf(`{"metadata":{"annotations":{%q:"fixed"}}}`, kubermaticv1.AnnotationHold))
		w.until("a", kubermaticv1.PhaseHeld, time.Second)
		w.patch("a", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, kubermaticv1.AnnotationHold))
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

func TestAPausedClusterEndsItsRunBetweenTwoSteps(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("a", func(c *userCluster) { c.took = time.Hour })
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseHandover, time.Minute)
		w.patch("a", `{"spec":{"pause":true}}`)
		w.until("a", kubermaticv1.PhaseHeld, time.Second)
		synctest.Wait()
		if n, _ := w.Operator.runs.counts(); n != 0 {
			t.Errorf("%d runs are under way", n)
		}
		w.user.mu.Lock()
		if len(w.cut) > 0 {
			t.Error("the connections of a run that was finishing its step were closed")
		}
		w.user.mu.Unlock()
		w.change("a", func(c *userCluster) { c.took = time.Second })
		w.patch("a", `{"spec":{"pause":false}}`)
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

// A run that waits for a person says so at once, and how it goes on: a rollout begins with no further cluster then.
func TestARunThatIsPausedIsStuckUntilItIsResumed(t *testing.T) {
	const why = "paused by the run itself: nodesync_error_total grew; transplant resume --seed-namespace cluster-a lets it go on"
	bubble(t, nil, func(w *world) {
		resume := make(chan struct{})
		w.change("a", func(c *userCluster) {
			c.run = func(ctx context.Context, tell func(step.Event), _ <-chan struct{}) error {
				said := step.Event{Step: v1.Step{Title: "a step"}, Kind: step.EventPaused, Message: why, Number: 1, Total: 2}
				tell(said)
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-resume:
				}
				said.Kind, said.Message = step.EventResumed, "resumed after 1m0s"
				tell(said)
				time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
				return nil
			}
		})
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseHandover, time.Minute)
		stuck := func(status corev1.ConditionStatus, reason, message string) {
			t.Helper()
			time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's clock
			synctest.Wait()
			got := w.read("a").Status.Conditions[kubermaticv1.ConditionStuck]
			if got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) {
				t.Errorf("stuck: %+v, want %s %s %q", got, status, reason, message)
			}
		}
		stuck(corev1.ConditionTrue, state.ReasonPaused, why+"; next is step 1 of 2: a step")
		close(resume)
		stuck(corev1.ConditionFalse, state.ReasonInTime, "")
		w.until("a", kubermaticv1.PhaseCompleted, time.Hour)
	})
}

func TestADeletedClusterLeavesNothingBehind(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("a", func(c *userCluster) { c.took = time.Hour })
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseHandover, time.Minute)
		if err := w.dynamic.Resource(objects.Resource(kubermaticv1.GroupName)).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n, waiting := w.Operator.runs.counts(); n+waiting != 0 || len(w.states.records) != 0 {
			t.Errorf("%d runs, %d that wait, %d records", n, waiting, len(w.states.records))
		}
		families, err := w.Metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if l.GetName() == "cluster" {
						t.Errorf("%s still has a series of the cluster", f.GetName())
					}
				}
			}
		}
	})
}

func TestMachinesAreRestartedInSoManyClustersAtATime(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxParallelMachines = 2 }, func(w *world) {
		for n := range 6 {
			name := fmt.Sprint("c", n)
			w.change(name, func(c *userCluster) { c.machines = &state.Machines{Total: 1} })
			w.cluster(name, enabled)
			w.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, kubermaticv1.AnnotationRestartMachines))
		}
		for range 6 {
			<-time.After(2 * time.Minute)
			synctest.Wait()
			w.user.mu.Lock()
			for name := range w.restarts {
				w.of(name).machines = &state.Machines{Total: 1, Migrated: 1, Done: true}
			}
			w.user.mu.Unlock()
		}
		for n := range 6 {
			w.until(fmt.Sprint("c", n), kubermaticv1.PhaseCompleted, 5*time.Minute)
		}
		if w.atMost != 2 {
			t.Errorf("machines of %d clusters were restarted at a time", w.atMost)
		}
	})
}

func TestAClusterThatCannotGoOnKeepsNoOtherFromRestartingItsMachines(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxParallelMachines = 1 }, func(w *world) {
		restart := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, kubermaticv1.AnnotationRestartMachines)
		w.change("a", func(c *userCluster) { c.machines = &state.Machines{Total: 3, Migrated: 1} })
		w.cluster("a", enabled)
		w.patch("a", restart)
		w.until("a", kubermaticv1.PhaseMachines, time.Minute)
		w.change("b", func(c *userCluster) { c.machines = &state.Machines{Total: 1} })
		w.cluster("b", enabled)
		w.patch("b", restart)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		w.user.mu.Lock()
		first := w.restarts["a"] && !w.restarts["b"]
		w.of("a").machines = &state.Machines{Total: 3, Migrated: 1, Regression: "new machine m-1 is not external"}
		w.user.mu.Unlock()
		if !first {
			t.Error("two clusters have the one place")
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		w.user.mu.Lock()
		second := w.restarts["b"]
		w.of("b").machines = &state.Machines{Total: 1, Migrated: 1, Done: true}
		w.user.mu.Unlock()
		if !second {
			t.Error("the place of one that was stopped is not given to the other")
		}
		w.until("b", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

// TestARestartThatLastsForEverKeepsNoOtherFromRestarting: what a user cluster says of its machines may change each time and never be done.
func TestARestartThatLastsForEverKeepsNoOtherFromRestarting(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxParallelMachines = 1 }, func(w *world) {
		restart := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, kubermaticv1.AnnotationRestartMachines)
		for _, name := range []string{"a", "b"} {
			w.change(name, func(c *userCluster) { c.machines = &state.Machines{Total: 3, Migrated: 1} })
			w.cluster(name, enabled)
			w.patch(name, restart)
			w.until(name, kubermaticv1.PhaseMachines, time.Minute)
			<-time.After(10 * time.Minute)
		}
		restarted := func() bool {
			synctest.Wait()
			w.user.mu.Lock()
			defer w.user.mu.Unlock()
			return w.restarts["b"]
		}
		if restarted() {
			t.Error("two clusters have the one place")
		}
		<-time.After(maxRestarting)
		if !restarted() {
			t.Error("the place of one that is never done is not given to the other")
		}
	})
}

// A restart that was stopped begins again when its owner does not want it any longer; that is not to be concluded from a leader that knows nothing yet.
func TestANewLeaderTakesNoRestartForUnwanted(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.change("a", func(c *userCluster) {
			c.machines = &state.Machines{Total: 3, Migrated: 1, Regression: "new machine m-1 is not external"}
		})
		w.object(kubermaticv1.GroupName, "a", enabled, func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{kubermaticv1.AnnotationRestartMachines: "true"})
		})
		w.plane("a", 1)
		w.until("a", kubermaticv1.PhaseMachines, time.Minute)
		for range 3 {
			w.end()
			w.states = newStateCache()
			w.begin(w.t.Context())
			<-time.After(5 * time.Minute)
			synctest.Wait()
		}
		w.user.mu.Lock()
		defer w.user.mu.Unlock()
		if len(w.unwanted) > 0 {
			t.Errorf("it was said %d times that nobody wants the restart", len(w.unwanted))
		}
	})
}

func TestConditionsAreWrittenWhereTheStatusHasNoSubresource(t *testing.T) {
	without := func(o *Options) {
		o.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "clusters", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() == "status" {
				return true, nil, apierrors.NewNotFound(objects.Resource(kubermaticv1.GroupName).GroupResource(), "a")
			}
			return false, nil, nil
		})
	}
	bubble(t, without, func(w *world) {
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

func TestHibernationWaits(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.plane("a", 0)
		w.object(kubermaticv1.GroupName, "a", enabled)
		w.until("a", kubermaticv1.PhaseHeld, time.Second)
		w.plane("a", 1)
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

func TestAWorkerThatHangsFailsTheHealthOfTheProcess(t *testing.T) {
	bubble(t, nil, func(w *world) {
		if err := w.Alive(); err != nil {
			t.Errorf("an idle operator says %v", err)
		}
		w.heartbeat.markBusy(0, time.Now())
		<-time.After(stuckWorker + time.Second)
		if w.Alive() == nil {
			t.Error("a worker that is stuck is not noticed")
		}
		w.heartbeat.markIdle(0)
	})
}

func TestAGroupWhoseDefinitionWouldDropWhatIsWrittenIsLeftAlone(t *testing.T) {
	missing := []string{"status.conditions is a list"}
	definitions := func(context.Context) ([]served.Verdict, error) {
		return []served.Verdict{
			{Group: kubermaticv1.GroupName, Present: true, Ours: true},
			{Group: kubermaticv1.LegacyGroupName, Present: true, Missing: missing},
		}, nil
	}
	bubble(t, func(o *Options) { o.Definitions = definitions }, func(w *world) {
		w.cluster("a")
		w.object(kubermaticv1.LegacyGroupName, "b", enabled)
		w.until("a", kubermaticv1.PhaseNotNeeded, time.Minute)
		<-time.After(time.Minute)
		synctest.Wait()
		if c := w.readIn(kubermaticv1.LegacyGroupName, "b"); len(c.Status.Conditions) != 0 || len(w.began()) != 0 {
			t.Errorf("it has the conditions %v, and the runs were %v", c.Status.Conditions, w.began())
		}
		if err := w.Ready(); err != nil {
			t.Errorf("readiness says %v", err)
		}
	})
}

func TestTheTokenOfACompletedClusterIsRenewed(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits = state.DefaultLimits(); o.Limits.Audit, o.Limits.Renew = 0, 2*time.Minute }, func(w *world) {
		w.cluster("a", enabled)
		w.until("a", kubermaticv1.PhaseCompleted, time.Minute)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		// Three are due; a decision that was made while a look ended may ask for one more at once.
		if n := len(w.renewed); n < 3 || n > 6 {
			t.Errorf("in five minutes the token was looked at %d times, and every two minutes it is due", n)
		}
		if !w.closed["a"] {
			t.Error("the connections to a completed cluster are kept")
		}
	})
}
