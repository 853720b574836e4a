package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/poll"
)

// orphanEnv makes the test binary start a lab in the directory that it names and wait to be killed.
const orphanEnv = "LAB_TEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		os.Exit(orphan(dir))
	}
	goleak.VerifyTestMain(m)
}

func orphan(dir string) int {
	bins, err := build.Ensure(context.Background(), build.Options{})
	if err == nil {
		_, err = Start(context.Background(), Options{Dir: dir, Binaries: bins, Workers: 1})
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "started")
	select {}
}

func binaries(t *testing.T) build.Binaries {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts a real control plane")
	}
	bins, err := build.Ensure(t.Context(), build.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return bins
}

// processesIn lists the processes that work in or below a directory.
func processesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Error(err)
		return nil
	}
	out := map[string]string{}
	for _, link := range links {
		cwd, err := os.Readlink(link) // of a process that ended meanwhile: none
		if err != nil || !strings.HasPrefix(cwd, dir) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline")) // as above
		out[filepath.Base(filepath.Dir(link))] = string(cmdline)
	}
	return out
}

// TestLab starts the whole lab once and looks at it from every side.
func TestLab(t *testing.T) {
	bins := binaries(t)
	dir := filepath.Join(t.TempDir(), "lab")
	begin := time.Now()
	c, err := Start(t.Context(), Options{Dir: dir, Binaries: bins, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			stop(t, c)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Workload(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begin).Round(100*time.Millisecond))

	t.Run("mirror pods show the processes that run", func(t *testing.T) { mirrorPods(t, c) })
	t.Run("nodes are what an in-tree cluster has", func(t *testing.T) { nodes(t, c) })
	var owner string
	t.Run("one manager runs the cloud loops", func(t *testing.T) { owner = loops(t, c) })
	t.Run("the metrics account may read metrics and nothing else", func(t *testing.T) { leastPrivilege(t, c) })
	t.Run("the cloud holds what the cluster asked for", func(t *testing.T) { cloudState(t, c, owner) })
	t.Run("managers talk through their edges", func(t *testing.T) { traffic(t, c, owner) })
	t.Run("kubectl works with the lab's environment", func(t *testing.T) { kubectl(t, c, bins) })
	t.Run("a host can be cut off and comes back", func(t *testing.T) { partition(t, c) })

	addresses := listening(c)
	began := time.Now()
	stopped = true
	stop(t, c)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("a socket is left: %v", err)
			continue
		}
		_ = l.Close() // only a test's listener
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// listening lists where the lab listens.
func listening(c *Cluster) []string {
	b := c.site.block
	out := []string{
		b.endpoint(placeLoadBalancer, portAPIServer),
		b.endpoint(placeCloud, portCloud),
		b.endpoint(placeEtcd, portEtcdClient),
		b.endpoint(placeEtcd, portEtcdPeer),
	}
	for _, h := range c.ControlPlanes() {
		for _, port := range []int{portAPIServer, portControllerManager, portScheduler} {
			out = append(out, fmt.Sprintf("%s:%d", h.Address, port))
		}
	}
	for _, e := range c.edges {
		out = append(out, e.Addr())
	}
	return out
}

func mirrorPods(t *testing.T, c *Cluster) {
	for _, h := range c.ControlPlanes() {
		pods := h.Kubelet.Pods()
		if len(pods) != len(staticPods) {
			t.Errorf("host %q runs %d pods, want %d", h.Name, len(pods), len(staticPods))
		}
		node, err := c.Client().CoreV1().Nodes().Get(t.Context(), h.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, truth := range pods {
			pod, err := c.Client().CoreV1().Pods(truth.Namespace).Get(t.Context(), truth.Name, metav1.GetOptions{})
			if err != nil {
				t.Errorf("pod %q: %v", truth.Name, err)
				continue
			}
			if pod.Annotations["kubernetes.io/config.hash"] != truth.Hash || pod.Spec.NodeName != h.NodeName || pod.Status.HostIP != h.Address {
				t.Errorf("pod %q does not show host %q: %+v", truth.Name, h.Name, pod.ObjectMeta)
			}
			if len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != node.UID {
				t.Errorf("pod %q is owned by %+v, want its node", truth.Name, pod.OwnerReferences)
			}
			proc := fmt.Sprintf("/proc/%d", truth.Containers[0].PID)
			cwd, err := os.Readlink(proc + "/cwd")
			if err != nil || cwd != h.Dir {
				t.Errorf("the process of %q works in %q, %v; want %q", truth.Name, cwd, err, h.Dir)
			}
			cmdline, err := os.ReadFile(proc + "/cmdline")
			if argv := strings.Split(string(cmdline), "\x00"); err != nil || argv[0] != pod.Labels["component"] {
				t.Errorf("the process of %q calls itself %q, %v", truth.Name, argv[0], err)
			}
			manifest := h.Path(manifestDir + "/" + pod.Labels["component"] + ".yaml")
			if info, err := os.Stat(manifest); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("manifest %q: %v, %v; want mode 0600", manifest, info, err)
			}
		}
	}
}

func nodes(t *testing.T, c *Cluster) {
	for _, h := range c.Hosts() {
		n, err := c.Client().CoreV1().Nodes().Get(t.Context(), h.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		_, labelled := n.Labels["node-role.kubernetes.io/control-plane"]
		tainted := slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "node-role.kubernetes.io/control-plane" })
		if labelled != h.ControlPlane || tainted != h.ControlPlane {
			t.Errorf("node %q: control-plane label %v, taint %v; want %v", h.NodeName, labelled, tainted, h.ControlPlane)
		}
		if n.Spec.ProviderID != h.ProviderID() || n.Labels[corev1.LabelTopologyZone] != h.Zone {
			t.Errorf("node %q has providerID %q in zone %q", h.NodeName, n.Spec.ProviderID, n.Labels[corev1.LabelTopologyZone])
		}
	}
	config, err := c.Client().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
	if err != nil || !strings.Contains(config.Data["ClusterConfiguration"], "cloud-provider: aws") {
		t.Errorf("kubeadm-config: %v, %v", config.Data, err)
	}
}

var gauge = regexp.MustCompile(`(?m)^running_managed_controllers\{manager="([^"]+)",name="([^"]+)"\} 1$`)

// scrape reads a path of a manager with the metrics account's token.
func scrape(t *testing.T, c *Cluster, h *Host, port int, path string) (int, string) {
	t.Helper()
	// As Prometheus does under kubeadm: the managers' certificates are signed by themselves.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s:%d%s", h.Address, port, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.MetricsToken())
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// loops finds the host whose manager runs the cloud loops.
func loops(t *testing.T, c *Cluster) string {
	runs := map[string][]string{}
	for _, h := range c.ControlPlanes() {
		status, body := scrape(t, c, h, portControllerManager, "/metrics")
		if status != http.StatusOK {
			t.Fatalf("scraping host %q: status %d: %s", h.Name, status, body)
		}
		for _, m := range gauge.FindAllStringSubmatch(body, -1) {
			runs[m[2]] = append(runs[m[2]], h.Name)
		}
	}
	owner := ""
	for _, loop := range []string{"route", "service", "cloud-node-lifecycle", "nodeipam"} {
		if len(runs[loop]) != 1 {
			t.Errorf("loop %q runs on %v, want one host", loop, runs[loop])
			continue
		}
		if owner != "" && owner != runs[loop][0] {
			t.Errorf("loop %q runs on %q, another one on %q", loop, runs[loop][0], owner)
		}
		owner = runs[loop][0]
	}
	return owner
}

func leastPrivilege(t *testing.T, c *Cluster) {
	h := c.ControlPlanes()[0]
	for _, tc := range []struct {
		port int
		path string
		want int
	}{
		{portScheduler, "/metrics", http.StatusOK},
		{portControllerManager, "/configz", http.StatusForbidden},
		{portControllerManager, "/debug/pprof/", http.StatusForbidden},
		{portAPIServer, "/metrics", http.StatusOK},
		{portAPIServer, "/api/v1/namespaces/kube-system/secrets", http.StatusForbidden},
		{portAPIServer, "/api/v1/nodes", http.StatusForbidden},
	} {
		if status, _ := scrape(t, c, h, tc.port, tc.path); status != tc.want {
			t.Errorf("%s on port %d: status %d, want %d", tc.path, tc.port, status, tc.want)
		}
	}
}

func cloudState(t *testing.T, c *Cluster, owner string) {
	state := c.AWS().State()
	services, err := c.Client().CoreV1().Services(WorkloadNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, lb := range state.ELB {
		names[lb.DNSName] = true
	}
	for _, lb := range state.ELBV2.LoadBalancers {
		names[lb.DNSName] = true
	}
	for _, s := range services.Items {
		if len(s.Status.LoadBalancer.Ingress) != 1 || !names[s.Status.LoadBalancer.Ingress[0].Hostname] {
			t.Errorf("service %q has %+v, the cloud %v", s.Name, s.Status.LoadBalancer.Ingress, names)
		}
	}
	if len(services.Items) != 4 || len(state.ELB) != 3 || len(state.ELBV2.LoadBalancers) != 1 {
		t.Errorf("%d Services, %d classic and %d network load balancers; want 4, 3 and 1", len(services.Items), len(state.ELB), len(state.ELBV2.LoadBalancers))
	}
	if unknown := c.AWS().Unknown(); len(unknown) > 0 {
		t.Errorf("the simulator does not know %+v", unknown)
	}
	host, err := c.Host(owner)
	if err != nil {
		t.Fatal(err)
	}
	for key, n := range callers(t, c) {
		if key != AccessKey(host.Name, ControllerManager) {
			t.Errorf("%d calls came from %q, want them from the owner on %q alone", n, key, owner)
		}
	}
}

// callers counts the calls of the audit file by access key.
func callers(t *testing.T, c *Cluster) map[string]int {
	t.Helper()
	data, err := os.ReadFile(c.AuditFile())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var call struct{ Key string }
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			t.Fatalf("audit line %q: %v", line, err)
		}
		out[call.Key]++
	}
	return out
}

func traffic(t *testing.T, c *Cluster, owner string) {
	for _, name := range []string{
		EdgeName(owner, ControllerManager, endCloud), EdgeName(owner, ControllerManager, APIServer), EdgeName(owner, Scheduler, APIServer),
		EdgeName(owner, APIServer, endEtcd), EdgeName(owner, "kubelet", endLoadBalancer), EdgeName("worker-1", "kubelet", endLoadBalancer),
		LoadBalancerEdge(owner),
	} {
		e, err := c.Edge(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s := e.Stats(); s.Up == 0 || s.Down == 0 {
			t.Errorf("nothing passed through %q: %+v", name, s)
		}
	}
	if _, err := c.Edge("nowhere"); err == nil {
		t.Error("an edge that does not exist was found")
	}
}

func kubectl(t *testing.T, c *Cluster, bins build.Binaries) {
	program, err := bins.Path("kubectl", Version)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "get", "nodes", "-o", "name")
	cmd.Env = append(c.Env(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if lines := strings.Count(string(out), "node/"); err != nil || lines != len(c.Hosts()) {
		t.Errorf("kubectl found %d nodes, %v:\n%s", lines, err, out)
	}
}

// partition cuts the load balancer off from one API server.
func partition(t *testing.T, c *Cluster) {
	e, err := c.Edge(LoadBalancerEdge("cp-1"))
	if err != nil {
		t.Fatal(err)
	}
	ready := func(want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := poll.Until(ctx, 20*time.Millisecond, "the load balancer to notice", func(context.Context) error {
			if s := c.LoadBalancer().Backends()[0]; s.Ready != want {
				return fmt.Errorf("backend is %+v", s)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	e.Cut()
	ready(false)
	for range 6 {
		if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
			t.Errorf("with one API server cut off: %v", err)
		}
	}
	if err := e.Heal(); err != nil {
		t.Fatal(err)
	}
	ready(true)
}

// TestAnInterruptedStartLeavesNothing ends the start while the API servers come up.
func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	bins := binaries(t)
	dir := filepath.Join(t.TempDir(), "lab")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = poll.Until(ctx, 10*time.Millisecond, "the API servers to be started", func(context.Context) error {
			if n := len(processesIn(t, dir)); n < 1+maxControlPlanes {
				return fmt.Errorf("%d processes run", n)
			}
			return nil
		})
		cancel()
	}()
	if _, err := Start(ctx, Options{Dir: dir, Binaries: bins, Workers: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// TestAKilledLabLeavesNoProcess kills a lab without warning: the kernel ends what it started.
func TestAKilledLabLeavesNoProcess(t *testing.T) {
	binaries(t)
	dir := filepath.Join(t.TempDir(), "lab")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // only read from
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), orphanEnv+"="+dir)
	cmd.Stdout = in
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close() // the child has its own
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil || string(line[:n]) != "started\n" {
		t.Fatalf("the lab did not start: %v: %s", err, line[:n])
	}
	if running := processesIn(t, dir); len(running) < 4 { // etcd and three API servers at least
		t.Errorf("only these processes run: %q", running)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the killed lab ended with %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := poll.Until(ctx, 20*time.Millisecond, "its processes to end", func(context.Context) error {
		if left := processesIn(t, dir); len(left) > 0 {
			return fmt.Errorf("%d are left: %q", len(left), left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
