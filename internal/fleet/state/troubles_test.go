package state

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

func TestAUserClusterThatIsDownForAnHourIsWaitedForAndSaidToBeStuck(t *testing.T) {
	l := born(t)
	l.handingOver()
	tries := 0
	for l.Now.Before(start.Add(time.Hour)) {
		l.ended(Unreachable, "connection refused")
		d := l.in(kubermaticv1.PhaseHandover)
		if d.Wake == 0 || d.Wake > 5*time.Minute {
			t.Fatalf("the next try is in %s", d.Wake)
		}
		for d = l.decide(d.Wake); d.Work.Run == NoPart; d = l.decide(d.Wake) {
			if d.Wake == 0 {
				t.Fatal("nothing is ever tried again")
			}
		}
		tries++
	}
	if tries < 10 || tries > 30 {
		t.Errorf("there were %d tries in an hour", tries)
	}
	l.is(kubermaticv1.ConditionStuck, corev1.ConditionTrue, ReasonTooLong)
	l.ended(Succeeded, "")
	l.Journal.Handover = Done
	l.external()
	l.in(kubermaticv1.PhaseComponents)
	l.is(kubermaticv1.ConditionStuck, corev1.ConditionFalse, ReasonInTime)
}

func TestAFailedHandoverIsTakenBackOnlyWhenNoCloudControllerManagerWasSeenAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		look func(*life)
		back bool
	}{
		"nobody runs a loop":            {(*life).nobody, true},
		"the old manager runs them all": {(*life).inTree, true},
		"the new one runs them":         {(*life).external, false},
		"the new one runs one": {func(l *life) {
			l.nobody()
			l.Owners.Unowned, l.Owners.External = l.Owners.Unowned[1:], l.Owners.Unowned[:1]
		}, false},
		"something did not answer": {func(l *life) { l.nobody(); l.Owners.Unsure = []string{"a pod does not answer"} }, false},
		"the look failed":          {func(l *life) { l.nobody(); l.Owners.Error = "timeout" }, false},
		"the look was before":      {func(l *life) { l.nobody(); l.Owners.At = l.Run.Ended.Add(-time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := born(t)
			l.handingOver()
			for range l.limits.MaxFailures {
				l.ended(Broken, "step ccm: the image cannot be pulled")
			}
			l.Now = l.Now.Add(time.Hour)
			c.look(l)
			d := l.in(kubermaticv1.PhaseFailed)
			if d.Work.Back != c.back || (d.Work.Run == Handover) != c.back {
				t.Errorf("work %+v: %s", d.Work, d.Message)
			}
			if !strings.Contains(d.Message, "the image cannot be pulled") || !strings.Contains(d.Message, kubermaticv1.AnnotationHold) && !c.back {
				t.Errorf("the message does not say what to do: %s", d.Message)
			}
		})
	}
}

func TestAClusterThatWasTakenBackStaysFailedUntilItIsHeldAndReleased(t *testing.T) {
	l := born(t)
	l.handingOver()
	for range l.limits.MaxFailures {
		l.ended(Broken, "no")
	}
	l.in(kubermaticv1.PhaseFailed)
	l.Run = Run{} // the operator starts again
	l.Journal = Journal{}
	l.in(kubermaticv1.PhaseFailed)
	l.Journal = Journal{Known: true, Handover: RollingBack}
	if d := l.in(kubermaticv1.PhaseFailed); !d.Work.Back {
		t.Errorf("the rollback is not gone on with: %+v", d.Work)
	}
	l.Journal.Handover = RolledBack
	if d := l.in(kubermaticv1.PhaseFailed); d.Work.Run != NoPart {
		t.Errorf("it is tried again by itself: %+v", d.Work)
	}
	l.Cluster.Annotations[kubermaticv1.AnnotationHold] = "looking into it"
	if d := l.in(kubermaticv1.PhaseHeld); d.Work.Run != NoPart || !d.Work.Forget {
		t.Errorf("work %+v", d.Work)
	}
	delete(l.Cluster.Annotations, kubermaticv1.AnnotationHold)
	if d := l.in(kubermaticv1.PhaseQueued); d.Work.Run != Handover {
		t.Errorf("work %+v", d.Work)
	}
}

func TestAHandoverThatFailedInItsMiddleIsTriedAgainAfterAHold(t *testing.T) {
	l := born(t)
	l.handingOver()
	for range l.limits.MaxFailures {
		l.ended(Broken, "no")
	}
	l.external()
	l.in(kubermaticv1.PhaseFailed)
	l.Cluster.Annotations[kubermaticv1.AnnotationHold] = ""
	if d := l.in(kubermaticv1.PhaseHeld); !d.Work.Forget || !strings.Contains(d.Message, "no manager runs the cloud loops") {
		t.Errorf("work %+v: %s", d.Work, d.Message)
	}
	l.Run = Run{}
	l.in(kubermaticv1.PhaseHeld)
	delete(l.Cluster.Annotations, kubermaticv1.AnnotationHold)
	if d := l.in(kubermaticv1.PhaseHandover); d.Work.Run != Handover {
		t.Errorf("work %+v", d.Work)
	}
}

func TestARunThatFailedOnceIsTriedAgain(t *testing.T) {
	l := born(t)
	l.handingOver()
	l.ended(Broken, "no process of x runs on host cp-1")
	d := l.in(kubermaticv1.PhaseHandover)
	if !strings.Contains(d.Message, "no process of x runs on host cp-1") || d.Work.Run != NoPart {
		t.Errorf("work %+v: %s", d.Work, d.Message)
	}
	if d = l.decide(l.limits.Retry); d.Work.Run != Handover {
		t.Errorf("after the wait, the work is %+v", d.Work)
	}
}

func TestAnOperatorThatStartsMovesNoClusterBack(t *testing.T) {
	for _, phase := range []string{kubermaticv1.PhaseComponents, kubermaticv1.PhaseMachines, kubermaticv1.PhaseFinish} {
		t.Run(phase, func(t *testing.T) {
			l := born(t)
			l.handedOver()
			switch phase {
			case kubermaticv1.PhaseComponents:
				l.Parts.Ready = false
			case kubermaticv1.PhaseMachines:
				l.counted(0, 1)
			default:
				l.counted(1, 1)
			}
			l.in(phase)
			since := l.condition(kubermaticv1.ConditionMigration).LastTransitionTime
			events, plane := len(l.events), l.Plane
			l.Journal, l.Run, l.Owners, l.Parts, l.Machines, l.Plane = Journal{}, Run{}, Owners{}, Parts{}, Machines{}, Plane{}
			l.in(phase)
			l.Plane = plane
			l.in(phase)
			l.Journal = Journal{Known: true, Handover: Done}
			if phase == kubermaticv1.PhaseFinish {
				l.Journal.Finish = Begun
			}
			l.in(phase)
			l.external()
			l.in(phase)
			if got := l.condition(kubermaticv1.ConditionMigration).LastTransitionTime; got != since || len(l.events) != events {
				t.Errorf("the phase began again at %s, was %s; events %v", got, since, l.events[events:])
			}
		})
	}
}

func TestNothingIsDecidedBeforeTheControlPlaneWasRead(t *testing.T) {
	for name, l := range map[string]*life{"new": born(t), "annotation taken off": born(t), "scaled to zero": born(t)} {
		t.Run(name, func(t *testing.T) {
			read := l.Plane
			switch name {
			case "annotation taken off":
				l.Cluster.Annotations = nil
			case "scaled to zero":
				read.Apiserver.Desired = 0
			}
			l.Plane = Plane{}
			if d := l.in(kubermaticv1.PhaseQueued); !strings.Contains(d.Message, "are being read") || d.Work.Run != NoPart {
				t.Errorf("work %+v: %s", d.Work, d.Message)
			}
			l.Plane = read
			if d := l.decide(time.Second); (d.Work.Run == Handover) != (name != "scaled to zero") {
				t.Errorf("once it was read, it is in phase %s with work %+v", d.Phase, d.Work)
			}
		})
	}
}

func TestACompletedClusterThatGrowsAnOldMachineSaysSoAndStaysCompleted(t *testing.T) {
	l := born(t)
	l.completed()
	d := l.decide(2 * l.limits.Audit)
	if !d.Work.Machines || d.Work.Owners || d.Work.Parts {
		t.Errorf("the audit is %+v", d.Work)
	}
	l.Machines = Machines{Seen: l.seen(), Total: 3, Migrated: 2, Reasons: []string{"machine c: its node was made with the in-tree provider"}}
	d = l.in(kubermaticv1.PhaseCompleted)
	l.is(kubermaticv1.ConditionMachines, corev1.ConditionFalse, ReasonNotExternal)
	l.is(kubermaticv1.ConditionCSIKubeletMigrationCompleted, corev1.ConditionTrue, kubermaticv1.ReasonMigrationSuccess)
	if len(d.Events) != 1 || !d.Events[0].Warning || d.Events[0].Reason != ReasonNotExternal {
		t.Errorf("events %+v", d.Events)
	}
	if d = l.in(kubermaticv1.PhaseCompleted); len(d.Events) != 0 {
		t.Errorf("it is told twice: %+v", d.Events)
	}
	l.Cluster.Spec.Features["externalCloudProvider"] = false
	l.in(kubermaticv1.PhaseCompleted)
}

func TestAClusterThatTheOriginalCompletedIsLeftAlone(t *testing.T) {
	l := born(t)
	l.limits.Audit, l.limits.Renew = 0, 0
	l.Journal = Journal{}
	l.Cluster.Status.Conditions = conditionMap{kubermaticv1.ConditionCSIKubeletMigrationCompleted: {Status: corev1.ConditionTrue,
		Reason: kubermaticv1.ReasonMigrationSuccess, Message: kubermaticv1.MessageMigrationSuccess}}
	if d := l.in(kubermaticv1.PhaseCompleted); !d.Work.Idle() || d.Wake != 0 {
		t.Errorf("work %+v, wake %s", d.Work, d.Wake)
	}
}

func TestZeroMachinesAreDoneOnlyOnceTheCloudControllerManagerRuns(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.counted(0, 0)
	l.nobody()
	l.in(kubermaticv1.PhaseComponents)
	l.external()
	l.in(kubermaticv1.PhaseFinish)
}

func TestMachinesAreRestartedOnlyWhenAskedForAndStopAtARegression(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.Cluster.Annotations[kubermaticv1.AnnotationRestartMachines] = "true"
	if d := l.in(kubermaticv1.PhaseMachines); !d.Work.Restart {
		t.Errorf("work %+v", d.Work)
	}
	l.counted(0, 2)
	l.Machines.Regression = "MachineDeployment a: the new node is not Ready after 10m0s"
	d := l.in(kubermaticv1.PhaseMachines)
	l.is(kubermaticv1.ConditionStuck, corev1.ConditionTrue, ReasonRegression)
	l.is(kubermaticv1.ConditionMachines, corev1.ConditionFalse, ReasonRegression)
	if len(d.Events) != 2 {
		t.Errorf("events %+v", d.Events)
	}
}

func TestPartsThatSomebodyRevertsAreMendedBeforeMachinesGoOn(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.counted(0, 2)
	l.in(kubermaticv1.PhaseMachines)
	l.Parts = Parts{Seen: l.seen(), Waiting: []string{"machine-controller was patched back"}}
	l.in(kubermaticv1.PhaseComponents)
	l.ready()
	l.in(kubermaticv1.PhaseMachines)
}

func TestOneLookThatFailsChangesNoConditionAndThreeDo(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.counted(0, 2)
	l.in(kubermaticv1.PhaseMachines)
	for n := 1; n <= 3; n++ {
		l.Owners.Error, l.Owners.Failures = "timeout", n
		l.in(kubermaticv1.PhaseMachines)
		want := corev1.ConditionTrue
		if n == 3 {
			want = corev1.ConditionUnknown
		}
		if got := l.condition(kubermaticv1.ConditionCCMReady).Status; got != want {
			t.Errorf("after %d failures the condition is %s, want %s", n, got, want)
		}
	}
}

func TestTwoOwnersAreSaidAtOnce(t *testing.T) {
	l := born(t)
	l.handingOver()
	l.nobody()
	l.Owners.Unowned, l.Owners.Twice = l.Owners.Unowned[1:], l.Owners.Unowned[:1]
	d := l.in(kubermaticv1.PhaseHandover)
	l.is(kubermaticv1.ConditionLoopsOff, corev1.ConditionFalse, ReasonTwoOwners)
	if len(d.Events) != 1 || !d.Events[0].Warning {
		t.Errorf("events %+v", d.Events)
	}
}

func TestAHandoverThatWasTakenBackByHandIsNoticed(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.counted(0, 1)
	l.in(kubermaticv1.PhaseMachines)
	l.inTree()
	if d := l.in(kubermaticv1.PhaseComponents); !d.Work.Journal {
		t.Errorf("the journal is not read again: %+v", d.Work)
	}
	l.Journal.Handover = RolledBack
	l.in(kubermaticv1.PhaseFailed)
}

func TestEveryPhaseButTheQuietOnesHasAnEnd(t *testing.T) {
	l := DefaultLimits()
	for _, phase := range []string{
		kubermaticv1.PhaseQueued, kubermaticv1.PhaseHandover, kubermaticv1.PhaseComponents, kubermaticv1.PhaseMachines, kubermaticv1.PhaseFinish,
	} {
		if l.phaseLimit(phase) == 0 {
			t.Errorf("%s may last for ever", phase)
		}
	}
}

func TestMessagesAreBoundedAndStayText(t *testing.T) {
	long := shorten(strings.Repeat("é", 2*maxMessage))
	if len(long) > maxMessage || !utf8.ValidString(long) {
		t.Errorf("the message has %d bytes, valid text: %t", len(long), utf8.ValidString(long))
	}
}

// A token ends also when nothing else is left to be done, and a cluster without one has no cloud loops.
func TestTheTokenOfACompletedClusterIsLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *life)
		want   bool
	}{
		"as it is":       {func(*life) {}, true},
		"without audits": {func(l *life) { l.limits.Audit = 0 }, true},
		"paused":         {func(l *life) { l.Cluster.Spec.Pause = true }, false},
		"being deleted":  {func(l *life) { l.Cluster.DeletionTimestamp = &metav1.Time{Time: l.Now} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := born(t)
			l.completed()
			test.change(l)
			if d := l.in(kubermaticv1.PhaseCompleted); d.Work.Token != test.want {
				t.Errorf("work %+v", d.Work)
			}
			l.Token = l.seen()
			if d := l.decide(l.limits.Renew - time.Minute); d.Work.Token {
				t.Error("it is looked at again before it is time")
			} else if test.want && (d.Wake == 0 || d.Wake > l.limits.Renew) {
				t.Errorf("nothing wakes the cluster up for its next look: %s", d.Wake)
			}
			if d := l.decide(2 * time.Minute); d.Work.Token != test.want {
				t.Errorf("work %+v when the next look is due", d.Work)
			}
		})
	}
}

// TestARefusalIsJudgedAgain: what the seed says of a datacenter may have changed, and no change of the Cluster tells.
func TestARefusalIsJudgedAgain(t *testing.T) {
	l := born(t)
	l.Refusals = []string{"the datacenter is unknown"}
	if d := l.in(kubermaticv1.PhaseBlocked); d.Wake == 0 || d.Wake > time.Minute {
		t.Errorf("it is judged again after %s", d.Wake)
	}
	l.Refusals = nil
	l.in(kubermaticv1.PhaseQueued)
}

// TestAClusterThatCannotBeJudgedKeepsItsPhase: a new leader may not have read the seed yet. Failed would be forgotten else.
func TestAClusterThatCannotBeJudgedKeepsItsPhase(t *testing.T) {
	for prior, want := range map[string]string{
		"": kubermaticv1.PhaseBlocked, kubermaticv1.PhaseNotNeeded: kubermaticv1.PhaseBlocked, kubermaticv1.PhaseQueued: kubermaticv1.PhaseBlocked,
		kubermaticv1.PhaseFailed: kubermaticv1.PhaseFailed, kubermaticv1.PhaseMachines: kubermaticv1.PhaseMachines, kubermaticv1.PhaseHeld: kubermaticv1.PhaseHeld,
	} {
		l := born(t)
		if prior != "" {
			l.Cluster.Status.Conditions = conditionMap{kubermaticv1.ConditionMigration: {Reason: prior}}
		}
		l.Journal.Handover = Done
		l.Refusals, l.Unjudged = []string{"the datacenter is unknown"}, true
		if d := l.in(want); d.Work.Run != NoPart || d.Work.Parts || d.Work.Restart || d.Wake == 0 || d.Message != "the datacenter is unknown" {
			t.Errorf("after %q: work %+v, wake %s: %s", prior, d.Work, d.Wake, d.Message)
		}
		l.Groups = append(l.Groups, kubermaticv1.LegacyGroupName)
		l.in(kubermaticv1.PhaseBlocked) // what is known is wrong in any case
	}
}
