package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

// cluster is an API server in memory and the kubelet of one node: it starts an agent, with a directory as the host, for each pod.
type cluster struct {
	t    *testing.T
	kube *fake.Clientset
	root string // the host's

	mu       sync.Mutex
	agents   map[string]func() // what ends each pod's agent
	sockets  map[string]string
	sessions map[int]func() <-chan struct{} // what cuts each session, and tells its end
	opened   int
	down     bool // no session can be opened
	told     []string
	status   func(*corev1.Pod)      // what the kubelet does instead of running a pod
	pending  func(*corev1.Pod) bool // what the kubelet has not come to yet
	made     int
	clock    func() time.Duration // of the agents; nil for the real one
}

func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, kube: fake.NewClientset(), root: t.TempDir(), agents: map[string]func(){}, sockets: map[string]string{}}
	c.sessions = map[int]func() <-chan struct{}{}
	for _, d := range []string{"etc/kubernetes/manifests", "var/lib/kubelet"} {
		if err := os.MkdirAll(filepath.Join(c.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		if _, err := c.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.kube.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		o := action.(clienttesting.CreateAction).GetObject()
		if m, ok := o.(metav1.Object); ok {
			c.made++
			m.SetUID(types.UID(fmt.Sprintf("uid-%d-of-%s", c.made, m.GetName())))
			m.SetCreationTimestamp(metav1.Now())
		}
		if p, ok := o.(*corev1.Pod); ok {
			c.start(p)
		}
		return false, nil, nil
	})
	c.kube.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.end(action.(clienttesting.DeleteAction).GetName())
		return false, nil, nil
	})
	t.Cleanup(func() {
		for _, end := range c.agents {
			end()
		}
	})
	return c
}

// start is the kubelet's part.
func (c *cluster) start(p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := metav1.Now()
	p.Status.StartTime = &now
	if c.status != nil {
		c.status(p)
		return
	}
	if c.pending != nil && c.pending(p) {
		return
	}
	o := agent.Options{Name: p.Spec.NodeName, Root: c.root, Clock: c.clock}
	for _, arg := range p.Spec.Containers[0].Args {
		if part, ok := strings.CutPrefix(arg, "--part="); ok {
			o.Parts = append(o.Parts, part)
		}
		if idle, ok := strings.CutPrefix(arg, "--idle="); ok {
			var err error
			if o.Idle, err = time.ParseDuration(idle); err != nil {
				c.t.Error(err)
			}
		}
	}
	a, err := agent.New(o)
	if err != nil {
		c.t.Error(err)
		return
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's name may not be long
	if err != nil {
		c.t.Error(err)
		return
	}
	at := filepath.Join(dir, "s")
	l, err := agent.Listen(at)
	if err != nil {
		c.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Serve(ctx, l); err != nil {
			c.t.Error(err)
		}
	}()
	c.agents[p.Name] = func() { cancel(); <-ended; _ = os.RemoveAll(dir) }
	c.sockets[p.Name] = at
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func (c *cluster) end(pod string) {
	c.mu.Lock()
	end := c.agents[pod]
	delete(c.agents, pod)
	delete(c.sockets, pod)
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// exec is the API server's and the kubelet's part of a session, with the relay in the pod.
func (c *cluster) exec(ctx context.Context, _, pod string, in io.Reader, out, _ io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	at, ok := c.sockets[pod]
	if c.down {
		c.mu.Unlock()
		return errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
	}
	c.opened++
	n := c.opened
	ended := make(chan struct{})
	c.sessions[n] = func() <-chan struct{} { cancel(); return ended }
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, n)
		close(ended)
	}()
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("pods"), pod)
	}
	return agent.Relay(ctx, at, in, out)
}

// cut breaks all sessions, as an API server that is killed does, and waits for that: a call could still go through.
func (c *cluster) cut() {
	c.mu.Lock()
	var broken []<-chan struct{}
	for _, cut := range c.sessions {
		broken = append(broken, cut())
	}
	c.mu.Unlock()
	for _, ended := range broken {
		<-ended
	}
}

func (c *cluster) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *cluster) says() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.told, "\n")
}

// open returns the hosts, which are closed with the test.
func (c *cluster) open(change func(*Options)) []hostaccess.Host {
	c.t.Helper()
	o := Options{Kube: c.kube, Image: "image", User: "ops", exec: c.exec, Tell: func(s string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, s)
	}}
	if change != nil {
		change(&o)
	}
	hosts, closing, err := Open(c.t.Context(), o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := closing(ctx); err != nil {
			c.t.Error(err)
		}
		if left := c.pods(); len(left) > 0 {
			c.t.Errorf("pods were left: %v", left)
		}
		jobs, err := c.kube.BatchV1().Jobs("kube-system").List(ctx, metav1.ListOptions{})
		if err != nil || len(jobs.Items) > 0 {
			c.t.Errorf("jobs were left: %d, %v", len(jobs.Items), err)
		}
	})
	return hosts
}

func (c *cluster) pods() []string {
	list, err := c.kube.CoreV1().Pods("kube-system").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	return out
}

func (c *cluster) write(path, content string) {
	c.t.Helper()
	at := filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// listener is a TCP server on the host.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually waits for something that is about to be so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(10 * time.Second)
	for !so() {
		select {
		case <-end:
			t.Fatalf("never: %s", what)
		case <-ticker.C:
		}
	}
}
