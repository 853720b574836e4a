package ccm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	genericcontrollermanager "k8s.io/controller-manager/app"
	genericconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/ccm/node/reading"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodeipam/fromcloud"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/ccm/service"
	"github.com/transplant-dev/transplant/internal/component"
)

// openFence returns the fence of a process without leader election. It waits for the API server to say when the first
// such process took over. What is kept for a while after that would never expire if each start began it again.
func (p *process) openFence(ctx context.Context) (*election.Fence, error) {
	generic := p.config.ComponentConfig.Generic.LeaderElection
	client, err := leaseClient(p.config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	for told := ""; ; {
		at, err := election.RememberTakeover(ctx, client.CoordinationV1(), generic.ResourceNamespace, generic.ResourceName)
		switch {
		case err == nil:
			return election.UnfencedAfter(time.Now(), at), nil
		case ctx.Err() != nil || isRefused(err):
			klog.Warningf(
				"When this kind of manager took over is not remembered, so that nodes without instances have no grace after it: %v. "+
					"Allow get, create and update of leases in namespace %s",
				err,
				generic.ResourceNamespace,
			)
			return election.UnfencedAfter(time.Now(), time.Time{}), nil
		case told != err.Error():
			told = err.Error()
			klog.ErrorS(
				fmt.Errorf("asking when this kind of manager took over: %w", err),
				"The API server does not answer, will be asked again",
			)
		}
		term.SleepUnlessDone(ctx, generic.RetryPeriod.Duration)
	}
}

// isRefused reports whether an API server has answered, and will answer the same again.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) ||
		apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err)
}

// CommandBuilder builds a command step by step. It has the methods of upstream's.
type CommandBuilder struct {
	program  program
	defaults options.ProviderDefaults
}

// NewBuilder returns a builder of a command without controllers.
func NewBuilder() *CommandBuilder {
	return &CommandBuilder{program: program{
		constructors: map[string]ControllerInitFuncConstructor{},
		aliases:      map[string]string{},
		webhooks:     map[string]WebhookConfig{},
		stop:         wait.NeverStop,
		ownLogging:   true,
	}}
}

// SetOptions sets the options that flags are bound to. Without it there are new ones.
func (b *CommandBuilder) SetOptions(o *options.CloudControllerManagerOptions) { b.program.options = o }

// AddFlags sets the flags of the author's own controllers.
func (b *CommandBuilder) AddFlags(additionalFlags cliflag.NamedFlagSets) {
	b.program.flags = additionalFlags
}

// RegisterController adds a controller, and of the aliases those that are its own.
func (b *CommandBuilder) RegisterController(
	name string,
	constructor ControllerInitFuncConstructor,
	aliases map[string]string,
) {
	b.program.constructors[name] = constructor
	for alias, of := range aliases {
		if of == name {
			b.program.aliases[alias] = of
		}
	}
}

// RegisterDefaultControllers adds DefaultInitFuncConstructors with their aliases.
func (b *CommandBuilder) RegisterDefaultControllers() {
	maps.Copy(b.program.constructors, DefaultInitFuncConstructors)
	maps.Copy(b.program.aliases, names.CCMControllerAliases())
}

// RegisterWebhook adds an admission webhook.
func (b *CommandBuilder) RegisterWebhook(name string, config WebhookConfig) {
	b.program.webhooks[name] = config
}

// SetCloudInitializer sets what makes the provider.
func (b *CommandBuilder) SetCloudInitializer(cloudInitializer InitCloudFunc) {
	b.program.initCloud = cloudInitializer
}

// SetStopChannel sets a channel that ends the process when it is closed. Signals are the caller's then, unless it is
// wait.NeverStop.
func (b *CommandBuilder) SetStopChannel(stopCh <-chan struct{}) { b.program.stop = stopCh }

// SetCmdName sets the name of the command; empty for cloud-controller-manager.
func (b *CommandBuilder) SetCmdName(name string) { b.program.use = name }

// SetLongDesc sets what --help begins with.
func (b *CommandBuilder) SetLongDesc(long string) { b.program.long = long }

// SetProviderDefaults sets the defaults of the webhook flags, for a builder without SetOptions.
func (b *CommandBuilder) SetProviderDefaults(defaults options.ProviderDefaults) {
	b.defaults = defaults
}

// BuildCommand returns the command, or ends the process: its type is upstream's, and has no room for an error.
func (b *CommandBuilder) BuildCommand() *cobra.Command {
	p := b.program
	p.use, p.long = cmp.Or(p.use, component.CCM), cmp.Or(p.long, longDescription)
	p.webhookNames, p.disabledByName = WebhookNames(p.webhooks), WebhooksDisabledByDefault.List()
	if p.options == nil {
		made, err := options.NewCloudControllerManagerOptionsWithProviderDefaults(b.defaults)
		if err != nil {
			klog.ErrorS(fmt.Errorf("reading upstream's defaults: %w", err), "The command cannot be built")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
		p.options = made
	}
	return p.command()
}

const (
	// NodeIPAMController gives podCIDRs to nodes. See NodeIPAMConstructor.
	NodeIPAMController = "node-ipam-controller"
	// NodeIPAMAlias is its name in kube-controller-manager up to 1.27, and in metrics.
	NodeIPAMAlias = "nodeipam"
)

// DefaultInitFuncConstructors are the controllers that every cloud-controller-manager runs, by upstream's names and
// with upstream's service accounts.
var DefaultInitFuncConstructors = map[string]ControllerInitFuncConstructor{
	names.CloudNodeController: { // initialises nodes, keeps their addresses and labels
		InitContext: ControllerInitContext{ClientName: "node-controller"}, Constructor: StartCloudNodeControllerWrapper,
	},
	names.CloudNodeLifecycleController: { // deletes nodes without an instance, taints those that are shut down
		InitContext: ControllerInitContext{
			ClientName: "node-controller",
		},
		Constructor: StartCloudNodeLifecycleControllerWrapper,
	},
	names.ServiceLBController: { // load balancers
		InitContext: ControllerInitContext{ClientName: "service-controller"}, Constructor: StartServiceControllerWrapper,
	},
	names.NodeRouteController: { // routes to pod networks
		InitContext: ControllerInitContext{ClientName: "route-controller"}, Constructor: StartRouteControllerWrapper,
	},
}

// NodeIPAMConstructor is the controller to register as NodeIPAMController, for clusters in which
// kube-controller-manager does not give out podCIDRs. It is not among the defaults, as it is not among upstream's: a
// program that iterates over them expects these four. It runs only if --controllers names it and --allocate-node-cidrs
// is set, because two allocators would give one range to two nodes.
func NodeIPAMConstructor() ControllerInitFuncConstructor {
	return ControllerInitFuncConstructor{
		InitContext: ControllerInitContext{ClientName: "node-controller"},
		Constructor: StartNodeIPAMControllerWrapper,
	}
}

// Controllers are the controllers of a program.
type Controllers struct {
	// Constructors make the controllers, by canonical name.
	Constructors map[string]ControllerInitFuncConstructor
	// Aliases are the names that --controllers takes next to the canonical ones.
	Aliases map[string]string
	// Flags are the flags of controllers that the library does not know.
	Flags cliflag.NamedFlagSets
}

// NewControllers returns the default controllers and node IPAM, in maps of the caller's own. Node IPAM runs only on
// request, with --controllers=*,node-ipam-controller.
func NewControllers() Controllers {
	c := Controllers{Constructors: maps.Clone(DefaultInitFuncConstructors), Aliases: names.CCMControllerAliases()}
	c.Constructors[NodeIPAMController] = NodeIPAMConstructor()
	c.Aliases[NodeIPAMAlias] = NodeIPAMController
	return c
}

// runnable is what our controllers have in common.
type runnable interface {
	controller.Interface
	controller.HealthCheckable
	Run(ctx context.Context)
}

// launch starts a controller, unless the provider or the flags leave nothing for it to do.
func launch(ctx context.Context, c runnable, err error) (controller.Interface, bool, error) {
	if errors.Is(err, reading.ErrUnsupported) || errors.Is(err, route.ErrUnsupported) {
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
func StartCloudNodeControllerWrapper(
	initContext ControllerInitContext,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) InitFunc {
	return func(
		ctx context.Context,
		controllerContext genericcontrollermanager.ControllerContext,
	) (controller.Interface, bool, error) {
		settings := completed.ComponentConfig
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := node.New(node.Config{
			Client:                completed.ClientBuilder.ClientOrDie(initContext.ClientName),
			Cloud:                 cloud,
			Nodes:                 caches.Core().V1().Nodes(),
			StatusUpdateFrequency: settings.NodeStatusUpdateFrequency.Duration,
			Workers: int(
				settings.NodeController.ConcurrentNodeSyncs,
			),
			StatusWorkers: int(settings.NodeController.ConcurrentNodeStatusUpdates),
			Metrics:       controllerContext.ControllerManagerMetrics,
			Options:       settingsOf(ctx).Node,
		})
		return launch(ctx, c, err)
	}
}

// StartCloudNodeLifecycleControllerWrapper makes the InitFunc of the node lifecycle controller.
func StartCloudNodeLifecycleControllerWrapper(
	initContext ControllerInitContext,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) InitFunc {
	return func(
		ctx context.Context,
		controllerContext genericcontrollermanager.ControllerContext,
	) (controller.Interface, bool, error) {
		settings := completed.ComponentConfig.NodeLifecycleController
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := nodelifecycle.New(nodelifecycle.Config{
			Client: completed.ClientBuilder.ClientOrDie(initContext.ClientName), Cloud: cloud, Nodes: caches.Core().V1().Nodes(),
			MonitorPeriod: settings.NodeMonitorPeriod.Duration, Workers: int(settings.ConcurrentNodeLifecycleSyncs),
			Metrics: controllerContext.ControllerManagerMetrics, Options: settingsOf(ctx).NodeLifecycle,
			Host: nodelifecycle.ThisHost(),
		})
		return launch(ctx, c, err)
	}
}

// StartServiceControllerWrapper makes the InitFunc of the service controller.
func StartServiceControllerWrapper(
	initContext ControllerInitContext,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) InitFunc {
	return func(
		ctx context.Context,
		controllerContext genericcontrollermanager.ControllerContext,
	) (controller.Interface, bool, error) {
		if why := withoutBalancers(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The service controller is not started", "reason", why)
			return nil, false, nil
		}
		settings := settingsOf(ctx)
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := service.New(service.Config{
			Client:      completed.ClientBuilder.ClientOrDie(initContext.ClientName),
			Cloud:       cloud,
			Services:    caches.Core().V1().Services(),
			Nodes:       caches.Core().V1().Nodes(),
			ClusterName: completed.ComponentConfig.KubeCloudShared.ClusterName,
			Workers:     int(completed.ComponentConfig.ServiceController.ConcurrentServiceSyncs),
			Environment: settings.cloudConfig,
			Metrics:     controllerContext.ControllerManagerMetrics,
			Options:     settings.Service,
		})
		return launch(ctx, c, err)
	}
}

// StartRouteControllerWrapper makes the InitFunc of the route controller.
func StartRouteControllerWrapper(
	initContext ControllerInitContext,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) InitFunc {
	return func(
		ctx context.Context,
		controllerContext genericcontrollermanager.ControllerContext,
	) (controller.Interface, bool, error) {
		if why := withoutRoutes(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The route controller is not started", "reason", why)
			return nil, false, nil
		}
		shared, settings := completed.ComponentConfig.KubeCloudShared, settingsOf(ctx)
		caches, cloud := ofLease(ctx, completed, provider)
		c, err := route.New(route.Config{
			Client:               completed.ClientBuilder.ClientOrDie(initContext.ClientName),
			Cloud:                cloud,
			Nodes:                caches.Core().V1().Nodes(),
			ClusterName:          shared.ClusterName,
			ClusterCIDR:          shared.ClusterCIDR,
			ReconciliationPeriod: settings.routePeriod(shared.RouteReconciliationPeriod.Duration),
			Metrics:              controllerContext.ControllerManagerMetrics,
			Options:              settings.Route,
		})
		return launch(ctx, c, err)
	}
}

// StartNodeIPAMControllerWrapper makes the InitFunc of the node IPAM controller.
func StartNodeIPAMControllerWrapper(
	initContext ControllerInitContext,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) InitFunc {
	return func(
		ctx context.Context,
		controllerContext genericcontrollermanager.ControllerContext,
	) (controller.Interface, bool, error) {
		if why := withoutAllocation(completed, provider); why != "" {
			klog.FromContext(ctx).Info("The node IPAM controller is not started", "reason", why)
			return nil, false, nil
		}
		shared := completed.ComponentConfig.KubeCloudShared
		caches, cloud := ofLease(ctx, completed, provider)
		if err := nodeipam.CheckAllocator(shared.CIDRAllocatorType, cloud); err != nil {
			return nil, false, err
		}
		client, options := completed.ClientBuilder.ClientOrDie(initContext.ClientName), settingsOf(ctx).NodeIPAM
		if shared.CIDRAllocatorType == nodeipam.CloudAllocator {
			c, err := fromcloud.New(fromcloud.Config{
				Client: client, Cloud: cloud, Nodes: caches.Core().V1().Nodes(),
				ServiceCIDRs: options.ServiceCIDRs, ClusterCIDR: shared.ClusterCIDR,
				HasRoutes: hasRouteController(completed, cloud), Metrics: controllerContext.ControllerManagerMetrics,
			})
			return launch(ctx, c, err)
		}
		c, err := nodeipam.New(nodeipam.Config{
			Client: client, Nodes: caches.Core().V1().Nodes(),
			ClusterCIDR: shared.ClusterCIDR, AllocatorType: shared.CIDRAllocatorType,
			Metrics: controllerContext.ControllerManagerMetrics, Options: options,
		})
		return launch(ctx, c, err)
	}
}

// without says why a controller of ours would not start with these flags and this provider; "" if it would. A lease
// with nothing else to run is not contended for. The provider is nil while it is not known what it has, because it is
// not started.
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
		if isSameConstructor(c.Constructor, ours.constructor) {
			return ours.reason(completed, provider)
		}
	}
	return ""
}

// isLibrarys reports whether a constructor is one of ours or of upstream's defaults. They know a provider by its
// interfaces only, and get it behind the fence, the call rate limit and the metrics.
func isLibrarys(constructor InitFuncConstructor) bool {
	for _, ours := range without {
		if isSameConstructor(constructor, ours.constructor) {
			return true
		}
	}
	for _, upstreams := range []InitFuncConstructor{ // not app.DefaultInitFuncConstructors, to which authors add theirs
		app.StartCloudNodeControllerWrapper,
		app.StartCloudNodeLifecycleControllerWrapper,
		app.StartServiceControllerWrapper,
		app.StartRouteControllerWrapper,
	} {
		if isSameConstructor(constructor, upstreams) {
			return true
		}
	}
	return false
}

// isSameConstructor reports whether two constructors are one function. An author may have put another one under a name
// of ours.
func isSameConstructor(a, b InitFuncConstructor) bool {
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

// group is a lease and what runs under it.
type group struct {
	lease       string
	controllers []string // by canonical name, in order
	workers     workers
	fence       *election.Fence
	// config and inits are the lease's own: clients and cloud ask its fence.
	config *config.CompletedConfig
	cloud  cloudprovider.Interface
	inits  map[string]InitFunc
	// events is the broadcaster of the lease's own, which constructors may not have got.
	events record.EventBroadcaster
	// of InitFuncs, as upstream has them next to SharedInformers; nil before the lease is won
	informers informers.SharedInformerFactory
	// alone is that the lease is contended for though no controller runs under it, for the provider's own loops.
	alone bool
}

// isContended reports whether the process wants to hold the lease.
func (g *group) isContended() bool { return len(g.controllers) > 0 || g.alone }

// noLease is what stands for a lease without leader election.
const noLease = "none"

// divide returns the leases, the main lease first, with what this process runs under each. For a group without
// controllers, the lease is observed and not contended for. A holder with nothing to run would keep every other manager
// from running the loops. What a provider has is known only of one that is started early. Others may have loops of
// their own, which have the main lease to run under if there is nothing else.
func divide(
	constructors map[string]ControllerInitFuncConstructor,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) []*group {
	generic := &completed.ComponentConfig.Generic
	main := &group{lease: generic.LeaderElection.ResourceName}
	groups := []*group{main}
	var migrating *group
	switch {
	case !generic.LeaderElection.LeaderElect:
		main.lease = noLease
	case leadermigration.Enabled(generic):
		migrating = &group{lease: generic.LeaderMigration.LeaderName}
		groups = append(groups, migrating)
	}
	off := sets.NewString(disabledByDefault(constructors)...)
	for _, name := range sortedKeys(constructors) {
		if !genericcontrollermanager.IsControllerEnabled(name, off, generic.Controllers) {
			klog.InfoS("The controller is disabled", "controller", name)
			continue
		}
		if why := idle(constructors[name], completed, provider); why != "" {
			klog.InfoS("The controller is not started", "controller", name, "reason", why)
			continue
		}
		switch owner, listed := leaderOf(name, generic.LeaderMigration); {
		case migrating == nil || !listed:
			main.controllers = append(main.controllers, name)
		case owner == "*" || owner == string(ownComponent):
			migrating.controllers = append(migrating.controllers, name)
		default:
			klog.InfoS("The controller is left to another manager", "controller", name, "component", owner)
		}
	}
	main.alone = provider == nil && !slices.ContainsFunc(groups, (*group).isContended)
	for _, g := range groups {
		if !g.isContended() {
			klog.InfoS("The lease is not contended for, because this process has nothing to run under it", "lease", g.lease)
		}
	}
	return groups
}

// leaderOf is the component that runs a controller under the migration lease; false for one that does not migrate.
func leaderOf(controller string, migration genericconfig.LeaderMigrationConfiguration) (string, bool) {
	for _, leader := range migration.ControllerLeaders {
		if leader.Name == controller {
			return leader.Component, true
		}
	}
	return "", false
}

// leases are what the elector is to do about the leases of groups. The migration lease follows the main lease if both
// are contended for, so that one process holds both.
func leases(groups []*group, namespace string) []election.Lease {
	var out []election.Lease
	for _, g := range groups {
		l := election.Lease{Namespace: namespace, Name: g.lease, Contend: g.isContended()}
		if len(out) > 0 && l.Contend && out[0].Contend {
			l.After = out[0].Name
		}
		out = append(out, l)
	}
	return out
}
