package timeline

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/status"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

// lines are the entries, one line each.
func lines(t v1.Timeline) []string {
	var out []string
	for _, e := range t.Entries {
		took := "-"
		if e.DurationSeconds != nil {
			took = fmt.Sprint(*e.DurationSeconds)
		}
		line := fmt.Sprintf("%g %s %s %s: %s", e.OffsetSeconds, took, e.Source, e.Level, e.Message)
		if e.Count > 0 {
			line += fmt.Sprintf(" x%d", e.Count)
		}
		out = append(out, line)
	}
	return out
}

// input has something of every source, in no order.
func input() Input {
	event := func(kind, namespace, name, level, reason string, seconds float64) *corev1.Event {
		return &corev1.Event{
			Type: level, Reason: reason, Message: " said ", InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name},
			EventTime: metav1.NewMicroTime(at(seconds)), Series: &corev1.EventSeries{Count: 3},
		}
	}
	return Input{
		Facts: status.Facts{
			Now: at(100),
			Journal: &v1.Journal{
				Run:     "run-1",
				Phase:   v1.RunApplying,
				Started: noon,
				User:    "ops",
				Plan: v1.Plan{
					Strategy: "leader-migration",
					Steps: []v1.Step{
						{ID: "a", Title: "the titles"}, {ID: "b", Title: "of a journal"}, {ID: "c", Title: "are not shown"},
						{ID: "run kubectl apply", Kind: v1.StepKubelet, Host: "d-1", Title: "since who may write it chooses them"},
					},
				},
				Records: []v1.StepRecord{
					{ID: "c", Started: at(40), Result: v1.StepResultStarted},
					{ID: "b", Started: at(20), Ended: ptr.To(at(30)), Result: v1.StepResultDone, Error: "it went wrong"},
					{ID: "a", Started: at(1), Ended: ptr.To(at(1)), Result: v1.StepResultAlreadyDone, Handovers: []v1.HandoverRecord{
						{Lease: "l", Component: "kcm", Host: "cp-1", PID: 7, Ended: ptr.To(at(2)), Released: ptr.To(at(2.5)), NextHolder: "n"},
						{Lease: "m", Component: "kcm", Host: "cp-1", PID: 7, Ended: ptr.To(at(3)), Note: "it had moved on"},
					}},
					{ID: "run kubectl apply", Started: at(40.5), Ended: ptr.To(at(40.5)), Result: v1.StepResultDone},
					{ID: "and this", Started: at(40.6), Ended: ptr.To(at(40.6)), Result: v1.StepResultDone},
					{ID: "undo/x", Started: at(41), Ended: ptr.To(at(42)), Result: v1.StepResultSkipped},
				},
				Stops: []v1.StopRecord{{From: at(43), To: at(48), By: "ops@b"}, {From: at(55), To: at(56)}},
				Pauses: []v1.PauseRecord{
					{Pause: v1.Pause{By: "boss", Reason: "lunch"}, From: at(30), To: ptr.To(at(39)), Before: "c"},
					{Pause: v1.Pause{By: "boss"}, From: at(90)},
				},
			},
			Leases: map[string]*coordinationv1.Lease{
				"unseen": {Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("h"), AcquireTime: ptr.To(metav1.NewMicroTime(at(5)))}},
				"old":    {Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("h"), AcquireTime: ptr.To(metav1.NewMicroTime(at(-500)))}},
				"kcm":    {Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("h"), AcquireTime: ptr.To(metav1.NewMicroTime(at(6)))}},
			},
			Events: []*corev1.Event{
				event("Service", "shop", "web", "Warning", "SyncLoadBalancerFailed", 50),
				event("Service", "shop", "web", "Normal", "Other", 50),
				event(
					"Pod",
					"kube-system",
					"etcd-cp-1",
					"Normal",
					"Started",
					-1,
				),
				event("Pod", "kube-system", "coredns", "Normal", "Started", -1),
				event("Node", "", "n", "Normal", "Ready", -700),
			},
		},
		Ownership: []v1.OwnershipEvent{
			{Time: at(0), Source: v1.SourceLease, Lease: "kcm", Holder: "a"}, {Time: at(3), Source: v1.SourceLease, Lease: "kcm", Error: "no answer"},
			{Time: at(4), Source: v1.SourceLease, Lease: "kcm", Holder: "a"}, {Time: at(5), Source: v1.SourceLease, Lease: "kcm", Holder: "", Transitions: 0},
			{Time: at(6), Source: v1.SourceLease, Lease: "kcm", Holder: "b", Transitions: 1}, {Time: at(6), Source: v1.SourceScrape, Component: "kcm"},
		},
		Probes: []v1.ProbeEvent{
			{Time: at(0), Event: v1.ProbeBegin}, {Time: at(11), Event: v1.ProbeDown, Kind: "tcp", Path: "lb:443", Since: ptr.To(at(10.5)), Error: "refused"},
			{Time: at(12), Event: v1.ProbeUp, Kind: "tcp", Path: "lb:443"}, {Time: at(60), Event: v1.ProbeDown, Kind: "tcp", Path: "lb:80", Error: "refused"},
			{Time: at(70), Event: v1.ProbeLost, Kind: "api-read", Path: "api", Since: ptr.To(at(65)), Error: "asleep"},
		},
	}
}

func TestEverySourceIsInTheOrderOfTime(t *testing.T) {
	want := []string{
		"-1 - event info: Pod/kube-system/etcd-cp-1: Started: said x3",
		"0 - run info: migration run-1 was begun by ops: 4 steps, strategy leader-migration",
		"1 0 step info: a (was so already)",
		"2 0.5 handover info: kcm on cp-1 (pid 7) had ended: its lease l was released, and taken by n",
		"3 - handover warning: kcm on cp-1 (pid 7) had ended; its lease m was left alone: it had moved on",
		"5 - lease info: lease kcm: a -> no holder",
		"5 - lease info: lease unseen was taken by h; holders before it were not recorded on this machine",
		"6 - lease info: lease kcm: no holder -> b",
		"10.5 1.5 probe error: tcp lb:443 did not answer: refused",
		"20 10 step error: b: it went wrong",
		"30 9 pause info: paused by boss: lunch; before step c",
		"40 - step info: c (begun, not finished)",
		"40.5 0 step info: Kubelet d-1",
		`40.6 0 step info: "and this"`,
		"41 1 step warning: undo/x (skipped)",
		"43 5 run info: no command executed the run, until ops@b went on with it",
		"50 - event warning: Service/shop/web: SyncLoadBalancerFailed: said x3",
		"55 1 run info: no command executed the run",
		"60 - probe error: tcp lb:80 did not answer: refused",
		"65 5 probe warning: api-read api was not looked at: asleep",
		"90 - run warning: no command executes the run",
		"90 - pause info: paused by boss",
	}
	if diff := cmp.Diff(want, lines(Build(input()))); diff != "" {
		t.Error(diff)
	}
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	other := input()
	slices.Reverse(other.Facts.Events)
	slices.Reverse(other.Facts.Journal.Records)
	slices.Reverse(other.Facts.Journal.Pauses)
	if diff := cmp.Diff(Build(input()), Build(other)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatHadEndedBeforeIsLeftOut(t *testing.T) {
	in := input()
	in.Since = at(35)
	want := []string{ // what goes on is not over
		"30 9 pause info: paused by boss: lunch; before step c",
		"40 - step info: c (begun, not finished)",
		"40.5 0 step info: Kubelet d-1",
		`40.6 0 step info: "and this"`,
		"41 1 step warning: undo/x (skipped)",
		"43 5 run info: no command executed the run, until ops@b went on with it",
		"50 - event warning: Service/shop/web: SyncLoadBalancerFailed: said x3",
		"55 1 run info: no command executed the run",
		"60 - probe error: tcp lb:80 did not answer: refused",
		"65 5 probe warning: api-read api was not looked at: asleep",
		"90 - run warning: no command executes the run",
		"90 - pause info: paused by boss",
	}
	if diff := cmp.Diff(want, lines(Build(in))); diff != "" {
		t.Error(diff)
	}
}

func TestAKeptConnectionThatWasClosedWhileIdleIsLeftOut(t *testing.T) {
	in := Input{Facts: status.Facts{Now: noon}, Probes: []v1.ProbeEvent{
		{Time: at(10), Event: v1.ProbeDown, Kind: v1.PathTCPKept, Path: "lb:443", Since: ptr.To(at(10)), Error: "the far side closed it"},
		{Time: at(11), Event: v1.ProbeUp, Kind: v1.PathTCPKept, Path: "lb:443", Since: ptr.To(at(11))},
		{Time: at(20), Event: v1.ProbeDown, Kind: v1.PathTCPKept, Path: "lb:443", Since: ptr.To(at(20)), Error: "reset"},
		{Time: at(22), Event: v1.ProbeUp, Kind: v1.PathTCPKept, Path: "lb:443", Since: ptr.To(at(22))},
		{Time: at(30), Event: v1.ProbeIdle, Kind: v1.PathTCPKept, Path: "lb:443", Since: ptr.To(at(10))},
	}}
	if diff := cmp.Diff([]string{"0 2 probe error: tcp-kept lb:443 was cut: reset"}, lines(Build(in))); diff != "" {
		t.Error(diff)
	}
}

func TestATimelineWithoutARun(t *testing.T) {
	got := Build(Input{Facts: status.Facts{Now: noon, NotRead: []string{"x"}}})
	if diff := cmp.Diff(v1.Timeline{TypeMeta: v1.Type(v1.KindTimeline), Entries: []v1.TimelineEntry{}, NotRead: []string{"x"}}, got); diff != "" {
		t.Error(diff)
	}
}
