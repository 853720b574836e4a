package ccm

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// library is what an author's program is built on. Both take the same.
type library struct {
	name    string
	command func(*options.CloudControllerManagerOptions, app.InitCloudFunc, map[string]app.ControllerInitFuncConstructor, map[string]string, cliflag.NamedFlagSets,
		<-chan struct{}) *cobra.Command
}

var libraries = []library{{"upstream", app.NewCloudControllerManagerCommand}, {"ours", NewCloudControllerManagerCommand}}

// newAuthorsServer returns an API server that upstream's library finds healthy.
func newAuthorsServer(t *testing.T) *apitest.Server {
	server := apitest.New(t)
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		healthy := r.URL.Path == "/healthz"
		if healthy {
			_, _ = io.WriteString(w, "ok")
		}
		return healthy
	}
	return server
}

// start runs an author's program against an API server, with one import or the other. Upstream's can be ended only without leader election: with it, it ends
// the whole process.
func (l library) start(
	t *testing.T,
	server *apitest.Server,
	cloud cloudprovider.Interface,
	constructors map[string]app.ControllerInitFuncConstructor,
	args ...string,
) *manager {
	t.Helper()
	return l.startWith(t, server, func(*config.CompletedConfig) cloudprovider.Interface { return cloud }, constructors, args...)
}

// startWith is start with a function that makes the provider.
func (l library) startWith(
	t *testing.T,
	server *apitest.Server,
	initCloud app.InitCloudFunc,
	constructors map[string]app.ControllerInitFuncConstructor,
	args ...string,
) *manager {
	t.Helper()
	opts, url := servingOptions(t)
	stopped := make(chan struct{})
	m := &manager{t: t, url: url, stop: sync.OnceFunc(func() { close(stopped) }), ended: make(chan error, 1)}
	command := l.command(
		opts,
		initCloud,
		constructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		stopped,
	)
	command.SetArgs(append([]string{
		"--cloud-provider=test", "--kubeconfig=" + server.Kubeconfig(t), "--webhook-secure-port=0", "--authorization-always-allow-paths=/healthz,/readyz,/metrics",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms",
	}, args...))
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetOut(io.Discard)
	go func() { m.ended <- command.ExecuteContext(context.Background()) }()
	t.Cleanup(func() {
		m.stop()
		configz.Delete(ConfigzName) // upstream leaves it
	})
	return m
}

// alone is the argument with which upstream's can be ended. Ours is tried with a lease.
func (l library) alone() []string {
	if l.name == "upstream" {
		return []string{"--leader-elect=false"}
	}
	return nil
}

// authored is a provider as authors make them: a type of its own, which does something when it is started.
type authored struct {
	provider
	initialize   func(cloudprovider.ControllerClientBuilder, <-chan struct{})
	setInformers func(informers.SharedInformerFactory)
	balancers    cloudprovider.LoadBalancer
}

var _ cloudprovider.InformerUser = (*authored)(nil)

func (a *authored) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if a.initialize != nil {
		a.initialize(clients, stop)
	}
	a.provider.Initialize(clients, stop)
}

func (a *authored) SetInformers(factory informers.SharedInformerFactory) {
	if a.setInformers != nil {
		a.setInformers(factory)
	}
}

// LoadBalancer says that there are balancers also before there are, as that of vSphere paravirtual does.
func (a *authored) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return a.balancers, true }

// starts reports how often the provider was initialised.
func (a *authored) starts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.initialised
}

// authorsController is a controller of an author: what its constructor and its InitFunc do.
func authorsController(construct func(*config.CompletedConfig, cloudprovider.Interface),
	start func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool,
) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "authored"},
		Constructor: func(_ app.ControllerInitContext, completed *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
			if construct != nil {
				construct(completed, cloud)
			}
			return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
				return nil, start(ctx, completed, cloud, controllerContext), nil
			}
		},
	}
}
