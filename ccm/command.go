package ccm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/app/config"
	cpconfig "k8s.io/cloud-provider/config"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	migrationoptions "k8s.io/controller-manager/pkg/leadermigration/options"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
	"github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/ccm/service"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask/logging"
)

// program is what an author makes a command of.
type program struct {
	use, long    string
	options      *options.CloudControllerManagerOptions
	initCloud    InitCloudFunc
	constructors map[string]ControllerInitFuncConstructor
	aliases      map[string]string
	flags        cliflag.NamedFlagSets
	stop         <-chan struct{}
	// webhooks are those of a CommandBuilder; the names may be known without them.
	webhooks                     map[string]WebhookConfig
	webhookNames, disabledByName []string
	// ownLogging is that the author may have set up the logging of the process, as upstream's builder lets them.
	ownLogging bool
}

const longDescription = "Runs the cloud loops of a cluster: nodes, load balancers of Services, and routes."

// NewCloudControllerManagerCommand takes what upstream's function of this name takes, and returns a command with the
// same flags and more. The process ends when stopCh is closed or the command's context ends: work ends, leases are
// released, and the command returns nil. A program that can do neither has SIGTERM and SIGINT do it, and a second
// signal ends it at once.
func NewCloudControllerManagerCommand(
	opts *options.CloudControllerManagerOptions,
	cloudInitializer InitCloudFunc,
	controllerInitFuncConstructors map[string]ControllerInitFuncConstructor,
	controllerAliases map[string]string,
	additionalFlags cliflag.NamedFlagSets,
	stopCh <-chan struct{},
) *cobra.Command {
	return (&program{
		use: component.CCM, long: longDescription,
		options:      opts,
		initCloud:    cloudInitializer,
		constructors: controllerInitFuncConstructors,
		aliases:      controllerAliases,
		flags:        additionalFlags,
		stop:         stopCh,
		webhookNames: AllWebhooks, disabledByName: DisabledByDefaultWebhooks,
	}).command()
}

func (p *program) command() *cobra.Command {
	registerMetrics()
	cmd := &cobra.Command{Use: p.use, Long: p.long, Args: refuseArguments}
	logOptions, settings := logs.NewOptions(), NewSettings()
	defaults := setDefaults(p.options)
	p.addFlags(cmd, logOptions, &settings)
	built, flags := cmd, cmd.Flags() // and not those of the command that RunE gets: an author may call it with another one
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if done, err := reportVersion(built, cmd.OutOrStdout()); done || err != nil {
			return err
		}
		if defaults != nil {
			return defaults
		}
		if err := p.setUpLogging(logOptions, flags); err != nil {
			return err
		}
		cliflag.PrintFlags(flags)
		run, err := p.prepare(flags, settings)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background() //nolint:forbidigo // RunE was called without Execute, so that there is none
		}
		ctx, stop := untilTold(ctx, p.stop, handledSignals(ctx, p.stop), exit)
		defer stop()
		return run.run(ctx)
	}
	return cmd
}

// refuseArguments accepts empty arguments, as upstream does: manifests have them where a variable is not set.
func refuseArguments(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			return fmt.Errorf("%q takes no arguments, but got %q; write flags as --name=value", cmd.CommandPath(), args)
		}
	}
	return nil
}

// handledSignals are the signals that end the work. There are none if the program that runs the command can end it by a
// stop channel or a context. Signals are then that program's, and a handler of ours would end the manager too early.
func handledSignals(ctx context.Context, stop <-chan struct{}) []os.Signal {
	if ctx.Done() != nil || stop != nil && stop != wait.NeverStop {
		return nil
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT}
}

// addFlags adds upstream's flags, the author's, and ours. Of two of the same name the first one counts, and ours come
// last.
func (p *program) addFlags(cmd *cobra.Command, logOptions *logsapi.LoggingConfiguration, settings *Settings) {
	sets := p.options.Flags(
		ControllerNames(p.constructors),
		disabledByDefault(p.constructors),
		p.aliases,
		p.webhookNames,
		p.disabledByName,
	)
	global := sets.FlagSet("global")
	addVersionFlag(global)
	if !p.hasLoggingFlags() {
		logsapi.AddFlags(logOptions, global)
	}
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	fs := cmd.Flags()
	for _, name := range sets.Order {
		fs.AddFlagSet(sets.FlagSets[name])
	}
	for _, name := range sortedKeys(p.flags.FlagSets) { // not by Order, which an author may have left out
		fs.AddFlagSet(p.flags.FlagSets[name])
	}
	ours := pflag.NewFlagSet(flagSet, pflag.ContinueOnError)
	settings.addFlags(ours, isSameConstructor(p.constructors[NodeIPAMController].Constructor,
		StartNodeIPAMControllerWrapper))
	ours.VisitAll(func(f *pflag.Flag) {
		if fs.Lookup(f.Name) == nil {
			sets.FlagSet(flagSet).AddFlag(f)
			fs.AddFlag(f)
		}
	})
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n", cmd.UseLine())
		cliflag.PrintSections(cmd.OutOrStderr(), sets, columns)
		cliflag.PrintSections(cmd.OutOrStderr(), p.flags, columns)
		return err
	})
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  %s\n", cmd.Long, cmd.UseLine())
		cliflag.PrintSections(cmd.OutOrStdout(), sets, columns)
		cliflag.PrintSections(cmd.OutOrStdout(), p.flags, columns)
	})
}

// setUpLogging sets up a logger that masks. One that the author of a builder's program has set up before is masked, and
// the author can apply a configuration later. Upstream's builder applies none.
func (p *program) setUpLogging(logOptions *logsapi.LoggingConfiguration, flags *pflag.FlagSet) error {
	if !p.ownLogging {
		return logging.Apply(logOptions, utilfeature.DefaultFeatureGate)
	}
	isOurs := !p.hasLoggingFlags()
	if !logging.IsSet() {
		if isOurs && asksForFormat(flags) {
			err := logging.Apply(logOptions, utilfeature.DefaultFeatureGate)
			if err == nil || len(logsapi.Validate(logOptions, utilfeature.DefaultFeatureGate, nil)) > 0 {
				return err
			} // what is valid is refused if another configuration was applied before
		} else {
			logging.UseText()
		}
	}
	logging.Mask()
	var errs []error
	if isOurs && flags.Changed("v") {
		errs = append(errs, logging.SetVerbosity(logOptions))
	}
	if isOurs && flags.Changed("vmodule") {
		errs = append(errs, logging.SetFileVerbosity(logOptions))
	}
	return errors.Join(errs...)
}

// asksForFormat reports whether a flag of logging other than those of verbosity is given.
func asksForFormat(flags *pflag.FlagSet) bool {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	logsapi.AddFlags(logs.NewOptions(), known)
	isGiven := false
	known.VisitAll(func(f *pflag.Flag) {
		isGiven = isGiven || f.Name != "v" && f.Name != "vmodule" && flags.Changed(f.Name)
	})
	return isGiven
}

// hasLoggingFlags reports whether the flags of logging are the author's.
func (p *program) hasLoggingFlags() bool {
	if p.ownLogging {
		for _, set := range p.flags.FlagSets {
			if set.Lookup("logging-format") != nil {
				return true
			}
		}
	}
	return false
}

// prepare judges the flags and the files that they name. Nothing has been started when it returns an error.
func (p *program) prepare(flags *pflag.FlagSet, settings Settings) (*process, error) {
	given := *p.options.Generic.LeaderMigration
	migration, err := roster{p.constructors, p.aliases}.migration(given)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(append([]error{validate(p.options)}, settings.validate()...)...); err != nil {
		return nil, err
	}
	completed, err := p.configure(given)
	if err != nil {
		return nil, err
	}
	migration.apply(&completed.ComponentConfig.Generic)
	settings.readShared(completed.ComponentConfig.KubeCloudShared)
	if period := flags.Lookup("route-reconciliation-period"); period != nil && period.Changed {
		settings.explicitRoutePeriod = true
	}
	file := useTokenSource(completed.Kubeconfig)
	if file != "" {
		if err := remakeClients(completed); err != nil {
			return nil, err
		}
	}
	return &process{
		config:       completed,
		tokenFile:    file,
		settings:     settings,
		constructors: p.constructors,
		initCloud:    p.initCloud,
		webhooks:     p.webhooks,
	}, nil
}

// configure has upstream's options make the configuration, without the file of leader migration: upstream would read it
// again, and with its own rules.
func (p *program) configure(given migrationoptions.LeaderMigrationOptions) (*config.CompletedConfig, error) {
	flags := p.options.Generic.LeaderMigration // the flags stay bound to it, so that they are shown as they were given
	defer func() { p.options.Generic.LeaderMigration = flags }()
	p.options.Generic.LeaderMigration = &migrationoptions.LeaderMigrationOptions{Enabled: given.Enabled}
	made, err := p.options.Config(
		ControllerNames(p.constructors),
		disabledByDefault(p.constructors),
		p.aliases,
		p.webhookNames,
		p.disabledByName,
	)
	if err != nil {
		return nil, err
	}
	return made.Complete(), nil
}

// untilTold returns a context that ends on the first of the handled signals, or when stop is closed. The second signal
// ends the process at once: its sender does not want to wait for the work that is under way.
func untilTold(
	parent context.Context,
	stop <-chan struct{},
	handled []os.Signal,
	exit func(os.Signal),
) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	if len(handled) > 0 { // signal.Notify takes none for all
		signal.Notify(signals, handled...)
	}
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		told := false
		for {
			select {
			case s := <-signals:
				if told {
					exit(s)
					return
				}
				klog.InfoS("Told to end: work is brought to an end, then the leases are released", "signal", s)
			case <-stop:
				stop = nil
			case <-over:
				return
			}
			told = true
			cancel(errTold)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		<-gone
		cancel(nil)
	}
}

// exit ends the process with the code that shells give to a process that a signal ended.
func exit(s os.Signal) {
	klog.InfoS("Told to end again: ending at once; the leases are left to expire", "signal", s)
	code := 1
	if number, ok := s.(syscall.Signal); ok {
		code = 128 + int(number)
	}
	klog.FlushAndExit(klog.ExitFlushTimeout, code)
}

// Our defaults where they differ from upstream's. All of them say how much may go on at once. The limits of the cloud
// and the API server are not known here and not guessed. The call rate adapts to a cloud that throttles, and the API
// server protects itself with priority and fairness.
const (
	// defaultQPS is for each controller, and upstream's 20 make 5,000 nodes that join together wait for more than 8
	// minutes: they are 10,000 patches.
	defaultQPS   = 1000
	defaultBurst = 2000
	// defaultNodeSyncs workers write nodes that were read in batches: they wait for the API server only.
	defaultNodeSyncs = 50
	// defaultLifecycleSyncs workers delete and taint nodes; without InstancesLister they also ask the cloud, node by node.
	defaultLifecycleSyncs = 10
	// defaultServiceSyncs load balancers are worked on together. One takes 10 to 20 requests, and on some clouds minutes.
	// Where a change of members is one call of 50 ms, the last of 200 load balancers waits for a quarter of a second.
	defaultServiceSyncs = 40
)

// raise puts our default in place of upstream's. A value that is not upstream's is the author's own, and stays.
func raise[T comparable](value *T, upstream, ours T) {
	if *value == upstream {
		*value = ours
	}
}

// setDefaults puts our defaults in place of upstream's. It is called before flags are parsed, so that what a flag says
// is obeyed.
func setDefaults(o *options.CloudControllerManagerOptions) error {
	upstream, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("reading upstream's defaults: %w", err)
	}
	// Both or none: an author who sets one of the two has chosen the other as well, also where it is upstream's number.
	if client, theirs := &o.Generic.ClientConnection, upstream.Generic.ClientConnection; client.QPS == theirs.QPS &&
		client.Burst == theirs.Burst {
		client.QPS, client.Burst = defaultQPS, defaultBurst
	}
	if o.NodeController != nil {
		raise(&o.NodeController.ConcurrentNodeSyncs, upstream.NodeController.ConcurrentNodeSyncs, defaultNodeSyncs)
	}
	if o.NodeLifecycleController != nil {
		raise(
			&o.NodeLifecycleController.ConcurrentNodeLifecycleSyncs,
			upstream.NodeLifecycleController.ConcurrentNodeLifecycleSyncs,
			defaultLifecycleSyncs,
		)
	}
	if o.ServiceController != nil {
		raise(
			&o.ServiceController.ConcurrentServiceSyncs,
			upstream.ServiceController.ConcurrentServiceSyncs,
			defaultServiceSyncs,
		)
	}
	return nil
}

// upstreamRoutePeriod is upstream's default of --route-reconciliation-period.
const upstreamRoutePeriod = 10 * time.Second

// validate returns what upstream's own validation lets pass and no controller can work with.
func validate(o *options.CloudControllerManagerOptions) error {
	var errs []error
	atLeastOne := func(flag string, value int32) {
		if value < 1 {
			errs = append(errs, fmt.Errorf("--%s is %d, but must be at least 1", flag, value))
		}
	}
	positive := func(flag string, value time.Duration) {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s is %s, but must be longer than 0", flag, value))
		}
	}
	if o.NodeController != nil {
		atLeastOne("concurrent-node-syncs", o.NodeController.ConcurrentNodeSyncs)
		if updates := o.NodeController.ConcurrentNodeStatusUpdates; updates < 0 {
			errs = append(errs, fmt.Errorf("--concurrent-node-status-updates is %d, but must not be negative", updates))
		}
	}
	if o.NodeLifecycleController != nil {
		atLeastOne("concurrent-node-lifecycle-syncs", o.NodeLifecycleController.ConcurrentNodeLifecycleSyncs)
		positive("node-monitor-period", o.NodeLifecycleController.NodeMonitorPeriod.Duration)
	}
	if o.ServiceController != nil {
		atLeastOne("concurrent-service-syncs", o.ServiceController.ConcurrentServiceSyncs)
	}
	positive("node-status-update-frequency", o.NodeStatusUpdateFrequency.Duration)
	positive("route-reconciliation-period", o.KubeCloudShared.RouteReconciliationPeriod.Duration)
	return errors.Join(errs...)
}

// defaultDrainTimeout leaves room, within the 30 s after which a kubelet kills a container, for cutting workers off and
// for releasing the leases.
const defaultDrainTimeout = 20 * time.Second

// flagSet is the section of --help with the flags that upstream does not have.
const flagSet = "transplant"

// Settings are what can be set beyond upstream's flags. InitFuncs find them in their context.
type Settings struct {
	// DrainTimeout is how long workers may take to end once the process was told to.
	DrainTimeout time.Duration
	// PodTestimony is whether the kubelet of this process testifies to others when it has ended; see package testimony.
	PodTestimony testimony.Mode
	// TerminationMessagePath is that of the container.
	TerminationMessagePath string
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
		DrainTimeout:           defaultDrainTimeout,
		PodTestimony:           testimony.Auto,
		TerminationMessagePath: corev1.TerminationMessagePathDefault,
		Cloud:                  cloud.NewOptions(),
		Node:                   node.NewOptions(),
		NodeLifecycle:          nodelifecycle.NewOptions(),
		Service:                service.NewOptions(),
		Route:                  route.NewOptions(),
		NodeIPAM:               nodeipam.NewOptions(),
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
	fs.DurationVar(
		&s.DrainTimeout,
		"drain-timeout",
		s.DrainTimeout,
		"How long the work that is under way may take to end after SIGTERM or SIGINT. The leases "+
			"are renewed meanwhile and released after it. Work that takes longer is cut off. Keep it well below the pod's terminationGracePeriodSeconds.",
	)
	fs.StringVar(
		(*string)(&s.PodTestimony),
		"pod-testimony",
		string(s.PodTestimony),
		"Whether a standby takes the leases over when the kubelet of their holder says that its container has ended. "+
			"Else it waits for them to expire. auto does so where this process is the first of a container, and POD_NAME "+
			"and NODE_NAME say of which pod. always does so elsewhere, too: then the container has to end with this "+
			"process. never does not. Needs leave to watch pods in the namespace of the leases.",
	)
	fs.StringVar(
		&s.TerminationMessagePath,
		"termination-message-path",
		s.TerminationMessagePath,
		"terminationMessagePath of the container. This process writes its identity there, for --pod-testimony.",
	)
	fs.BoolVar(
		&s.RenewToken,
		"renew-token",
		s.RenewToken,
		"Whether to renew the token in the tokenFile of the kubeconfig, for the same ServiceAccount, when a "+
			"third of its life is over. Needs the right to create serviceaccounts/token under the account's own name, and a writable directory.",
	)
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
	if !slices.Contains(testimony.Modes, s.PodTestimony) {
		errs = append(errs, fmt.Errorf("--pod-testimony is %q, but must be auto, always or never", s.PodTestimony))
	}
	for _, more := range [][]error{
		s.Cloud.Validate(), s.Node.Validate(), s.NodeLifecycle.Validate(), s.Service.Validate(),
		s.Route.Validate(), s.NodeIPAM.Validate(),
	} {
		errs = append(errs, more...)
	}
	return errs
}

// routePeriod is the route controller's period if a flag sets it: upstream's default makes no sense for a controller
// that hears of changes.
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
