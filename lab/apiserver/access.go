package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/poll"
)

// masters is the group that may do everything, which users are in unless other groups are named.
const masters = "system:masters"

// Config returns the client settings of a user, without a limit of requests per second. Without groups the user may do
// everything; with groups, what RBAC gives those and the user ("" is no group).
func (s *Server) Config(user string, groups ...string) (*rest.Config, error) {
	return s.config(user, groups)
}

// Client returns a client for a user; see Config. Its connections stay open until they idle out: Connect is for
// tests that count goroutines.
func (s *Server) Client(user string, groups ...string) (kubernetes.Interface, error) {
	config, err := s.Config(user, groups...)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating client of %q: %w", user, err)
	}
	return client, nil
}

// Connect returns a client whose connections can be closed.
func Connect(config *rest.Config) (client kubernetes.Interface, disconnect func(), err error) {
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating client: %w", err)
	}
	if client, err = kubernetes.NewForConfigAndClient(config, web); err != nil {
		return nil, nil, fmt.Errorf("creating client: %w", err)
	}
	return client, web.CloseIdleConnections, nil
}

// Kubeconfig writes the kubeconfig of a user below the server's directory, and returns its path; see Config for the
// groups.
func (s *Server) Kubeconfig(user string, groups ...string) (string, error) {
	return s.KubeconfigVia(s.Address(), user, groups...)
}

// KubeconfigVia does what Kubeconfig does, for a user that reaches the server through a proxy at a host:port of
// 127.0.0.1.
func (s *Server) KubeconfigVia(address, user string, groups ...string) (string, error) {
	data, err := s.kubeconfig(address, user, groups)
	if err != nil {
		return "", err
	}
	file := strings.NewReplacer("/", "-", ":", "-").Replace(user)
	if address != s.Address() {
		file += "-via-" + strings.ReplaceAll(address, ":", "-")
	}
	path := s.path("kubeconfigs/" + file)
	return path, pki.WriteSecret(path, data)
}

// kubeconfig issues a certificate for a user, once.
func (s *Server) kubeconfig(address, user string, groups []string) ([]byte, error) {
	switch {
	case len(groups) == 0:
		groups = []string{masters}
	case groups[0] == "":
		groups = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join(append([]string{address, user}, groups...), "\n")
	if data, ok := s.configs[key]; ok {
		return data, nil
	}
	data, err := s.pki.Kubeconfig("https://"+address, pki.Identity{User: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	s.configs[key] = data
	return data, nil
}

func loadConfig(data []byte) (*rest.Config, error) { return clientcmd.RESTConfigFromKubeConfig(data) }

// WaitReady waits until the server is ready and has the namespaces that leases and test objects go to. When ctx ends
// before, or a program ends, the error says what was missing.
func (s *Server) WaitReady(ctx context.Context) error {
	config, err := s.Config("lab-readiness")
	if err != nil {
		return err
	}
	client, disconnect, err := Connect(config)
	if err != nil {
		return err
	}
	defer disconnect()
	return poll.Until(ctx, 100*time.Millisecond, "kube-apiserver to be ready", func(ctx context.Context) error {
		if err := s.ended(); err != nil {
			return poll.Final(err)
		}
		return ready(ctx, client)
	})
}

func ready(ctx context.Context, client kubernetes.Interface) error {
	code := 0
	result := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
	if err := result.Error(); err != nil {
		return fmt.Errorf("asking /readyz: %w", err)
	}
	if code != http.StatusOK {
		return fmt.Errorf("/readyz says %d", code)
	}
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("looking for namespace %q: %w", name, err)
		}
	}
	return nil
}
