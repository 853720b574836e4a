package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/pod"
)

// accessCluster names a cluster of one control-plane host, with the product's images, that is up already.
var accessCluster = flag.String("hosts.access", "", "try the access through pods on the cluster in this directory instead of on one of its own")

const (
	accessImage = "ghcr.io/transplant-dev/transplant:v0.1.0-dev"
	scratchFile = "/etc/kubernetes/transplant-test/file"
	partTimeout = 5 * time.Minute // the longest part takes 40 s on a quiet machine
)

// accessed is a cluster whose only host is reached through pods.
type accessed struct {
	*testing.T
	ctx    context.Context
	c      *Cluster
	h      *Host
	config *rest.Config
	kube   *kubernetes.Clientset
}

func forAccess(t *testing.T) *accessed {
	t.Helper()
	a := &accessed{T: t}
	if *accessCluster != "" {
		c, err := Open(Options{Dir: *accessCluster, Name: filepath.Base(*accessCluster), Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		var cancel context.CancelFunc
		a.ctx, cancel = context.WithTimeout(t.Context(), testTimeout)
		t.Cleanup(cancel)
		a.c = c
	} else {
		a.ctx, a.c = single(t, "access", "10.99.78.0/24")
		if err := a.c.Load(a.ctx); err != nil {
			t.Fatal(err)
		}
	}
	a.h = a.c.Hosts()[0]
	var err error
	if a.config, err = clientcmd.BuildConfigFromFlags("", a.c.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	a.config.QPS, a.config.Burst = 100, 200
	if a.kube, err = kubernetes.NewForConfig(a.config); err != nil {
		t.Fatal(err)
	}
	return a
}

// open reaches the host until the test ends.
func (a *accessed) open(t *testing.T, change func(*pod.Options)) hostaccess.Host {
	t.Helper()
	o := pod.Options{Kube: a.kube, Config: a.config, Image: accessImage, User: "test", Tell: func(s string) { t.Log(s) }}
	if change != nil {
		change(&o)
	}
	begun := time.Now()
	hosts, closing, err := pod.Open(a.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 20*time.Second)
		defer cancel()
		if err := closing(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the access was open after %s", time.Since(begun).Round(time.Millisecond))
	return hosts[0]
}

func (a *accessed) grant(t *testing.T, h hostaccess.Host, n hostaccess.Need) func() {
	t.Helper()
	begun := time.Now()
	release, err := hostaccess.Grant(a.ctx, h, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the grant was open after %s", time.Since(begun).Round(time.Millisecond))
	return func() { release(a.ctx) }
}

// lookPod is the pod that is looked through.
func (a *accessed) lookPod(t *testing.T) *corev1.Pod {
	t.Helper()
	list, err := a.kube.CoreV1().
		Pods("kube-system").
		List(a.ctx, metav1.ListOptions{LabelSelector: pod.LabelAccess + "=" + pod.AccessLook, FieldSelector: "status.phase=Running"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("no look pod: %v", err)
	}
	return &list.Items[len(list.Items)-1]
}

// within looks again and again from now on, and says how long the longest look took until d has passed.
func (a *accessed) within(t *testing.T, h hostaccess.Host, d time.Duration) {
	t.Helper()
	var longest time.Duration
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		begun := time.Now()
		if _, err := h.Processes(a.ctx, "kubelet"); err != nil {
			t.Fatalf("look %d, after %s: %v", n, time.Since(begun), err)
		}
		longest = max(longest, time.Since(begun))
	}
	t.Logf("%d looks, the longest took %s", n, longest.Round(time.Millisecond))
}

func TestAccessThroughPodsOnARealHost(t *testing.T) {
	t.Parallel()
	a := forAccess(t)
	for _, part := range []struct {
		name string
		try  func(*accessed, *testing.T)
	}{
		{"look", (*accessed).look},
		{"read-only and full disks", (*accessed).disks},
		{"kubelet restarts under its session", (*accessed).kubelet},
		{"pod is deleted and evicted", (*accessed).lost},
		{"image does not exist", (*accessed).image},
		{"node is NotReady", (*accessed).notReady},
		{"only kube-apiserver is killed", (*accessed).apiserver},
		{"command line is killed", (*accessed).killed},
	} {
		begun := time.Now()
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(a.ctx, partTimeout)
			defer cancel()
			b := *a
			b.ctx = ctx
			part.try(&b, t)
		})
		t.Logf("%s took %s", part.name, time.Since(begun).Round(time.Second))
	}
}

func (a *accessed) look(t *testing.T) {
	h := a.open(t, nil)
	f, err := h.ReadFile(a.ctx, "/etc/kubernetes/manifests/kube-controller-manager.yaml")
	if err != nil || !strings.Contains(string(f.Data), "kind: Pod") || f.Mode != 0o600 {
		t.Errorf("%d bytes, mode %v, %v", len(f.Data), f.Mode, err)
	}
	for _, component := range []string{"kubelet", "kube-controller-manager", "kube-apiserver"} {
		if found, err := h.Processes(a.ctx, component); err != nil || len(found) != 1 || len(found[0].Args) < 2 {
			t.Errorf("%s: %v, %v", component, found, err)
		}
	}
	const looks = 200
	begun := time.Now()
	for range looks {
		if _, err := h.Processes(a.ctx, "kube-controller-manager"); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a look at the processes takes %s", time.Since(begun)/looks)
	begun = time.Now()
	client := &http.Client{
		Transport: &http.Transport{DialContext: h.(hostaccess.Dialer).DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	} //nolint:gosec // managers sign their own
	for range 20 {
		req, err := http.NewRequestWithContext(a.ctx, http.MethodGet, "https://127.0.0.1:10257/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the manager says %s", resp.Status)
		}
	}
	t.Logf("a request to a manager on 127.0.0.1 takes %s", time.Since(begun)/20)
	offset, within, err := h.(hostaccess.Clock).Offset(a.ctx)
	if err != nil || offset.Abs() > within {
		t.Errorf("the clock of the same machine is %s ahead, to within %s: %v", offset, within, err)
	}
	active, err := h.(hostaccess.Units).Active(a.ctx, "kubelet")
	if err != nil || !active {
		t.Errorf("the kubelet is active: %v, %v", active, err)
	}
}

func (a *accessed) disks(t *testing.T) {
	h := a.open(t, nil)
	try := func(want error) {
		t.Helper()
		defer a.grant(t, h, hostaccess.Need{Write: []string{scratchFile}, Purpose: "test"})()
		err := h.WriteFile(a.ctx, scratchFile, []byte(strings.Repeat("x", 1<<20)), 0o600)
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), a.h.NodeName) {
			t.Errorf("want %v: %v", want, err)
		}
		if err := h.Remove(a.ctx, scratchFile); err != nil && !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
	}
	try(nil)
	if err := a.h.ReadOnly(a.ctx, "/etc/kubernetes", true); err != nil {
		t.Fatal(err)
	}
	try(syscall.EROFS)
	if err := a.h.ReadOnly(a.ctx, "/etc/kubernetes", false); err != nil {
		t.Fatal(err)
	}
	release := a.grant(t, h, hostaccess.Need{Write: []string{scratchFile}, Purpose: "test"})
	defer func() {
		if err := a.h.FreeDisk(context.WithoutCancel(a.ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := a.h.FillDisk(a.ctx); err != nil {
		t.Fatal(err)
	}
	err := h.WriteFile(a.ctx, scratchFile, []byte(strings.Repeat("x", 1<<20)), 0o600)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("the disk is full: %v", err)
	}
	release()
	// A kubelet whose disk is full starts no pod.
	begun := time.Now()
	_, err = hostaccess.Grant(a.ctx, h, hostaccess.Need{Write: []string{scratchFile}})
	if !errors.Is(err, syscall.ENOSPC) || time.Since(begun) > time.Minute {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
}

func (a *accessed) kubelet(t *testing.T) {
	h := a.open(t, nil)
	before, err := h.Processes(a.ctx, "kubelet")
	if err != nil || len(before) != 1 {
		t.Fatalf("%v, %v", before, err)
	}
	defer a.grant(t, h, hostaccess.Need{Service: true, Purpose: "test"})()
	begun := time.Now()
	if err := h.RestartKubelet(a.ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("the restart took %s", time.Since(begun).Round(time.Millisecond))
	after, err := h.Processes(a.ctx, "kubelet")
	if err != nil || len(after) != 1 || after[0].PID == before[0].PID {
		t.Errorf("before %v, after %v, %v", before, after, err)
	}
	a.within(t, h, 5*time.Second)
}

func (a *accessed) lost(t *testing.T) {
	h := a.open(t, nil)
	name := a.lookPod(t).Name
	if err := a.kube.CoreV1().Pods("kube-system").Delete(a.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.within(t, h, 10*time.Second)
	next := a.lookPod(t).Name
	if next == name {
		t.Errorf("pod %s is still there", name)
	}
	if err := a.kube.PolicyV1().
		Evictions("kube-system").
		Evict(a.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: next, Namespace: "kube-system"}}); err != nil {
		t.Fatal(err)
	}
	a.within(t, h, 10*time.Second)
}

func (a *accessed) image(t *testing.T) {
	begun := time.Now()
	h := a.open(t, func(o *pod.Options) { o.Image = "registry.invalid/none:v0" })
	_, err := h.ReadFile(a.ctx, "/etc/hostname")
	if !hostaccess.IsUnreachable(err) || !strings.Contains(err.Error(), "registry.invalid/none:v0 cannot be pulled") || time.Since(begun) > 2*time.Minute {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
}

// notReady takes the node's network plugin away.
func (a *accessed) notReady(t *testing.T) {
	if _, err := a.h.Output(a.ctx, "sh", "-c", "mv /etc/cni/net.d /etc/cni/net.d.away && systemctl restart containerd"); err != nil {
		t.Skipf("the network plugin cannot be taken away here: %v", err)
	}
	defer func() {
		a.ctx = context.WithoutCancel(a.ctx) // the parts behind it need the plugin
		if _, err := a.h.Output(a.ctx, "sh", "-c", "rm -rf /etc/cni/net.d && mv /etc/cni/net.d.away /etc/cni/net.d && systemctl restart containerd"); err != nil {
			t.Error(err)
		}
		a.await(t, "the node is Ready", func() bool { return a.ready() == corev1.ConditionTrue })
	}()
	a.await(t, "the node is NotReady", func() bool { return a.ready() == corev1.ConditionFalse })
	h := a.open(t, nil)
	if _, err := h.ReadFile(a.ctx, "/etc/hostname"); err != nil {
		t.Error(err)
	}
	a.grant(t, h, hostaccess.Need{Write: []string{scratchFile}})()
}

func (a *accessed) ready() corev1.ConditionStatus {
	n, err := a.kube.CoreV1().Nodes().Get(a.ctx, a.h.NodeName, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func (a *accessed) apiserver(t *testing.T) {
	h := a.open(t, nil)
	name := a.lookPod(t).Name
	if _, err := a.h.Output(a.ctx, "sh", "-c", "kill -9 $(pidof kube-apiserver)"); err != nil {
		t.Fatal(err)
	}
	a.within(t, h, 30*time.Second)
	if now := a.lookPod(t).Name; now != name {
		t.Errorf("pod %s did not survive, %s took its place", name, now)
	}
}

// killed proves that a command that can clean up nothing leaves nothing.
func (a *accessed) killed(t *testing.T) {
	program := a.c.CLI()
	if _, err := os.Stat(program); err != nil {
		t.Skipf("the command line was not built: %v", err)
	}
	cmd := exec.CommandContext(a.ctx, program, "check", "--kubeconfig", a.c.Kubeconfig(), "--host-ttl=15s", "--wait=5m", "--host-image="+accessImage)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		pods, err := a.kube.CoreV1().Pods("kube-system").List(a.ctx, metav1.ListOptions{LabelSelector: pod.LabelRun})
		if err != nil {
			return -1
		}
		jobs, err := a.kube.BatchV1().Jobs("kube-system").List(a.ctx, metav1.ListOptions{LabelSelector: pod.LabelRun})
		if err != nil {
			return -1
		}
		return len(pods.Items) + len(jobs.Items)
	}
	a.await(t, "there are a pod and its job", func() bool { return left() == 2 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	killed := time.Now()
	a.await(t, "nothing is left", func() bool { return left() == 0 })
	t.Logf("nothing was left %s after the end, with a TTL of 15 s", time.Since(killed).Round(time.Second))
}

func (a *accessed) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(2 * time.Minute)
	for !so() {
		select {
		case <-end:
			t.Fatalf("never: %s", what)
		case <-a.ctx.Done():
			t.Fatal(a.ctx.Err())
		case <-ticker.C:
		}
	}
}
