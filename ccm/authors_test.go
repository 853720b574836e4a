package ccm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	genericcontrollermanager "k8s.io/controller-manager/app"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/apitest"
)

// What authors of other cloud-controller-managers do, and upstream's library does with it.

func TestAnAuthorsOwnNodeIPAMControllerRuns(t *testing.T) {
	if app.ControllersDisabledByDefault.Has(NodeIPAMController) {
		t.Errorf("importing this package turns the %s of every author off", NodeIPAMController)
	}
	server := apitest.New(t)
	w := newWorker(NodeIPAMController)
	m := run(t, server, &provider{}, map[string]*worker{NodeIPAMController: w})
	w.leads(t)
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestOnlyOurNodeIPAMControllerIsOffByDefault(t *testing.T) {
	help := func(constructor ControllerInitFuncConstructor) string {
		opts, err := options.NewCloudControllerManagerOptions()
		if err != nil {
			t.Fatal(err)
		}
		command := NewCloudControllerManagerCommand(opts, func(*config.CompletedConfig) cloudprovider.Interface { return nil },
			map[string]ControllerInitFuncConstructor{NodeIPAMController: constructor}, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, nil)
		command.SetOut(io.Discard)
		usage := command.Flags().Lookup("controllers").Usage
		_, off, _ := strings.Cut(usage, "Disabled-by-default controllers: ")
		return off
	}
	if off := help(NodeIPAMConstructor()); off != NodeIPAMController {
		t.Errorf("with ours, %q is disabled by default", off)
	}
	if off := help(newWorker(NodeIPAMController).constructor()); off != "" {
		t.Errorf("with an author's, %q is disabled by default", off)
	}
}

func TestAnAuthorsTypeSurvives(t *testing.T) {
	for _, library := range libraries {
		t.Run(library.name, func(t *testing.T) {
			server := newAuthorsServer(t)
			seen := make(chan string, 2)
			look := func(where string, cloud cloudprovider.Interface) {
				if _, mine := cloud.(*authored); !mine {
					where = fmt.Sprintf("%s: a %T", where, cloud)
				}
				seen <- where
			}
			m := library.start(t, server, &authored{}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(func(_ *config.CompletedConfig, cloud cloudprovider.Interface) { look("constructor", cloud) },
					func(_ context.Context, _ *config.CompletedConfig, cloud cloudprovider.Interface, _ genericcontrollermanager.ControllerContext) bool {
						look("InitFunc", cloud)
						return true
					}),
			}, "--leader-elect=false")
			for _, want := range []string{"constructor", "InitFunc"} {
				if got := receive(t, seen); got != want {
					t.Errorf("the controller finds %s, want its own type in its %s", got, want)
				}
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInformersAreStartedAfterInitFuncs(t *testing.T) {
	for _, library := range libraries {
		t.Run(library.name, func(t *testing.T) {
			server := newAuthorsServer(t)
			server.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"heavy": "yes"}}})
			errs, seen := make(
				chan error,
				1,
			), map[string]chan *corev1.Node{
				"SharedInformers": make(chan *corev1.Node, 100),
				"InformerFactory": make(chan *corev1.Node, 100),
			}
			equip := func(factory informers.SharedInformerFactory, nodes chan *corev1.Node) error {
				informer := factory.Core().V1().Nodes().Informer()
				_, err := informer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
					UpdateFunc: func(_, node any) { // nothing changes the node: only a resync calls this
						select {
						case nodes <- node.(*corev1.Node):
						default:
						}
					},
				}, time.Second)
				return errors.Join(err,
					informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}),
					informer.SetTransform(func(object any) (any, error) {
						object.(*corev1.Node).Labels = nil
						return object, nil
					}))
			}
			m := library.start(t, server, &authored{}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(
					nil,
					func(_ context.Context, c *config.CompletedConfig, _ cloudprovider.Interface, g genericcontrollermanager.ControllerContext) bool {
						errs <- errors.Join(equip(c.SharedInformers, seen["SharedInformers"]), equip(g.InformerFactory, seen["InformerFactory"]))
						return true
					},
				),
			}, library.alone()...)
			if err := receive(t, errs); err != nil {
				t.Errorf("an InitFunc cannot set up its informers: %v", err)
			}
			for name, nodes := range seen {
				if node := receive(t, nodes); len(node.Labels) > 0 {
					t.Errorf("%s: the transform has not seen the node", name)
				}
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAProviderIsStartedUnderALease(t *testing.T) {
	server := newAuthorsServer(t)
	kube, _ := server.Clients(t)
	type start struct {
		err  error
		stop <-chan struct{}
	}
	newProvider := func(name string) (*authored, chan start) {
		started := make(chan start, 1)
		return &authored{initialize: func(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
			_, err := clients.ClientOrDie("mine").CoreV1().ConfigMaps("kube-system").Create(context.Background(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			started <- start{err, stop}
		}}, started
	}
	newController := func() (map[string]app.ControllerInitFuncConstructor, *worker) {
		w := newWorker("mine")
		return map[string]app.ControllerInitFuncConstructor{"mine": w.constructor()}, w
	}
	ours := libraries[1]

	first, firstStart := newProvider("first")
	constructors, w := newController()
	w.finish = make(chan struct{})
	a := ours.start(t, server, first, constructors)
	begun := receive(t, firstStart)
	if begun.err != nil {
		t.Errorf("a provider that writes in Initialize is refused: %v", begun.err)
	}
	w.leads(t)
	a.until("/readyz", http.StatusOK, "ok")

	second, secondStart := newProvider("second")
	constructors, standby := newController()
	b := ours.start(t, server, second, constructors)
	b.until("/readyz", http.StatusOK, "ok") // on standby
	if second.starts() > 0 || server.Get(t, "/api/v1/namespaces/kube-system/configmaps/second", &corev1.ConfigMap{}) {
		t.Error("the provider is started on standby")
	}

	a.stop()
	a.until("/readyz", http.StatusInternalServerError, "the process is ending")
	select {
	case <-begun.stop:
		t.Error("the provider's loops end while a controller brings its work to an end")
	default:
	}
	released := make(chan string, 1)
	go func() {
		<-begun.stop
		released <- holder(t, kube, mainLeaseName)
	}()
	close(w.finish)
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	receive(t, released)
	if begun := receive(t, secondStart); begun.err != nil {
		t.Errorf("the next leader's provider is refused: %v", begun.err)
	}
	standby.leads(t)
	if err := b.end(); err != nil {
		t.Error(err)
	}
}

func TestAProviderThatAsksForItIsStartedOnStandby(t *testing.T) {
	server := newAuthorsServer(t)
	server.Put(t, held(mainLeaseName, "somebody else"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	filled := make(chan bool, 1)
	cloud := &authored{provider: provider{early: true}, setInformers: func(factory informers.SharedInformerFactory) {
		_, _ = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { filled <- true }})
	}}
	w := newWorker("mine")
	m := libraries[1].start(t, server, cloud, map[string]app.ControllerInitFuncConstructor{"mine": w.constructor()})
	receive(t, filled)
	m.until("/readyz", http.StatusOK, "ok")
	if cloud.starts() != 1 {
		t.Errorf("the provider is started %d times", cloud.starts())
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestWhatAProviderHasIsAskedOnceItIsStarted(t *testing.T) {
	for _, library := range libraries {
		t.Run(library.name, func(t *testing.T) {
			server := newAuthorsServer(t)
			server.Put(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
			})
			ensured := make(chan string, 10)
			cloud := &authored{}
			cloud.initialize = func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
				cloud.balancers = balancers{ensured: ensured}
			}
			m := library.start(t, server, cloud, map[string]app.ControllerInitFuncConstructor{names.ServiceLBController: {
				InitContext: app.ControllerInitContext{ClientName: "service-controller"},
				Constructor: map[string]app.InitFuncConstructor{"upstream": app.StartServiceControllerWrapper, "ours": StartServiceControllerWrapper}[library.name],
			}}, "--leader-elect=false")
			if got := receive(t, ensured); got != "web" {
				t.Errorf("the load balancer of %s is ensured", got)
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// balancers has every load balancer that is ensured.
type balancers struct{ ensured chan string }

func (b balancers) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return nil, false, nil
}

func (b balancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return service.Name
}

func (b balancers) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	b.ensured <- service.Name
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}, nil
}

func (b balancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (b balancers) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func TestAProviderWithoutControllersHasTheLeaseForItsOwnLoops(t *testing.T) {
	server := newAuthorsServer(t)
	started := make(chan bool, 1)
	cloud := &authored{initialize: func(cloudprovider.ControllerClientBuilder, <-chan struct{}) { started <- true }}
	m := libraries[1].start(t, server, cloud, nil)
	receive(t, started)
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestAnEndWhileTheProviderIsInitialised(t *testing.T) {
	server := newAuthorsServer(t)
	kube, _ := server.Clients(t)
	initialising := make(chan bool, 1)
	cloud := &authored{initialize: func(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
		initialising <- true
		<-stop
	}}
	w := newWorker("mine")
	m := libraries[1].start(t, server, cloud, map[string]app.ControllerInitFuncConstructor{"mine": w.constructor()})
	receive(t, initialising)
	if err := m.end(); err != nil {
		t.Errorf("told to end, the manager returns %v", err)
	}
	if h := holder(t, kube, mainLeaseName); h != "" {
		t.Errorf("the lease is held by %q", h)
	}
	if len(w.started) > 0 {
		t.Error("a controller was started after the end began")
	}
}

func TestAControllerThatDeclinesToStartIsTold(t *testing.T) {
	out := inProcess(t, declined)
	if want := `The controller "mine" has not started though --controllers enables it, and nothing does its work`; !strings.Contains(out, want) {
		t.Errorf("the log does not say %s:\n%s", want, out)
	}
}

// declined runs a manager with a controller that does not start.
func declined(t *testing.T) {
	server := newAuthorsServer(t)
	m := libraries[1].start(t, server, &authored{}, map[string]app.ControllerInitFuncConstructor{
		"mine": authorsController(nil, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
			return false
		}),
	})
	m.until("/metrics", http.StatusOK, `transplant_ccm_controller_skipped{controller="mine"} 1`)
	if _, metrics := m.get("/metrics"); strings.Contains(metrics, `transplant_ccm_controller_lease{controller="mine"`) {
		t.Error("the controller is still shown as one that runs")
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestAnAuthorsConstructorMayCallOurs(t *testing.T) {
	fence := election.NewFence("some", election.Boottime())
	raw := &authored{balancers: balancers{}}
	guarded := cloud.New(raw, cloud.Options{}).For(fence)
	warm, cold := informers.NewSharedInformerFactory(nil, 0), informers.NewSharedInformerFactory(nil, 0)
	completed := (&config.Config{SharedInformers: cold}).Complete()
	ctx := withLease(election.NewContext(t.Context(), fence), warm, guarded)
	changes := func(ctx context.Context, c cloudprovider.Interface) error {
		b, _ := c.LoadBalancer()
		return b.EnsureLoadBalancerDeleted(ctx, "", &corev1.Service{})
	}
	for name, given := range map[string]cloudprovider.Interface{"itself": raw, "guarded": guarded, "decorated": decorated{raw, map[string]string{}}} {
		caches, c := ofLease(ctx, completed, given)
		if caches != warm {
			t.Errorf("%s: the caches are not warm", name)
		}
		if err := changes(t.Context(), c); !errors.Is(err, election.ErrFenced) {
			t.Errorf("%s: past the fence: %v", name, err)
		}
	}
	if caches, c := ofLease(t.Context(), completed, raw); caches != cold || c != cloudprovider.Interface(raw) {
		t.Error("without a lease something else is used than what the author has given")
	}
}

// decorated is a provider that an author has put something around, and that cannot be compared.
type decorated struct {
	cloudprovider.Interface
	settings map[string]string
}

// receive waits for what comes from a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatal("nothing has come")
		panic("not reached")
	}
}

func TestClientsOfInitCloudAskTheFencesThatThereAreLater(t *testing.T) {
	for _, standby := range []bool{true, false} {
		server := newAuthorsServer(t)
		if standby {
			server.Put(t, held(mainLeaseName, "another"))
		}
		var made *config.CompletedConfig
		write := func(name string) error {
			_, err := made.ClientBuilder.ClientOrDie("mine").CoreV1().ConfigMaps("default").Create(
				t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
		inside := make(chan error, 1)
		w := newWorker("work")
		m := libraries[1].startWith(t, server, func(c *config.CompletedConfig) cloudprovider.Interface {
			made = c
			inside <- write("inside")
			return &authored{}
		}, map[string]app.ControllerInitFuncConstructor{"work": w.constructor()})
		if err := receive(t, inside); err != nil {
			t.Errorf("InitCloudFunc cannot write: %v", err)
		}
		m.until("/readyz", http.StatusOK, "ok")
		if !standby {
			w.leads(t)
		}
		if err := write("later"); errors.Is(err, election.ErrFenced) != standby {
			t.Errorf("on standby: %v; a later write returns %v", standby, err)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	}
}

// There is one configuration for all, and some providers take the name of the cluster from their own.
func TestWhatInitCloudChangesOfItsConfigurationCounts(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			seen := make(chan string, 1)
			m := l.startWith(t, newAuthorsServer(t), func(c *config.CompletedConfig) cloudprovider.Interface {
				c.ComponentConfig.KubeCloudShared.ClusterName = "from-cloud-config"
				c.ComponentConfig.Generic.Controllers = []string{"*", "-off"}
				return &authored{}
			}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(func(c *config.CompletedConfig, _ cloudprovider.Interface) {
					seen <- c.ComponentConfig.KubeCloudShared.ClusterName
				},
					func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
						return true
					}),
				"off": authorsController(nil, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
					t.Error("a controller is started that InitCloudFunc has turned off")
					return true
				}),
			}, l.alone()...)
			if got := receive(t, seen); got != "from-cloud-config" {
				t.Errorf("a constructor sees the cluster %q", got)
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInformersThatAnAuthorStartsForGoodDoNotKeepTheProcess(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			never, started := make(chan struct{}), make(chan struct{}, 1)
			defer close(never)
			m := l.start(t, newAuthorsServer(t), &authored{}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(nil, func(_ context.Context, _ *config.CompletedConfig, _ cloudprovider.Interface, c genericcontrollermanager.ControllerContext) bool {
					c.InformerFactory.Core().V1().Nodes().Informer()
					c.InformerFactory.Start(never)
					started <- struct{}{}
					return true
				}),
			}, l.alone()...)
			receive(t, started)
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
