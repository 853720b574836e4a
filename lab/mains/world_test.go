package mains

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/poll"
)

const lease = "cloud-controller-manager"

// world is a cluster without machines.
type world struct {
	dir   string
	api   *apiserver.Server
	admin kubernetes.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	api, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Audit: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	config, err := api.Config("admin")
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.CloseIdleConnections)
	admin, err := kubernetes.NewForConfigAndClient(config, web)
	if err != nil {
		t.Fatal(err)
	}
	return &world{dir: t.TempDir(), api: api, admin: admin}
}

// manager is a program that runs. Its user in the API is its name.
type manager struct {
	*process.Process
	name string
	at   string // host:port of its health
	log  string // file
}

// start starts a program with the flags that each of them has, and those of its own.
func (w *world) start(t *testing.T, name, program string, env []string, flags ...string) *manager {
	t.Helper()
	kubeconfig, err := w.api.Kubeconfig(name)
	if err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{name: name, at: at, log: filepath.Join(w.dir, name+".log")}
	m.Process, err = process.Start(process.Options{
		Name: name, Path: program, Dir: w.dir, Output: m.log, Env: env,
		Args: append([]string{
			"--v=2", "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(w.dir, name+"-certificates"), "--leader-elect=true",
		}, flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			text := m.text(t)
			t.Logf("the end of %s's log:\n%s", name, text[max(0, len(text)-5000):])
		}
	})
	return m
}

func (m *manager) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ended returns an error once a manager has ended that should be running.
func (m *manager) ended() error {
	select {
	case <-m.Done():
		return fmt.Errorf("%s has ended with %d", m.name, m.ExitCode())
	default:
		return nil
	}
}

// get asks a manager as anybody may.
func (m *manager) get(ctx context.Context, path string) (code int, text string, err error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} // its certificate is its own
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.at+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", errors.Join(err, m.ended())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// answers waits until a path is answered with a code.
func (m *manager) answers(t *testing.T, path string, want int) string {
	t.Helper()
	body := ""
	poll.Eventually(t, fmt.Sprintf("%s to answer %s with %d", m.name, path, want), func(ctx context.Context) error {
		code, text, err := m.get(ctx, path)
		if err == nil && code != want {
			err = fmt.Errorf("%d: %s", code, text)
		}
		body = text
		return err
	})
	return body
}

// hasStarted waits until the log names each of these controllers as started, in either library's words.
func (m *manager) hasStarted(t *testing.T, controllers ...string) {
	t.Helper()
	for _, c := range controllers {
		ours, upstreams := fmt.Sprintf(`"Started the controller" controller=%q`, c), fmt.Sprintf(`Started %q`, c)
		poll.Eventually(t, m.name+" to start "+c, func(context.Context) error {
			if text := m.text(t); !strings.Contains(text, ours) && !strings.Contains(text, upstreams) {
				return errors.Join(errors.New("the log does not say so"), m.ended())
			}
			return nil
		})
	}
}

func (w *world) holder(ctx context.Context) (string, error) {
	l, err := w.admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(l.Spec.HolderIdentity, ""), nil
}

// leads waits until the lease is held by somebody else than before, "" for anybody, and returns the holder.
func (w *world) leads(t *testing.T, m *manager, before string) string {
	t.Helper()
	now := ""
	poll.Eventually(t, m.name+" to lead", func(ctx context.Context) error {
		var err error
		now, err = w.holder(ctx)
		if err == nil && (now == "" || now == before) {
			err = fmt.Errorf("%q holds the lease", now)
		}
		return errors.Join(err, m.ended())
	})
	return now
}

// releases ends a manager with SIGTERM: it must exit with 0 and leave a lease that nobody holds.
func (w *world) releases(t *testing.T, m *manager) {
	t.Helper()
	w.terminate(t, m)
	if code := m.ExitCode(); code != 0 {
		t.Errorf("%s ends with %d on SIGTERM", m.name, code)
	}
}

// terminate ends a manager with SIGTERM: it must leave a lease that nobody holds.
func (w *world) terminate(t *testing.T, m *manager) {
	t.Helper()
	if err := m.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.ends(t)
	holder, err := w.holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if holder != "" {
		t.Errorf("%s has ended, and %q holds the lease", m.name, holder)
	}
}

func (m *manager) ends(t *testing.T) {
	t.Helper()
	select {
	case <-m.Done():
	case <-time.After(poll.Patience):
		t.Fatalf("%s does not end", m.name)
	}
}

// register creates a Node as a kubelet with --cloud-provider=external does, and says that it is ready.
func (w *world) register(t *testing.T, name, podCIDR, uuid string) {
	t.Helper()
	node, err := w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{PodCIDR: podCIDR, Taints: []corev1.Taint{
			{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{SystemUUID: uuid},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// initialised waits until a node has what the cloud says, and returns it.
func (w *world) initialised(t *testing.T, name, providerIDPrefix, address string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	poll.Eventually(t, "node "+name+" to be initialised", func(ctx context.Context) error {
		var err error
		if node, err = w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		has := slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return strings.HasPrefix(taint.Key, "node.cloudprovider.") })
		if !strings.HasPrefix(node.Spec.ProviderID, providerIDPrefix) || !has || tainted {
			return fmt.Errorf("it has provider ID %q, addresses %v and taints %v", node.Spec.ProviderID, node.Status.Addresses, node.Spec.Taints)
		}
		return nil
	})
	return node
}

// serve creates a Service of type LoadBalancer, waits for its address and deletes it.
func (w *world) serve(t *testing.T, name string) corev1.LoadBalancerIngress {
	t.Helper()
	services := w.admin.CoreV1().Services(metav1.NamespaceDefault)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ingress corev1.LoadBalancerIngress
	poll.Eventually(t, "the load balancer of "+name, func(ctx context.Context) error {
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("the status is %v", service.Status.LoadBalancer)
		}
		ingress = service.Status.LoadBalancer.Ingress[0]
		return nil
	})
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "Service "+name+" to be gone", func(ctx context.Context) error {
		list, err := services.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
	return ingress
}

// freeAddress is a host:port of the loopback that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
