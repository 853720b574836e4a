package mains

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
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
	w := &world{dir: t.TempDir()}
	w.api, w.admin = ccmtest.API(t, apiserver.Options{Audit: true})
	return w
}

// manager is a program that runs. Its user in the API is its name.
type manager struct{ *ccmlab.Manager }

// start starts a program with flags of its own.
func (w *world) start(t *testing.T, name, program string, env []string, flags ...string) *manager {
	t.Helper()
	flags = append([]string{"--v=2"}, flags...)
	return &manager{ccmtest.Run(t, ccmlab.Options{API: w.api, Name: name, Program: program, Dir: w.dir, Env: env, Flags: flags})}
}

func (m *manager) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answers waits until a path is answered with a code.
func (m *manager) answers(t *testing.T, path string, want int) string {
	t.Helper()
	body := ""
	poll.Eventually(t, fmt.Sprintf("%s to answer %s with %d", m.Name(), path, want), func(ctx context.Context) error {
		code, text, err := m.Get(ctx, path)
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
		poll.Eventually(t, m.Name()+" to start "+c, func(context.Context) error {
			if text := m.text(t); !strings.Contains(text, ours) && !strings.Contains(text, upstreams) {
				return errors.Join(errors.New("the log does not say so"), m.Alive())
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
	poll.Eventually(t, m.Name()+" to lead", func(ctx context.Context) error {
		var err error
		now, err = w.holder(ctx)
		if err == nil && (now == "" || now == before) {
			err = fmt.Errorf("%q holds the lease", now)
		}
		return errors.Join(err, m.Alive())
	})
	return now
}

// releases ends a manager with SIGTERM: it must exit with 0 and leave a lease that nobody holds.
func (w *world) releases(t *testing.T, m *manager) {
	t.Helper()
	w.terminate(t, m)
	if code := m.ExitCode(); code != 0 {
		t.Errorf("%s ends with %d on SIGTERM", m.Name(), code)
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
		t.Errorf("%s has ended, and %q holds the lease", m.Name(), holder)
	}
}

func (m *manager) ends(t *testing.T) {
	t.Helper()
	select {
	case <-m.Done():
	case <-time.After(poll.Patience):
		t.Fatalf("%s does not end", m.Name())
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
