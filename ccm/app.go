package ccm

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cloud-provider/app"
)

// What authors use of k8s.io/cloud-provider/app, under its names. The types are the same, so that a constructor that was written for upstream is one
// for this package.
type (
	// InitCloudFunc makes the provider.
	InitCloudFunc = app.InitCloudFunc
	// InitFunc starts a controller under a lease that was won. Its context carries the lease's fence, and Go makes a worker of the lease.
	InitFunc = app.InitFunc
	// InitFuncConstructor makes an InitFunc from what is known at the start of the process. Here that is the lease's client builder and its cloud.
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
	// ControllersDisabledByDefault are the controllers that run only if --controllers names them. Authors insert theirs. It is upstream's set,
	// and this package adds nothing to it: see NodeIPAMConstructor for ours that does not run by default either.
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
	// ConstructControllerInitializers calls all constructors with one configuration and one cloud, which are then of one lease.
	ConstructControllerInitializers = app.ConstructControllerInitializers
	// RegisterMetrics registers the metrics of webhooks. NewWebhookHandlers does it too.
	RegisterMetrics = app.RegisterMetrics
	// NewWebhookHandlers makes the handlers of the webhooks that are enabled.
	NewWebhookHandlers = app.NewWebhookHandlers
	// CreateControllerContext makes what InitFuncs are given. The command has one of its own, with the caches that are warm before a lease is won.
	CreateControllerContext = app.CreateControllerContext
	// ResyncPeriod returns a function that varies --min-resync-period.
	ResyncPeriod = app.ResyncPeriod
)

// disabledByDefault returns the controllers of a program that run only if --controllers names them: those of ControllersDisabledByDefault, and ours that
// gives out podCIDRs. An author's own under its name is the author's to turn off, so that the shared set stays as authors made it.
func disabledByDefault(constructors map[string]ControllerInitFuncConstructor) []string {
	off := sets.NewString(ControllersDisabledByDefault.List()...)
	for name, c := range constructors {
		if same(c.Constructor, StartNodeIPAMControllerWrapper) {
			off.Insert(name)
		}
	}
	return off.List()
}
