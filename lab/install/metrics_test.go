package install

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
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/manifests"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

// The manager as it is installed, with the rights of its own account and of no other, answers Prometheus' account with its metrics, and no other caller.
func TestOnlyWhoMayReadMetricsGetsThem(t *testing.T) {
	tool := theTools(t)
	server, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	kubeconfig, err := server.Kubeconfig("installer")
	if err != nil {
		t.Fatal(err)
	}
	client, err := server.Client("installer")
	if err != nil {
		t.Fatal(err)
	}
	o := tool.as(kubeconfig)
	o.must(t, o.kubectl, "create", "namespace", "monitoring")
	o.must(t, o.kubectl, "-n", "monitoring", "create", "serviceaccount", "prometheus-k8s")
	o.must(t, o.kubectl, "-n", "monitoring", "create", "serviceaccount", "other")
	o.must(t, o.kubectl, "apply", "-k", kustomization(t, tool.root))

	service, err := client.CoreV1().Services(kubeSystem).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || len(service.Spec.Ports) != 1 {
		t.Errorf("the Service for Prometheus: %+v", service.Spec)
	}
	m := &installed{program: awsProgram(t, tool.root), port: fmt.Sprint(service.Spec.Ports[0].TargetPort.IntValue())}
	m.start(t, server, client)

	allowed, other := token(t, client, "monitoring", "prometheus-k8s"), token(t, client, "monitoring", "other")
	poll.EventuallyComplete(t, "the manager to serve", func(ctx context.Context) string {
		select {
		case <-m.process.Done():
			t.Fatalf("it has ended: %v", m.process.Err())
		default:
		}
		if code, text, err := m.get(ctx, "/metrics", allowed); err != nil || code != http.StatusOK {
			return fmt.Sprintf("%d, %v: %s", code, err, text)
		}
		return ""
	})
	_, text, err := m.get(t.Context(), "/metrics", allowed)
	if err != nil || !strings.Contains(text, "transplant_ccm_controller_lease") {
		t.Errorf("%v: Prometheus' account got %q", err, text[:min(len(text), 300)])
	}
	for who, c := range map[string]struct {
		token, path string
		want        int
	}{
		"an account without the role":               {other, "/metrics", http.StatusForbidden},
		"the manager's own account":                 {token(t, client, kubeSystem, manager), "/metrics", http.StatusForbidden},
		"nobody in particular":                      {"", "/metrics", http.StatusForbidden},
		"a token that no API server has signed":     {"not.a.token", "/metrics", http.StatusUnauthorized},
		"Prometheus' account, for other paths":      {allowed, "/configz", http.StatusForbidden},
		"nobody in particular, whether it is alive": {"", "/healthz", http.StatusOK},
	} {
		code, text, err := m.get(t.Context(), c.path, c.token)
		if err != nil || code != c.want {
			t.Errorf("%s got %d (%v) from %s, want %d: %s", who, code, err, c.path, c.want, text)
		}
		if code != http.StatusOK && strings.Contains(text, "transplant_ccm") {
			t.Errorf("%s is refused with metrics", who)
		}
	}
	o.must(t, o.kubectl, "delete", "clusterrolebinding", "transplant-metrics-reader")
	poll.EventuallyComplete(t, "the account to be refused without its binding", func(ctx context.Context) string {
		code, _, err := m.get(ctx, "/metrics", allowed)
		if code != http.StatusForbidden {
			return fmt.Sprintf("it got %d, %v", code, err)
		}
		return ""
	})
}

// awsProgram builds the program of the AWS manager.
func awsProgram(t *testing.T, root string) string {
	t.Helper()
	file, err := build.BuildCommand(t.Context(), root, t.TempDir(), "aws-cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// token is one of a service account, from the API server.
func token(t *testing.T, client kubernetes.Interface, namespace, name string) string {
	t.Helper()
	r, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// installed is the manager that the DaemonSet describes, as a process with the token of its account.
type installed struct {
	program, port string
	address       string
	process       *process.Process
}

// start starts it with the DaemonSet's own arguments.
func (m *installed) start(t *testing.T, server *apiserver.Server, client kubernetes.Interface) {
	t.Helper()
	rendered, err := manifests.Manager("aws")
	if err != nil {
		t.Fatal(err)
	}
	set := rendered[slices.IndexFunc(rendered, func(o layout.Object) bool { return o["kind"] == "DaemonSet" })]
	pod := set["spec"].(layout.Object)["template"].(layout.Object)["spec"].(layout.Object)
	container := pod["containers"].([]any)[0].(layout.Object)
	var args []string
	for _, a := range container["command"].([]any)[1:] {
		args = append(args, a.(string))
	}
	args = append(args, container["args"].([]string)...)
	for _, a := range args {
		if strings.HasPrefix(a, "--bind-address") {
			t.Errorf("the manager listens on some addresses alone: %s", a)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := withToken(t, server, token(t, client, kubeSystem, manager), file); err != nil {
		t.Fatal(err)
	}
	cloud := account(t)
	config := filepath.Join(dir, "cloud.conf")
	if err := os.WriteFile(config, []byte(cluster.CloudConfig("http://"+cloud)), 0o600); err != nil {
		t.Fatal(err)
	}
	// On the API server's address, where a test may listen, instead of on all.
	if m.address, _, err = net.SplitHostPort(server.Address()); err != nil {
		t.Fatal(err)
	}
	m.process, err = process.Start(process.Options{
		Name: manager, Path: m.program, Dir: dir, Output: filepath.Join(dir, "log"),
		Args: append(args, "--kubeconfig="+file, "--authentication-kubeconfig="+file, "--authorization-kubeconfig="+file,
			"--cloud-config="+config, "--bind-address="+m.address, "--cert-dir="+filepath.Join(dir, "certificates")),
		Env: []string{
			"AWS_REGION=" + cluster.Region, "AWS_ENDPOINT_URL=http://" + cloud, "AWS_ACCESS_KEY_ID=" + manager,
			"AWS_SECRET_ACCESS_KEY=lab-only", "AWS_EC2_METADATA_DISABLED=true",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.process.Kill()
		if log, err := os.ReadFile(filepath.Join(dir, "log")); err == nil && t.Failed() {
			t.Logf("the end of the manager's log:\n%s", log[max(0, len(log)-6000):])
		}
	})
}

// withToken writes a kubeconfig with a token alone.
func withToken(t *testing.T, server *apiserver.Server, token, file string) error {
	t.Helper()
	like, err := server.Config("like")
	if err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["lab"] = &clientcmdapi.Cluster{Server: like.Host, CertificateAuthorityData: like.CAData}
	c.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "account"}
	c.CurrentContext = "lab"
	return clientcmd.WriteToFile(*c, file)
}

// account is a simulated account of AWS, and returns where it is.
func account(t *testing.T) string {
	t.Helper()
	sim, err := awssim.New(awssim.Options{ClusterID: cluster.Name, Instances: []awssim.Instance{{PrivateIP: "10.0.0.21"}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// get asks the manager for a path. Its certificate is its own, as it is for Prometheus.
func (m *installed) get(ctx context.Context, path, token string) (int, string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(m.address, m.port)+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
