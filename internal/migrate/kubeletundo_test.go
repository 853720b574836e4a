package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestARestartOfAKubeletThatNobodyAnswersIsHintedAt(t *testing.T) {
	t.Parallel()
	planned := v1.Step{ID: "kubelet@w-1", Kind: v1.StepKubelet, Host: "w-1", Path: flagsFile}
	rec := v1.StepRecord{Backup: "/b/flags", AfterSHA256: "x"}
	if got := kubelet.Hints(planned, v1.StepRecord{Backup: "/b/flags"}, true); got != nil {
		t.Errorf("nothing was changed, and there are hints: %v", got)
	}
	const back, itself = "cp /b/flags " + flagsFile, "puts the old files back by itself"
	for guarded, want := range map[bool][]string{false: {back}, true: {itself, back}} {
		x := kubelet.Kubelet{Env: newWorld(t, 1).engineFor(t).env}
		x.Env.Plan = &v1.Plan{Steps: []v1.Step{planned}}
		wait := errors.New("it was done")
		short := kubelet.Hints(planned, rec, guarded)
		for i := range short {
			if byHand := strings.Contains(short[i].Message, back); byHand && guarded && short[i].After <= hostaccess.KubeletPatience {
				t.Errorf("somebody is told to put the files back after %s, while the host does so", short[i].After)
			}
			short[i].After /= 10_000
		}
		if err := x.Hinting(planned, short, func() error { return wait }); !errors.Is(err, wait) {
			t.Errorf("the restart's own error became %v", err)
		}
		var told []string
		all := make(chan struct{})
		x.Env.Tell = func(e step.Event) {
			if told = append(told, e.Message); len(told) == len(want) {
				close(all)
			}
		}
		if err := x.Hinting(planned, short, func() error { <-all; return wait }); !errors.Is(err, wait) {
			t.Errorf("the restart's own error became %v", err)
		}
		for i, what := range want {
			if !strings.Contains(told[i], what) {
				t.Errorf("guarded %v: hint %d of %q does not say %q", guarded, i+1, told, what)
			}
		}
	}
}

// withAddress is a file of flags in which somebody gives the kubelet an address next to what stands there.
func (w *world) withAddress(host, provider string) string {
	flag := "--cloud-provider=" + provider
	out := strings.Replace(w.read(host, flagsFile), flag, flag+" --node-ip=10.0.0.1", 1)
	w.write(host, flagsFile, out, 0o644)
	return out
}

// wayBack takes back the first step of a plan, which is of a kubelet with one file.
func wayBack(p *v1.Plan) *v1.Plan {
	there := p.Steps[0]
	back := v1.Step{ID: "undo/" + there.ID, Phase: "p", Kind: v1.StepKubelet, Host: there.Host, Component: there.Component, Path: there.Path, Restore: there.ID}
	return &v1.Plan{Direction: planstep.Rollback, Cluster: p.Cluster, Steps: []v1.Step{back}}
}

func TestWhatAPersonMendedInTheFilesOfAKubeletIsNotOverwrittenByTheUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.kubeletRuns("cp-1")
	w.fate = func(host string, flags map[string]string) *start {
		if host == "cp-1" && flags["node-ip"] == "" {
			return &start{err: errors.New("exit status 1: no default route")}
		}
		return nil
	}
	p := w.given(plainStep("cp-1"), plainStep("cp-2"))
	_, err := w.run(p)
	says(t, err, "does not come back with them either", "run the same command again")
	repaired := w.withAddress("cp-1", "aws")
	if err := w.hosts[0].RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = w.run(p)
	says(t, err, "has its old flags again")
	if have := w.read("cp-1", flagsFile); have != repaired || w.running("cp-1", "node-ip") != "10.0.0.1" {
		t.Errorf("the file is now\n%s\nand the kubelet runs with --node-ip=%s", have, w.running("cp-1", "node-ip"))
	}
}

func TestARollbackOverwritesNothingInTheFilesOfAKubelet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	p := w.given(plainStep("cp-1"))
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	changed, back := w.withAddress("cp-1", "external"), wayBack(p)
	_, err := w.run(back)
	says(t, err, flagsFile+" on host cp-1 was changed outside this migration", "nothing was overwritten", "diff /etc/kubernetes/transplant/backup/")
	if _, ok := errors.AsType[*step.StaleError](err); !ok || w.read("cp-1", flagsFile) != changed || w.restarts["kubelet@cp-1"] != 1 {
		t.Errorf("error %v, %d restarts, file:\n%s", err, w.restarts["kubelet@cp-1"], w.read("cp-1", flagsFile))
	}
	byHand := strings.Replace(changed, "--cloud-provider=external", "--cloud-provider=aws", 1)
	w.write("cp-1", flagsFile, byHand, 0o644)
	if _, err := w.run(back); err != nil {
		t.Fatal(err)
	}
	if have := w.read("cp-1", flagsFile); have != byHand || w.running("cp-1", "cloud-provider") != "aws" || w.running("cp-1", "node-ip") == "" {
		t.Errorf(
			"the file is now\n%s\nand the kubelet runs with --cloud-provider=%s --node-ip=%s",
			have,
			w.running("cp-1", "cloud-provider"),
			w.running("cp-1", "node-ip"),
		)
	}
}

func TestAFileThatSomebodyChangedAfterATryThatWroteNothingIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	p := w.given(plainStep("cp-1"))
	_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{unwritable{w.hosts[0].(host), flagsFile}} })
	says(t, err, "permission denied")
	changed := w.withAddress("cp-1", "aws")
	_, err = w.run(p)
	says(t, err, "was changed outside this migration since the first try", "transplant rollback")
	if w.read("cp-1", flagsFile) != changed {
		t.Error("it was overwritten")
	}
}

// deletedWithItsNode is a fate: the node and its lease are deleted when an external kubelet has started, and made again by one that is not.
func (w *world) deletedWithItsNode(host string, flags map[string]string) *start {
	if external(flags) {
		return &start{then: func() {
			w.lives[host].renewals = 0
			w.api.Delete("/api/v1/nodes/node-" + host)
			w.api.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-" + host)
		}}
	}
	return &start{then: func() {
		w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + host}})
		w.heartbeat(host, corev1.ConditionTrue)
		w.nodeLease(host)
	}}
}

func TestAKubeletIsTakenBackWhoseNodeIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	files := w.files()
	w.fate = w.deletedWithItsNode
	_, err := w.run(w.given(plainStep("cp-1")))
	says(t, err, "has not renewed its node's lease", "has its old flags again")
	w.same(files)
	if w.running("cp-1", "cloud-provider") != "aws" || w.node("cp-1").Name == "" {
		t.Errorf("it runs with --cloud-provider=%s, and its node is %q", w.running("cp-1", "cloud-provider"), w.node("cp-1").Name)
	}
}

func TestARollbackBringsBackAKubeletWhoseNodeIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	files := w.files()
	p := w.given(plainStep("cp-1"))
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.deletedWithItsNode("cp-1", map[string]string{"cloud-provider": "external"}).then()
	w.mu.Unlock()
	w.fate = w.deletedWithItsNode
	if _, err := w.run(wayBack(p)); err != nil {
		t.Fatal(err)
	}
	w.same(files)
	if w.running("cp-1", "cloud-provider") != "aws" {
		t.Error("it was not restarted")
	}
}

// guarded is a host that puts the files of its kubelet back by itself.
type guarded struct{ host }

func (h guarded) RestartKubeletGuarded(ctx context.Context, before []hostaccess.GuardedFile) error {
	err := h.RestartKubelet(ctx)
	if err == nil {
		return nil
	}
	for _, f := range before {
		if err := h.WriteFile(ctx, f.Path, f.Data, f.Mode); err != nil {
			return err
		}
	}
	return errors.Join(err, hostaccess.ErrPutBack, h.RestartKubelet(ctx))
}

func TestAKubeletThatDoesNotStartOnTheWayBackIsSaidToRunWithTheNewFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	guard := func(o *step.Options) { o.Hosts = []hostaccess.Host{guarded{w.hosts[0].(host)}} }
	p := w.given(plainStep("cp-1"))
	if _, err := w.run(p, guard); err != nil {
		t.Fatal(err)
	}
	w.fate = func(_ string, flags map[string]string) *start {
		if !external(flags) {
			return &start{err: errors.New("exit status 1")}
		}
		return nil
	}
	way := wayBack(p)
	_, err := w.run(way, guard)
	says(t, err, "it runs with the flags of the migration", "run the same command again when that is fixed")
	if strings.Contains(err.Error(), "as they were before the migration") || w.running("cp-1", "cloud-provider") != "external" {
		t.Errorf("the kubelet runs with --cloud-provider=%s, and the error is %v", w.running("cp-1", "cloud-provider"), err)
	}
	w.fate = nil
	if _, err := w.run(way, guard); err != nil || w.running("cp-1", "cloud-provider") != "aws" {
		t.Errorf("when it is fixed: %v, it runs with --cloud-provider=%s", err, w.running("cp-1", "cloud-provider"))
	}
}

func TestAnUndoThatIsOwedDoesNotWaitForOtherNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.kubeletRuns("cp-1")
	w.fate = func(host string, flags map[string]string) *start {
		if external(flags) {
			return &start{then: func() { w.heartbeat(host, corev1.ConditionFalse) }}
		}
		return nil
	}
	p := w.given(plainStep("cp-1"))
	w.diesWhen(p, "undo", "")
	w.heartbeat("cp-2", corev1.ConditionUnknown) // another node goes down meanwhile
	begun := w.clock.Now()
	_, err := w.run(p)
	says(t, err, "has its old flags again")
	if took := w.clock.Since(begun); took >= drain.BudgetWait || w.running("cp-1", "cloud-provider") != "aws" {
		t.Errorf("after %s it runs with --cloud-provider=%s", took, w.running("cp-1", "cloud-provider"))
	}
	_, err = w.run(p)
	says(t, err, "node-cp-2 is not Ready", "Nothing was changed on host cp-1")
}
