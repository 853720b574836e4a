package ccm

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/metrics/testutil"
	genericcontrollermanager "k8s.io/controller-manager/app"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/apitest"
)

// newAuthorsConfig is the configuration that an author's own command makes.
func newAuthorsConfig(t *testing.T, server *apitest.Server, change func(*options.CloudControllerManagerOptions)) *config.CompletedConfig {
	t.Helper()
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	opts.Generic.ClientConnection.Kubeconfig, opts.KubeCloudShared.CloudProvider.Name = server.Kubeconfig(t), "test"
	opts.SecureServing.BindPort, opts.WebhookServing.BindPort = 0, 0
	leases := &opts.Generic.LeaderElection
	leases.LeaseDuration.Duration, leases.RenewDeadline.Duration, leases.RetryPeriod.Duration = 3*time.Second, 2*time.Second, 200*time.Millisecond
	change(opts)
	made, err := opts.Config(
		[]string{"mine", names.ServiceLBController},
		ControllersDisabledByDefault.List(),
		names.CCMControllerAliases(),
		AllWebhooks,
		DisabledByDefaultWebhooks,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { configz.Delete(ConfigzName) })
	return made.Complete()
}

func TestAnAuthorsCommandMayCallRun(t *testing.T) {
	for _, library := range []struct {
		name         string
		run          func(*config.CompletedConfig, cloudprovider.Interface, map[string]app.InitFunc, map[string]app.WebhookHandler, <-chan struct{}) error
		constructors map[string]app.ControllerInitFuncConstructor
	}{{"upstream", app.Run, app.DefaultInitFuncConstructors}, {"ours", Run, DefaultInitFuncConstructors}} {
		t.Run(library.name, func(t *testing.T) {
			server := newAuthorsServer(t)
			server.Put(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
			})
			ensured := make(chan string, 10)
			cloud := &authored{balancers: balancers{ensured: ensured}}
			c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) { o.Generic.LeaderElection.LeaderElect = false })
			inits := app.ConstructControllerInitializers(
				map[string]app.ControllerInitFuncConstructor{names.ServiceLBController: library.constructors[names.ServiceLBController]},
				c,
				cloud,
			)
			stop, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- library.run(c, cloud, inits, nil, stop) }()
			if got := receive(t, ensured); got != "web" {
				t.Errorf("the load balancer of %s is ensured", got)
			}
			close(stop)
			if err := receive(t, ended); err != nil {
				t.Errorf("told to end, Run returns %v", err)
			}
		})
	}
}

func TestRunKeepsAnAuthorsWritesToTheTimeOfItsLeases(t *testing.T) {
	server := newAuthorsServer(t)
	kube, _ := server.Clients(t)
	c := newAuthorsConfig(t, server, func(*options.CloudControllerManagerOptions) {})
	write := func(name string) error {
		_, err := c.ClientBuilder.ClientOrDie("mine").
			CoreV1().
			ConfigMaps("default").
			Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	leads := make(chan error, 1)
	inits := map[string]app.InitFunc{"mine": authorsController(nil,
		func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
			leads <- write("leading")
			return true
		}).Constructor(ControllerInitContext{}, c, nil)}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, &authored{}, inits, nil, stop) }()
	if err := receive(t, leads); err != nil {
		t.Errorf("under its lease an author's write is refused: %v", err)
	}
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	if err := write("over"); !errors.Is(err, election.ErrFenced) {
		t.Errorf("after the lease was released, a write returns %v", err)
	}
	if h := holder(t, kube, mainLeaseName); h != "" {
		t.Errorf("the lease is held by %q", h)
	}
}

func TestRunSendsNoEventOfAnAuthorsWithoutALease(t *testing.T) {
	server := newAuthorsServer(t)
	server.Put(t, held(mainLeaseName, "another"))
	healthy := server.Intercept
	events, looks := make(chan string, 10), make(chan struct{}, 1000)
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
			events <- r.URL.Path
		case strings.HasSuffix(r.URL.Path, "/leases/"+mainLeaseName):
			looks <- struct{}{}
		}
		return healthy(w, r)
	}
	c := newAuthorsConfig(t, server, func(*options.CloudControllerManagerOptions) {})
	recorder := c.EventRecorder // as an InitFunc gets it, before Run is called
	idle := authorsController(nil, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
		return true
	})
	inits := map[string]app.InitFunc{"mine": idle.Constructor(ControllerInitContext{}, c, nil)}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, &authored{}, inits, nil, stop) }()
	receive(t, looks)
	recorder.Event(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}, corev1.EventTypeNormal, "Mine", "on standby")
	for range 5 { // five more looks at the lease take a second; an event that is sent takes milliseconds
		receive(t, looks)
	}
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	select {
	case path := <-events:
		t.Errorf("an event is sent on standby: %s", path)
	default:
	}
}

func TestRunReadsLeaderMigrationAsTheCommandDoes(t *testing.T) {
	server := newAuthorsServer(t)
	server.Put(t, held(migrationLeaseName, "kube-controller-manager"))
	started := make(chan string, 2)
	inits := map[string]app.InitFunc{}
	for _, name := range []string{"mine", names.ServiceLBController} {
		inits[name] = authorsController(
			nil,
			func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
				started <- name
				return true
			},
		).Constructor(ControllerInitContext{}, nil, nil)
	}
	c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) { o.Generic.LeaderMigration.Enabled = true })
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, &authored{}, inits, nil, stop) }()
	if got := receive(t, started); got != "mine" {
		t.Errorf("%s runs next to kube-controller-manager's", got)
	}
	server.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + migrationLeaseName)
	if got := receive(t, started); got != names.ServiceLBController {
		t.Errorf("then %s starts", got)
	}
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

func TestRunReturnsAnErrorWhenItsLeaseIsLost(t *testing.T) {
	server := newAuthorsServer(t)
	leads := make(chan struct{}, 1)
	ended := make(chan error, 1)
	c := newAuthorsConfig(t, server, func(*options.CloudControllerManagerOptions) {})
	go func() { ended <- Run(c, &authored{}, told(c, leads), nil, nil) }()
	receive(t, leads)
	server.Put(t, held(mainLeaseName, "somebody else"))
	if err := receive(t, ended); !errors.Is(err, election.ErrLost) {
		t.Errorf("Run returns %v, want that leadership is lost", err)
	}
}

// An author may have added a controller to the shared map of defaults. It is the author's all the same.
func TestRunTellsOfAnAuthorsControllerThatDeclines(t *testing.T) {
	DefaultInitFuncConstructors["mine"] = app.ControllerInitFuncConstructor{}
	defer delete(DefaultInitFuncConstructors, "mine")
	c := newAuthorsConfig(t, newAuthorsServer(t), func(*options.CloudControllerManagerOptions) {})
	declines := authorsController(nil, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
		return false
	})
	inits := map[string]app.InitFunc{"mine": declines.Constructor(ControllerInitContext{}, c, nil)}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, &authored{}, inits, nil, stop) }()
	await(t, func() bool {
		skipped, err := testutil.GetGaugeMetricValue(controllerSkipped.WithLabelValues("mine"))
		return err == nil && skipped == 1
	}, func() string { return "no metric says that the controller does not run" })
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// told are InitFuncs of a controller that tells when it is started.
func told(c *config.CompletedConfig, started chan<- struct{}) map[string]app.InitFunc {
	return map[string]app.InitFunc{"mine": authorsController(nil,
		func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
			started <- struct{}{}
			return true
		}).Constructor(ControllerInitContext{}, c, nil)}
}

func TestRunLeavesSignalsToItsProgram(t *testing.T) {
	server := newAuthorsServer(t)
	looks, healthy := make(chan struct{}, 1000), server.Intercept
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/leases/"+mainLeaseName) {
			looks <- struct{}{}
		}
		return healthy(w, r)
	}
	theirs := make(chan os.Signal, 1)
	signal.Notify(theirs, syscall.SIGTERM)
	defer signal.Stop(theirs)
	leads, stop, ended := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	c := newAuthorsConfig(t, server, func(*options.CloudControllerManagerOptions) {})
	go func() { ended <- Run(c, &authored{}, told(c, leads), nil, stop) }()
	receive(t, leads)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	receive(t, theirs)
	for len(looks) > 0 {
		<-looks
	}
	for range 3 { // it goes on renewing its lease
		receive(t, looks)
	}
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

func TestRunKeepsTheClientLimitsOfItsOptions(t *testing.T) {
	server := newAuthorsServer(t)
	c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) {
		o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = 20, 30
	})
	limits := make(chan *rest.Config, 1)
	inits := map[string]app.InitFunc{"mine": authorsController(nil,
		func(_ context.Context, c *config.CompletedConfig, _ cloudprovider.Interface, _ genericcontrollermanager.ControllerContext) bool {
			limits <- c.ClientBuilder.ConfigOrDie("mine")
			return true
		}).Constructor(ControllerInitContext{}, c, nil)}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, &authored{}, inits, nil, stop) }()
	if got := receive(t, limits); got.QPS != 20 || got.Burst != 30 {
		t.Errorf("under Run a client may send %v requests a second, and %d at once", got.QPS, got.Burst)
	}
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// It is off by default in the command, which has --controllers to turn it on.
func TestRunStartsOurNodeIPAMControllerIfItIsGiven(t *testing.T) {
	server := newAuthorsServer(t)
	server.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) {
		o.KubeCloudShared.AllocateNodeCIDRs, o.KubeCloudShared.ClusterCIDR = true, "10.120.0.0/16"
	})
	cloud := &authored{}
	inits := app.ConstructControllerInitializers(map[string]app.ControllerInitFuncConstructor{NodeIPAMController: NodeIPAMConstructor()}, c, cloud)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(c, cloud, inits, nil, stop) }()
	await(t, func() bool { return server.Field("/api/v1/nodes/a", "spec", "podCIDR") != "" }, func() string { return "the node gets no pod CIDR" })
	close(stop)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// What an author finds in upstream's packages is in ours, under the same name.
func TestNothingOfUpstreamsIsMissing(t *testing.T) {
	for upstreams, ours := range map[string]string{"k8s.io/cloud-provider/app": ".", "k8s.io/cloud-provider/app/testing": "./testing"} {
		listed, err := exec.Command("go", "list", "-f", "{{.Dir}}", upstreams).Output()
		if err != nil {
			t.Fatalf("looking for the source of %s: %v", upstreams, err)
		}
		have := exported(t, ours)
		for name := range exported(t, strings.TrimSpace(string(listed))) {
			if !have[name] {
				t.Errorf("%s has %s, and %s has not", upstreams, name, ours)
			}
		}
	}
}

// exported are the exported names of a package's directory, without methods.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	note := func(name *ast.Ident) {
		if name.IsExported() {
			names[name.Name] = true
		}
	}
	for _, declared := range declarations(t, dir, false) {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				note(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					note(s.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						note(name)
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s exports nothing", dir)
	}
	return names
}

// declarations are those of a directory's tests, or of its other files.
func declarations(t *testing.T, dir string, tests bool) (all []ast.Decl) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != tests {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsed.Decls...)
	}
	return all
}
