package ccm

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
)

// newTestCommand returns a command whose provider must not be asked for.
func newTestCommand(t *testing.T, change func(*options.CloudControllerManagerOptions)) *cobra.Command {
	t.Helper()
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	change(opts)
	command := NewCloudControllerManagerCommand(opts, func(*config.CompletedConfig) cloudprovider.Interface {
		t.Error("the provider is made")
		return nil
	}, DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	command.SilenceUsage, command.SilenceErrors = true, true
	return command
}

func TestBadFlagsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no node workers", []string{"--concurrent-node-syncs=0"}, "--concurrent-node-syncs is 0, but must be at least 1"},
		{"fewer than no status workers", []string{"--concurrent-node-status-updates=-1"}, "--concurrent-node-status-updates is -1, but must not be negative"},
		{"no lifecycle workers", []string{"--concurrent-node-lifecycle-syncs=0"}, "--concurrent-node-lifecycle-syncs is 0, but must be at least 1"},
		{"no service workers", []string{"--concurrent-service-syncs=-3"}, "--concurrent-service-syncs is -3, but must be at least 1"},
		{"a period of nothing", []string{"--node-monitor-period=0s"}, "--node-monitor-period is 0s, but must be longer than 0"},
		{"no status period", []string{"--node-status-update-frequency=0s"}, "--node-status-update-frequency is 0s"},
		{"no route period", []string{"--route-reconciliation-period=-1s"}, "--route-reconciliation-period is -1s"},
		{"a word that says nothing of testimony", []string{"--pod-testimony=yes"}, `--pod-testimony is "yes", but must be auto, always or never`},
		{"a negative time to drain", []string{"--drain-timeout=-1s"}, "--drain-timeout is -1s, but must not be negative"},
		{"a call that may take no time", []string{"--cloud-call-timeout=0s"}, "--cloud-call-timeout is 0s"},
		{"a controller that nobody knows", []string{"--controllers=nodes"}, `"nodes" is not in the list of known controllers`},
		{"no provider", []string{"--cloud-provider="}, "--cloud-provider cannot be empty"},
		{"an argument", []string{"run"}, `"cloud-controller-manager" takes no arguments, but got ["run"]`},
		{"an empty argument, which is none, and a mistake", []string{"", "--concurrent-node-syncs=0"}, "--concurrent-node-syncs is 0"},
		{"a form of the version that does not exist", []string{"--version=yaml"}, "it must be true, false, raw, json or a version such as v1.2.3"},
		{"two mistakes", []string{"--concurrent-node-syncs=0", "--drain-timeout=-1s"}, "--concurrent-node-syncs is 0, but must be at least 1\n--drain-timeout is -1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := newTestCommand(t, func(*options.CloudControllerManagerOptions) {})
			command.SetArgs(
				append([]string{"--cloud-provider=test", "--master=http://127.0.0.1:1", "--secure-port=0", "--webhook-secure-port=0", "--version=false"}, c.args...),
			)
			if err := command.Execute(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the command returns %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestOurDefaultsTakeThePlaceOfUpstreamsOnly(t *testing.T) {
	command := newTestCommand(t, func(o *options.CloudControllerManagerOptions) {
		o.Generic.ClientConnection.QPS = 77 // an author's
	})
	for flag, want := range map[string]string{
		"kube-api-qps": "77", "kube-api-burst": "30", "concurrent-node-syncs": "50", "concurrent-node-lifecycle-syncs": "10", "concurrent-service-syncs": "40",
		"leader-elect-lease-duration": "15s", "leader-elect-renew-deadline": "10s", "leader-elect-retry-period": "2s",
	} {
		if got := command.Flags().Lookup(flag).DefValue; got != want {
			t.Errorf("--%s is %s by default, want %s", flag, got, want)
		}
	}
	if err := command.ParseFlags([]string{"--concurrent-node-syncs=1"}); err != nil {
		t.Fatal(err)
	}
	if got := command.Flags().Lookup("concurrent-node-syncs").Value.String(); got != "1" {
		t.Errorf("an explicit --concurrent-node-syncs=1 becomes %s", got)
	}
}

// What an author sets on the options cannot be told from upstream's default if it is the same.
func TestWorkersOfUpstreamsNumberAreSetOnTheFlags(t *testing.T) {
	command := newTestCommand(t, func(o *options.CloudControllerManagerOptions) { o.ServiceController.ConcurrentServiceSyncs = 1 })
	if got := command.Flags().Lookup("concurrent-service-syncs").Value.String(); got != "40" {
		t.Errorf("--concurrent-service-syncs is %s, and the page says that it is ours", got)
	}
	if err := command.Flags().Set("concurrent-service-syncs", "1"); err != nil {
		t.Fatal(err)
	}
	if got := command.Flags().Lookup("concurrent-service-syncs").Value.String(); got != "1" {
		t.Errorf("set on the flags, --concurrent-service-syncs is %s", got)
	}
	command = newTestCommand(t, func(o *options.CloudControllerManagerOptions) { o.ServiceController.ConcurrentServiceSyncs = 3 })
	if got := command.Flags().Lookup("concurrent-service-syncs").Value.String(); got != "3" {
		t.Errorf("an author's --concurrent-service-syncs=3 is %s", got)
	}
}

// cobra or the author prints it; upstream's prints it too, so that it is there twice.
func TestAnErrorIsReturnedAndNotPrintedToo(t *testing.T) {
	command := newTestCommand(t, func(*options.CloudControllerManagerOptions) {})
	var printed strings.Builder
	command.SetOut(&printed)
	command.SetErr(&printed)
	command.SetArgs([]string{"--cloud-provider=test", "--controllers=nonsense", "--version=false"})
	if err := command.Execute(); err == nil || printed.String() != "" {
		t.Errorf("the error is %v, and %q is printed", err, printed.String())
	}
}

func TestAnAuthorsFlagGoesBeforeOursOfTheSameName(t *testing.T) {
	var mine string
	var sets cliflag.NamedFlagSets
	sets.FlagSet("mine").StringVar(&mine, "drain-timeout", "", "Mine.")
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	command := NewCloudControllerManagerCommand(opts, nil, DefaultInitFuncConstructors, nil, sets, nil)
	if err := command.ParseFlags([]string{"--drain-timeout=mine"}); err != nil || mine != "mine" {
		t.Errorf("the author's flag is %q, error %v", mine, err)
	}
}

// Authors add flags to the command as well as to what it is made of, and run it under commands of theirs.
func TestAnAuthorsFlagsCanBeAddedAsToUpstreamsCommand(t *testing.T) {
	output := func(fs *pflag.FlagSet, into *string) { fs.StringVarP(into, "output", "o", "", "Mine.") }
	for _, c := range []struct {
		name string
		add  func(sets *cliflag.NamedFlagSets, into *string) func(*cobra.Command) *cobra.Command
	}{
		{"in a flag set", func(sets *cliflag.NamedFlagSets, into *string) func(*cobra.Command) *cobra.Command {
			output(sets.FlagSet("mine"), into)
			return func(command *cobra.Command) *cobra.Command { return command }
		}},
		{"afterwards", func(_ *cliflag.NamedFlagSets, into *string) func(*cobra.Command) *cobra.Command {
			return func(command *cobra.Command) *cobra.Command { output(command.Flags(), into); return command }
		}},
		{"as persistent ones", func(_ *cliflag.NamedFlagSets, into *string) func(*cobra.Command) *cobra.Command {
			return func(command *cobra.Command) *cobra.Command { output(command.PersistentFlags(), into); return command }
		}},
		{"as those of a parent", func(_ *cliflag.NamedFlagSets, into *string) func(*cobra.Command) *cobra.Command {
			return func(command *cobra.Command) *cobra.Command {
				parent := &cobra.Command{Use: "parent"}
				output(parent.PersistentFlags(), into)
				parent.AddCommand(command)
				return parent
			}
		}},
	} {
		for _, version := range []struct{ flag, want string }{{"--version", "cloud-controller-manager "}, {"--version=json", "{"}} {
			t.Run(c.name+" with "+version.flag, func(t *testing.T) {
				opts, err := options.NewCloudControllerManagerOptions()
				if err != nil {
					t.Fatal(err)
				}
				var mine string
				var sets cliflag.NamedFlagSets
				add := c.add(&sets, &mine)
				command := NewCloudControllerManagerCommand(opts, nil, DefaultInitFuncConstructors, nil, sets, nil)
				defer resetVersion(t, command)
				root := add(command)
				var printed strings.Builder
				root.SetOut(&printed)
				args := []string{version.flag, "-o", "wide"}
				if root != command {
					args = append([]string{command.Name()}, args...)
				}
				root.SetArgs(args)
				if err := root.Execute(); err != nil || mine != "wide" || !strings.HasPrefix(printed.String(), version.want) {
					t.Errorf("with %q the author's flag is %q (error %v), and the version is printed as %q", args, mine, err, printed.String())
				}
			})
		}
	}
}

// A shorthand is one letter of 52, and an author may have it.
func TestOurFlagsHaveNoShorthand(t *testing.T) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	upstream := app.NewCloudControllerManagerCommand(opts, nil, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, nil)
	ours := 0
	newTestCommand(t, func(*options.CloudControllerManagerOptions) {}).Flags().VisitAll(func(flag *pflag.Flag) {
		if upstream.Flags().Lookup(flag.Name) != nil {
			return
		}
		if ours++; flag.Shorthand != "" {
			t.Errorf("--%s has the shorthand -%s", flag.Name, flag.Shorthand)
		}
	})
	if ours == 0 {
		t.Error("no flag of ours is there")
	}
}

// resetVersion takes --version back: its flag is bound to a variable of the process.
func resetVersion(t *testing.T, command *cobra.Command) {
	t.Helper()
	if err := command.Flags().Set("version", "false"); err != nil {
		t.Fatal(err)
	}
}

// Upstream adds sets by their map. Order is only for --help.
func TestFlagSetsWithoutAnOrderAreFlags(t *testing.T) {
	var mine string
	set := pflag.NewFlagSet("mine", pflag.ContinueOnError)
	set.StringVar(&mine, "mine", "", "Mine.")
	sets := cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{"mine": set}}
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	command := NewCloudControllerManagerCommand(opts, nil, DefaultInitFuncConstructors, nil, sets, nil)
	if err := command.ParseFlags([]string{"--mine=yes"}); err != nil || mine != "yes" {
		t.Errorf("the author's flag is %q, error %v", mine, err)
	}
}

func TestTheCommandRunsWithoutExecute(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	command := NewCloudControllerManagerCommand(opts, func(*config.CompletedConfig) cloudprovider.Interface { return nil },
		DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, stop)
	if err := command.ParseFlags([]string{
		"--cloud-provider=test", "--master=http://127.0.0.1:1", "--secure-port=0", "--webhook-secure-port=0", "--version=false",
		"--drain-timeout=-1s", // what ours reads, too
	}); err != nil {
		t.Fatal(err)
	}
	for _, given := range []*cobra.Command{command, {Use: "mine"}} { // the author's own command calls it
		if err := command.RunE(given, nil); err == nil || !strings.Contains(err.Error(), "--drain-timeout is -1s") {
			t.Errorf("RunE returns %v", err)
		}
	}
}

func TestAnAuthorsClientLimitsStay(t *testing.T) {
	for _, c := range []struct {
		name      string
		qps       float32
		burst     int32
		wantQPS   float32
		wantBurst int32
	}{
		{"upstream's defaults give way to ours", 20, 30, defaultQPS, defaultBurst},
		{"a QPS of upstream's number with another burst", 20, 100, 20, 100},
		{"a burst of upstream's number with another QPS", 5, 30, 5, 30},
		{"both", 7, 8, 7, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			var opts *options.CloudControllerManagerOptions
			newTestCommand(t, func(o *options.CloudControllerManagerOptions) {
				opts = o
				o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = c.qps, c.burst
			})
			if got := opts.Generic.ClientConnection; got.QPS != c.wantQPS || got.Burst != c.wantBurst {
				t.Errorf("the limits are %v and %d, want %v and %d", got.QPS, got.Burst, c.wantQPS, c.wantBurst)
			}
		})
	}
}

// A program that can end the command by itself has its own signals.
func TestSignalsAreHandledOnlyForAProgramThatCannotEndTheCommand(t *testing.T) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	own := make(chan struct{})
	for _, c := range []struct {
		name string
		ctx  context.Context
		stop <-chan struct{}
		want bool
	}{
		{"neither", context.Background(), nil, true},
		{"a channel that never closes", context.Background(), wait.NeverStop, true},
		{"a stop channel", context.Background(), own, false},
		{"a context that ends", cancellable, wait.NeverStop, false},
	} {
		if got := len(handledSignals(c.ctx, c.stop)) > 0; got != c.want {
			t.Errorf("with %s signals are handled: %v, want %v", c.name, got, c.want)
		}
	}
	// With none handled, a signal that the program waits for reaches the program alone.
	theirs := make(chan os.Signal, 1)
	signal.Notify(theirs, syscall.SIGTERM)
	defer signal.Stop(theirs)
	ctx, stop := untilTold(cancellable, own, handledSignals(cancellable, own), func(os.Signal) { t.Error("the process ends") })
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-theirs
	if ctx.Err() != nil {
		t.Error("a signal of the embedding program ends the work")
	}
	close(own)
	<-ctx.Done()
}

// The shape of upstream's sample: only the import of app is another one. What the functions below use has to exist, and with the same types.
func TestUpstreamsSampleIsAProgramOfThisLibrary(t *testing.T) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	constructors := map[string]app.ControllerInitFuncConstructor{}
	for name, constructor := range DefaultInitFuncConstructors {
		constructor.InitContext.ClientName = "mycloud-" + constructor.InitContext.ClientName
		constructors[name] = constructor
	}
	for name := range app.DefaultInitFuncConstructors {
		if _, ours := constructors[name]; !ours || len(constructors) != len(app.DefaultInitFuncConstructors) {
			t.Errorf("the defaults are %v, want upstream's names", sortedKeys(constructors))
		}
	}
	initialise := func(config *config.CompletedConfig) cloudprovider.Interface {
		named := config.ComponentConfig.KubeCloudShared.CloudProvider
		cloud, _ := cloudprovider.InitCloudProvider(named.Name, named.CloudConfigFile)
		return cloud
	}
	// One signature for both packages.
	for _, command := range []func(*options.CloudControllerManagerOptions, app.InitCloudFunc, map[string]app.ControllerInitFuncConstructor, map[string]string,
		cliflag.NamedFlagSets, <-chan struct{}) *cobra.Command{app.NewCloudControllerManagerCommand, NewCloudControllerManagerCommand} {
		if c := command(
			opts,
			initialise,
			constructors,
			names.CCMControllerAliases(),
			cliflag.NamedFlagSets{},
			wait.NeverStop,
		); c.Name() != "cloud-controller-manager" {
			t.Errorf("the command is called %s", c.Name())
		}
	}
	type steps interface {
		SetOptions(*options.CloudControllerManagerOptions)
		AddFlags(cliflag.NamedFlagSets)
		RegisterController(string, app.ControllerInitFuncConstructor, map[string]string)
		RegisterDefaultControllers()
		RegisterWebhook(string, app.WebhookConfig)
		SetCloudInitializer(app.InitCloudFunc)
		SetStopChannel(<-chan struct{})
		SetCmdName(string)
		SetLongDesc(string)
		SetProviderDefaults(options.ProviderDefaults)
		BuildCommand() *cobra.Command
	}
	var _ steps = app.NewBuilder()
	var b steps = NewBuilder()
	b.RegisterDefaultControllers()
	b.RegisterController("mine", ControllerInitFuncConstructor{}, map[string]string{"m": "mine", "other": "another"})
	b.RegisterWebhook("hook", WebhookConfig{Path: "/hook"})
	b.SetCmdName("my-manager")
	b.SetLongDesc("Runs.")
	for _, unnamed := range []steps{app.NewBuilder(), NewBuilder()} {
		unnamed.SetCmdName("")
		unnamed.SetLongDesc("")
		if built := unnamed.BuildCommand(); built.Name() != "cloud-controller-manager" || built.Long == "" {
			t.Errorf("without a name, the builder made %q: %q", built.Name(), built.Long)
		}
	}
	built := b.BuildCommand()
	if built.Name() != "my-manager" || built.Long != "Runs." || !strings.Contains(built.Flags().Lookup("controllers").Usage, "mine, node-route-controller") ||
		!strings.Contains(built.Flags().Lookup("webhooks").Usage, "hook") {
		t.Errorf("the builder made %s: %s", built.Name(), built.Flags().Lookup("controllers").Usage)
	}
}

func TestTheFirstSignalEndsTheWorkAndTheSecondTheProcess(t *testing.T) {
	exits := make(chan os.Signal, 1)
	ctx, stop := untilTold(t.Context(), nil, handledSignals(context.Background(), nil), func(s os.Signal) { exits <- s })
	defer stop()
	kill := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	kill(syscall.SIGTERM)
	<-ctx.Done()
	kill(syscall.SIGINT)
	select {
	case s := <-exits:
		if s != syscall.SIGINT {
			t.Errorf("the process ends because of %v", s)
		}
	case <-time.After(patience):
		t.Error("the process does not end")
	}
}

func TestAClosedStopChannelEndsTheWorkAndASignalAfterItTheProcess(t *testing.T) {
	exits, stopped := make(chan os.Signal, 1), make(chan struct{})
	ctx, stop := untilTold(t.Context(), stopped, handledSignals(context.Background(), nil), func(s os.Signal) { exits <- s })
	defer stop()
	close(stopped)
	<-ctx.Done()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-exits
}
