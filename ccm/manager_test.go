package ccm

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/apitest"
)

const (
	mainLeaseName      = "cloud-controller-manager"
	migrationLeaseName = "cloud-provider-extraction-migration"
	// patience is how long a test waits for what has to happen.
	patience = 20 * time.Second
)

// provider is a cloud that can be asked one thing, whether it answers.
type provider struct {
	probe func(context.Context) error
	early bool // it is started before a lease is held

	mu          sync.Mutex
	initialised int
}

func (p *provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.initialised++
}

func (p *provider) StartsEarly() bool { return p.early }

func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

func (p *provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func (p *provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (p *provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (p *provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

func (p *provider) ProviderName() string { return "test" }

func (p *provider) HasClusterID() bool { return true }

// Probe is the question of cloud.Prober.
func (p *provider) Probe(ctx context.Context) error {
	if p.probe == nil {
		return nil
	}
	return p.probe(ctx)
}

// worker is a controller of an author that does something until its lease ends, and then for a while more.
type worker struct {
	name    string
	started chan context.Context
	finish  chan struct{}                // it ends once its context has ended and this is closed; nil for at once
	stuck   error                        // what its health check says
	fails   error                        // what its InitFunc returns
	health  healthz.UnnamedHealthChecker // instead of its own
}

func newWorker(name string) *worker {
	return &worker{name: name, started: make(chan context.Context, 1)}
}

func (w *worker) Name() string { return w.name }

func (w *worker) HealthChecker() healthz.UnnamedHealthChecker {
	if w.health != nil {
		return w.health
	}
	return w
}

func (w *worker) Check(*http.Request) error { return w.stuck }

func (w *worker) constructor() ControllerInitFuncConstructor {
	return ControllerInitFuncConstructor{
		InitContext: ControllerInitContext{ClientName: w.name},
		Constructor: func(ControllerInitContext, *config.CompletedConfig, cloudprovider.Interface) InitFunc {
			return func(ctx context.Context, _ genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
				if w.fails != nil {
					return nil, false, w.fails
				}
				Go(ctx, func(ctx context.Context) {
					w.started <- ctx
					<-ctx.Done()
					if w.finish != nil {
						<-w.finish
					}
				})
				return w, true, nil
			}
		},
	}
}

// manager is a command that runs.
type manager struct {
	t     *testing.T
	url   string
	stop  func()
	ended chan error
}

// servingOptions returns options of a manager that serves on a free port, and its address.
func servingOptions(t *testing.T) (*options.CloudControllerManagerOptions, string) {
	t.Helper()
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts.SecureServing.Listener = listener
	return opts, "https://" + listener.Addr().String()
}

// run starts a manager of workers, under the names of upstream's controllers or others, against an API server. Anybody may
// ask for its health and its metrics.
func run(t *testing.T, server *apitest.Server, cloud cloudprovider.Interface, workers map[string]*worker, args ...string) *manager {
	t.Helper()
	return runClosed(t, server, cloud, workers, append([]string{"--authorization-always-allow-paths=/healthz,/healthz/*,/livez,/readyz,/metrics"}, args...)...)
}

// runClosed is run with the paths open that are open by default.
func runClosed(t *testing.T, server *apitest.Server, cloud cloudprovider.Interface, workers map[string]*worker, args ...string) *manager {
	t.Helper()
	constructors := map[string]ControllerInitFuncConstructor{}
	for name, w := range workers {
		constructors[name] = w.constructor()
	}
	return runConstructors(t, server, cloud, constructors, args...)
}

func runConstructors(
	t *testing.T, server *apitest.Server, cloud cloudprovider.Interface, constructors map[string]ControllerInitFuncConstructor, args ...string,
) *manager {
	t.Helper()
	opts, url := servingOptions(t)
	stopped := make(chan struct{})
	m := &manager{t: t, url: url, stop: sync.OnceFunc(func() { close(stopped) }), ended: make(chan error, 1)}
	command := NewCloudControllerManagerCommand(opts, func(*config.CompletedConfig) cloudprovider.Interface { return cloud },
		constructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, stopped)
	command.SetArgs(append([]string{
		"--cloud-provider=test",
		"--kubeconfig=" + server.Kubeconfig(t),
		"--webhook-secure-port=0",
		"--leader-elect-lease-duration=3s",
		"--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=200ms",
	}, args...))
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetOut(io.Discard)
	go func() { m.ended <- command.ExecuteContext(context.Background()) }()
	t.Cleanup(m.stop)
	return m
}

// get asks for a path, and returns the status and the body, or 0 while nothing is served.
func (m *manager) get(path string) (int, string) {
	return answerOf(anyCertificate.Get(m.url + path))
}

// anyCertificate is a client for managers, which make their certificates themselves.
var anyCertificate = &http.Client{
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: 5 * time.Second,
}

func answerOf(response *http.Response, err error) (int, string) {
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// until waits until a path is answered with a status and a text.
func (m *manager) until(path string, status int, text string) {
	m.t.Helper()
	var code int
	var body string
	await(m.t, func() bool {
		code, body = m.get(path)
		return code == status && strings.Contains(body, text)
	}, func() string { return fmt.Sprintf("%s answers %d %q, want %d with %q", path, code, body, status, text) })
}

// end tells the manager to end, and returns what the command returned.
func (m *manager) end() error {
	m.t.Helper()
	m.stop()
	return m.wait()
}

func (m *manager) wait() error {
	m.t.Helper()
	select {
	case err := <-m.ended:
		return err
	case <-time.After(patience):
		m.t.Fatal("the manager does not end")
		return nil
	}
}

// await polls a condition that becomes true by what other goroutines do.
func await(t *testing.T, condition func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal(what())
		}
	}
}

// leads waits until a worker runs, and returns its context.
func (w *worker) leads(t *testing.T) context.Context {
	t.Helper()
	select {
	case ctx := <-w.started:
		return ctx
	case <-time.After(patience):
		t.Fatalf("%s does not start", w.name)
		return nil
	}
}

func holder(t *testing.T, kube kubernetes.Interface, lease string) string {
	t.Helper()
	l, err := kube.CoordinationV1().Leases("kube-system").Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		return "none"
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// held is a lease that somebody else holds.
func held(name, holder string) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](1),
		},
	}
}
