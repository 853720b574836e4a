package ccm

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	cpconfig "k8s.io/cloud-provider/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/ccm/service"
)

// defaultDrainTimeout leaves room, within the 30 s after which a kubelet kills a container, for cutting workers off and for releasing the leases.
const defaultDrainTimeout = 20 * time.Second

// flagSet is the section of --help with the flags that upstream does not have.
const flagSet = "transplant"

// Settings are what can be set beyond upstream's flags. InitFuncs find them in their context.
type Settings struct {
	// DrainTimeout is how long workers may take to end once the process was told to.
	DrainTimeout time.Duration
	// RenewToken replaces the token file of the kubeconfig before the token expires.
	RenewToken    bool
	Cloud         cloud.Options
	Node          node.Options
	NodeLifecycle nodelifecycle.Options
	Service       service.Options
	Route         route.Options
	NodeIPAM      nodeipam.Options

	// cloudConfig is the content of the file of --cloud-config.
	cloudConfig string
	// explicitRoutePeriod is that --route-reconciliation-period was given, or set by the author of the program.
	explicitRoutePeriod bool
}

// NewSettings returns the defaults.
func NewSettings() Settings {
	return Settings{
		DrainTimeout: defaultDrainTimeout, Cloud: cloud.NewOptions(), Node: node.NewOptions(), NodeLifecycle: nodelifecycle.NewOptions(),
		Service: service.NewOptions(), Route: route.NewOptions(), NodeIPAM: nodeipam.NewOptions(),
	}
}

// readShared takes over what upstream's options decide. What is wrong with the cloud config is the provider's to say.
func (s *Settings) readShared(shared cpconfig.KubeCloudSharedConfiguration) {
	if content, err := os.ReadFile(shared.CloudProvider.CloudConfigFile); err == nil {
		s.cloudConfig = string(content)
	}
	s.explicitRoutePeriod = shared.RouteReconciliationPeriod.Duration != upstreamRoutePeriod
}

// addFlags adds the flags of the settings.
func (s *Settings) addFlags(fs *pflag.FlagSet, withNodeIPAM bool) {
	fs.DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "How long the work that is under way may take to end after SIGTERM or SIGINT. The leases "+
		"are renewed meanwhile and released after it. Work that takes longer is cut off. Keep it well below the pod's terminationGracePeriodSeconds.")
	fs.BoolVar(&s.RenewToken, "renew-token", s.RenewToken, "Whether to replace the token in the tokenFile of the kubeconfig by a new one of the same ServiceAccount, once a "+
		"third of its life is over. Takes the right to create serviceaccounts/token under the account's own name, and a directory that can be written to.")
	s.Cloud.AddFlags(fs)
	s.Node.AddFlags(fs)
	s.NodeLifecycle.AddFlags(fs)
	s.Service.AddFlags(fs)
	s.Route.AddFlags(fs)
	if withNodeIPAM {
		s.NodeIPAM.AddFlags(fs)
	}
}

// validate returns everything that is wrong with the settings.
func (s *Settings) validate() []error {
	var errs []error
	if s.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("--drain-timeout is %s, but must not be negative", s.DrainTimeout))
	}
	for _, more := range [][]error{s.Cloud.Validate(), s.Node.Validate(), s.NodeLifecycle.Validate(), s.Service.Validate(), s.Route.Validate(), s.NodeIPAM.Validate()} {
		errs = append(errs, more...)
	}
	return errs
}

// routePeriod is the route controller's period if somebody chose it: upstream's default makes no sense for a controller that hears of changes.
func (s Settings) routePeriod(flag time.Duration) time.Duration {
	if s.explicitRoutePeriod {
		return flag
	}
	return 0
}

type settingsKey struct{}

func withSettings(ctx context.Context, s Settings) context.Context {
	return context.WithValue(ctx, settingsKey{}, s)
}

// settingsOf returns the settings that a context carries, or the defaults, as under upstream's app.Run.
func settingsOf(ctx context.Context) Settings {
	if s, ok := ctx.Value(settingsKey{}).(Settings); ok {
		return s
	}
	return NewSettings()
}
