package ccm

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/options"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// bearers refuses requests without a token, and those with the old one once another is valid. It notes what the others ask for.
type bearers struct {
	mu    sync.Mutex
	valid string
	used  map[string]bool // "token: METHOD path"
}

func (b *bearers) intercept(w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if bearer == "" || bearer == "old" && b.valid != "old" {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	b.used[bearer+": "+r.Method+" "+r.URL.Path] = true
	return false
}

func (b *bearers) accept(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.valid = token
}

// awaitUse waits until a token was used for a request.
func (b *bearers) awaitUse(t *testing.T, token, request string) {
	t.Helper()
	await(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used[token+": "+request]
	}, func() string { return "no " + request + " with the token " + token })
}

// newBearers returns an API server that accepts one token, and a kubeconfig that names the file that this token is in. It speaks
// TLS: clientcmd sends no token without.
func newBearers(t *testing.T) (server *apitest.Server, b *bearers, kubeconfig, file string) {
	t.Helper()
	server, b, file = apitest.New(t), &bearers{valid: "old", used: map[string]bool{}}, filepath.Join(t.TempDir(), "token")
	server.Intercept = b.intercept
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := apitest.OverTLS(t, server, apitest.User, clientcmdapi.AuthInfo{TokenFile: file})
	return server, b, apitest.WriteKubeconfig(t, c), file
}

// renew replaces the token in the file, and has the server refuse the old one at once.
func (b *bearers) renew(t *testing.T, file string) {
	t.Helper()
	if err := wholefile.Write(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.accept("new")
}

const mainLeasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + mainLeaseName

func TestALeaderWhoseOldTokenIsRefusedRightAfterARenewalStaysLeader(t *testing.T) {
	for name, args := range map[string][]string{
		"with its own credentials":           nil,
		"with a ServiceAccount a controller": {"--use-service-account-credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			server, b, kubeconfig, file := newBearers(t)
			w := newWorker("work")
			m := run(t, server, &provider{}, map[string]*worker{"work": w}, append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
			leading := w.leads(t)
			b.awaitUse(t, "old", "PUT "+mainLeasePath)
			b.awaitUse(t, "old", "GET /api/v1/nodes")
			b.renew(t, file)
			b.awaitUse(t, "new", "PUT "+mainLeasePath)
			if leading.Err() != nil {
				t.Error("the leader has lost its lease")
			}
			if err := m.end(); err != nil {
				t.Errorf("the manager returns %v", err)
			}
		})
	}
}

func TestEachClientOfAConfigurationReadsARenewedTokenOnceTheOldOneIsRefused(t *testing.T) {
	for name, credentials := range map[string]bool{"one account": false, "an account a controller": true} {
		t.Run(name, func(t *testing.T) {
			server, b, kubeconfig, file := newBearers(t)
			c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) {
				o.Generic.ClientConnection.Kubeconfig, o.KubeCloudShared.UseServiceAccountCredentials = kubeconfig, credentials
			})
			t.Cleanup(c.EventBroadcaster.Shutdown)
			if used := useTokenSource(c.Kubeconfig); used != file {
				t.Fatalf("the token file is %q", used)
			}
			if err := remakeClients(c); err != nil {
				t.Fatal(err)
			}
			lease, err := leaseClient(c.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			reads := map[string]func() error{
				"Client": func() error {
					_, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
					return err
				},
				"VersionedClient": func() error {
					_, err := c.VersionedClient.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
					return err
				},
				"lease": func() error {
					_, err := lease.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
					return err
				},
				"ClientBuilder": func() error {
					_, err := c.ClientBuilder.Config("test") // with an account a controller this makes the account
					return err
				},
			}
			for name, read := range reads {
				if err := read(); err != nil {
					t.Errorf("%s with the old token: %v", name, err)
				}
			}
			b.renew(t, file)
			_ = reads["Client"]() // is refused: this one request is lost, and no other
			for name, read := range reads {
				if err := read(); err != nil {
					t.Errorf("%s with the new token: %v", name, err)
				}
			}
		})
	}
}

func TestRunOfAnAuthorsCommandReadsARenewedTokenOnceTheOldOneIsRefused(t *testing.T) {
	server, b, kubeconfig, file := newBearers(t)
	c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) {
		o.Generic.ClientConnection.Kubeconfig = kubeconfig
	})
	w := newWorker("mine")
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		init := w.constructor().Constructor(ControllerInitContext{}, c, &provider{})
		ended <- Run(c, &provider{}, map[string]app.InitFunc{"mine": init}, nil, stop)
	}()
	w.leads(t)
	b.awaitUse(t, "old", "PUT "+mainLeasePath)
	b.renew(t, file)
	b.awaitUse(t, "new", "PUT "+mainLeasePath)
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("Run returns %v", err)
	}
}
