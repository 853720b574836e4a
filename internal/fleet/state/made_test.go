package state

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// wasCreatedExternal is a Cluster that was external from the start, without annotations, whose control plane is up.
func madeExternal(t *testing.T) *life {
	t.Helper()
	l := born(t)
	l.Cluster.Annotations = nil
	l.Plane.InTree = ""
	return l
}

func TestAClusterThatWasMadeExternalGetsTheSamePartsAsOneThatIsMigrated(t *testing.T) {
	l := madeExternal(t)
	l.Journal = Journal{}
	if d := l.in(kubermaticv1.PhaseQueued); !d.Work.Journal || d.Work.Annotate {
		t.Errorf("before the journals are read, the work is %+v", d.Work)
	}
	l.Journal = Journal{Known: true}
	if d := l.in(kubermaticv1.PhaseQueued); d.Work.Run != Install || d.Work.Annotate {
		t.Errorf("a queued cluster wants %+v", d.Work)
	}
	l.Run = Run{Active: true, Part: Install, Number: 3, Total: 6, Step: "start cloud-controller-manager in the seed"}
	if d := l.in(kubermaticv1.PhaseHandover); d.Work.Run != Install || d.Work.Stop || d.Work.Annotate {
		t.Errorf("the work of the run is %+v", d.Work)
	}
	l.ended(Succeeded, "")
	l.Journal = Journal{Known: true, Handover: Done, Install: true}
	if d := l.in(kubermaticv1.PhaseComponents); d.Work.Parts || !d.Work.Owners {
		t.Errorf("before it is seen who runs the loops, the work is %+v", d.Work)
	}
	l.external()
	if d := l.in(kubermaticv1.PhaseComponents); !d.Work.Parts {
		t.Error("nothing is done about the CSI driver and the parts around machines")
	}
	l.Parts = Parts{Seen: l.seen(), Waiting: []string{"CSI driver ebs.csi.aws.com: its controller is not there"}, CSI: "its controller is not there"}
	if d := l.in(kubermaticv1.PhaseComponents); !strings.Contains(d.Message, "its controller is not there") {
		t.Errorf("what is missing is not said: %s", d.Message)
	}
	l.is(kubermaticv1.ConditionCSIReady, corev1.ConditionFalse, ReasonWaiting)
	l.ready()
	l.counted(1, 2)
	if d := l.in(kubermaticv1.PhaseMachines); !strings.Contains(d.Message, "1 of 2 machines are external") {
		t.Errorf("the message is %q", d.Message)
	}
	l.counted(2, 2)
	if d := l.in(kubermaticv1.PhaseCompleted); d.Work.Run != NoPart || d.Work.Annotate {
		t.Errorf("a completed cluster wants %+v", d.Work)
	}
	l.went(kubermaticv1.PhaseQueued, kubermaticv1.PhaseHandover, kubermaticv1.PhaseComponents, kubermaticv1.PhaseMachines, kubermaticv1.PhaseCompleted)
}

func TestAControlPlaneThatIsNotUpYetIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*life)
		message string
	}{
		"no API server":                {func(l *life) { l.Plane.Apiserver = nil }, "no Deployment apiserver yet"},
		"no manager":                   {func(l *life) { l.Plane.ControllerManager = nil }, "no Deployment controller-manager yet"},
		"its API server is not ready":  {func(l *life) { l.Plane.Apiserver = &Workload{Desired: 2} }, "apiserver is ready yet"},
		"its manager is not ready yet": {func(l *life) { l.Plane.ControllerManager = &Workload{Desired: 1} }, "controller-manager is ready yet"},
	} {
		t.Run(name, func(t *testing.T) {
			l := madeExternal(t)
			c.change(l)
			d := l.in(kubermaticv1.PhaseQueued)
			if d.Work.Run != NoPart || !strings.Contains(d.Message, c.message) {
				t.Errorf("the work is %+v: %s", d.Work, d.Message)
			}
		})
	}
}

// Two cloud-controller-managers would be two owners of each loop. One that appears once ours is begun is the engine's to find.
func TestAManagerOfAnotherProgramIsLeftAloneWhateverThePhaseWas(t *testing.T) {
	for _, prior := range []string{"", kubermaticv1.PhaseQueued, kubermaticv1.PhaseBlocked, kubermaticv1.PhaseHeld} {
		l := madeExternal(t)
		if prior != "" {
			l.Cluster.Status.Conditions = conditionMap{kubermaticv1.ConditionMigration: {Status: corev1.ConditionFalse, Reason: prior, Message: "m"}}
		}
		l.Plane.Foreign = "cloud-manager"
		if d := l.in(kubermaticv1.PhaseNotNeeded); d.Work.Run != NoPart || !strings.Contains(d.Message, "Deployment cloud-manager") {
			t.Errorf("after %q the work is %+v: %s", prior, d.Work, d.Message)
		}
	}
	l := madeExternal(t)
	l.Journal = Journal{Known: true, Handover: Begun, Install: true}
	l.Plane.Foreign = "cloud-manager"
	if d := l.in(kubermaticv1.PhaseHandover); d.Work.Run != Install {
		t.Errorf("an installation that was begun is left in its middle: %+v", d.Work)
	}
}

// After the finish of a migration kube-controller-manager is external too. Its journal, not its flags, says that it was migrated.
func TestAMigratedClusterIsNotTakenForOneThatWasMadeExternal(t *testing.T) {
	l := born(t)
	l.handedOver()
	l.external()
	l.ready()
	l.counted(2, 2)
	l.Cluster.Annotations = nil
	l.Plane.InTree = ""
	if d := l.in(kubermaticv1.PhaseFinish); d.Work.Run != Finish {
		t.Errorf("the work is %+v", d.Work)
	}
}

func TestAHeldClusterThatWasMadeExternalIsNotBegun(t *testing.T) {
	l := madeExternal(t)
	l.Cluster.Annotations = map[string]string{kubermaticv1.AnnotationHold: "alice"}
	if d := l.in(kubermaticv1.PhaseHeld); d.Work.Run != NoPart {
		t.Errorf("the work is %+v", d.Work)
	}
	l.Cluster.Annotations = nil
	l.in(kubermaticv1.PhaseQueued)
}
