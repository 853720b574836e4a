package seed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/transplant-dev/transplant/lab/poll"
)

// bind puts a pod without a node on the seed's only one. It is called for every pod that changes; a failed binding is
// tried again with the pod's next change, or here.
func (s *Seed) bind(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || s.isHeld(pod) {
		return
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: NodeName},
	}
	s.running.Go(func() {
		for ctx.Err() == nil {
			err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
			if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return
			}
			s.opts.Log.Info("Binding pod", "pod", pod.Namespace+"/"+pod.Name, "err", err)
			if !poll.Pause(ctx, time.Second) {
				return
			}
		}
	})
}

// Hold keeps new pods of an app of a namespace from getting a node, as a full seed would: they stay Pending. Release
// ends it.
func (s *Seed) Hold(namespace, app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]bool{}
	}
	s.held[namespace+"/"+app] = true
}

// Release gives nodes to the pods that Hold kept waiting.
func (s *Seed) Release(ctx context.Context, namespace, app string) error {
	s.mu.Lock()
	delete(s.held, namespace+"/"+app)
	s.mu.Unlock()
	pods, err := s.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing pods of %q: %w", namespace, err)
	}
	for _, p := range pods {
		s.bind(context.WithoutCancel(ctx), p)
	}
	return nil
}

func (s *Seed) isHeld(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[pod.Namespace+"/"+pod.Labels["app"]]
}

// backend is the address behind a Service: that of a ready pod, the oldest one.
func (s *Seed) backend(ctx context.Context, namespace, name string, port int32) (string, error) {
	service, err := s.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Service %s/%s: %w", namespace, name, err)
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 {
		return "", fmt.Errorf("service %s/%s has no port %d", namespace, name, port)
	}
	pods := s.readyPods(namespace, labels.SelectorFromSet(service.Spec.Selector))
	if len(pods) == 0 {
		return "", fmt.Errorf("service %s/%s has no ready pod", namespace, name)
	}
	pod := pods[0]
	target := service.Spec.Ports[at].TargetPort
	number := target.IntValue()
	if target.Type == intstr.String {
		for i := range pod.Spec.Containers {
			for _, p := range pod.Spec.Containers[i].Ports {
				if p.Name == target.StrVal {
					number = int(p.ContainerPort)
				}
			}
		}
	}
	if number == 0 {
		number = int(port)
	}
	return net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(number)), nil
}

// readyPods are the ready pods that match, the oldest first.
func (s *Seed) readyPods(namespace string, selector labels.Selector) []*corev1.Pod {
	if s.pods == nil {
		return nil
	}
	list, err := s.pods.Pods(namespace).List(selector)
	if err != nil {
		return nil
	}
	list = slices.DeleteFunc(list, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || !podReady(p) })
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list
}

func podReady(p *corev1.Pod) bool {
	return p.Status.PodIP != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// proxy leads connections to Services by name: CONNECT webhook.namespace.svc:443 ends at a ready pod. It is what DNS
// and kube-proxy are in a cluster, and it needs no rights.
type proxy struct {
	server *http.Server
	done   chan error
}

func startProxy(
	address string,
	backend func(ctx context.Context, namespace, name string, port int32) (string, error),
) (*proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("starting proxy to Services: %w", err)
	}
	p := &proxy{done: make(chan error, 1), server: &http.Server{
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { connect(w, r, backend) }),
	}}
	go func() { p.done <- p.server.Serve(l) }()
	return p, nil
}

func (p *proxy) close() error {
	err := p.server.Close()
	if served := <-p.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("proxy to Services ended early: %w", served))
	}
	return err
}

// connect serves one CONNECT. What is no Service of the seed is refused: nothing leaves the lab.
func connect(
	w http.ResponseWriter,
	r *http.Request,
	backend func(ctx context.Context, namespace, name string, port int32) (string, error),
) {
	host, port, err := net.SplitHostPort(r.Host)
	parts := strings.Split(host, ".")
	var number int32
	if _, scanErr := fmt.Sscan(
		port,
		&number,
	); r.Method != http.MethodConnect || err != nil || scanErr != nil || len(parts) < 3 ||
		parts[2] != "svc" {
		http.Error(w, "the lab leads to Services of the seed only", http.StatusForbidden)
		return
	}
	address, err := backend(r.Context(), parts[1], parts[0], number)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	target, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		_ = target.Close()
		return
	}
	client, buffered, err := hijacker.Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	_, _ = client.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")) // a client that is gone shows in the copy
	join(client, buffered, target)
}

// join copies both ways until either side ends.
func join(client net.Conn, from io.Reader, target net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(target, from)
		_ = target.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(client, target)
		_ = client.Close()
	})
	both.Wait()
}

// forwarder leads one address to a Service's pods, each connection again.
type forwarder struct {
	listener net.Listener
	conns    sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
}

func startForwarder(address string, backend func() (string, error)) (*forwarder, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("starting forwarder: %w", err)
	}
	f := &forwarder{listener: l, open: map[net.Conn]bool{}}
	f.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.conns.Go(func() { f.serve(conn, backend) })
		}
	})
	return f, nil
}

func (f *forwarder) serve(conn net.Conn, backend func() (string, error)) {
	defer conn.Close() //nolint:errcheck // the peer sees it
	address, err := backend()
	if err != nil {
		return
	}
	target, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.open[conn], f.open[target] = true, true
	f.mu.Unlock()
	join(conn, conn, target)
	f.mu.Lock()
	delete(f.open, conn)
	delete(f.open, target)
	f.mu.Unlock()
}

func (f *forwarder) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.conns.Wait()
}
