package state

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// life is one cluster, whose written conditions go from one decision to the next.
type life struct {
	t      *testing.T
	limits Limits
	Observation
	last   Decision
	phases []string // without repetitions
	events []string
}

// born returns a cluster with an in-tree provider whose feature was just switched on, as the webhook leaves it.
func born(t *testing.T) *life {
	l := &life{t: t, limits: DefaultLimits()}
	l.Now = start
	l.Cluster = &kubermaticv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "crh4xbxz5f", Annotations: map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.CSIMigrationNeeded: ""}},
		Spec:       kubermaticv1.ClusterSpec{Features: map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true}, Version: "v1.26.0"},
	}
	l.Groups, l.Installs = []string{kubermaticv1.GroupName}, true
	l.Plane = Plane{Known: true, Apiserver: &Workload{1, 1}, ControllerManager: &Workload{1, 1}, InTree: "aws"}
	l.Journal = Journal{Known: true}
	return l
}

// decide decides after d, and writes the conditions as the operator does.
func (l *life) decide(d time.Duration) Decision {
	l.t.Helper()
	l.Now = l.Now.Add(d)
	l.last = Decide(l.Observation, l.limits)
	if l.Cluster.Status.Conditions == nil {
		l.Cluster.Status.Conditions = conditionMap{}
	}
	for _, t := range Owned() {
		delete(l.Cluster.Status.Conditions, t)
		if c, ok := l.last.Conditions[t]; ok {
			l.Cluster.Status.Conditions[t] = c
			if c.LastTransitionTime.IsZero() {
				l.t.Errorf("condition %s has no time of transition", t)
			}
		}
	}
	if n := len(l.phases); n == 0 || l.phases[n-1] != l.last.Phase {
		l.phases = append(l.phases, l.last.Phase)
	}
	for _, e := range l.last.Events {
		l.events = append(l.events, e.Reason)
	}
	return l.last
}

// in decides and demands the phase.
func (l *life) in(phase string) Decision {
	l.t.Helper()
	d := l.decide(time.Second)
	if d.Phase != phase {
		l.t.Fatalf("the phase is %s (%s), want %s", d.Phase, d.Message, phase)
	}
	return d
}

func (l *life) seen() Seen { return Seen{At: l.Now, Known: true} }

func (l *life) inTree() {
	l.Owners = Owners{Seen: l.seen(), InTree: []string{"service", "route", "cloud-node-lifecycle"}}
}

func (l *life) external() {
	l.Owners = Owners{Seen: l.seen(), External: []string{"service", "route", "cloud-node-lifecycle"}}
}

func (l *life) nobody() {
	l.Owners = Owners{Seen: l.seen(), Unowned: []string{"service", "route", "cloud-node-lifecycle"}}
}

func (l *life) ready() {
	l.Parts = Parts{Seen: l.seen(), Ready: true, CSIReady: true, CSI: "ebs.csi.aws.com"}
}

func (l *life) counted(migrated, total int) {
	l.Machines = Machines{Seen: l.seen(), Migrated: migrated, Total: total, Done: migrated == total, Moved: l.Now}
}

// ended is the end of a run, as the operator notes it.
func (l *life) ended(o Outcome, message string) {
	l.Run.Active, l.Run.Number, l.Run.Outcome, l.Run.Message, l.Run.Ended = false, 0, o, message, l.Now
	switch o {
	case Succeeded:
		l.Run.Failures, l.Run.Retries = 0, 0
	case Broken, Stale, NoWayBack:
		l.Run.Failures++
		l.Run.Retries++
	default:
		l.Run.Retries++
	}
}

// handingOver brings the cluster into the middle of its handover.
func (l *life) handingOver() {
	l.t.Helper()
	l.in(kubermaticv1.PhaseQueued)
	l.Run = Run{Active: true, Part: Handover, Step: "switch the cloud loops off", Number: 2, Total: 7}
	l.in(kubermaticv1.PhaseHandover)
	l.Journal.Handover = Begun
}

// handedOver brings it behind the handover, with everything around machines ready.
func (l *life) handedOver() {
	l.t.Helper()
	l.handingOver()
	l.ended(Succeeded, "")
	l.Journal.Handover = Done
	l.external()
	l.ready()
}

// completed brings it to its end.
func (l *life) completed() {
	l.t.Helper()
	l.handedOver()
	l.counted(2, 2)
	l.in(kubermaticv1.PhaseFinish)
	l.Journal.Finish = Done
	l.in(kubermaticv1.PhaseCompleted)
}

func (l *life) condition(t kubermaticv1.ClusterConditionType) kubermaticv1.ClusterCondition {
	return l.Cluster.Status.Conditions[t]
}

func (l *life) is(t kubermaticv1.ClusterConditionType, status corev1.ConditionStatus, reason string) {
	l.t.Helper()
	if c := l.condition(t); c.Status != status || c.Reason != reason {
		l.t.Errorf("%s is %s/%s (%s), want %s/%s", t, c.Status, c.Reason, c.Message, status, reason)
	}
}

func (l *life) went(phases ...string) {
	l.t.Helper()
	if !slices.Equal(l.phases, phases) {
		l.t.Errorf("the phases were %v, want %v", l.phases, phases)
	}
}
