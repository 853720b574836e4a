package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
)

// underWay has the last step be begun so long ago, and not be done. Times in a seed are those of this machine.
func (s *seededJournal) underWay(ago time.Duration) *v1.StepRecord {
	began := time.Now().Add(-ago)
	s.doc.Started = began
	for i := range s.doc.Records {
		s.doc.Records[i].Started, s.doc.Records[i].Ended = began, ptr.To(began)
	}
	last := &s.doc.Records[len(s.doc.Records)-1]
	last.Ended, last.Result = nil, v1.StepResultStarted
	return last
}

// lockOf is the lock on the control plane, renewed so long ago.
func (s *seededJournal) lockOf(ago time.Duration, says string) *coordinationv1.Lease {
	s.t.Helper()
	at := time.Now().Add(-ago)
	last := s.doc.Records[len(s.doc.Records)-1]
	data, err := json.Marshal(v1.Progress{Run: s.doc.Run, Steps: []v1.StepProgress{{ID: last.ID, Since: last.Started, Waiting: says, WaitingSince: at}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: lock.LeaseName, Namespace: seededNamespace, Annotations: map[string]string{lock.ProgressAnnotation: string(data)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x", Time: ptr.To(metav1.NewTime(at))}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(lockHolder), RenewTime: ptr.To(metav1.NewMicroTime(at)), LeaseDurationSeconds: ptr.To[int32](180),
		},
	}
}

func (s *seededJournal) watch(args ...string) *watched {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	w := &watched{code: make(chan int, 1), stop: stop}
	go func() {
		w.code <- Run(ctx, append(slices.Concat(args, s.flags), "--watch"), console.Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.errOut})
	}()
	s.t.Cleanup(stop)
	return w
}

// TestWhatStandsInTheWayInASeedHasACode, the one that it has outside of a seed.
func TestWhatStandsInTheWayInASeedHasACode(t *testing.T) {
	warning := func(kind, namespace string) *corev1.Event {
		in := namespace
		if kind == "Node" {
			in = metav1.NamespaceDefault
		}
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: kind, Namespace: in}, Type: corev1.EventTypeWarning, Reason: "Refused", Message: "no",
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: "x"}, LastTimestamp: metav1.Now(),
		}
	}
	notReady := metav1.NewTime(time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		change         func(s *seededJournal)
		inSeed, inUser []runtime.Object
		lock           time.Duration // since it was renewed; none when 0
		want           v1.BlockerCode
		next           string
	}{
		"a run that goes well":    {lock: time.Second, next: "transplant status --watch --seed-namespace cluster-x"},
		"a command was killed":    {want: v1.BlockerRunStopped, next: "transplant apply --part handover"},
		"renewals did not come":   {lock: time.Minute, want: v1.BlockerLockSilent},
		"its holder is gone":      {lock: time.Hour, want: v1.BlockerLockExpired, next: "--steal-lock, once " + lockHolder + " has ended for certain"},
		"a step takes too long":   {change: func(s *seededJournal) { s.underWay(24 * time.Hour) }, lock: time.Second, want: v1.BlockerStepSlow},
		"a Node is reported":      {lock: time.Second, inUser: []runtime.Object{warning("Node", "")}, want: v1.BlockerNodeWarning},
		"a Service is reported":   {lock: time.Second, inUser: []runtime.Object{warning("Service", "shop")}, want: v1.BlockerServiceWarning},
		"a lease is left behind":  {lock: time.Second, inUser: []runtime.Object{leaseObject(component.KCM, "controller-manager-1_x", time.Hour)}, want: v1.BlockerLeaseExpired},
		"an event in the seed":    {lock: time.Second, inSeed: []runtime.Object{warning("Service", "shop")}},
		"a pod of another object": {lock: time.Second, inUser: []runtime.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kcm", Namespace: "kube-system"}}}},
		"an error": {
			change: func(s *seededJournal) { s.underWay(time.Second).Error = "the quota is used up" },
			want:   v1.BlockerRunFailed, next: "repair the error, then transplant apply --part handover",
		},
		"the journal of another": {
			change: func(s *seededJournal) { s.underWay(time.Second); s.doc.Plan.Cluster.Seed = "cluster-y" },
			lock:   time.Second, want: v1.BlockerJournalUntrusted, next: "find out who wrote the journal's ConfigMap",
		},
		"a pause": {
			lock: time.Second, want: v1.BlockerPaused,
			next: "transplant resume --seed-namespace cluster-x",
			inSeed: []runtime.Object{&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: pause.ControlName, Namespace: seededNamespace},
				Data:       map[string]string{"run": "20261121-120000", "paused-by": "boss@desk", "paused-at": "2026-11-21T11:58:00Z"},
			}},
		},
		"a node that is not Ready": {
			lock: time.Second, want: v1.BlockerNodeNotReady,
			inUser: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: notReady},
			}}}},
		},
		"a manager that is not Ready": {
			lock: time.Second, want: v1.BlockerPodNotReady,
			inSeed: []runtime.Object{&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "controller-manager-1", Namespace: seededNamespace},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "m", Command: []string{component.KCM, "--cloud-provider=aws"}}}},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: notReady},
				}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeededJournal(t)
			s.underWay(30 * time.Second)
			if c.change != nil {
				c.change(s)
			}
			s.begin()
			s.seed.Put(t, c.inSeed...)
			s.user.Put(t, c.inUser...)
			if c.lock != 0 {
				s.seed.Put(t, s.lockOf(c.lock, ""))
			}
			r := s.run("status", "-o", "json")
			var have v1.Status
			if err := json.Unmarshal([]byte(r.out), &have); err != nil || r.code != exitcode.OK {
				t.Fatalf("code %d, %v:\n%s", r.code, err, r.text(nil))
			}
			var codes []v1.BlockerCode
			for _, b := range have.Health {
				codes = append(codes, b.Code)
			}
			if want := slices.DeleteFunc([]v1.BlockerCode{c.want}, func(code v1.BlockerCode) bool { return code == "" }); !slices.Equal(codes, want) {
				t.Errorf("codes %v, want %v:\n%s", codes, want, r.text(nil))
			}
			if !strings.Contains(have.Next, c.next) {
				t.Errorf("next: %q, want %q", have.Next, c.next)
			}
		})
	}
}

func TestARunInASeedIsWatched(t *testing.T) {
	s := newSeededJournal(t)
	last := s.underWay(time.Second)
	s.begin()
	s.seed.Put(t, s.lockOf(-time.Hour, "the pods are not ready")) // it is not silent, however slow this machine is
	w := s.watch("status")
	w.out.shows(t, " · "+last.ID+" waits: the pods are not ready\n")
	s.seed.Put(t, s.lockOf(-time.Hour-time.Second, "the pods are not ready")) // a renewal is no change
	s.seed.Put(t, s.lockOf(-time.Hour-time.Second, "the lease is held"))
	w.out.shows(t, "waits: the lease is held\n")
	kube, _ := s.seed.Clients(t)
	j, err := (journal.ObjectLocation{Kube: kube, Namespace: seededNamespace}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.SetPhase(t.Context(), v1.RunApplied, nil, ptr.To(time.Now())); err != nil {
		t.Fatal(err)
	}
	if code := <-w.code; code != exitcode.OK || strings.Count(w.out.String(), " applying ") != 2 {
		t.Errorf("exit %d:\n%s%s", code, w.out.String(), w.errOut.String())
	}
	fails(t, s.run("status", "--watch", "-o", "prometheus"), exitcode.Error, "--watch writes text or json, not prometheus")
	fails(t, s.run("timeline", "--watch", "-o", "yaml"), exitcode.Error, "--watch writes text or json, not yaml")
}

func TestTheTimelineOfARunInASeed(t *testing.T) {
	s := newSeededJournal(t)
	last := s.underWay(time.Minute)
	last.Handovers = []v1.HandoverRecord{{
		Lease: component.KCM, Holder: "controller-manager-1_x", Component: component.KCM, Host: "controller-manager-1",
		Ended: ptr.To(time.Now()), Released: ptr.To(time.Now()), NextHolder: "controller-manager-2_x",
	}}
	s.begin()
	event := func(namespace, name, says string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Type: corev1.EventTypeNormal, Reason: "Started", Message: says,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}, LastTimestamp: metav1.Now(),
		}
	}
	s.seed.Put(t, event(seededNamespace, "controller-manager-2", "the manager"), event(seededNamespace, "prometheus-0", "of no interest"))
	r := s.run("timeline")
	for _, want := range []string{
		"migration 20261121-120000 was begun by ops", last.ID + " (begun, not finished)", "no command executes the run",
		"kube-controller-manager in pod controller-manager-1 had ended: its lease kube-controller-manager was released",
		"Pod/cluster-x/controller-manager-2: Started: the manager",
	} {
		if r.code != exitcode.OK || !strings.Contains(r.out, want) {
			t.Errorf("code %d, want %q:\n%s", r.code, want, r.text(nil))
		}
	}
	if strings.Contains(r.out, "of no interest") || strings.Contains(r.out, "not read") {
		t.Errorf("more than that:\n%s", r.text(nil))
	}
	if r := s.run("timeline", "--since", "2100-01-01T00:00:00Z"); r.code != exitcode.OK || strings.Contains(r.out, "was begun by ops") {
		t.Errorf("--since: code %d\n%s", r.code, r.text(nil))
	}
	fails(t, s.run("timeline", "--ownership-log", "x"), exitcode.Error, "--ownership-log would have no effect")
	w := s.watch("timeline")
	w.out.shows(t, "was begun by ops")
	s.seed.Put(t, event(seededNamespace, "cloud-controller-manager-1", "the new one"))
	w.out.shows(t, "Started: the new one")
	w.stop()
	if code := <-w.code; code != exitcode.Interrupted {
		t.Errorf("exit %d: %s", code, w.errOut.String())
	}
}

// TestAWatchedTimelineEndsWithTheCommandForTheSeed: one without the namespace would change another cluster.
func TestAWatchedTimelineEndsWithTheCommandForTheSeed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *seededJournal)
		want   string
	}{
		"an error": {
			func(s *seededJournal) { s.underWay(time.Second).Error = "the quota is used up" },
			"next: repair the error, then transplant apply --part handover --seed-namespace cluster-x\n",
		},
		"the journal of another": {
			func(s *seededJournal) { s.doc.Phase, s.doc.Plan.Cluster.Seed = v1.RunApplied, "cluster-y" },
			"next: find out who wrote the journal's ConfigMap in namespace cluster-x of the seed\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeededJournal(t)
			c.change(s)
			s.begin()
			w := s.watch("timeline")
			if code := <-w.code; code != exitcode.Error || !strings.Contains(w.errOut.String(), c.want) {
				t.Errorf("exit %d, want %q:\n%s%s", code, c.want, w.out.String(), w.errOut.String())
			}
		})
	}
}

func TestACheckInASeedWaitsOnlyForWhatPassesByItself(t *testing.T) {
	client.WaitPeriod = time.Millisecond
	t.Cleanup(func() { client.WaitPeriod = 2 * time.Second })
	seed, user := apitest.New(t), apitest.New(t)
	user.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "user"}})
	args := []string{"check", "--seed-kubeconfig", seed.Kubeconfig(t), "--seed-namespace", seededNamespace, "--kubeconfig", user.Kubeconfig(t)}
	seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seededNamespace, UID: "ns"}})
	// That kube-controller-manager is missing may pass by itself, and what is unknown of its manifests does not.
	r := transplant(t, append(args, "--wait=1h")...)
	if said := r.text(nil); r.code != exitcode.Blocked || !strings.Contains(said, "✗ HCP-001") || strings.Contains(said, "waiting for") {
		t.Errorf("code %d:\n%s", r.code, said)
	}
	fails(t, transplant(t, append(args, "--wait=-1s")...), exitcode.Error, "not a negative one")
}

// TestACheckInASeedLooksAgain while all that blocks may pass by itself, and until the time is over.
func TestACheckInASeedLooksAgain(t *testing.T) {
	client.WaitPeriod = time.Millisecond
	t.Cleanup(func() { client.WaitPeriod = 2 * time.Second })
	s := newSeededJournal(t)
	deployments := func(ready int32) {
		for name, program := range map[string]string{"apiserver": "kube-apiserver", "controller-manager": component.KCM} {
			s.seed.Put(t, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seededNamespace},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: name, Image: "registry.k8s.io/" + program + ":v1.26.0", Command: []string{program, "--cloud-provider=aws"},
					}}}},
				},
				Status: appsv1.DeploymentStatus{Replicas: ready, UpdatedReplicas: ready, ReadyReplicas: ready, AvailableReplicas: ready},
			})
		}
	}
	deployments(0)
	r := s.run("check", "--wait=10ms")
	if said := r.text(nil); r.code != exitcode.Timeout || !strings.Contains(said, "waiting for CP-005") || !strings.Contains(said, "✗ HCP-003") {
		t.Fatalf("code %d:\n%s", r.code, said)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, errOut spool
	code := make(chan int, 1)
	go func() {
		args := slices.Concat([]string{"check", "--wait=1h"}, s.flags)
		code <- Run(ctx, args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut})
	}()
	errOut.shows(t, "waiting for CP-005")
	deployments(1)
	errOut.shows(t, "waiting for HCP-0")
	s.seed.Put(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "controller-manager", Namespace: seededNamespace}})
	if code := <-code; code != exitcode.Blocked || !strings.Contains(out.String(), "? CP-001") { // it does not pass by itself
		t.Errorf("code %d:\n%s%s", code, out.String(), errOut.String())
	}
}
