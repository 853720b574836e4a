package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// alone is a pod that no controller brings back.
func alone(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "apps"}, Spec: corev1.PodSpec{NodeName: "node-cp-1"}}
}

func TestAPodThatNoControllerBringsBackIsNotDeletedSilently(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	evicted := w.drainable(0)
	w.api.Put(t, alone("by-hand"))
	p := w.given(kubeletStep())
	_, err := w.run(p)
	says(t, err, "no controller would bring back apps/by-hand", "--force-unmanaged", "nothing was changed there")
	if len(evicted()) > 0 || w.node("cp-1").Spec.Unschedulable || w.restarts["kubelet@cp-1"] != 0 {
		t.Errorf("evicted %v, unschedulable %v, %d restarts", evicted(), w.node("cp-1").Spec.Unschedulable, w.restarts["kubelet@cp-1"])
	}
	options := step.Options{Kube: w.kube, Hosts: w.hosts, NodeNames: w.nodeNames()}
	err = kubelet.Changeable(t.Context(), options, p)
	says(t, err, "node node-cp-1 has to be drained", "apps/by-hand")
	p.Options.ForceUnmanaged = true
	if err := kubelet.Changeable(t.Context(), options, p); err != nil {
		t.Errorf("although it was allowed: %v", err)
	}
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(evicted()); !strings.Contains(have, "by-hand") {
		t.Errorf("evicted: %s", have)
	}
}

func TestOurOwnPodsAndAnEmptyDirInADrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	evicted := w.drainable(0)
	look := alone("transplant-look-cp-1")
	look.Labels = map[string]string{"app.kubernetes.io/managed-by": "transplant", "transplant.dev/host-access": "look"}
	yes := true
	cache := readyPod("cache", true, &yes)
	cache.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	w.api.Put(t, look, cache)
	var told []string
	if _, err := w.run(w.given(kubeletStep()), func(o *step.Options) { o.Tell = func(e step.Event) { told = append(told, e.Message) } }); err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(evicted()); strings.Contains(have, "transplant-look") || !strings.Contains(have, "cache") {
		t.Errorf("evicted: %s", have)
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "1 pod with an emptyDir, whose content ends with the pod (apps/cache)") {
		t.Errorf("told:\n%s", all)
	}
}

func TestAPodThatTakesItsTimeToEndIsNamedWithItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	yes := true
	slow := readyPod("slow", true, &yes)
	until := metav1.NewTime(w.clock.Now().Add(time.Hour))
	slow.DeletionTimestamp, slow.Finalizers = &until, []string{"example.org/flush"}
	w.api.Put(t, slow)
	p := w.given(kubeletStep())
	p.Options.DrainTimeout = "2m"
	_, err := w.run(p)
	says(t, err, "waited for 2m0s", "apps/slow (ends by 2026-11-21T13:00:00Z, and keeps the finalizers example.org/flush)", "--drain-timeout")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is no timeout: %v", err)
	}
	if w.node("cp-1").Spec.Unschedulable || w.restarts["kubelet@cp-1"] != 0 {
		t.Error("the node stays unschedulable, or its kubelet was restarted")
	}
}

func TestANodeThatSomebodyElseCordonedStaysSoAfterADrainInVain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(1 << 20)
	w.changeNode("cp-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	_, err := w.run(w.given(kubeletStep()))
	says(t, err, "kept by PodDisruptionBudget apps/web")
	if !w.node("cp-1").Spec.Unschedulable {
		t.Error("it was made schedulable")
	}
}

func TestCtrlCDuringADrainLeavesTheNodeAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(1 << 20)
	p, stop := w.given(kubeletStep()), make(chan struct{})
	closed := false
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if strings.Contains(e.Message, "still to leave") && !closed {
				closed = true
				close(stop)
			}
		}
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, step.ErrInterrupted) || w.node("cp-1").Spec.Unschedulable || w.restarts["kubelet@cp-1"] != 0 {
		t.Errorf("error %v, unschedulable %v, %d restarts", err, w.node("cp-1").Spec.Unschedulable, w.restarts["kubelet@cp-1"])
	}
}

func TestAVolumeOfTheInTreePluginIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	w.changeNode("cp-1", func(n *corev1.Node) {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/vol-1", "kubernetes.io/csi/x^y"}
	})
	looks := 0
	w.more = func() {
		if looks++; looks == 60 {
			w.changeNode("cp-1", func(n *corev1.Node) { n.Status.VolumesInUse = n.Status.VolumesInUse[1:] })
		}
	}
	var told []string
	_, err := w.run(w.given(kubeletStep()), func(o *step.Options) {
		o.Tell = func(e step.Event) { told = append(told, e.Message) }
		o.Hook = func(point, _ string) {
			if n := w.node("cp-1"); point == "during" && len(n.Status.VolumesInUse) > 1 {
				t.Error("the kubelet is changed while the in-tree plugin has a volume")
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "waiting until kubernetes.io/aws-ebs/vol-1 is unmounted") {
		t.Errorf("told:\n%s", all)
	}
}

// TestAVolumeThatNoDrainFrees: a DaemonSet's pod stays, and the in-tree plugin's volume with it; the rest of the node would be emptied for nothing.
func TestAVolumeThatNoDrainFrees(t *testing.T) {
	t.Parallel()
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "logs"}}
	ebs := corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "y"}}
	for _, c := range []struct {
		name   string
		volume corev1.VolumeSource
		source corev1.PersistentVolumeSource
		kind   string
		says   string
	}{
		{"of a claim", claim, ebs, "DaemonSet", "leaves apps/agent (volume data of claim logs) alone"},
		{"of a claim of the pod's own", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, ebs, "DaemonSet", "leaves apps/agent (volume data of claim agent-data) alone"},
		{"of the pod itself", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}, ebs, "DaemonSet", "leaves apps/agent (volume data) alone"},
		{"of CSI", claim, csi, "DaemonSet", ""},
		{"of a pod that leaves", claim, ebs, "ReplicaSet", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			evicted := w.drainable(0)
			w.changeNode("cp-1", func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/vol-1"} })
			yes := true
			agent := readyPod("agent", true, &yes)
			agent.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: "agent", Controller: &yes}}
			agent.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: c.volume}}
			w.api.Put(
				t,
				agent,
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: c.source}},
			)
			for _, name := range []string{"logs", "agent-data"} {
				w.api.Put(
					t,
					&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "apps"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}},
				)
			}
			p := w.given(kubeletStep())
			before := kubelet.Changeable(t.Context(), step.Options{Kube: w.kube, Hosts: w.hosts, NodeNames: w.nodeNames()}, p)
			if c.says == "" {
				if before != nil {
					t.Errorf("it is refused: %v", before)
				}
				return
			}
			says(t, before, c.says, "nodeSelector")
			_, err := w.run(p)
			says(t, err, c.says, "nothing was changed there")
			if len(evicted()) > 0 || w.node("cp-1").Spec.Unschedulable {
				t.Errorf("evicted %v, unschedulable %v", evicted(), w.node("cp-1").Spec.Unschedulable)
			}
		})
	}
}

func TestADrainedHostThatIsTakenBackIsMadeSchedulableAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	w.kubeletRuns("cp-1")
	w.fate = func(_ string, flags map[string]string) *start {
		if external(flags) {
			return &start{err: errors.New("exit status 1")}
		}
		return nil
	}
	_, err := w.run(w.given(kubeletStep()))
	says(t, err, "has its old flags again")
	if w.node("cp-1").Spec.Unschedulable {
		t.Error("it stays unschedulable")
	}
}

// A kubelet that does not come back at all keeps its node unschedulable: nothing would run there.
func TestADrainedHostThatIsLostStaysUnschedulable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	w.kubeletRuns("cp-1")
	w.fate = func(string, map[string]string) *start { return &start{err: errors.New("exit status 1")} }
	p := w.given(kubeletStep())
	_, err := w.run(p)
	says(t, err, "does not come back with them either")
	if !w.node("cp-1").Spec.Unschedulable {
		t.Error("it was made schedulable")
	}
	w.fate = nil
	_, err = w.run(p) // ends the undo
	says(t, err, "has its old flags again")
	if w.node("cp-1").Spec.Unschedulable {
		t.Error("it stays unschedulable")
	}
	if rec := w.engine().env.Journal.Record(p.Steps[0].ID); rec.Result != v1.StepResultUndone {
		t.Errorf("the record: %+v", rec)
	}
}

// diesWhen runs a plan with an engine that dies at a point of a step, or when it says something.
func (w *world) diesWhen(p *v1.Plan, at, says string) {
	w.t.Helper()
	defer func() {
		if r := recover(); r == nil {
			w.t.Fatal("it did not die")
		} else if _, ok := r.(killed); !ok {
			panic(r)
		}
	}()
	_ = w.engine(func(o *step.Options) {
		o.Hook = func(point, _ string) {
			if point == at {
				panic(killed{})
			}
		}
		o.Tell = func(e step.Event) {
			if says != "" && strings.Contains(e.Message, says) {
				panic(killed{})
			}
		}
	}).Run(w.t.Context(), p, nil)
}

func TestADrainThatWasKilledIsTakenBackWithItsCordon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at, says string
		cordoned       bool
	}{
		{"in its middle", "", "still to leave", false},
		{"before the files are written", "during", "", false},
		{"on a node that somebody else cordoned", "during", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.drainable(3)
			w.changeNode("cp-1", func(n *corev1.Node) { n.Spec.Unschedulable = c.cordoned })
			w.diesWhen(w.given(kubeletStep()), c.at, c.says)
			if !w.node("cp-1").Spec.Unschedulable {
				t.Fatal("it died before it drained")
			}
			w.backAfterEveryDeath()
			if have := w.node("cp-1").Spec.Unschedulable; have != c.cordoned {
				t.Errorf("unschedulable after the rollback: %v, before the migration: %v", have, c.cordoned)
			}
			if w.restarts["kubelet@cp-1"] != 0 {
				t.Error("a kubelet that had not been changed was restarted")
			}
		})
	}
}

func TestAChangedKubeletThatIsTakenBackAfterAKillTakesPodsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	w.kubeletRuns("cp-1")
	before := w.read("cp-1", kubeletStep().Path)
	w.fate = func(string, map[string]string) *start { panic(killed{}) }
	w.diesWhen(w.given(kubeletStep()), "", "")
	w.fate = nil
	if !w.node("cp-1").Spec.Unschedulable || w.read("cp-1", kubeletStep().Path) == before {
		t.Fatal("it died before the files were written")
	}
	w.backAfterEveryDeath()
	if w.node("cp-1").Spec.Unschedulable || w.read("cp-1", kubeletStep().Path) != before {
		t.Errorf("unschedulable: %v, the file: %s", w.node("cp-1").Spec.Unschedulable, w.read("cp-1", kubeletStep().Path))
	}
}

func TestACordonOfSomebodyElseAfterADrainThatEndedStaysAfterTheRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	if _, err := w.run(w.given(kubeletStep())); err != nil {
		t.Fatal(err)
	}
	w.changeNode("cp-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.backAfterEveryDeath()
	if !w.node("cp-1").Spec.Unschedulable {
		t.Error("it was made schedulable")
	}
}

// full is a host whose disk has no space for files under a directory.
type full struct {
	hostaccess.Host
	dir string
}

func (f full) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if strings.HasPrefix(path, f.dir) {
		return fmt.Errorf("no space left on host cp-1 for %s: free some space and run the same command again; nothing was changed (%w)", path, syscall.ENOSPC)
	}
	return f.Host.WriteFile(ctx, path, data, mode)
}

func TestANodeThatWasDrainedForNothingTakesPodsAgain(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"no space for the backup": "/", "no space for the file": "/var/lib/kubelet"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.drainable(0)
			p := w.given(kubeletStep())
			_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{full{o.Hosts[0], dir}} })
			says(t, err, "nothing was changed", "; node node-cp-1 takes pods again")
			if !errors.Is(err, syscall.ENOSPC) || w.node("cp-1").Spec.Unschedulable || w.restarts["kubelet@cp-1"] != 0 {
				t.Errorf("error %v, unschedulable %v, %d restarts", err, w.node("cp-1").Spec.Unschedulable, w.restarts["kubelet@cp-1"])
			}
			if _, err := w.run(p); err != nil || w.node("cp-1").Spec.Unschedulable || w.restarts["kubelet@cp-1"] != 1 {
				t.Errorf("with space again: error %v, unschedulable %v, %d restarts", err, w.node("cp-1").Spec.Unschedulable, w.restarts["kubelet@cp-1"])
			}
		})
	}
}

// taken is a host whose kubelet takes the way to it along when it is restarted.
type taken struct {
	hostaccess.Host
	asked *int // for a file since then; -1 before
}

func (h taken) RestartKubelet(context.Context) error {
	*h.asked = 0
	return &hostaccess.UnreachableError{Host: h.Name(), Err: errors.New("no answer")}
}

func (h taken) ReadFile(ctx context.Context, path string) (hostaccess.File, error) {
	if *h.asked >= 0 {
		*h.asked++
	}
	return h.Host.ReadFile(ctx, path)
}

func TestAHostThatWentWithItsKubeletIsNotAskedForItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	p := w.given(kubeletStep())
	asked := -1
	_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{taken{o.Hosts[0], &asked}} })
	says(t, err, "reaching host cp-1", "To put it back", "node node-cp-1 takes no new pods until this step has ended")
	if asked != 0 || !w.node("cp-1").Spec.Unschedulable {
		t.Errorf("asked for %d files, unschedulable %v", asked, w.node("cp-1").Spec.Unschedulable)
	}
	if _, err := w.run(p); err != nil || w.node("cp-1").Spec.Unschedulable {
		t.Errorf("when it is back: error %v, unschedulable %v", err, w.node("cp-1").Spec.Unschedulable)
	}
}

// TestARecordAloneIsNoTry: a record that says so would have pods evicted that no controller brings back.
func TestARecordAloneIsNoTry(t *testing.T) {
	t.Parallel()
	undo := &v1.UndoRecord{Reason: "it did not come back"}
	for name, planted := range map[string]v1.StepRecord{
		"what it wrote":                {AfterSHA256: hostaccess.SHA256([]byte("x"))},
		"what it wrote, and found":     {AfterSHA256: hostaccess.SHA256([]byte("x")), BackupSHA256: step.Absent},
		"a backup that is not there":   {AfterSHA256: hostaccess.SHA256([]byte("x")), BackupSHA256: hostaccess.SHA256([]byte("y")), Backup: "own", BackupMode: "0600"},
		"that it is being put back":    {AfterSHA256: hostaccess.SHA256([]byte("x")), Undo: undo},
		"flags that it never ran with": {AfterSHA256: hostaccess.SHA256([]byte("x")), Flags: map[string]string{"cloud-provider": "gce"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			evicted := w.drainable(0)
			p := w.given(kubeletStep())
			if planted.ID, planted.Result = p.Steps[0].ID, v1.StepResultStarted; planted.Backup != "" {
				planted.Backup = trust.BackupDir("run-1") + "/" + trust.BackupName(planted.ID)
			}
			j, err := w.home.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Save(t.Context(), planted); err != nil {
				t.Fatal(err)
			}
			w.api.Put(t, alone("by-hand"))
			_, err = w.run(p)
			says(t, err, "no controller would bring back apps/by-hand")
			if slices.Contains(evicted(), "by-hand") || w.restarts["kubelet@cp-1"] != 0 {
				t.Errorf("evicted: %q, %d restarts", evicted(), w.restarts["kubelet@cp-1"])
			}
		})
	}
}

func TestADrainAfterATryThatWroteNothingIsAFirstOne(t *testing.T) {
	t.Parallel()
	type try func(t *testing.T, w *world, p *v1.Plan)
	for name, first := range map[string]try{
		"it could not write": func(t *testing.T, w *world, p *v1.Plan) {
			_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{unwritable{w.hosts[0].(host), flagsFile}} })
			says(t, err, "permission denied", "takes pods again")
		},
		"it was killed before it wrote": func(_ *testing.T, w *world, p *v1.Plan) { w.diesWhen(p, "during", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			evicted := w.drainable(0)
			p := w.given(kubeletStep())
			first(t, w, p)
			w.api.Put(t, alone("by-hand"))
			_, err := w.run(p)
			says(t, err, "no controller would bring back apps/by-hand")
			if slices.Contains(evicted(), "by-hand") {
				t.Errorf("evicted: %q", evicted())
			}
			w.api.Delete("/api/v1/namespaces/apps/pods/by-hand")
			yes := true
			slow := readyPod("slow", true, &yes)
			until := metav1.NewTime(w.clock.Now().Add(time.Hour))
			slow.DeletionTimestamp, slow.Finalizers = &until, []string{"example.org/flush"}
			w.api.Put(t, slow)
			_, err = w.run(p)
			says(t, err, "was not drained", "Some of its pods may have been evicted")
			if w.node("cp-1").Spec.Unschedulable {
				t.Error("the node stays unschedulable although nothing was changed on its host")
			}
		})
	}
}
