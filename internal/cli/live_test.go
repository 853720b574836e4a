package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

const metricsVariable = "TRANSPLANT_TEST_METRICS"

// manager is what a component of a host is here: a process of the right name in the right directory, which answers /metrics on the socket that it
// was given and ends when its standard input does.
func runManager() {
	if l, err := net.FileListener(os.NewFile(3, "socket")); err == nil {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, os.Getenv(metricsVariable))
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Listener = l
		s.StartTLS()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// live is a cluster of two control-plane hosts: real directories, real processes, and an API server in memory.
type live struct {
	t          *testing.T
	api        *apitest.Server
	dir        string
	kubeconfig string
	// running are the components by host/name.
	running map[string]*runningComponent
}

// runningComponent is a component's process, and what its next one takes over from it.
type runningComponent struct {
	name, metrics string
	socket        *os.File
	port          int
	cmd           *exec.Cmd
	stdin         io.Closer
}

func newLive(t *testing.T) *live {
	t.Helper()
	return newLiveWith(t, "")
}

// newLiveWith is newLive where the managers have further flags, and the kubelets, too.
func newLiveWith(t *testing.T, kubeletFlags string, managerFlags ...string) *live {
	t.Helper()
	c := &live{t: t, api: apitest.New(t), dir: t.TempDir(), running: map[string]*runningComponent{}}
	c.kubeconfig = c.api.Kubeconfig(t)
	for i := 1; i <= 2; i++ {
		name := fmt.Sprintf("cp-%d", i)
		for _, f := range []struct{ path, content string }{
			{"/etc/kubernetes/cloud.conf", "[Global]\nVPC = vpc-1\n"}, {planlayout.KCMKubeconfig, "apiVersion: v1\nkind: Config\n"},
			{"/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --hostname-override=node-" + name + kubeletFlags + "\"\n"},
		} {
			c.write(name, f.path, f.content)
		}
		c.api.Put(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, UID: "uid-of-node"}, Spec: corev1.NodeSpec{
				ProviderID: "aws:///us-east-1a/i-0123456789abcde0" + fmt.Sprint(
					i,
				),
				PodCIDR:  fmt.Sprintf("10.200.%d.0/24", i),
				PodCIDRs: []string{fmt.Sprintf("10.200.%d.0/24", i)},
			},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.26.0"},
			},
		})
		c.component(name, "kube-apiserver", "", "--cloud-config=/etc/kubernetes/cloud.conf", "--cloud-provider=aws")
		metrics := "leader_election_master_status{name=\"kube-controller-manager\"} 0\n"
		if i == 1 {
			metrics = "leader_election_master_status{name=\"kube-controller-manager\"} 1\n"
			for _, loop := range []string{"service", "route", "cloud-node-lifecycle", "nodeipam"} {
				metrics += fmt.Sprintf("running_managed_controllers{manager=\"kube-controller-manager\",name=%q} 1\n", loop)
			}
		}
		c.component(
			name,
			"kube-controller-manager",
			metrics,
			append([]string{"--allocate-node-cidrs=true", "--cloud-config=/etc/kubernetes/cloud.conf", "--cloud-provider=aws",
				"--cluster-cidr=10.200.0.0/16", "--cluster-name=test", "--configure-cloud-routes=true", "--leader-elect=true"}, managerFlags...)...)
	}
	// Nobody renews it: it lasts as long as any test, and was taken long before, so that what is said of it does not change with the time of a look.
	renewed, taken := metav1.NewMicroTime(time.Now()), metav1.NewMicroTime(time.Now().Add(-72*time.Hour))
	c.api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: planlayout.Observer, Namespace: component.Namespace}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: component.KCM, Namespace: component.Namespace}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("cp-1_x"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &taken, RenewTime: &renewed}})
	c.serving()
	return c
}

func (c *live) write(host, path, content string) {
	c.t.Helper()
	at := filepath.Join(c.dir, host, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// asYAML quotes the arguments that YAML would read as something else.
func asYAML(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.ContainsAny(arg, " \n\"") {
			out[i] = strconv.Quote(arg)
		}
	}
	return out
}

func manifestPath(component string) string { return "/etc/kubernetes/manifests/" + component + ".yaml" }

// component starts a component of a host, and makes its manifest and its mirror pod.
func (c *live) component(host, name, metrics string, args ...string) {
	t := c.t
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := socket.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	port := socket.Addr().(*net.TCPAddr).Port
	args = append([]string{name, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port)}, args...)
	c.write(
		host,
		manifestPath(name),
		fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %[1]s\n  namespace: kube-system\nspec:\n  containers:\n  - name: %[1]s\n"+
			"    image: registry.k8s.io/%[1]s:v1.26.0\n    command:\n    - %[2]s\n    volumeMounts:\n    - mountPath: /etc/kubernetes/cloud.conf\n      name: conf\n"+
			"  volumes:\n  - name: conf\n    hostPath:\n      path: /etc/kubernetes/cloud.conf\n", name, strings.Join(asYAML(args), "\n    - ")),
	)
	if err := socket.Close(); err != nil { // inherited is another descriptor of it
		t.Fatal(err)
	}
	r := &runningComponent{name: name, metrics: metrics, socket: inherited, port: port}
	c.running[host+"/"+name] = r
	c.start(host, r, args)
	t.Cleanup(func() {
		r.stop(t)
		if err := inherited.Close(); err != nil {
			t.Error(err)
		}
	})
}

// start starts the process of a component, and makes its mirror pod.
func (c *live) start(host string, r *runningComponent, args []string) {
	t := c.t
	t.Helper()
	c.api.Put(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        r.name + "-node-" + host,
			Namespace:   component.Namespace,
			Annotations: map[string]string{"kubernetes.io/config.mirror": "x"},
			Labels:      map[string]string{"component": r.name, "tier": "control-plane"},
		},
		Spec:   corev1.PodSpec{NodeName: "node-" + host, Containers: []corev1.Container{{Name: r.name, Command: args}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = &exec.Cmd{Path: self, Args: args, Dir: filepath.Join(c.dir, host), ExtraFiles: []*os.File{r.socket}}
	// The race detector would let each end a second later.
	r.cmd.Env = append(os.Environ(), metricsVariable+"="+r.metrics, "GORACE=atexit_sleep_ms=0")
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// serving waits until each component answers. A manager is asked for 5 seconds, and on a busy machine a process may take
// longer to start.
func (c *live) serving() {
	c.t.Helper()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for name, r := range c.running {
		request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", r.port), nil)
		if err != nil {
			c.t.Fatal(err)
		}
		answer, err := web.Do(request)
		if err != nil {
			c.t.Fatalf("component %s does not answer: %v", name, err)
		}
		if err := answer.Body.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// stop ends the process.
func (r *runningComponent) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.stdin.Close(), r.cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// run executes a command line on the cluster.
func (c *live) run(args ...string) result {
	c.t.Helper()
	return transplant(c.t, append(args, "--kubeconfig", c.kubeconfig, "--host-access", "local:"+c.dir)...)
}

// volatile are the parts of an output that name this cluster.
func (c *live) volatile() volatile {
	return volatile{c.api.URL: "https://api:6443", c.kubeconfig: "KUBECONFIG", c.dir: "HOSTS"}
}

// plan makes a plan for the cluster as it is, and returns the file.
func (c *live) plan() string {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "plan.yaml")
	if r := c.run("plan", "--out", out, "--accept", "CLOUD-001=no cloud in this test"); r.code != exitcode.OK {
		c.t.Fatal(r.text(nil))
	}
	return out
}

// journal writes that a migration was begun of which n steps were done, and m more were begun.
func (c *live) journal(phase string, n, m int) *journal.Journal {
	c.t.Helper()
	kube, _ := c.api.Clients(c.t)
	p, err := client.ReadPlan(c.plan())
	if err != nil {
		c.t.Fatal(err)
	}
	doc := v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: phase, User: "ops", Plan: *p}
	for i, s := range p.Steps[:min(n+m, len(p.Steps))] {
		r := v1.StepRecord{ID: s.ID, Started: client.Now(), Result: v1.StepResultDone}
		if i >= n {
			r.Result, r.Error = v1.StepResultStarted, "not verified after 1m0s: no process of kube-controller-manager runs on host cp-2"
		}
		doc.Records = append(doc.Records, r)
	}
	before := c.snapshot()
	c.api.Delete("/api/v1/namespaces/" + component.Namespace + "/configmaps/" + journal.Name)
	j, err := journal.Create(c.t.Context(), kube, doc, before)
	if err != nil {
		c.t.Fatal(err)
	}
	return j
}

// approvedHere notes that a journal's plan was approved on this machine, and returns the flag that says where.
func (c *live) approvedHere(j *journal.Journal) string {
	c.t.Helper()
	doc, dir := j.Doc(), c.t.TempDir()
	if err := (&client.Client{StateDir: dir}).NoteApproval(&doc.Plan, doc.Run); err != nil {
		c.t.Fatal(err)
	}
	return "--state-dir=" + dir
}

func (c *live) snapshot() *v1.Snapshot {
	c.t.Helper()
	r := c.run("snapshot")
	s, err := snapshot.Load(strings.NewReader(r.out))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}
