package kubelet

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestContainerRunsAsTheManifestSays(t *testing.T) {
	h := newHost(t, nil)
	h.write("etc/kubernetes/controller-manager.conf", "x")
	h.manifest("etcd.yaml", `apiVersion: v1
kind: Pod
metadata: {name: etcd, namespace: kube-system}
spec:
  containers:
  - name: etcd
    image: registry.k8s.io/etcd:3.5.15-0
    command: [/usr/local/bin/etcd, --saw=/data/saw]
    args: ["--config=/etc/kubernetes/controller-manager.conf,/etc/kubernetesx,$(MY_NODE)"]
    env:
    - {name: MY_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: MY_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: MY_CONF, value: "/etc/kubernetes/controller-manager.conf"}
    volumeMounts:
    - {name: conf, mountPath: /etc/kubernetes}
    - {name: data, mountPath: /data}
  volumes:
  - {name: conf, hostPath: {path: /etc/kubernetes, type: Directory}}
  - {name: data, hostPath: {path: /var/lib/etcd, type: DirectoryOrCreate}}
`)
	h.start()
	saw := h.sighting("var/lib/etcd/saw")
	conf := h.path("etc/kubernetes/controller-manager.conf")
	want := []string{"etcd", "--saw=" + h.path("var/lib/etcd/saw"), "--config=" + conf + ",/etc/kubernetesx," + testNode}
	if !slices.Equal(saw.Args, want) {
		t.Errorf("arguments:\n got %q\nwant %q", saw.Args, want)
	}
	for _, e := range []string{"MY_NODE=" + testNode, "MY_IP=127.0.0.1", "MY_CONF=" + conf, "HOME=/nonexistent"} {
		if !slices.Contains(saw.Env, e) {
			t.Errorf("environment misses %q: %q", e, saw.Env)
		}
	}
	if dir, _ := filepath.EvalSymlinks(h.dir); saw.Dir != dir {
		t.Errorf("working directory is %q, not the host's %q", saw.Dir, dir)
	}
	c := h.running()
	if ticks, err := startTicks(c.PID); err != nil || ticks != c.StartTicks || c.Component != "etcd" || c.PID != saw.PID {
		t.Errorf("container %+v: the process %d started at %d, %v", c, saw.PID, ticks, err)
	}
	logs, err := os.ReadFile(h.path("var/log/pods", "kube-system_etcd-"+testNode+"_"+h.hash(), "etcd", "0.log"))
	if err != nil || !strings.Contains(string(logs), "started etcd") {
		t.Errorf("container log: %q, %v", logs, err)
	}
}

func TestEditStopsTheOldProcessAndStartsTheNewOneAfterAGap(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm("--v=1"))
	h.start()
	old, hash := h.running(), h.hash()
	edited := time.Now()
	h.manifest(kcmFile, kcm("--v=2"))
	fresh := h.running(old.PID)
	if alive(old.PID) {
		t.Errorf("the old process %d still runs next to the new one", old.PID)
	}
	if h.hash() == hash {
		t.Error("the hash is the same after an edit")
	}
	exits := h.Exits()
	if len(exits) != 1 {
		t.Fatalf("exits: %+v", exits)
	}
	e := exits[0]
	if e.Host != "cp-1" || e.Component != "kube-controller-manager" || e.PID != old.PID || e.StartTicks != old.StartTicks || e.Reason != stopChanged {
		t.Errorf("exit record: %+v", e)
	}
	if gap := fresh.Started.Sub(e.Ended); e.Ended.Before(edited) || gap < quick().StartGap.Min {
		t.Errorf("the new process started %s after the old one's end", gap)
	}
	h.manifest(kcmFile, kcm("--v=1"))
	h.running(old.PID, fresh.PID)
	if h.hash() != hash {
		t.Error("the hash is not the old one again after a revert")
	}
}

func TestWhatDoesNotChangeThePodRestartsNothing(t *testing.T) {
	for name, change := range map[string]func(*host){
		"a comment":            func(h *host) { h.manifest(kcmFile, "# why\n"+kcm("--v=1")) },
		"the same content":     func(h *host) { h.manifest(kcmFile, kcm("--v=1")) },
		"a hidden file":        func(h *host) { h.manifest("."+kcmFile, kcm("--v=9")) },
		"a moment of nonsense": func(h *host) { h.manifest(kcmFile, "{"); h.manifest(kcmFile, kcm("--v=1")) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, nil)
			h.manifest(kcmFile, kcm("--v=1"))
			h.start()
			c := h.running()
			change(h)
			throughout(t, 3*quick().FileCheck, "restarted", func() (bool, any) { return h.container().PID == c.PID, h.Pods() })
		})
	}
}

func TestBackupBesideTheManifestWinsUntilItIsRemoved(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm("--v=1", "--saw=saw"))
	h.start()
	old := h.running()
	h.manifest(kcmFile+".bak", kcm("--v=1", "--saw=saw"))
	h.manifest(kcmFile, kcm("--v=2", "--saw=saw"))
	bak := h.running(old.PID)
	throughout(t, 3*quick().FileCheck, "the edit takes effect", func() (bool, any) {
		return h.container().PID == bak.PID && slices.Contains(h.sighting("saw").Args, "--v=1"), h.Pods()
	})
	h.remove(manifestDir + "/" + kcmFile + ".bak")
	h.running(old.PID, bak.PID)
	eventually(t, "the edit", func() (bool, any) {
		s := h.sighting("saw")
		return slices.Contains(s.Args, "--v=2"), s.Args
	})
}

func TestInvalidManifestLeftInPlaceCostsThePod(t *testing.T) {
	for name, content := range map[string]string{
		"not YAML":   "a: [",
		"half":       kcm()[:60],
		"not a Pod":  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n",
		"empty":      "",
		"bad volume": kcm() + "    volumeMounts: [{name: none, mountPath: /x}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, nil)
			h.manifest(kcmFile, kcm())
			h.start()
			c := h.running()
			h.manifest(kcmFile, content)
			eventually(t, "the end of the pod", func() (bool, any) { return !alive(c.PID) && len(h.Pods()) == 0, h.Pods() })
			repaired := time.Now()
			h.manifest(kcmFile, kcm())
			if back := h.running(c.PID).Started.Sub(repaired); back > quick().StartGap.Min {
				t.Errorf("back only %s after the repair", back)
			}
			log, _ := os.ReadFile(h.path("var/log/kubelet.log"))
			if !strings.Contains(string(log), "Could not process manifest file") {
				t.Errorf("the kubelet's log does not say so:\n%s", log)
			}
		})
	}
}

func TestRemovedManifestStopsThePod(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm())
	h.start()
	c := h.running()
	h.remove(manifestDir + "/" + kcmFile)
	eventually(t, "the end of the pod", func() (bool, any) { return !alive(c.PID) && len(h.Pods()) == 0, h.Pods() })
	if e := h.Exits(); len(e) != 1 || e[0].Reason != stopRemoved {
		t.Errorf("exits: %+v", e)
	}
}

func TestProcessThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm("--deaf", "--saw=saw"))
	h.start()
	h.sighting("saw")
	c := h.running()
	asked := time.Now()
	h.remove(manifestDir + "/" + kcmFile)
	eventually(t, "its end", func() (bool, any) { return len(h.Exits()) == 1, h.Pods() })
	e := h.Exits()[0]
	if took := e.Ended.Sub(asked); e.PID != c.PID || e.ExitCode != 128+int(syscall.SIGKILL) || took < quick().MaxGrace {
		t.Errorf("after %s: %+v", took, e)
	}
}

func TestUnknownFlagEndsInCrashLoopBackOffAndTheNextEditForgetsIt(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm("--no-such-flag=1"))
	h.start()
	eventually(t, "the back-off", func() (bool, any) {
		c := h.container()
		return c.Reason == reasonCrashLoop && c.Restarts >= 2, c
	})
	for i, e := range h.Exits() {
		if e.ExitCode != 1 || e.Reason != "exited with code 1" {
			t.Errorf("exit %d: %+v", i, e)
		}
	}
	exits := h.Exits()
	first, second := exits[1].Started.Sub(exits[0].Ended), exits[2].Started.Sub(exits[1].Ended)
	if first >= quick().BackOff || second < quick().BackOff {
		t.Errorf("restarted after %s and %s", first, second)
	}
	h.manifest(kcmFile, kcm())
	h.running()
	if c := h.container(); c.Restarts != 0 || !c.Ready {
		t.Errorf("after the repair: %+v", c)
	}
}

func TestKilledProcessIsStartedAgainAtOnce(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm())
	h.start()
	c := h.running()
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := h.running(c.PID)
	if again.Restarts != 1 {
		t.Errorf("after a restart: %+v", again)
	}
	e := h.Exits()[0]
	if e.Reason != "ended by signal 9 (killed)" || e.ExitCode != 137 {
		t.Errorf("exit record: %+v", e)
	}
	if gap := again.Started.Sub(e.Ended); gap >= quick().BackOff {
		t.Errorf("restarted only after %s", gap)
	}
}

func TestContainerThatCannotStartWaitsAndSaysWhy(t *testing.T) {
	file := "  volumes: [{name: f, hostPath: {path: /etc/kubernetes/x.conf, type: File}}]\n"
	mounted := kcm() + "    volumeMounts: [{name: f, mountPath: /x.conf}]\n" + file
	for name, c := range map[string]struct{ manifest, reason, message string }{
		"missing file":          {mounted, reasonCreating, `MountVolume.SetUp failed for volume "f": hostPath type check failed: /etc/kubernetes/x.conf is not a file`},
		"unknown image":         {strings.Replace(kcm(), "registry.k8s.io", "example.com", 1), reasonImage, `resolving image "example.com/kube-controller-manager:v1.26.0": no such image`},
		"unknown field":         {kcm() + "    env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.x}}}]\n", reasonConfig, `environment variable "A" of container "kube-controller-manager": field "spec.x" cannot be resolved`},
		"reference to a secret": {kcm() + "    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n", reasonConfig, `environment variable "A" of container "kube-controller-manager": only fieldRef can be resolved on a static pod`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, nil)
			h.manifest(kcmFile, c.manifest)
			h.start()
			eventually(t, "the reason", func() (bool, any) {
				got := h.container()
				return got.State == "waiting" && got.Reason == c.reason && got.Message == c.message, got
			})
			if name == "missing file" {
				h.write("etc/kubernetes/x.conf", "")
				h.running()
			}
		})
	}
}

func TestProbesDecideReadinessAndRestartASickContainer(t *testing.T) {
	h := newHost(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = l.Close() // for the program
	probe := "{httpGet: {path: /healthz, port: " + port + "}, periodSeconds: 1, failureThreshold: 1}\n"
	h.write("sick", "")
	h.manifest(kcmFile, kcm("--listen="+address, "--sick=sick")+
		"    startupProbe: "+strings.Replace(probe, "failureThreshold: 1", "failureThreshold: 60", 1)+
		"    livenessProbe: "+probe+"    readinessProbe: "+probe)
	h.start()
	c := h.running()
	throughout(t, 300*time.Millisecond, "ready although the startup probe fails", func() (bool, any) {
		now := h.container()
		return !now.Ready && now.PID == c.PID, now
	})
	h.remove("sick")
	eventually(t, "readiness", func() (bool, any) { return h.container().Ready, h.container() })
	h.write("sick", "")
	again := h.running(c.PID)
	if again.Restarts != 1 || again.Ready {
		t.Errorf("after the liveness probe failed: %+v", again)
	}
	if e := h.Exits(); len(e) != 1 || e[0].Reason != stopLiveness {
		t.Errorf("exits: %+v", e)
	}
}

func TestRestartedKubeletTakesOverWhatRuns(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm())
	h.start()
	c := h.running()
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	throughout(t, 2*quick().FileCheck, "restarted the pod", func() (bool, any) { return h.container().PID == c.PID, h.Pods() })

	h.StopKubelet()
	if _, up := h.Flags(); up {
		t.Error("a stopped kubelet has flags")
	}
	h.manifest(kcmFile, kcm("--v=2"))
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() (bool, any) { return len(h.Exits()) == 1, h.Pods() })
	throughout(t, 300*time.Millisecond, "restarted without a kubelet", func() (bool, any) { return h.container().PID == 0, h.Pods() })
	if err := h.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	if fresh := h.running(c.PID); fresh.Restarts != 0 {
		t.Errorf("the new pod has restarts: %+v", fresh)
	}
	h.StopKubelet()
	h.remove(manifestDir + "/" + kcmFile)
	if err := h.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the orphan", func() (bool, any) { return len(h.Pods()) == 0 && len(h.Exits()) == 2, h.Pods() })
}

func TestStopLeavesNoProcess(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm())
	h.manifest("deaf.yaml", strings.ReplaceAll(kcm("--deaf", "--saw=saw"), "kube-controller-manager", "deaf"))
	h.start()
	h.sighting("saw")
	eventually(t, "both pods", func() (bool, any) {
		pods := h.Pods()
		return len(pods) == 2 && pods[0].Ready && pods[1].Ready, pods
	})
	var pids []int
	for _, p := range h.Pods() {
		pids = append(pids, p.Containers[0].PID)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if err := h.Stop(ctx); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
	if err := h.StartKubelet(); err == nil {
		t.Error("a kubelet started on a stopped host")
	}
}

func TestKilledLabTakesItsProcessesWithIt(t *testing.T) {
	dir := t.TempDir()
	h := &host{t: t, dir: dir}
	h.manifest(kcmFile, kcm("--deaf", "--saw=saw"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lab := exec.Command(self)
	lab.Env = append(os.Environ(), partVariable+"=lab", "KUBELET_TEST_DIR="+dir)
	if err := lab.Start(); err != nil {
		t.Fatal(err)
	}
	pid := h.sighting("saw").PID
	if err := lab.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lab.Wait() // killed
	eventually(t, "the end of process "+strconv.Itoa(pid), func() (bool, any) { return gone(pid), pid })
}

// gone says whether the process has ended; an orphan that nobody has reaped yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no directory":   func(o *Options) { o.HostDir = "" },
		"no node name":   func(o *Options) { o.NodeName = "" },
		"no images":      func(o *Options) { o.ResolveImage = nil },
		"two ways to go": func(o *Options) { o.Kubeconfig, o.Client = "x", newAPI() },
	} {
		o := options(t.TempDir())
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
