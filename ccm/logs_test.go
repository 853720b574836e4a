package ccm

import (
	"errors"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

// logsInChild is set in the process in which a manager sets its loggers itself.
const logsInChild = "TRANSPLANT_TEST_LOGS"

// chatty is a provider that logs an error of its cloud in all ways that klog has.
type chatty struct {
	provider
	err  error
	done chan struct{}
}

func (c *chatty) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	klog.Infof("asking the cloud: %v", c.err)
	klog.Errorf("asking the cloud: %v", c.err)
	klog.InfoS("Asking the cloud", "answer", c.err)
	klog.ErrorS(c.err, "Asking the cloud")
	klog.V(2).InfoS("Asking the cloud", "answer", c.err.Error())
	klog.Background().WithValues("answer", c.err).Info("Asking the cloud")
	close(c.done)
}

// inProcess runs something in a process of its own, whose loggers a manager sets itself, and returns what that has logged.
// In that process it does not return.
func inProcess(t *testing.T, do func(*testing.T)) string {
	t.Helper()
	if os.Getenv(logsInChild) != "" {
		do(t)
		t.SkipNow() // what is logged is for the process that has started this one
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), logsInChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, mask.Lines(string(out)))
	}
	return string(out)
}

func TestWhatAProviderLogsShowsNoSecret(t *testing.T) {
	secrets, planted := canary.PlantError()
	out := inProcess(t, func(t *testing.T) { speak(t, planted) })
	if found := secrets.In(out); len(found) > 0 {
		t.Errorf("the secrets of %q are logged", found)
	}
	if got := strings.Count(strings.ToLower(out), "asking the cloud"); got != 6 {
		t.Errorf("%d of 6 lines are logged", got)
	}
	if !strings.Contains(out, mask.Masked) {
		t.Error("nothing is said to be masked")
	}
	for _, want := range []string{"logs_test.go:", `"Asking the cloud" answer=`, "asking the cloud: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no line has %q", want)
		}
	}
}

// speak runs a manager until its provider has logged all that it logs.
func speak(t *testing.T, err error) {
	cloud := &chatty{err: err, done: make(chan struct{})}
	w := newWorker("mine")
	m := run(t, apitest.New(t), cloud, map[string]*worker{"mine": w}, "--v=2")
	w.leads(t)
	<-cloud.done
	if err := m.end(); err != nil {
		t.Error(errors.New(mask.Error(err)))
	}
}

// Upstream's builder sets up no logging and adds no flags for it, so that an author may.
func TestABuildersAuthorSetsUpLogging(t *testing.T) {
	for _, c := range []struct {
		name    string
		builder func() commandBuilder
		flags   bool // are the author's
	}{
		{"upstream", func() commandBuilder { return app.NewBuilder() }, true},
		{"upstream, without flags", func() commandBuilder { return app.NewBuilder() }, false},
		{"ours", func() commandBuilder { return NewBuilder() }, true},
		{"ours, without flags", func() commandBuilder { return NewBuilder() }, false},
		{"upstream, not contextual", func() commandBuilder { return app.NewBuilder() }, false},
		{"ours, not contextual", func() commandBuilder { return NewBuilder() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			secrets, planted := canary.PlantError()
			contextual := !strings.HasSuffix(c.name, "not contextual")
			if !contextual {
				planted = errors.New("the cloud is down") // no logger masks errors then
			}
			out := inProcess(t, func(t *testing.T) { logged(t, c.builder(), c.flags, contextual, planted) })
			if !strings.Contains(out, `"msg":"Asking the cloud"`) {
				t.Errorf("the log is not in the author's format:\n%s", mask.Lines(out))
			}
			if found := secrets.In(out); len(found) > 0 && c.name[0] == 'o' {
				t.Errorf("the secrets of %q are logged", found)
			}
		})
	}
}

// What an author has chosen in main is kept, and a configuration can still be applied in InitCloudFunc.
func TestABuildersAuthorChoosesWhatIsLogged(t *testing.T) {
	for _, l := range []struct {
		name    string
		builder func() commandBuilder
	}{{"upstream", func() commandBuilder { return app.NewBuilder() }}, {"ours", func() commandBuilder { return NewBuilder() }}} {
		for name, c := range map[string]struct {
			main, initCloud func() error
			want            string
		}{
			"verbosity": {func() error {
				set := flag.NewFlagSet("", flag.ContinueOnError)
				klog.InitFlags(set)
				return set.Set("v", "4")
			}, func() error {
				klog.V(4).InfoS("At four")
				return nil
			}, `"At four"`},
			"slog": {func() error {
				slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug})))
				return nil
			}, func() error {
				slog.Debug("By slog")
				return nil
			}, `"msg":"By slog"`},
			"configuration": {func() error { return nil }, func() error {
				options := logs.NewOptions()
				options.Format = "json"
				err := logsapi.ValidateAndApply(options, nil)
				klog.InfoS("As JSON")
				return err
			}, `"msg":"As JSON"`},
		} {
			t.Run(l.name+" "+name, func(t *testing.T) {
				out := inProcess(t, func(t *testing.T) {
					if err := c.main(); err != nil {
						t.Error(err)
					}
					runBuilt(t, l.builder(), func() {
						if err := c.initCloud(); err != nil {
							t.Error(err)
						}
					})
				})
				if !strings.Contains(out, c.want) {
					t.Errorf("%s is not logged:\n%s", c.want, mask.Lines(out))
				}
			})
		}
	}
}

// runBuilt runs a builder's program until its InitCloudFunc has done something.
func runBuilt(t *testing.T, b commandBuilder, initCloud func()) {
	t.Helper()
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingError
	stop, reached := make(chan struct{}), make(chan struct{}, 1)
	close(stop)
	b.SetStopChannel(stop)
	b.RegisterController("mine", idleController(), nil)
	b.SetCloudInitializer(func(*config.CompletedConfig) cloudprovider.Interface {
		initCloud()
		reached <- struct{}{}
		return &authored{}
	})
	command := b.BuildCommand()
	command.SetArgs([]string{
		"--cloud-provider=test", "--kubeconfig=" + newAuthorsServer(t).Kubeconfig(t), "--secure-port=0", "--webhook-secure-port=0", "--leader-elect=false",
	})
	if err := command.Execute(); err != nil {
		t.Error(err)
	}
	receive(t, reached)
	klog.Flush()
}

// logged runs a program whose author has set up logging as JSON.
func logged(t *testing.T, b commandBuilder, flags, contextual bool, planted error) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingError
	options := logs.NewOptions()
	var sets cliflag.NamedFlagSets
	args := []string{"--cloud-provider=test", "--kubeconfig=" + newAuthorsServer(t).Kubeconfig(t), "--secure-port=0", "--webhook-secure-port=0"}
	if flags {
		logsapi.AddFlags(options, sets.FlagSet("logging"))
		args = append(args, "--logging-format=json")
	} else {
		options.Format = "json"
	}
	stop := make(chan struct{})
	close(stop)
	b.SetStopChannel(stop)
	b.AddFlags(sets)
	b.RegisterController("mine", idleController(), nil)
	reached := make(chan struct{}, 1)
	b.SetCloudInitializer(func(*config.CompletedConfig) cloudprovider.Interface {
		klog.ErrorS(planted, "Asking the cloud")
		slog.Error("Asking the cloud by slog", "err", planted)
		log.Print("asking the cloud by the package log: ", planted)
		reached <- struct{}{}
		return &authored{}
	})
	command := b.BuildCommand()
	command.PreRunE = func(*cobra.Command, []string) error {
		gates := featuregate.NewFeatureGate()
		err := logsapi.AddFeatureGates(gates)
		if err == nil {
			err = gates.SetFromMap(map[string]bool{string(logsapi.ContextualLogging): contextual})
		}
		return errors.Join(err, logsapi.ValidateAndApply(options, gates))
	}
	command.SetArgs(append(args, "--leader-elect=false"))
	if err := command.Execute(); err != nil {
		t.Error(err)
	}
	receive(t, reached)
	klog.Flush()
}
