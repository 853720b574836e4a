package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// reasoned fails the test of a world in which an executor says that a step is not done, and not why.
func (w *world) reasoned(e *Engine) *Engine {
	kinds := map[v1.StepKind]func(*step.Env) step.Executor{}
	for kind, of := range e.env.Kinds {
		kinds[kind] = func(env *step.Env) step.Executor { return reasoned{w.t, of(env)} }
	}
	e.env.Kinds = kinds
	return e
}

type reasoned struct {
	t testing.TB
	step.Executor
}

func (x reasoned) Done(ctx context.Context, s v1.Step) (bool, error) {
	done, err := x.Executor.Done(ctx, s)
	if !done && err == nil {
		x.t.Errorf("step %s (%s) is not done, and its executor does not say why", s.ID, s.Kind)
	}
	return done, err
}

// isPending reports whether a step is not done for a reason that is worth waiting for.
func isPending(err error) bool {
	_, is := errors.AsType[step.PendingError](err)
	return is
}

// waits is a world that is about to start the new manager on cp-1, and what is told while it waits for it.
type waits struct {
	*world
	plan *v1.Plan
	told []string
	step string
}

func newWaits(t *testing.T) *waits {
	t.Helper()
	w, p := begun(t, 2)
	out := &waits{world: w, plan: p}
	for _, s := range p.Steps {
		if s.Kind == v1.StepAddManifest && s.Host == "cp-1" {
			out.step = s.ID
		}
	}
	return out
}

// run goes on with the plan until the manager on cp-1 does not come up.
func (w *waits) run(change ...func(*step.Options)) error {
	w.t.Helper()
	return w.engine(append(change, func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventWaiting && e.Step.ID == w.step {
				w.told = append(w.told, e.Message)
			}
		}
	})...).Run(w.t.Context(), w.plan, nil)
}

// status makes the manager's pod on cp-1 another one whenever its kubelet has published it, and ends its process.
func (w *waits) status(status corev1.PodStatus) {
	const path = "/api/v1/namespaces/kube-system/pods/" + component.CCM + "-node-cp-1"
	w.more = func() {
		var pod corev1.Pod
		if delete(w.procs, component.CCM+"@cp-1"); !w.api.Get(w.t, path, &pod) {
			return
		}
		pod.Status = status
		w.api.Put(w.t, &pod)
	}
}

func waiting(reason, message string, last *corev1.ContainerStateTerminated) corev1.PodStatus {
	begun := metav1.Now()
	return corev1.PodStatus{StartTime: &begun, ContainerStatuses: []corev1.ContainerStatus{{
		Name: component.CCM, RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: last},
	}}}
}

// TestWhatAWaitForAPodSays: object, state and reason, while it waits, when its time is up, in the journal and to onlookers.
func TestWhatAWaitForAPodSays(t *testing.T) {
	t.Parallel()
	const pod = "pod kube-system/" + component.CCM + "-node-cp-1 on node node-cp-1: "
	const secret = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	for _, c := range []struct {
		name   string
		status corev1.PodStatus
		event  string
		log    string
		says   []string
	}{
		{"a file that is not there", waiting("ContainerCreating", "", nil), `hostPath type check failed: /etc/kubernetes/x is not a file`, "", []string{
			pod + "ContainerCreating (FailedMount: hostPath type check failed: /etc/kubernetes/x is not a file)",
			"put on the node, or into the cluster, what the volume needs",
		}},
		{"a program that dies", waiting("CrashLoopBackOff", "back-off 20s", &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}), "",
			"starting\nerror: the cloud refuses \x1b[2J--token=eyJhbGciOiJIUzI1NiJ9." + secret + "." + secret + "\n", []string{
				pod + "CrashLoopBackOff of image ", ", 2 restarts (it ended last with exit code 1; its last line: ", "error: the cloud refuses",
				"kubectl -n kube-system logs --previous " + component.CCM + "-node-cp-1",
			}},
		{"a message of a megabyte", waiting("ErrImagePull", strings.Repeat("\x1b[31mlong ", 200_000), nil), "", "", []string{
			pod + "ErrImagePull of image ", "crictl pull ",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWaits(t)
			w.status(c.status)
			if c.event != "" {
				w.api.Put(t, &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kube-system"}, Reason: "FailedMount", Message: c.event,
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: component.CCM + "-node-cp-1", UID: "of the manifest"},
				})
				inner := w.more
				w.more = func() { // whose events have the hash that the mirror pod names
					inner()
					var pod corev1.Pod
					if w.api.Get(t, "/api/v1/namespaces/kube-system/pods/"+component.CCM+"-node-cp-1", &pod) {
						pod.Annotations[corev1.MirrorPodAnnotationKey] = "of the manifest"
						w.api.Put(t, &pod)
					}
				}
			}
			var logs atomic.Int64
			w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/log") {
					return false
				}
				logs.Add(1)
				_, _ = fmt.Fprint(rw, c.log)
				return true
			}
			err := w.run()
			says(t, err, append(c.says, "not verified after ", "transplant rollback")...)
			if len(w.told) == 0 {
				t.Fatal("nothing was told")
			}
			last := w.told[len(w.told)-1]
			record := w.engine().env.Journal.Record(w.step).Error
			for _, part := range c.says {
				if !strings.Contains(last, part) || !strings.Contains(record, part) {
					t.Errorf("%q is not in what is told: %.600q, or in the journal: %.600q", part, last, record)
				}
			}
			for _, text := range []string{last, record, err.Error()} {
				if len(text) > 4000 || strings.Contains(text, "\x1b") || strings.Contains(text, secret) {
					t.Errorf("%d bytes: %.600q", len(text), text)
				}
			}
			if n := logs.Load(); n > 6 { // of a wait of five minutes
				t.Errorf("%d requests for a log", n)
			}
		})
	}
}

// TestAStaticPodThatItsKubeletDoesNotPublish names the kubelet and from when on it is waited for.
func TestAStaticPodThatItsKubeletDoesNotPublish(t *testing.T) {
	t.Parallel()
	w := newWaits(t)
	w.more = func() {
		delete(w.procs, component.CCM+"@cp-1")
		w.api.Delete("/api/v1/namespaces/kube-system/pods/" + component.CCM + "-node-cp-1")
	}
	w.changeNode("cp-1", func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
				c.Status, c.Message = corev1.ConditionUnknown, "Kubelet stopped posting node status."
			}
		}
	})
	err := w.run()
	says(
		t,
		err,
		"mirror pod kube-system/"+component.CCM+"-node-cp-1: not published by the kubelet of node node-cp-1 since ",
		"the kubelet of node node-cp-1 has not reported since",
		"Kubelet stopped posting node status.",
		"journalctl -u kubelet",
	)
	if len(w.told) == 0 || !strings.Contains(w.told[len(w.told)-1], "not published by the kubelet") {
		t.Errorf("told %q", w.told)
	}
}

// TestWithoutTheRightToEventsAndLogs a wait says less, and nothing fails because of it.
func TestWithoutTheRightToEventsAndLogs(t *testing.T) {
	t.Parallel()
	w := newWaits(t)
	w.status(waiting("CrashLoopBackOff", "", &corev1.ContainerStateTerminated{ExitCode: 3}))
	w.api.Deny("list", "events")
	w.api.Deny("get", "pods/log")
	says(t, w.run(), "CrashLoopBackOff of image ", "it ended last with exit code 3")
}

// TestAnOnlookerSeesForHowLongOneCauseLasts, though its sentence changes with each attempt of the kubelet.
func TestAnOnlookerSeesForHowLongOneCauseLasts(t *testing.T) {
	t.Parallel()
	var last string
	p := lock.NewProgress("run", func(s string) { last = s })
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i, said := range []string{
		"no process of x runs", "pod x: CrashLoopBackOff of image y, 1 restart", "pod x: CrashLoopBackOff of image y, 2 restarts", "pod x: CrashLoopBackOff of image y, 3 restarts",
	} {
		p.Saw(step.Event{Kind: step.EventWaiting, Step: v1.Step{ID: "a"}, Time: noon.Add(time.Duration(i) * time.Minute), Message: said})
	}
	read := lock.ReadProgress(last)
	if s := read.Steps[0]; !s.WaitingSince.Equal(noon.Add(time.Minute)) || !strings.HasSuffix(s.Waiting, "3 restarts") {
		t.Errorf("%+v", s)
	}
}

// TestAFileThatTheNewManagerMountsIsAskedForBeforeAnythingIsChanged on each host, by the plan, by the run, and again
// before its step.
func TestAFileThatTheNewManagerMountsIsAskedForBeforeAnythingIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	const at = "/etc/kubernetes/ccm.credentials"
	p := w.beginWith(v1.Options{Env: []string{"AWS_SHARED_CREDENTIALS_FILE=" + at}})
	w.write("cp-1", at, "[default]", 0o600)
	options := step.Options{Kube: w.kube, Hosts: w.hosts}
	want := []string{at + " (--ccm-env AWS_SHARED_CREDENTIALS_FILE) is not on host cp-2", "put it there and run the same command again"}
	err := precondition.FilesThere(t.Context(), options, p)
	says(t, err, want...)
	if strings.Contains(err.Error(), "cp-1") {
		t.Errorf("of a host that has it: %v", err)
	}
	before := w.files()
	planned, err := w.run(p)
	says(t, err, append(want, "nothing was changed by this run")...)
	var missing *precondition.MissingFilesError
	if planned != "" || !errors.As(err, &missing) {
		t.Errorf("at step %q: %v", planned, err)
	}
	for path, content := range w.files() {
		if before[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
	if records := w.engine().env.Journal.Doc().Records; len(records) > 0 {
		t.Errorf("steps were begun: %+v", records)
	}
	w.write("cp-2", at, "[default]", 0o600)
	if err := precondition.FilesThere(t.Context(), options, p); err != nil {
		t.Errorf("with the file: %v", err)
	}
	var add v1.Step
	for _, s := range p.Steps {
		if s.Kind == v1.StepAddManifest && s.Host == "cp-2" && s.Path == layout.CCMManifest {
			add = s
		}
	}
	if _, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "before" && id == add.ID {
				w.remove("cp-2", at)
			}
		}
	}); err == nil || !strings.Contains(err.Error(), want[0]) || add.ID == "" || w.read("cp-2", layout.CCMManifest) != "(absent)" {
		t.Errorf("a file that vanishes: %v", err)
	}
}

// TestAManifestOfTheWorldMountsWhatAPlanWrites: the files that a plan's own steps write are not asked for.
func TestAManifestOfTheWorldMountsWhatAPlanWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.beginWith(v1.Options{})
	mounts := 0
	for _, s := range p.Steps {
		if s.Kind == v1.StepAddManifest {
			m, err := controlplane.Parse([]byte(s.Content))
			if err != nil {
				t.Fatal(err)
			}
			mounts += len(m.HostPaths())
		}
	}
	if err := precondition.FilesThere(t.Context(), step.Options{Kube: w.kube, Hosts: w.hosts}, p); err != nil || mounts == 0 {
		t.Errorf("%d mounts: %v", mounts, err)
	}
}

// A manager without credentials is not Ready, and only what it says of Nodes has the reason.
func TestWhatANewManagerSaysOfNodesIsAReasonToWait(t *testing.T) {
	said := func(node, from string, second int, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node}, Reason: "InstanceUnknown", Message: message,
			Source: corev1.EventSource{Component: from}, LastTimestamp: metav1.NewTime(noon.Add(time.Duration(second) * time.Second)),
		}
	}
	for _, test := range []struct {
		name   string
		events []corev1.Event
		want   string
	}{
		{"nothing", nil, ""},
		{"of a kubelet, and from before", []corev1.Event{said("cp-1", "kubelet", 9, "rebooted"), said("cp-1", "cloud-node-controller", -9, "old")}, ""},
		{
			"of two nodes",
			[]corev1.Event{
				said("cp-1", "cloud-node-controller", 9, "no EC2 IMDS role found"), said("cp-2", "cloud-node-controller", 3, "no role"),
				said("cp-1", "cloud-node-controller", 4, "no role"),
			},
			"it fails for 2 nodes, last for cp-1: InstanceUnknown: no EC2 IMDS role found",
		},
		{"a secret", []corev1.Event{said("cp-1", "cloud-controller-manager", 0, "--password=hunter2 is wrong")}, ""},
	} {
		got := failuresOf(test.events, noon)
		if test.want == "" && strings.Contains(got, "hunter2") || test.want != "" && got != test.want || test.name != "a secret" && test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
