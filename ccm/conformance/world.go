package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/trim"
)

// rest is how long a step of a scenario waits for its answer. It is longer than what either side waits before it acts
// or retries for the first time.
const rest = time.Minute

var (
	nodesResource    = corev1.SchemeGroupVersion.WithResource("nodes")
	servicesResource = corev1.SchemeGroupVersion.WithResource("services")
)

// library is one of the two that are compared.
type library struct {
	name         string
	constructors map[string]app.ControllerInitFuncConstructor
	guards       bool
}

var (
	upstreams = library{name: "upstream", constructors: app.DefaultInitFuncConstructors}
	ours      = library{name: "ours", constructors: ccm.DefaultInitFuncConstructors, guards: true}
)

// settings are what a manager's command makes of no flags.
func (l library) settings() (*options.CloudControllerManagerOptions, error) {
	o, err := options.NewCloudControllerManagerOptions()
	if err == nil && l.guards { // the command puts its defaults into the options, before flags are parsed
		ccm.NewCloudControllerManagerCommand(o, nil, nil, nil, cliflag.NamedFlagSets{}, nil)
	}
	return o, err
}

// World is a cluster and a cloud in memory, with one controller of one library at work.
type World struct {
	// Cloud is the simulated cloud; nil if an author's provider is in its place.
	Cloud *Cloud

	t        *testing.T
	api      *apiServer
	provider *recorder
	stop     func()
	restart  func()
}

// clients gives every controller the same client.
type clients struct{ kubernetes.Interface }

func (c clients) Config(string) (*restclient.Config, error)   { return &restclient.Config{}, nil }
func (c clients) ConfigOrDie(string) *restclient.Config       { return &restclient.Config{} }
func (c clients) Client(string) (kubernetes.Interface, error) { return c.Interface, nil }
func (c clients) ClientOrDie(string) kubernetes.Interface     { return c.Interface }

var _ cloudprovider.ControllerClientBuilder = clients{}

// start runs the scenario's controller until the scenario ends, or until it is restarted.
func (w *World) start(l library, s Scenario) {
	w.t.Helper()
	o, err := options.NewCloudControllerManagerOptions()
	if s.Defaults {
		o, err = l.settings()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c := &config.Config{}
	settings := &c.ComponentConfig
	err = errors.Join(
		o.KubeCloudShared.ApplyTo(&settings.KubeCloudShared),
		o.NodeController.ApplyTo(&settings.NodeController),
		o.ServiceController.ApplyTo(&settings.ServiceController),
		o.NodeLifecycleController.ApplyTo(&settings.NodeLifecycleController),
	)
	if err != nil {
		w.t.Fatal(err)
	}
	settings.NodeStatusUpdateFrequency = o.NodeStatusUpdateFrequency
	settings.KubeCloudShared.ClusterName, settings.KubeCloudShared.ClusterCIDR = "kubernetes", "10.0.0.0/8"
	if s.Settings != nil {
		s.Settings(c)
	}
	var transforms []informers.SharedInformerOption
	if l.guards { // as a manager's caches are: what is written as a whole differs from upstream's
		transforms = append(transforms, informers.WithTransform(trim.Object))
	}
	factory := informers.NewSharedInformerFactoryWithOptions(w.api.client, 12*time.Hour, transforms...)
	c.SharedInformers, c.VersionedClient, c.ClientBuilder = factory, w.api.client, clients{w.api.client}
	ctx, cancel := context.WithCancel(w.t.Context())
	var provider cloudprovider.Interface = w.provider
	end := func() {}
	if l.guards { // as a manager gives it to them
		fence := election.Unfenced(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))
		ctx, provider = election.NewContext(ctx, fence), cloud.New(provider, cloud.NewOptions()).For(fence)
		end = func() { fence.Revoke("the scenario is over") }
	}
	constructor := l.constructors[s.Controller]
	start := constructor.Constructor(constructor.InitContext, c.Complete(), provider)
	_, _, err = start(
		ctx,
		genericcontrollermanager.ControllerContext{
			ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics("conformance"),
		},
	)
	if err != nil {
		w.api.noteWord("Warning " + refused + " " + s.Controller)
	}
	watching, stopWatching := context.WithCancel(w.t.Context())
	factory.StartWithContext(watching)
	w.stop = func() {
		cancel()
		w.Pass(rest)
		end()
		w.Pass(rest)
		stopWatching()
		factory.Shutdown()
		synctest.Wait()
	}
	w.restart = func() {
		w.stop()
		w.start(l, s)
		w.Pass(rest)
	}
	w.Pass(rest)
}

// Pass lets time pass, and then everything come to rest.
func (*World) Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Restart ends the controller and starts another one, as a new version of the manager does.
func (w *World) Restart() { w.restart() }

// Put creates Nodes and Services.
func (w *World) Put(objects ...runtime.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.api.add(o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ChangeNode changes a Node as its kubelet or a user does.
func (w *World) ChangeNode(name string, change func(*corev1.Node)) {
	w.t.Helper()
	if err := w.api.changeObject(nodesResource, "", name, func(o runtime.Object) { change(o.(*corev1.Node)) }); err != nil {
		w.t.Fatal(err)
	}
}

// ChangeService changes a Service as a user does.
func (w *World) ChangeService(name string, change func(*corev1.Service)) {
	w.t.Helper()
	if err := w.api.changeObject(
		servicesResource, namespace, name, func(o runtime.Object) { change(o.(*corev1.Service)) },
	); err != nil {
		w.t.Fatal(err)
	}
}

// DeleteNode deletes a Node as a user does.
func (w *World) DeleteNode(name string) {
	w.t.Helper()
	if err := w.api.remove(nodesResource, "", name); err != nil {
		w.t.Fatal(err)
	}
}

// DeleteService deletes a Service as a user does: it stays until its finalizers are gone.
func (w *World) DeleteService(name string) {
	w.t.Helper()
	if err := w.api.remove(servicesResource, namespace, name); err != nil {
		w.t.Fatal(err)
	}
}

// FailCloud has so many of the next calls of this name fail, such as "EnsureLoadBalancer". 0 is all of them.
func (w *World) FailCloud(name string, times int, err error) { w.provider.setFailure(name, times, err) }

// FailAPI has so many of the next requests fail, such as "patch services". 0 is all of them.
func (w *World) FailAPI(request string, times int, err error) {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	w.api.failures.set(request, times, err)
}

// noteWord keeps a word that is no event, in its place among them.
func (a *apiServer) noteWord(word string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, word)
}

// objects are the Nodes and Services, without what two runs cannot have in common.
func (a *apiServer) objects() (map[string]runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]runtime.Object{}
	for _, kind := range []string{"Node", "Service"} {
		listed, err := a.tracker.List(
			corev1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s"), corev1.SchemeGroupVersion.WithKind(kind), "",
		)
		if err != nil {
			return nil, err
		}
		switch list := listed.(type) {
		case *corev1.NodeList:
			for i := range list.Items {
				n := list.Items[i].DeepCopy()
				strip(n)
				n.CreationTimestamp = metav1.Time{}
				for c := range n.Status.Conditions {
					n.Status.Conditions[c].LastHeartbeatTime, n.Status.Conditions[c].LastTransitionTime = metav1.Time{}, metav1.Time{}
				}
				slices.SortFunc(
					n.Status.Conditions,
					func(x, y corev1.NodeCondition) int { return strings.Compare(string(x.Type), string(y.Type)) },
				)
				for t := range n.Spec.Taints {
					n.Spec.Taints[t].TimeAdded = nil
				}
				all["node "+n.Name] = n
			}
		case *corev1.ServiceList:
			for i := range list.Items {
				s := list.Items[i].DeepCopy()
				strip(s)
				all["service "+s.Name] = s
			}
		}
	}
	return all, nil
}

// strip removes what an API server alone decides.
func strip(o metav1.Object) {
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	if o.GetDeletionTimestamp() != nil {
		o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(0, 0)})
	}
	if len(o.GetLabels()) == 0 {
		o.SetLabels(nil)
	}
}
