package conformance

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/internal/apitest"
)

// managerScenario is something that a whole manager does, with its flags and leases: what it returns is compared.
type managerScenario struct {
	name  string
	meant Difference
	run   func(t *testing.T, m *authorsManager) []string
}

// authorsManager is a program with a controller of its author's next to the service controller.
type authorsManager struct {
	server      *apitest.Server
	provider    *managedCloud
	constructed func(*config.CompletedConfig)
	started     chan context.Context // of the author's controller
	config      *config.CompletedConfig
	command     func(*options.CloudControllerManagerOptions, app.InitCloudFunc, map[string]app.ControllerInitFuncConstructor, map[string]string,
		cliflag.NamedFlagSets, <-chan struct{}) *cobra.Command
	constructors map[string]app.ControllerInitFuncConstructor

	stop  func()
	ended chan error
}

// managedCloud tells of its start, and lets a test answer for EnsureLoadBalancer.
type managedCloud struct {
	simulated
	stopped <-chan struct{}
	ensure  func([]*corev1.Node)
}

func (c *managedCloud) Initialize(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.stopped = stop
}

func (c *managedCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *managedCloud) EnsureLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	c.ensure(nodes)
	return c.simulated.EnsureLoadBalancer(ctx, cluster, s, nodes)
}

func newAuthorsManager(t *testing.T, l library) *authorsManager {
	t.Helper()
	m := &authorsManager{server: apitest.New(t), provider: &managedCloud{simulated: simulated{&Cloud{}}}, started: make(chan context.Context, 1)}
	m.server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		healthy := r.URL.Path == "/healthz"
		if healthy {
			_, _ = io.WriteString(w, "ok")
		}
		return healthy
	}
	m.command, m.constructors = app.NewCloudControllerManagerCommand, l.constructors
	if l.guards {
		m.command = ccm.NewCloudControllerManagerCommand
	}
	return m
}

// start runs the program without leader election: upstream's ends the whole process with it.
func (m *authorsManager) start(t *testing.T) {
	t.Helper()
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	opts.SecureServing.ServerCert.CertDirectory = t.TempDir()
	opts.SecureServing.BindPort, opts.WebhookServing.BindPort = 0, 0
	told := make(chan struct{})
	m.stop, m.ended = sync.OnceFunc(func() { close(told) }), make(chan error, 1)
	constructors := map[string]app.ControllerInitFuncConstructor{
		names.ServiceLBController: m.constructors[names.ServiceLBController],
		"mine": {Constructor: func(_ app.ControllerInitContext, c *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
			m.config = c
			if m.constructed != nil {
				m.constructed(c)
			}
			return func(ctx context.Context, _ genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
				m.started <- ctx
				return nil, true, nil
			}
		}},
	}
	command := m.command(opts, func(*config.CompletedConfig) cloudprovider.Interface { return m.provider }, constructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, told)
	command.SetArgs([]string{
		"--cloud-provider=test", "--kubeconfig=" + m.server.Kubeconfig(t), "--webhook-secure-port=0", "--secure-port=0",
		"--leader-elect=false",
	})
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetOut(io.Discard)
	go func() { m.ended <- command.ExecuteContext(t.Context()) }()
	t.Cleanup(func() {
		m.stop()
		configz.Delete("cloudcontrollermanager.config.k8s.io") // upstream leaves it
		logNothing()                                           // a manager's flags have set its own logger
	})
}

func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing has happened for a minute")
	}
	return value
}

// end tells the manager to end, and waits until it has.
func (m *authorsManager) end(t *testing.T) {
	t.Helper()
	m.stop()
	if err := receive(t, m.ended); err != nil {
		t.Error(err)
	}
}

var managerScenarios = []managerScenario{
	{"a manager: it is told to end during a call", OneLifeOfTheProvider, func(t *testing.T, m *authorsManager) []string {
		m.server.Put(t, NewMember("a"), NewService("web"))
		calling, answer, seen := make(chan struct{}), make(chan struct{}), make(chan string, 1)
		once := sync.OnceFunc(func() {
			close(calling)
			<-answer
			select {
			case <-m.provider.stopped:
				seen <- "the provider is told to end while a call is under way"
			default:
				seen <- "the provider is not told to end while a call is under way"
			}
		})
		m.provider.ensure = func([]*corev1.Node) { once() }
		m.start(t)
		ctx := receive(t, m.started)
		receive(t, calling)
		m.stop()
		receive(t, ctx.Done()) // and so the manager is ending
		close(answer)
		observed := receive(t, seen)
		m.end(t)
		return []string{observed}
	}},
	{"a manager: its author transforms what informers keep", CachesOfTheirOwn, func(t *testing.T, m *authorsManager) []string {
		m.server.Put(t, NewMember("a"), NewMember("b"), NewService("web"))
		m.constructed = func(c *config.CompletedConfig) {
			err := c.SharedInformers.Core().V1().Nodes().Informer().SetTransform(func(o any) (any, error) {
				if n, ok := o.(*corev1.Node); ok && n.Name == "b" {
					metav1.SetMetaDataLabel(&n.ObjectMeta, excluded, "")
				}
				return o, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		members := make(chan string, 10)
		m.provider.ensure = func(nodes []*corev1.Node) { members <- hosts(nodes) }
		m.start(t)
		observed := receive(t, members)
		m.end(t)
		return []string{"the load balancer has the members " + observed}
	}},
	{"a manager: its author's controller writes after the end", WorkOnlyWithALease, func(t *testing.T, m *authorsManager) []string {
		m.start(t)
		receive(t, m.started)
		write := func(name string) string {
			_,
				err := m.config.ClientBuilder.ClientOrDie("mine").CoreV1().ConfigMaps(namespace).Create(context.WithoutCancel(t.Context()),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				return name + " is refused"
			}
			return name + " is written"
		}
		observed := []string{write("at-work")}
		m.end(t)
		return append(observed, write("after-the-end"))
	}},
}

// runManagers runs the scenarios of whole managers.
func runManagers(t *testing.T) (results []Result) {
	t.Helper()
	for _, s := range managerScenarios {
		t.Run(s.name, func(t *testing.T) {
			var did [2][]string
			for i, l := range []library{upstreams, ours} {
				t.Run(l.name, func(t *testing.T) { did[i] = s.run(t, newAuthorsManager(t, l)) })
			}
			r := Result{Scenario: Scenario{Name: s.name, Controller: "all", Meant: s.meant}, Upstream: Observed{Events: did[0]}, Ours: Observed{Events: did[1]}}
			if !slices.Equal(did[0], did[1]) {
				r.Differences = []string{"upstream: " + strings.Join(did[0], ", ") + "; ours: " + strings.Join(did[1], ", ")}
				t.Log(r.Differences[0])
			} else if !t.Failed() {
				t.Errorf("both do the same, but this is to be different: %s", s.meant)
			}
			results = append(results, r)
		})
	}
	return results
}
