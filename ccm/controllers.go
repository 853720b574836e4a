package ccm

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/ccm/service"
)

const (
	// NodeIPAMController gives podCIDRs to nodes. See NodeIPAMConstructor.
	NodeIPAMController = "node-ipam-controller"
	// NodeIPAMAlias is its name in kube-controller-manager up to 1.27, and in metrics.
	NodeIPAMAlias = "nodeipam"
)

// DefaultInitFuncConstructors are the controllers that every cloud-controller-manager runs, by upstream's names and with upstream's service accounts.
var DefaultInitFuncConstructors = map[string]ControllerInitFuncConstructor{
	names.CloudNodeController: { // initialises nodes, keeps their addresses and labels
		InitContext: ControllerInitContext{ClientName: "node-controller"}, Constructor: StartCloudNodeControllerWrapper,
	},
	names.CloudNodeLifecycleController: { // deletes nodes without an instance, taints those that are shut down
		InitContext: ControllerInitContext{ClientName: "node-controller"}, Constructor: StartCloudNodeLifecycleControllerWrapper,
	},
	names.ServiceLBController: { // load balancers
		InitContext: ControllerInitContext{ClientName: "service-controller"}, Constructor: StartServiceControllerWrapper,
	},
	names.NodeRouteController: { // routes to pod networks
		InitContext: ControllerInitContext{ClientName: "route-controller"}, Constructor: StartRouteControllerWrapper,
	},
}

// NodeIPAMConstructor is the controller to register as NodeIPAMController, for clusters in which kube-controller-manager does not give out podCIDRs. It
// is not among the defaults, as it is not among upstream's: a program that iterates over them expects these four. It runs only if --controllers
// names it and --allocate-node-cidrs is set, because two allocators would give one range to two nodes.
func NodeIPAMConstructor() ControllerInitFuncConstructor {
	return ControllerInitFuncConstructor{InitContext: ControllerInitContext{ClientName: "node-controller"}, Constructor: StartNodeIPAMControllerWrapper}
}

// runnable is what our controllers have in common.
type runnable interface {
	controller.Interface
	controller.HealthCheckable
	Run(ctx context.Context)
}

// launch starts a controller, unless the provider or the flags leave nothing for it to do.
func launch(ctx context.Context, c runnable, err error) (controller.Interface, bool, error) {
	if errors.Is(err, node.ErrUnsupported) || errors.Is(err, nodelifecycle.ErrUnsupported) || errors.Is(err, route.ErrUnsupported) {
		klog.FromContext(ctx).Info("The controller is not started", "reason", err.Error())
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	Go(ctx, c.Run)
	return c, true, nil
}

// StartCloudNodeControllerWrapper makes the InitFunc of the node controller.
func StartCloudNodeControllerWrapper(initContext ControllerInitContext, completed *config.CompletedConfig, provider cloudprovider.Interface) InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		settings := completed.ComponentConfig
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := node.New(node.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Cloud: cloud, Nodes: caches.Core().V1().Nodes(),
			StatusUpdateFrequency: settings.NodeStatusUpdateFrequency.Duration,
			Workers:               int(settings.NodeController.ConcurrentNodeSyncs), StatusWorkers: int(settings.NodeController.ConcurrentNodeStatusUpdates),
			Metrics: controllerContext.ControllerManagerMetrics, Options: settingsOf(ctx).Node,
		})
		return launch(ctx, c, err)
	}
}

// StartCloudNodeLifecycleControllerWrapper makes the InitFunc of the node lifecycle controller.
func StartCloudNodeLifecycleControllerWrapper(initContext ControllerInitContext, completed *config.CompletedConfig, provider cloudprovider.Interface) InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		settings := completed.ComponentConfig.NodeLifecycleController
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := nodelifecycle.New(nodelifecycle.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Cloud: cloud, Nodes: caches.Core().V1().Nodes(),
			MonitorPeriod: settings.NodeMonitorPeriod.Duration, Workers: int(settings.ConcurrentNodeLifecycleSyncs),
			Metrics: controllerContext.ControllerManagerMetrics, Options: settingsOf(ctx).NodeLifecycle,
			HostName: nodelifecycle.HostName(),
		})
		return launch(ctx, c, err)
	}
}

// StartServiceControllerWrapper makes the InitFunc of the service controller.
func StartServiceControllerWrapper(initContext ControllerInitContext, completed *config.CompletedConfig, provider cloudprovider.Interface) InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		if why := withoutBalancers(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The service controller is not started", "reason", why)
			return nil, false, nil
		}
		settings := settingsOf(ctx)
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := service.New(service.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Cloud: cloud,
			Services: caches.Core().V1().Services(), Nodes: caches.Core().V1().Nodes(),
			ClusterName: completed.ComponentConfig.KubeCloudShared.ClusterName, Workers: int(completed.ComponentConfig.ServiceController.ConcurrentServiceSyncs),
			Environment: settings.cloudConfig, Metrics: controllerContext.ControllerManagerMetrics, Options: settings.Service,
		})
		return launch(ctx, c, err)
	}
}

// StartRouteControllerWrapper makes the InitFunc of the route controller.
func StartRouteControllerWrapper(initContext ControllerInitContext, completed *config.CompletedConfig, provider cloudprovider.Interface) InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		if why := withoutRoutes(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The route controller is not started", "reason", why)
			return nil, false, nil
		}
		shared, settings := completed.ComponentConfig.KubeCloudShared, settingsOf(ctx)
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := route.New(route.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Cloud: cloud, Nodes: caches.Core().V1().Nodes(),
			ClusterName: shared.ClusterName, ClusterCIDR: shared.ClusterCIDR, ReconciliationPeriod: settings.routePeriod(shared.RouteReconciliationPeriod.Duration),
			Metrics: controllerContext.ControllerManagerMetrics, Options: settings.Route,
		})
		return launch(ctx, c, err)
	}
}

// StartNodeIPAMControllerWrapper makes the InitFunc of the node IPAM controller.
func StartNodeIPAMControllerWrapper(initContext ControllerInitContext, completed *config.CompletedConfig, provider cloudprovider.Interface) InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		if why := withoutAllocation(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The node IPAM controller is not started", "reason", why)
			return nil, false, nil
		}
		shared := completed.ComponentConfig.KubeCloudShared
		caches, _ := ofLease(ctx, completed, provider)
		c, err := nodeipam.New(nodeipam.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Nodes: caches.Core().V1().Nodes(),
			ClusterCIDR: shared.ClusterCIDR, AllocatorType: shared.CIDRAllocatorType,
			Metrics: controllerContext.ControllerManagerMetrics, Options: settingsOf(ctx).NodeIPAM,
		})
		return launch(ctx, c, err)
	}
}

// without says why a controller of ours would not start with these flags and this provider; "" if it would. A lease with nothing else to run is not
// contended for. The provider is nil while it is not known what it has, because it is not started.
var without = []struct {
	constructor InitFuncConstructor
	reason      func(*config.CompletedConfig, cloudprovider.Interface) string
}{
	{StartCloudNodeControllerWrapper, withoutInstances},
	{StartCloudNodeLifecycleControllerWrapper, withoutInstances},
	{StartServiceControllerWrapper, withoutBalancers},
	{StartRouteControllerWrapper, withoutRoutes},
	{StartNodeIPAMControllerWrapper, withoutAllocation},
}

// idle says why a registered controller would not start, "" if it would or is not one of ours.
func idle(c ControllerInitFuncConstructor, completed *config.CompletedConfig, provider cloudprovider.Interface) string {
	for _, ours := range without {
		if same(c.Constructor, ours.constructor) {
			return ours.reason(completed, provider)
		}
	}
	return ""
}

// isLibrarys reports whether a constructor is one of ours or of upstream's defaults: they know a provider by its interfaces only, and get it behind the fence,
// the call budget and the metrics.
func isLibrarys(constructor InitFuncConstructor) bool {
	for _, ours := range without {
		if same(constructor, ours.constructor) {
			return true
		}
	}
	for _, upstreams := range []InitFuncConstructor{ // not app.DefaultInitFuncConstructors, to which authors add theirs
		app.StartCloudNodeControllerWrapper, app.StartCloudNodeLifecycleControllerWrapper, app.StartServiceControllerWrapper, app.StartRouteControllerWrapper,
	} {
		if same(constructor, upstreams) {
			return true
		}
	}
	return false
}

// same tells whether two constructors are one function. An author may have put another one under a name of ours.
func same(a, b InitFuncConstructor) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func withoutInstances(_ *config.CompletedConfig, provider cloudprovider.Interface) string {
	if provider == nil {
		return ""
	}
	if _, ok := cloud.InstancesOf(provider); !ok {
		return fmt.Sprintf("the provider %s knows nothing of instances", provider.ProviderName())
	}
	return ""
}

func withoutBalancers(_ *config.CompletedConfig, provider cloudprovider.Interface) string {
	if provider == nil {
		return ""
	}
	if _, ok := provider.LoadBalancer(); !ok {
		return fmt.Sprintf("the provider %s has no load balancers", provider.ProviderName())
	}
	return ""
}

func withoutRoutes(completed *config.CompletedConfig, provider cloudprovider.Interface) string {
	if !completed.ComponentConfig.KubeCloudShared.ConfigureCloudRoutes {
		return "--configure-cloud-routes is false"
	}
	if provider == nil {
		return ""
	}
	if _, ok := provider.Routes(); !ok {
		return fmt.Sprintf("the provider %s has no routes", provider.ProviderName())
	}
	return ""
}

func withoutAllocation(completed *config.CompletedConfig, _ cloudprovider.Interface) string {
	if !completed.ComponentConfig.KubeCloudShared.AllocateNodeCIDRs {
		return "--allocate-node-cidrs is false"
	}
	return ""
}
