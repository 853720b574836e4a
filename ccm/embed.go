package ccm

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	genericconfig "k8s.io/controller-manager/config"
	upstreammigration "k8s.io/controller-manager/pkg/leadermigration/config"

	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// Run runs a manager for an author's own command, as upstream's function of this name does, until stopCh is closed. It promises less than the command of
// this package, because the InitFuncs were made before there were leases:
//
//   - a controller's write is refused while the process holds none of its leases, and not while it does not hold the controller's own. Our controllers ask
//     their own lease;
//   - settings have their defaults and client limits are those of c, because our flags and defaults are the command's;
//   - our node IPAM controller is not off by default: it runs if it is among the InitFuncs and --allocate-node-cidrs is set;
//   - signals are the author's. Without a stopCh that is closed, the leases of a process that ends are left to expire.
//
// When stopCh is closed, work is brought to an end and leases are released before it returns nil. When a lease is lost it returns an error at once, and the
// process has to exit. It changes c: from then on, what is made of its clients and its client builder asks the fences.
func Run(c *config.CompletedConfig, cloud cloudprovider.Interface, controllerInitializers map[string]InitFunc, webhooks map[string]WebhookHandler,
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

// normaliseMigration puts in place of what upstream made of the flags of leader migration what the command of this package makes of them. Upstream's default
// names two loops by names that no version has.
func normaliseMigration(generic *genericconfig.GenericControllerManagerConfiguration, constructors map[string]ControllerInitFuncConstructor) error {
	if !generic.LeaderMigrationEnabled {
		return nil
	}
	r, given := roster{constructors, names.CCMControllerAliases()}, generic.LeaderMigration
	m := migration{enabled: true, source: "the options of the program"}
	if reflect.DeepEqual(&given, upstreammigration.DefaultLeaderMigrationConfiguration()) {
		m.source, m.config = "default", internal(migrationconfig.Default(component, linkedMinor))
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
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent))
	if err != nil {
		return fmt.Errorf("making the client of the program's configuration: %w", err)
	}
	c.Client = client
	// What InitFuncs have got is a recorder of this broadcaster, so that it is the sink that has to ask.
	c.EventBroadcaster.StartStructuredLogging(0)
	c.EventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return nil
}
