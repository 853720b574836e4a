package ccm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	migrationoptions "k8s.io/controller-manager/pkg/leadermigration/options"
	"k8s.io/klog/v2"
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
}

// NewCloudControllerManagerCommand takes what upstream's function of this name takes, and returns a command with the same flags and more. The process
// ends when stopCh is closed or the command's context ends: work ends, leases are released, and the command returns nil. A program that can do
// neither has SIGTERM and SIGINT do it, and a second signal ends it at once.
func NewCloudControllerManagerCommand(opts *options.CloudControllerManagerOptions, cloudInitializer InitCloudFunc,
	controllerInitFuncConstructors map[string]ControllerInitFuncConstructor, controllerAliases map[string]string, additionalFlags cliflag.NamedFlagSets,
	stopCh <-chan struct{},
) *cobra.Command {
	return (&program{
		use: "cloud-controller-manager", long: "Runs the cloud loops of a cluster: nodes, load balancers of Services, and routes.",
		options: opts, initCloud: cloudInitializer, constructors: controllerInitFuncConstructors, aliases: controllerAliases, flags: additionalFlags, stop: stopCh,
		webhookNames: AllWebhooks, disabledByName: DisabledByDefaultWebhooks,
	}).command()
}

func (p *program) command() *cobra.Command {
	registerMetrics()
	cmd := &cobra.Command{Use: p.use, Long: p.long, Args: refuseArguments}
	logOptions, settings := logs.NewOptions(), NewSettings()
	defaults := setDefaults(p.options)
	p.addFlags(cmd, logOptions, &settings)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if done, err := reportVersion(cmd, cmd.OutOrStdout()); done || err != nil {
			return err
		}
		if defaults != nil {
			return defaults
		}
		if err := logsapi.ValidateAndApply(logOptions, utilfeature.DefaultFeatureGate); err != nil {
			return err
		}
		cliflag.PrintFlags(cmd.Flags())
		run, err := p.prepare(cmd.Flags(), settings)
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

// handledSignals are the signals that end the work. There are none if the program that runs the command can end it by a stop channel or a context:
// then signals are that program's, and a handler of ours would end the manager before its time.
func handledSignals(ctx context.Context, stop <-chan struct{}) []os.Signal {
	if ctx.Done() != nil || stop != nil && stop != wait.NeverStop {
		return nil
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT}
}

// addFlags adds upstream's flags, the author's, and ours. Of two of the same name the first one counts, and ours come last.
func (p *program) addFlags(cmd *cobra.Command, logOptions *logsapi.LoggingConfiguration, settings *Settings) {
	sets := p.options.Flags(ControllerNames(p.constructors), disabledByDefault(p.constructors), p.aliases, p.webhookNames, p.disabledByName)
	global := sets.FlagSet("global")
	verflag.AddFlags(global)
	logsapi.AddFlags(logOptions, global)
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	fs := cmd.Flags()
	for _, name := range sets.Order {
		fs.AddFlagSet(sets.FlagSets[name])
	}
	for _, name := range sortedKeys(p.flags.FlagSets) { // not by Order, which an author may have left out
		fs.AddFlagSet(p.flags.FlagSets[name])
	}
	addOutputFlag(fs, global)
	ours := pflag.NewFlagSet(flagSet, pflag.ContinueOnError)
	settings.addFlags(ours, same(p.constructors[NodeIPAMController].Constructor, StartNodeIPAMControllerWrapper))
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

// addOutputFlag adds --output to all flags and to the section of --help. Nothing is added if an author has a flag of that name: it is theirs, and
// the version is printed as text. -o is left to an author in the same way.
func addOutputFlag(all, section *pflag.FlagSet) {
	if all.Lookup(outputFlag) != nil {
		return
	}
	shorthand := "o"
	if all.ShorthandLookup(shorthand) != nil {
		shorthand = ""
	}
	section.StringP(outputFlag, shorthand, textOutput, fmt.Sprintf("How --version is printed: %s or %s.", textOutput, jsonOutput))
	flag := section.Lookup(outputFlag)
	flag.Annotations = map[string][]string{outputAnnotation: nil}
	all.AddFlag(flag)
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
		config: completed, tokenFile: file, settings: settings, constructors: p.constructors, initCloud: p.initCloud, webhooks: p.webhooks,
	}, nil
}

// configure has upstream's options make the configuration, without the file of leader migration: upstream would read it again, and with its own rules.
func (p *program) configure(given migrationoptions.LeaderMigrationOptions) (*config.CompletedConfig, error) {
	flags := p.options.Generic.LeaderMigration // the flags stay bound to it, so that they are shown as they were given
	defer func() { p.options.Generic.LeaderMigration = flags }()
	p.options.Generic.LeaderMigration = &migrationoptions.LeaderMigrationOptions{Enabled: given.Enabled}
	made, err := p.options.Config(ControllerNames(p.constructors), disabledByDefault(p.constructors), p.aliases, p.webhookNames, p.disabledByName)
	if err != nil {
		return nil, err
	}
	return made.Complete(), nil
}

// untilTold returns a context that ends on the first of the handled signals, or when stop is closed. The second signal ends the process at once: its
// sender does not want to wait for the work that is under way.
func untilTold(parent context.Context, stop <-chan struct{}, handled []os.Signal, exit func(os.Signal)) (context.Context, func()) {
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
