package install

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/poll"
)

// The manager as it is installed, with the rights of its own account and of no other, answers Prometheus' account with its metrics, and no other caller.
func TestOnlyWhoMayReadMetricsGetsThem(t *testing.T) {
	tool := theTools(t)
	server, client := ccmtest.API(t, apiserver.Options{})
	kubeconfig, err := server.Kubeconfig("installer")
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
	program, err := ccmtest.Build(t.Context(), ".", t.TempDir(), "aws-cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	m := &installed{program: program, port: fmt.Sprint(service.Spec.Ports[0].TargetPort.IntValue())}
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

// Helm finds that a cluster knows no ServiceMonitors before it makes anything, so that the notes of a release need not warn of it.
func TestHelmInstallsNothingWhereServiceMonitorsAreUnknown(t *testing.T) {
	tool := withHelm(t)
	server, _ := ccmtest.API(t, apiserver.Options{})
	kubeconfig, err := server.Kubeconfig("installer")
	if err != nil {
		t.Fatal(err)
	}
	o := tool.as(kubeconfig)
	for _, helm := range []string{o.helm, o.helm3} {
		_, _, err := o.run(t.Context(), helm, "install", "ccm", manifests.ChartDir, "--namespace", kubeSystem,
			"--set", "metrics.enabled=true,metrics.serviceMonitor.enabled=true")
		if err == nil || !strings.Contains(err.Error(), `no matches for kind "ServiceMonitor"`) {
			t.Errorf("%s does not refuse it: %v", helm, err)
		}
		made := o.must(t, o.kubectl, "-n", kubeSystem, "get", "daemonsets,serviceaccounts,services", "-l", "app.kubernetes.io/instance=ccm", "-o", "name")
		if made != "" {
			t.Errorf("%s made\n%s", helm, made)
		}
	}
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

// get asks the manager for a path, as Prometheus does.
func (m *installed) get(ctx context.Context, path, token string) (int, string, error) {
	return ccmlab.Get(ctx, "https://"+net.JoinHostPort(m.address, m.port)+path, token)
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
	cloud, _ := ccmtest.Account(t, "10.0.0.21")
	m.address = server.Host() // where a test may listen, instead of on all
	m.process, err = process.Start(process.Options{
		Name: manager, Path: m.program, Dir: dir, Output: filepath.Join(dir, "log"),
		Args: append(args, "--kubeconfig="+file, "--authentication-kubeconfig="+file, "--authorization-kubeconfig="+file,
			"--cloud-config="+ccmtest.CloudConfig(t, cloud, dir), "--bind-address="+m.address, "--cert-dir="+filepath.Join(dir, "certificates")),
		Env: ccmtest.Environment(cloud, manager),
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, manager, filepath.Join(dir, "log"))
	t.Cleanup(m.process.Kill)
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
