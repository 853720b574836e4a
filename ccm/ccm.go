// Package ccm decides how a cloud-controller-manager runs: which controllers under which lease, what ends them, and
// what it says about its health. It takes the place of k8s.io/cloud-provider/app: same command, flags, types and
// extension points, so that the author of a provider changes one import.
//
//	flags --+
//	file  --+--> groups: controllers by lease --> elector --won--> InitFuncs, with a context that carries the fence of the lease
//	                |                               |
//	                +--> fenced clients and cloud   +--lost--> exit 1
//	stop channel or context that ends, else SIGTERM, SIGINT --> drain --> release --> exit 0
//
// What differs from upstream is in docs/explanation/cloud-controller-manager.md.
package ccm

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	genericconfig "k8s.io/controller-manager/config"
	upstreammigration "k8s.io/controller-manager/pkg/leadermigration/config"

	"github.com/transplant-dev/transplant/internal/mask/events"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// What authors use of k8s.io/cloud-provider/app, under its names. The types are the same, so that a constructor that
// was written for upstream is one for this package.
type (
	// InitCloudFunc makes the provider.
	InitCloudFunc = app.InitCloudFunc
	// InitFunc starts a controller under a lease that was won. Its context carries the lease's fence, and Go makes a
	// worker of the lease.
	InitFunc = app.InitFunc
	// InitFuncConstructor makes an InitFunc from what is known at the start of the process. Here that is the lease's
	// client builder and its cloud.
	InitFuncConstructor = app.InitFuncConstructor
	// ControllerInitContext says as whom a controller speaks to the API server.
	ControllerInitContext = app.ControllerInitContext
	// ControllerInitFuncConstructor is a controller as the command takes it.
	ControllerInitFuncConstructor = app.ControllerInitFuncConstructor
	// WebhookConfig is an admission webhook as the command takes it.
	WebhookConfig = app.WebhookConfig
	// WebhookHandler is an admission webhook that is served.
	WebhookHandler = app.WebhookHandler
)

const (
	// ControllerStartJitter is by how much --controller-start-interval varies.
	ControllerStartJitter = app.ControllerStartJitter
	// ConfigzName is the name of this program's configuration at /configz.
	ConfigzName = app.ConfigzName
)

var (
	// ControllersDisabledByDefault are the controllers that run only if --controllers names them. Authors insert theirs.
	// It is upstream's set, and this package adds nothing to it: see NodeIPAMConstructor for ours that does not run by
	// default either.
	ControllersDisabledByDefault = app.ControllersDisabledByDefault
	// WebhooksDisabledByDefault are the same for webhooks.
	WebhooksDisabledByDefault = app.WebhooksDisabledByDefault
	// AllWebhooks are the webhooks that --webhooks of NewCloudControllerManagerCommand knows.
	AllWebhooks = app.AllWebhooks
	// DisabledByDefaultWebhooks are those of them that run only if --webhooks names them.
	DisabledByDefaultWebhooks = app.DisabledByDefaultWebhooks

	// ControllerNames returns the names of constructors in order.
	ControllerNames = app.ControllerNames
	// WebhookNames returns the names of webhooks in order.
	WebhookNames = app.WebhookNames
	// ConstructControllerInitializers calls all constructors with one configuration and one cloud, which are then of one
	// lease.
	ConstructControllerInitializers = app.ConstructControllerInitializers
	// RegisterMetrics registers the metrics of webhooks. NewWebhookHandlers does it too.
	RegisterMetrics = app.RegisterMetrics
	// NewWebhookHandlers makes the handlers of the webhooks that are enabled.
	NewWebhookHandlers = app.NewWebhookHandlers
	// CreateControllerContext makes what InitFuncs are given. The command has one of its own, with the caches that are
	// warm before a lease is won.
	CreateControllerContext = app.CreateControllerContext
	// ResyncPeriod returns a function that varies --min-resync-period.
	ResyncPeriod = app.ResyncPeriod
)

// disabledByDefault returns the controllers of a program that run only if --controllers names them: those of
// ControllersDisabledByDefault, and ours that gives out podCIDRs. An author's own under its name is the author's to
// turn off, so that the shared set stays as authors made it.
func disabledByDefault(constructors map[string]ControllerInitFuncConstructor) []string {
	off := sets.NewString(ControllersDisabledByDefault.List()...)
	for name, c := range constructors {
		if isSameConstructor(c.Constructor, StartNodeIPAMControllerWrapper) {
			off.Insert(name)
		}
	}
	return off.List()
}

// Run runs a manager for an author's own command, as upstream's function of this name does, until stopCh is closed. It
// promises less than the command of this package, because the InitFuncs were made before there were leases:
//
//   - a controller's write is refused while the process holds none of its leases, and not while it does not hold the
//     controller's own. Our controllers ask their own lease;
//   - settings have their defaults and client limits are those of c, because our flags and defaults are the command's;
//   - our node IPAM controller is not off by default: it runs if it is among the InitFuncs and --allocate-node-cidrs is
//     set;
//   - signals are the author's. Without a stopCh that is closed, the leases of a process that ends are left to expire.
//
// When stopCh is closed, work is brought to an end and leases are released before it returns nil. When a lease is lost
// it returns an error at once, and the process has to exit. It changes c: from then on, what is made of its clients and
// its client builder asks the fences.
func Run(
	c *config.CompletedConfig,
	cloud cloudprovider.Interface,
	controllerInitializers map[string]InitFunc,
	webhooks map[string]WebhookHandler,
	stopCh <-chan struct{},
) error {
	if cloud == nil {
		return errors.New("there is no cloud provider to run")
	}
	registerMetrics()
	constructors := map[string]ControllerInitFuncConstructor{}
	for name, init := range controllerInitializers {
		constructors[name] = ControllerInitFuncConstructor{
			Constructor: func(ControllerInitContext, *config.CompletedConfig, cloudprovider.Interface) InitFunc { return init },
		}
	}
	useTokenSource(c.Kubeconfig) // before the clients of leases and those behind fences are made of it
	own := *c.Config             // without fences, for the leases and their events
	own.EventBroadcaster = record.NewBroadcaster()
	own.EventRecorder = own.EventBroadcaster.NewRecorder(
		scheme.Scheme, corev1.EventSource{Component: options.CloudControllerManagerUserAgent},
	)
	if err := normaliseMigration(&own.ComponentConfig.Generic, constructors); err != nil {
		return err
	}
	settings := NewSettings()
	settings.readShared(own.ComponentConfig.KubeCloudShared)
	p := &process{
		config: own.Complete(), settings: settings, constructors: constructors, handlers: webhooks, embedding: c.Config,
		initCloud: func(*config.CompletedConfig) cloudprovider.Interface { return cloud },
	}
	ctx, stop := untilTold(context.Background(), stopCh, nil, nil) //nolint:forbidigo // upstream's signature has no context to give
	defer stop()
	return p.run(ctx)
}

// normaliseMigration puts in place of what upstream made of the flags of leader migration what the command of this
// package makes of them. Upstream's default names two loops by names that no version has.
func normaliseMigration(
	generic *genericconfig.GenericControllerManagerConfiguration,
	constructors map[string]ControllerInitFuncConstructor,
) error {
	if !generic.LeaderMigrationEnabled {
		return nil
	}
	r, given := roster{constructors, names.CCMControllerAliases()}, generic.LeaderMigration
	m := migration{enabled: true, source: "the options of the program"}
	if reflect.DeepEqual(&given, upstreammigration.DefaultLeaderMigrationConfiguration()) {
		m.source, m.config = "default", internal(migrationconfig.Default(ownComponent, linkedMinor))
	} else {
		file := migrationconfig.Config{Version: migrationconfig.V1, LeaderName: given.LeaderName}
		for _, leader := range given.ControllerLeaders {
			file.Leaders = append(file.Leaders, migrationconfig.Leader{Name: leader.Name, Component: leader.Component})
		}
		normal, notes, err := r.normalise(file)
		if err != nil {
			return fmt.Errorf("using the leader migration of the program's options: %w", err)
		}
		m.config, m.notes = internal(normal), notes
	}
	m.apply(generic)
	return nil
}

// fenceEmbedding puts the fences of all leases before the clients and the events of a configuration that InitFuncs
// have got already.
func (p *process) fenceEmbedding() error {
	c := p.embedding
	if c == nil {
		return nil
	}
	wrap := fencedByAny(p.fences())
	c.Kubeconfig = rest.CopyConfig(c.Kubeconfig)
	c.Kubeconfig.Wrap(wrap)
	c.ClientBuilder = builder{c.ClientBuilder, wrap}
	client, err := kubernetes.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent),
	)
	if err != nil {
		return fmt.Errorf("making the client of the program's configuration: %w", err)
	}
	c.Client = client
	// What InitFuncs have got is a recorder of this broadcaster, so that it is the sink that has to ask.
	c.EventBroadcaster.StartStructuredLogging(0)
	c.EventBroadcaster.StartRecordingToSink(events.Sink(client.CoreV1()))
	return nil
}
