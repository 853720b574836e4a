package hosts

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

// realHosts makes a skip for the lack of something an error, for machines that must run these tests.
var realHosts = flag.Bool("hosts.must", false, "fail where no hosts can be made, instead of skipping")

// testTimeout bounds what a test does with its host. With empty caches, compilers alone once took it.
const testTimeout = 15 * time.Minute

// single is a cluster of one host without the product's images, next to others.
func single(t *testing.T, name, subnet string) (context.Context, *Cluster) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short starts no cluster")
	}
	o := Options{Dir: filepath.Join(cacheDir(t), "hosts-"+name), Name: name, Subnet: subnet, ControlPlanes: 1, NoProduct: true, Progress: t.Output()}
	if err := Probe(o.Dir); err != nil {
		if *realHosts {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := c.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	begin := time.Now()
	if c, err = Up(ctx, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("one host took %s", time.Since(begin).Round(100*time.Millisecond))
	return ctx, c
}

// cacheDir is not the test's own directory: that may be on a file system of memory, where no disk of a host belongs.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "transplant-lab")
}

func TestARealHostFromItsStartToItsRemoval(t *testing.T) {
	t.Parallel()
	ctx, c := single(t, "test", "10.99.77.0/24")
	h := c.Hosts()[0]
	steps := []struct {
		name string
		try  func(*testing.T, context.Context, *Cluster, *Host)
	}{
		{"its kubelet registered with what the cloud says about it", registered},
		{"a manifest that is edited is run by the kubelet", manifestEdited},
		{"a full disk takes no data until it is freed", diskFilled},
		{"a directory that is read-only takes no file until it is writable", readOnly},
		{"a host that is cut off answers again when it is connected", partitioned},
		{"the kubelet is stopped and started by its service", kubeletStopped},
		{"a reboot keeps the disk and loses the processes", rebooted},
	}
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { s.try(t, ctx, c, h) }) {
			t.FailNow()
		}
	}
	pids, err := h.everyProcess()
	if err != nil || len(pids) < 8 {
		t.Fatalf("the host runs the processes %v, %v", pids, err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := c.Down(ctx); err != nil {
			t.Fatal(err)
		}
	}
	nothingLeft(t, c, pids)
}

func registered(t *testing.T, ctx context.Context, c *Cluster, h *Host) {
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	n, err := client.CoreV1().Nodes().Get(ctx, h.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "aws:///" + h.Zone + "/" + h.InstanceID; n.Spec.ProviderID != want {
		t.Errorf("provider ID is %q, want %q", n.Spec.ProviderID, want)
	}
	if zone := n.Labels["topology.kubernetes.io/zone"]; zone != h.Zone {
		t.Errorf("zone is %q, want %q", zone, h.Zone)
	}
	args, err := h.KubeletArgs(ctx)
	if err != nil || !strings.Contains(strings.Join(args, " "), "--cloud-provider=aws") {
		t.Errorf("the kubelet runs as %q, %v", args, err)
	}
}

func manifestEdited(t *testing.T, ctx context.Context, _ *Cluster, h *Host) {
	const manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"
	text, err := h.ReadFile(ctx, manifest)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "    - --leader-elect=true\n", "    - --leader-elect=true\n    - --v=1\n", 1)
	// The file passes by a directory that the kubelet does not watch.
	if err := h.WriteFile(ctx, "/etc/kubernetes/scheduler.new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := h.Output(ctx, "mv", "/etc/kubernetes/scheduler.new", manifest); err != nil {
		t.Fatal(err)
	}
	await(t, ctx, "the new scheduler", func(ctx context.Context) error {
		ps, err := h.Processes(ctx, cluster.Scheduler)
		if err != nil {
			return err
		}
		if len(ps) != 1 || !strings.Contains(strings.Join(ps[0].Args, " "), "--v=1") {
			return errNotReady
		}
		return nil
	})
	t.Logf("the edited scheduler runs after %s", time.Since(begin).Round(100*time.Millisecond))
}

func diskFilled(t *testing.T, ctx context.Context, _ *Cluster, h *Host) {
	if err := h.FillDisk(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(ctx, "/etc/kubernetes/more", "data\n", 0o600); err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Errorf("a full disk took a file: %v", err)
	}
	if err := h.FreeDisk(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(ctx, "/etc/kubernetes/more", "data\n", 0o600); err != nil {
		t.Error(err)
	}
}

func readOnly(t *testing.T, ctx context.Context, _ *Cluster, h *Host) {
	for _, on := range []bool{true, false} {
		if err := h.ReadOnly(ctx, "/etc/kubernetes", on); err != nil {
			t.Fatal(err)
		}
		err := h.WriteFile(ctx, "/etc/kubernetes/other", "data\n", 0o600)
		if on && (err == nil || !strings.Contains(err.Error(), "Read-only file system")) {
			t.Errorf("a read-only directory took a file: %v", err)
		}
		if !on && err != nil {
			t.Error(err)
		}
	}
}

func partitioned(t *testing.T, ctx context.Context, c *Cluster, h *Host) {
	if err := h.Partition(ctx, true); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if conn, err := (&net.Dialer{}).DialContext(bounded, "tcp", h.Address+":6443"); err == nil {
		t.Errorf("it answers: %v", conn.Close())
	}
	if err := h.Partition(ctx, false); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Error(err)
	}
}

func kubeletStopped(t *testing.T, ctx context.Context, _ *Cluster, h *Host) {
	if err := h.StopKubelet(ctx); err != nil {
		t.Fatal(err)
	}
	if ps, err := h.Processes(ctx, "kubelet"); err != nil || len(ps) > 0 {
		t.Errorf("after a stop there are %v, %v", ps, err)
	}
	if ps, err := h.Processes(ctx, "etcd"); err != nil || len(ps) != 1 {
		t.Errorf("the containers went with the kubelet: %v, %v", ps, err)
	}
	if err := h.StartKubelet(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, ctx, "the kubelet", func(ctx context.Context) error {
		_, err := h.KubeletArgs(ctx)
		return err
	})
}

func rebooted(t *testing.T, ctx context.Context, c *Cluster, h *Host) {
	if err := h.WriteFile(ctx, "/etc/kept", "kept\n", 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := h.everyProcess()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pid := range before {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s outlived the power cut", pid)
		}
	}
	if text, err := h.ReadFile(ctx, "/etc/kept"); err != nil || text != "kept\n" {
		t.Errorf("the disk has %q, %v", text, err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("the host was ready %s after the power cut", time.Since(begin).Round(100*time.Millisecond))
}

// everyProcess lists the processes of the machine that are in the host's network or mounts, and so were made on it.
func (h *Host) everyProcess() ([]string, error) {
	init, err := h.pid()
	if err != nil {
		return nil, err
	}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	mine, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(init), "ns/net"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if network, err := os.Readlink(filepath.Join(e, "ns/net")); err == nil && network == mine {
			out = append(out, filepath.Base(e))
		}
	}
	return out, nil
}

func nothingLeft(t *testing.T, c *Cluster, pids []string) {
	t.Helper()
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s is left", pid)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == c.bridge() || strings.HasPrefix(l.Name, "v-"+c.Name) {
			t.Errorf("link %s is left", l.Name)
		}
	}
	groups, err := filepath.Glob(cgroupRoot + "/*" + c.cgroup())
	if err != nil || len(groups) > 0 {
		t.Errorf("control groups %v are left, %v", groups, err)
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s is left: %v", c.Dir, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), c.Dir) {
		t.Errorf("mounts are left: %v", err)
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		if file, err := os.ReadFile(l); err == nil && strings.HasPrefix(string(file), c.Dir) {
			t.Errorf("loop device of %s is left", file)
		}
	}
}

func await(t *testing.T, ctx context.Context, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := poll.Until(ctx, 100*time.Millisecond, what, f); err != nil {
		t.Fatal(err)
	}
}
