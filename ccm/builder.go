package ccm

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// CommandBuilder builds a command step by step. It has the methods of upstream's.
type CommandBuilder struct {
	program  program
	defaults options.ProviderDefaults
}

// NewBuilder returns a builder of a command without controllers.
func NewBuilder() *CommandBuilder {
	return &CommandBuilder{program: program{
		use: "cloud-controller-manager", long: "Runs the cloud loops of a cluster: nodes, load balancers of Services, and routes.",
		constructors: map[string]ControllerInitFuncConstructor{}, aliases: map[string]string{}, webhooks: map[string]WebhookConfig{}, stop: wait.NeverStop,
	}}
}

// SetOptions sets the options that flags are bound to. Without it there are new ones.
func (b *CommandBuilder) SetOptions(o *options.CloudControllerManagerOptions) { b.program.options = o }

// AddFlags sets the flags of the author's own controllers.
func (b *CommandBuilder) AddFlags(additionalFlags cliflag.NamedFlagSets) {
	b.program.flags = additionalFlags
}

// RegisterController adds a controller, and of the aliases those that are its own.
func (b *CommandBuilder) RegisterController(name string, constructor ControllerInitFuncConstructor, aliases map[string]string) {
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

// SetStopChannel sets a channel that ends the process when it is closed. Signals do so too.
func (b *CommandBuilder) SetStopChannel(stopCh <-chan struct{}) { b.program.stop = stopCh }

// SetCmdName sets the name of the command.
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
