package state

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// watched is a cluster whose machines are waited for, and watched.
func watched(t *testing.T) *life {
	t.Helper()
	l := born(t)
	l.Journal = Journal{Known: true, Handover: Done}
	l.external()
	l.ready()
	l.counted(1, 2)
	l.in(kubermaticv1.PhaseMachines)
	l.Machines.Watched, l.Machines.At, l.Machines.Looked = true, l.Now, l.Now
	return l
}

// after decides after d, and demands that the machines are still waited for.
func (l *life) after(d time.Duration) Decision {
	l.t.Helper()
	out := l.decide(d)
	if out.Phase != kubermaticv1.PhaseMachines {
		l.t.Fatalf("the phase is %s (%s)", out.Phase, out.Message)
	}
	return out
}

func TestMachinesThatAreWatchedAreLookedAtWhenSomethingChanges(t *testing.T) {
	l := watched(t)
	look := l.limits.Look
	if d := l.after(2 * look); d.Work.Machines || d.Work.Owners || d.Work.Parts || !d.Work.Watch {
		t.Errorf("with nothing told, the work is %+v", d.Work)
	}
	l.Machines.Changed = l.Now
	if d := l.after(0); d.Work.Machines || d.Wake != settle {
		t.Errorf("right behind a change the work is %+v, and the next decision is in %s", d.Work, d.Wake)
	}
	if d := l.after(settle); !d.Work.Machines {
		t.Error("a change is not looked at")
	}
	l.Machines.Looked, l.Machines.At = l.Now, l.Now
	l.Machines.Changed = l.Now.Add(time.Second)
	if d := l.after(look/2 - time.Second); d.Work.Machines {
		t.Error("many changes are looked at one by one")
	}
	if d := l.after(time.Second); !d.Work.Machines {
		t.Error("a change is not looked at after half an interval")
	}
	l.Machines.Changed = time.Time{}
	if d := l.after(seldom * look); !d.Work.Machines || !d.Work.Owners {
		t.Error("a cluster of which nothing is told is never looked at")
	}
}

func TestAWatchThatBreaksOffLeadsBackToLooking(t *testing.T) {
	l := watched(t)
	l.Machines.Watched = false
	if d := l.after(l.limits.Look); !d.Work.Machines || !d.Work.Owners || !d.Work.Watch {
		t.Errorf("the work is %+v", d.Work)
	}
}

func TestNothingIsWatchedOutsideOfItsPhase(t *testing.T) {
	l := watched(t)
	l.counted(2, 2)
	if d := l.in(kubermaticv1.PhaseFinish); d.Work.Watch {
		t.Error("machines are watched when all of them are done")
	}
	l.Cluster.Spec.Pause = true
	if d := l.in(kubermaticv1.PhaseHeld); d.Work.Watch {
		t.Error("the machines of a paused cluster are watched")
	}
}

// waiting is a cluster whose last part waits until others have had their turn.
func waiting(t *testing.T) *life {
	t.Helper()
	l := born(t)
	l.handedOver()
	l.counted(2, 2)
	l.in(kubermaticv1.PhaseFinish)
	return l
}

// looks reads what each decision asks for, and returns how often it did within d, and the longest time without a read.
func (l *life) looks(d time.Duration) (n int, longest time.Duration) {
	l.t.Helper()
	last := l.Now
	for end := l.Now.Add(d); l.Now.Before(end); {
		out := l.decide(max(l.last.Wake, time.Second))
		if out.Phase != kubermaticv1.PhaseFinish {
			l.t.Fatalf("the phase is %s (%s)", out.Phase, out.Message)
		}
		if !out.Work.Owners && !out.Work.Parts && !out.Work.Machines {
			continue
		}
		for due, at := range map[*time.Time]bool{&l.Owners.At: out.Work.Owners, &l.Parts.At: out.Work.Parts, &l.Machines.At: out.Work.Machines} {
			if at {
				*due = l.Now
				n++
			}
		}
		longest, last = max(longest, l.Now.Sub(last)), l.Now
	}
	return n, longest
}

func TestAClusterThatWaitsForItsPlaceIsLookedAtLessAndLessOften(t *testing.T) {
	l := waiting(t)
	first, _ := l.looks(10 * time.Minute)
	if first < 3 || first > 3*8 {
		t.Errorf("in ten minutes it was looked at %d times: owners, parts and machines once at least, and each 8 times at most", first)
	}
	later, longest := l.looks(time.Hour)
	if later < 3*10 || later > 3*15 {
		t.Errorf("in the hour after that it was looked at %d times; want about one look of each kind in %s", later, l.limits.MaxRetry)
	}
	if longest > l.limits.MaxRetry+time.Second {
		t.Errorf("it was not looked at for %s, want at most %s", longest, l.limits.MaxRetry)
	}
}

func TestAClusterWhoseTurnHasComeOrThatIsNotWellIsLookedAtInEachInterval(t *testing.T) {
	for name, change := range map[string]func(*life){
		"its turn has come":             func(l *life) { l.Run = Run{Active: true, Part: Finish} },
		"a manager does not answer":     func(l *life) { l.Owners.Unsure = []string{"a pod does not answer"} },
		"the parts are no longer ready": func(l *life) { l.Parts.Error = "a webhook is missing" },
	} {
		t.Run(name, func(t *testing.T) {
			l := waiting(t)
			l.looks(time.Hour)
			change(l)
			if d := l.decide(l.limits.Look); !d.Work.Owners {
				t.Errorf("after an interval the work is %+v", d.Work)
			}
			l.Owners.At = l.Now
			if d := l.decide(l.limits.Look); !d.Work.Owners || d.Wake > l.limits.Look {
				t.Errorf("after another interval the work is %+v, and the next decision is in %s", d.Work, d.Wake)
			}
		})
	}
}

func TestWhatCouldNotBeSeenForAWhileIsNoNews(t *testing.T) {
	l := watched(t)
	told := func() (n int) {
		for _, e := range l.after(time.Second).Events {
			if e.Reason == string(kubermaticv1.ConditionLoopsOff) {
				n++
			}
		}
		return n
	}
	l.Owners.Unsure = []string{"a pod does not answer"}
	told()
	c := l.Cluster.Status.Conditions[kubermaticv1.ConditionLoopsOff]
	if c.Status != corev1.ConditionUnknown || !strings.HasPrefix(c.Message, "was True; ") {
		t.Fatalf("the condition is %+v", c)
	}
	l.Owners.Unsure = []string{"another pod does not answer"}
	told()
	l.Owners.Unsure = nil
	if n := told(); n != 0 {
		t.Errorf("it is told %d times that the loops are off as they were", n)
	}
	l.inTree()
	l.decide(time.Second)
	l.Owners.Unsure, l.Owners.InTree = []string{"a pod does not answer"}, nil
	l.decide(time.Second)
	l.external()
	n := 0
	for _, e := range l.decide(time.Second).Events {
		if e.Reason == string(kubermaticv1.ConditionLoopsOff) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("that the loops are off again is told %d times", n)
	}
}

func TestAConfirmationGoesWhenItsPlanWasBegun(t *testing.T) {
	l := born(t)
	l.Cluster.Annotations[kubermaticv1.AnnotationPlan] = "abc"
	l.Journal = Journal{Known: true}
	if d := l.in(kubermaticv1.PhaseQueued); d.Work.Unconfirm {
		t.Error("it goes before the plan was begun")
	}
	l.handingOver()
	l.Journal = Journal{Known: true}
	if d := l.decide(time.Second); d.Work.Unconfirm {
		t.Error("it goes before the journal says that the plan was begun")
	}
	l.Journal.Handover = Begun
	if d := l.decide(time.Second); d.Work.Unconfirm {
		t.Error("it goes while the journal may hold another plan, which it may approve of")
	}
	l.Cluster.Status.Conditions[kubermaticv1.ConditionPlan] = kubermaticv1.ClusterCondition{Status: corev1.ConditionTrue, Message: "handover=abc.def"}
	if d := l.decide(time.Second); !d.Work.Unconfirm {
		t.Error("it stays when the plan was begun")
	}
	l.Journal.Handover = RolledBack
	if d := l.decide(time.Second); d.Work.Unconfirm {
		t.Error("a plan that was confirmed after a rollback is forgotten")
	}
}

func TestAClusterWhoseJournalIsAnothersIsBlockedUntilItsPlanIsApproved(t *testing.T) {
	l := born(t)
	l.handingOver()
	l.Journal = Journal{Known: true, Handover: Begun}
	l.Run = Run{Outcome: Blocked, Message: "who wrote it?", Ended: l.Now, Retries: 1}
	if d := l.in(kubermaticv1.PhaseBlocked); !strings.Contains(d.Message, "who wrote it?") || d.Wake == 0 {
		t.Errorf("it says %q, and is looked at again after %s", d.Message, d.Wake)
	}
	l.Run.Active, l.Run.Part = true, Handover // it is looked at again, which changes nothing yet
	l.in(kubermaticv1.PhaseBlocked)
	l.Run.Number, l.Run.Total, l.Run.Step = 1, 3, "a step"
	l.in(kubermaticv1.PhaseHandover)
	l.Run = Run{Outcome: Blocked, Message: "who wrote it?", Ended: l.Now, Retries: 1}
	l.Journal.Handover = RollingBack
	if d := l.in(kubermaticv1.PhaseBlocked); !strings.Contains(d.Message, "who wrote it?") || d.Wake == 0 {
		t.Errorf("a rollback that is not begun here says %q, and is looked at again after %s", d.Message, d.Wake)
	}
	l.Cluster.Status.Conditions[kubermaticv1.ConditionPlan] = kubermaticv1.ClusterCondition{Status: corev1.ConditionTrue, Message: "handover=abc.def"}
	l.Journal.Handover = RolledBack // by a person, with the command line
	if d := l.in(kubermaticv1.PhaseFailed); d.Work.Run != NoPart {
		t.Errorf("what a person took back is begun again: %+v", d.Work)
	}
}
