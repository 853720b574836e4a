package state

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

func TestAClusterGoesThroughEveryPhaseOnceAndEndsCompleted(t *testing.T) {
	l := born(t)
	l.Journal = Journal{}
	if d := l.in(kubermaticv1.PhaseQueued); !d.Work.Journal || d.Work.Run != NoPart {
		t.Errorf("before the journals are read, the work is %+v", d.Work)
	}
	l.Journal = Journal{Known: true}
	if d := l.in(kubermaticv1.PhaseQueued); d.Work.Run != Handover {
		t.Errorf("a queued cluster wants the run %q", d.Work.Run)
	}
	l.is(kubermaticv1.ConditionCSIKubeletMigrationCompleted, corev1.ConditionFalse, kubermaticv1.ReasonMigrationInProgress)
	l.inTree()
	l.handingOver()
	if d := l.in(kubermaticv1.PhaseHandover); d.Message != "step 2 of 7: switch the cloud loops off" {
		t.Errorf("the message is %q", d.Message)
	}
	l.is(kubermaticv1.ConditionLoopsOff, corev1.ConditionFalse, ReasonWaiting)
	l.nobody()
	l.in(kubermaticv1.PhaseHandover)
	l.is(kubermaticv1.ConditionLoopsOff, corev1.ConditionTrue, ReasonObserved)
	l.is(kubermaticv1.ConditionCCMReady, corev1.ConditionFalse, ReasonWaiting)

	l.ended(Succeeded, "")
	l.Journal.Handover = Done
	if d := l.in(kubermaticv1.PhaseComponents); d.Work.Parts {
		t.Error("machine-controller is patched although no manager runs the loops")
	}
	l.external()
	if d := l.in(kubermaticv1.PhaseComponents); !d.Work.Parts {
		t.Error("nothing is done about the parts around machines")
	}
	l.is(kubermaticv1.ConditionCCMReady, corev1.ConditionTrue, ReasonObserved)
	l.Parts = Parts{Seen: l.seen(), Waiting: []string{"machine-controller: 0 of 1 replicas are updated"}, CSI: "ebs-csi-node: 0 of 2"}
	l.in(kubermaticv1.PhaseComponents)
	l.is(kubermaticv1.ConditionCSIReady, corev1.ConditionFalse, ReasonWaiting)
	l.ready()
	if d := l.in(kubermaticv1.PhaseMachines); !d.Work.Machines || d.Work.Restart {
		t.Errorf("machines are to be looked at and not to be restarted, and the work is %+v", d.Work)
	}
	l.counted(1, 2)
	if d := l.in(kubermaticv1.PhaseMachines); !strings.Contains(d.Message, "1 of 2 machines are external") {
		t.Errorf("the message is %q", d.Message)
	}
	l.is(kubermaticv1.ConditionMachines, corev1.ConditionFalse, ReasonWaiting)
	l.counted(2, 2)
	if d := l.in(kubermaticv1.PhaseFinish); d.Work.Run != Finish {
		t.Errorf("the run wanted is %q", d.Work.Run)
	}
	l.is(kubermaticv1.ConditionCSIKubeletMigrationCompleted, corev1.ConditionFalse, kubermaticv1.ReasonMigrationInProgress)
	l.Journal.Finish = Done
	if d := l.in(kubermaticv1.PhaseCompleted); d.Wake != 0 && d.Wake < time.Minute || d.Work.Run != NoPart {
		t.Errorf("a completed cluster costs %+v and wakes in %s", d.Work, d.Wake)
	}
	done := l.condition(kubermaticv1.ConditionCSIKubeletMigrationCompleted)
	if done.Status != corev1.ConditionTrue || done.Reason != "CSIKubeletMigrationSuccess" || done.Message != "external CCM/CSI migration completed" {
		t.Errorf("the original's condition is %+v", done)
	}
	l.went(
		kubermaticv1.PhaseQueued,
		kubermaticv1.PhaseHandover,
		kubermaticv1.PhaseComponents,
		kubermaticv1.PhaseMachines,
		kubermaticv1.PhaseFinish,
		kubermaticv1.PhaseCompleted,
	)
	want := []string{
		"Queued",
		"Handover",
		"TransplantInTreeLoopsOff",
		"Components",
		"TransplantCloudControllerManagerReady",
		"Machines",
		"Finish",
		"Completed",
		"CSIKubeletMigrationSuccess",
	}
	if diff := cmp.Diff(want, l.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAClusterThatNeedsNothingCostsNothing(t *testing.T) {
	for name, change := range map[string]func(*life){
		"its feature is off":            func(l *life) { l.Cluster.Spec.Features = nil; l.Cluster.Annotations = nil },
		"its feature is explicitly off": func(l *life) { l.Cluster.Spec.Features["externalCloudProvider"] = false; l.Cluster.Annotations = nil },
		"another program runs its manager": func(l *life) {
			l.Cluster.Annotations = nil
			l.Plane.InTree, l.Plane.Foreign = "", "aws-cloud-controller-manager"
		},
		"no manager is installed for its provider": func(l *life) { l.Cluster.Annotations = nil; l.Plane.InTree, l.Installs = "", false },
		"it is off and being deleted": func(l *life) {
			l.Cluster.Spec.Features = nil
			l.Cluster.Annotations = nil
			l.Cluster.DeletionTimestamp = &metav1.Time{Time: start}
		},
		"it is off and nothing is refused": func(l *life) { l.Cluster.Spec.Features = nil; l.Cluster.Annotations = nil; l.Refusals = []string{"no"} },
	} {
		t.Run(name, func(t *testing.T) {
			l := born(t)
			l.Journal = Journal{}
			change(l)
			d := l.in(kubermaticv1.PhaseNotNeeded)
			if !d.Work.Idle() || d.Wake != 0 || len(d.Events) != 0 || len(d.Conditions) != 1 {
				t.Errorf("work %+v, wake %s, events %v, conditions %v", d.Work, d.Wake, d.Events, d.Conditions)
			}
			again := l.in(kubermaticv1.PhaseNotNeeded)
			if diff := cmp.Diff(d.Conditions, again.Conditions); diff != "" {
				t.Errorf("the second decision writes again:\n%s", diff)
			}
		})
	}
}

func TestTheOperatorDoesWhatTheWebhookMissed(t *testing.T) {
	l := born(t)
	l.Cluster.Annotations = nil
	if d := l.in(kubermaticv1.PhaseQueued); !d.Work.Annotate {
		t.Errorf("the annotations are not added: %+v", d.Work)
	}
	l.Refusals = []string{"external cloud-controller-manager is not supported for this cluster / provider combination"}
	if d := l.in(kubermaticv1.PhaseBlocked); d.Work.Annotate || d.Work.Run != NoPart || !d.Work.Stop {
		t.Errorf("an unsupported cluster gets %+v", d.Work)
	}
}

func TestANewConditionHasATimeOfTransitionAndKeepsItWhileItsStatusStays(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.counted(0, 2)
	l.in(kubermaticv1.PhaseMachines)
	first := l.condition(kubermaticv1.ConditionMachines)
	if first.LastTransitionTime.Time != l.Now {
		t.Errorf("the new condition has the time %s, want %s", first.LastTransitionTime, l.Now)
	}
	l.decide(time.Minute)
	l.counted(1, 2)
	l.decide(time.Minute)
	second := l.condition(kubermaticv1.ConditionMachines)
	if second.LastTransitionTime != first.LastTransitionTime || second.Message == first.Message || second.LastHeartbeatTime.Time != l.Now {
		t.Errorf("after a new message the condition is %+v, was %+v", second, first)
	}
	l.Cluster.Status.Conditions[kubermaticv1.ConditionMachines] = kubermaticv1.ClusterCondition{
		Status:  corev1.ConditionFalse,
		Reason:  second.Reason,
		Message: second.Message,
	}
	l.decide(time.Minute)
	if got := l.condition(kubermaticv1.ConditionMachines).LastTransitionTime; got.Time != l.Now {
		t.Errorf("a zero time of transition became %s", got)
	}
	since := l.condition(kubermaticv1.ConditionMigration).LastTransitionTime
	l.counted(2, 2)
	l.decide(time.Minute)
	if l.condition(kubermaticv1.ConditionMigration).LastTransitionTime == since {
		t.Error("the phase changed and its beginning did not")
	}
}

func TestAFeatureThatFlipsQuicklyLeavesNothingBehind(t *testing.T) {
	l := born(t)
	for range 5 {
		l.Cluster.Spec.Features["externalCloudProvider"] = true
		l.in(kubermaticv1.PhaseQueued)
		l.Cluster.Spec.Features["externalCloudProvider"] = false
		if d := l.in(kubermaticv1.PhaseNotNeeded); d.Work.Run != NoPart || !d.Work.Stop || len(d.Conditions) != 1 {
			t.Errorf("work %+v, conditions %v", d.Work, d.Conditions)
		}
	}
}

func TestSwitchingOffInTheMiddleCarriesTheHandoverThroughAndStopsThere(t *testing.T) {
	l := born(t)
	l.handingOver()
	l.Cluster.Spec.Features["externalCloudProvider"] = false
	if d := l.in(kubermaticv1.PhaseHandover); d.Work.Stop || d.Work.Run != Handover || !strings.Contains(d.Message, "switched off") {
		t.Errorf("work %+v: %s", d.Work, d.Message)
	}
	l.ended(Succeeded, "")
	l.Journal.Handover = Done
	l.external()
	if d := l.in(kubermaticv1.PhaseBlocked); d.Work.Parts || d.Work.Run != NoPart {
		t.Errorf("work %+v", d.Work)
	}
	l.Cluster.Spec.Features["externalCloudProvider"] = true
	l.in(kubermaticv1.PhaseComponents)
}

func TestWhatIsWrongWithTheObjectStopsBeforeTheHandoverAndNotInItsMiddle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*life)
		before string // the phase where nothing was begun
	}{
		"deleted":                    {func(l *life) { l.Cluster.DeletionTimestamp = &metav1.Time{Time: start} }, kubermaticv1.PhaseHeld},
		"under both groups":          {func(l *life) { l.Groups = append(l.Groups, kubermaticv1.LegacyGroupName) }, kubermaticv1.PhaseBlocked},
		"unsupported or a downgrade": {func(l *life) { l.Refusals = []string{"the version went from v1.26 to v1.25"} }, kubermaticv1.PhaseBlocked},
		"two things wrong at a time": {func(l *life) { l.Groups = append(l.Groups, "x"); l.Refusals = []string{"no"} }, kubermaticv1.PhaseBlocked},
		"deleted and under two names": {func(l *life) {
			l.Groups = append(l.Groups, "x")
			l.Cluster.DeletionTimestamp = &metav1.Time{Time: start}
		}, kubermaticv1.PhaseHeld},
	} {
		t.Run(name, func(t *testing.T) {
			l := born(t)
			l.in(kubermaticv1.PhaseQueued)
			c.change(l)
			if d := l.in(c.before); d.Work.Run != NoPart || !d.Work.Stop {
				t.Errorf("before it began: %+v", d.Work)
			}
			l = born(t)
			l.handingOver()
			c.change(l)
			if d := l.in(kubermaticv1.PhaseHandover); d.Work.Run != Handover || d.Work.Stop {
				t.Errorf("in its middle: %+v", d.Work)
			}
			l.ended(Succeeded, "")
			l.Journal.Handover = Done
			if d := l.in(c.before); d.Work.Run != NoPart || d.Work.Parts {
				t.Errorf("behind it: %+v", d.Work)
			}
		})
	}
}

func TestPauseHibernationAndHoldWait(t *testing.T) {
	pause := func(l *life) { l.Cluster.Spec.Pause, l.Cluster.Spec.PauseReason = true, "audit" }
	for name, c := range map[string]struct {
		on, off func(*life)
		middle  bool // it stops a handover that was begun
	}{
		"paused":                   {pause, func(l *life) { l.Cluster.Spec.Pause = false }, true},
		"apiserver scaled to zero": {func(l *life) { l.Plane.Apiserver.Desired = 0 }, func(l *life) { l.Plane.Apiserver.Desired = 1 }, true},
		"held": {func(l *life) { l.Cluster.Annotations[kubermaticv1.AnnotationHold] = "wave 2" },
			func(l *life) { delete(l.Cluster.Annotations, kubermaticv1.AnnotationHold) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := born(t)
			c.on(l)
			if d := l.in(kubermaticv1.PhaseHeld); d.Work.Run != NoPart {
				t.Errorf("work %+v", d.Work)
			}
			c.off(l)
			l.in(kubermaticv1.PhaseQueued)
			l = born(t)
			l.handingOver()
			c.on(l)
			want := kubermaticv1.PhaseHandover
			if c.middle {
				want = kubermaticv1.PhaseHeld
			}
			if d := l.in(want); d.Work.Stop != c.middle {
				t.Errorf("in the middle: %+v", d.Work)
			}
			l.ended(Interrupted, "")
			c.off(l)
			if d := l.in(kubermaticv1.PhaseHandover); d.Work.Run != Handover {
				t.Errorf("afterwards: %+v", d.Work)
			}
		})
	}
}

func TestAHandoverThatScalesControllerManagerToZeroIsNoHibernation(t *testing.T) {
	l := born(t)
	l.handingOver()
	l.Plane.ControllerManager.Desired = 0
	l.in(kubermaticv1.PhaseHandover)
}

func TestChecksThatRefuseBlockAndAreAskedAgainWithoutFlapping(t *testing.T) {
	l := born(t)
	l.in(kubermaticv1.PhaseQueued)
	l.ended(Blocked, "NODE-001: a node has no providerID")
	d := l.in(kubermaticv1.PhaseBlocked)
	if d.Work.Run != NoPart || d.Wake == 0 || !strings.Contains(d.Message, "NODE-001") {
		t.Errorf("work %+v, wake %s: %s", d.Work, d.Wake, d.Message)
	}
	if d := l.decide(d.Wake); d.Work.Run != Handover || d.Phase != kubermaticv1.PhaseBlocked {
		t.Errorf("when the time has come: %s, %+v", d.Phase, d.Work)
	}
	l.Run.Active = true
	l.in(kubermaticv1.PhaseBlocked)
	l.ended(Blocked, "NODE-001: a node has no providerID")
	l.in(kubermaticv1.PhaseBlocked)
	l.went(kubermaticv1.PhaseQueued, kubermaticv1.PhaseBlocked)
}

func TestNoConditionIsWrittenWithoutAMessage(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.Parts.CSI = ""
	l.counted(0, 1)
	for kind, c := range l.in(kubermaticv1.PhaseMachines).Conditions {
		if c.Message == "" || c.Reason == "" {
			t.Errorf("%s has the reason %q and the message %q: a merge patch would keep the last one", kind, c.Reason, c.Message)
		}
	}
}
