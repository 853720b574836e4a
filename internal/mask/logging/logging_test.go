package logging_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/mask/logging"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// logged returns what a process writes to its standard streams that has applied a configuration.
func logged(t *testing.T, apply func() error, write func()) string {
	t.Helper()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = file, file
	err = apply()
	if err == nil {
		write()
		klog.Flush()
	}
	os.Stdout, os.Stderr = stdout, stderr
	if resetErr := logsapi.ResetForTest(nil); err != nil || resetErr != nil {
		t.Fatal(err, resetErr)
	}
	data, err := os.ReadFile(file.Name())
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func gates(t *testing.T, on map[string]bool) featuregate.FeatureGate {
	t.Helper()
	gate := featuregate.NewFeatureGate()
	if err := errors.Join(logsapi.AddFeatureGates(gate), gate.SetFromMap(on)); err != nil {
		t.Fatal(err)
	}
	return gate
}

// writers are the ways in which a provider and its libraries log.
var writers = map[string]func(secret error){
	"klog.Infof":          func(e error) { klog.Infof("It has failed: %v", e) },
	"klog.Info":           func(e error) { klog.Info("It has failed: ", e) },
	"klog.Infoln":         func(e error) { klog.Infoln("It has failed:", e) },
	"klog.Warningf":       func(e error) { klog.Warningf("It has failed: %v", e) },
	"klog.Errorf":         func(e error) { klog.Errorf("It has failed: %v", e) },
	"klog.V.Infof":        func(e error) { klog.V(2).Infof("It has failed: %v", e) },
	"klog.InfoS":          func(e error) { klog.InfoS("It has failed", "why", e) },
	"klog.ErrorS":         func(e error) { klog.ErrorS(e, "It has failed") },
	"klog.V.InfoS":        func(e error) { klog.V(2).InfoS("It has failed", "why", e.Error()) },
	"logger of a context": func(e error) { klog.FromContext(context.Background()).Error(e, "It has failed") },
	"logger with values": func(e error) {
		klog.LoggerWithValues(klog.Background(), "why", e).V(2).Info("It has failed", "again", e)
	},
	"logger in a context": func(e error) {
		klog.FromContext(klog.NewContext(context.Background(), klog.Background())).Info("failed", "why", e)
	},
	"slog":                 func(e error) { slog.Error("It has failed", "why", e) },
	"slog with attributes": func(e error) { slog.With("why", e).WithGroup("x").Info("It has failed", "again", e.Error()) },
	"package log":          func(e error) { log.Printf("It has failed: %v", e) },
	"the writer of klog":   func(e error) { klog.NewStandardLogger("INFO").Printf("It has failed: %v", e) },
}

func TestNothingThatIsLoggedShowsASecret(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, contextual := range []bool{true, false} {
			for name, write := range writers {
				t.Run(strings.Join([]string{format, map[bool]string{true: "contextual", false: "not contextual"}[contextual], name}, "/"), func(t *testing.T) {
					secrets, planted := canary.PlantError()
					c := logsapi.NewLoggingConfiguration()
					c.Format, c.Verbosity = format, 2
					gate := gates(t, map[string]bool{"ContextualLogging": contextual})
					got := logged(t, func() error { return logging.Apply(c, gate) }, func() { write(planted) })
					if found := secrets.In(got); len(found) > 0 {
						t.Errorf("the secrets of %q are shown", found)
					}
					if !strings.Contains(got, mask.Masked) || !strings.Contains(got, "failed") {
						t.Errorf("it is logged as %s", got)
					}
				})
			}
		}
	}
}

var varying = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d+|"ts":[\d.]+`)

// What holds no secret is logged as logsapi.ValidateAndApply has it logged, in each format and at each level.
func TestWhatHoldsNoSecretIsLoggedAsBefore(t *testing.T) {
	harmless := errors.New("connection refused")
	for _, format := range []string{"text", "json"} {
		for _, contextual := range []bool{true, false} {
			for name, write := range writers {
				if strings.HasPrefix(name, "slog") || name == "package log" {
					continue // a logger that masks is no handler of slog: level and time are the same, the form is not
				}
				t.Run(strings.Join([]string{format, map[bool]string{true: "contextual", false: "not contextual"}[contextual], name}, "/"), func(t *testing.T) {
					c := logsapi.NewLoggingConfiguration()
					c.Format = format
					gate := gates(t, map[string]bool{"ContextualLogging": contextual})
					both := func() {
						write(harmless)
						klog.V(3).InfoS("Too much detail")
						klog.Background().V(3).Info("Too much detail")
					}
					for _, verbosity := range []logsapi.VerbosityLevel{0, 2, 4} {
						c.Verbosity = verbosity
						plain := logged(t, func() error { return logsapi.ValidateAndApply(c, gate) }, both)
						masked := logged(t, func() error { return logging.Apply(c, gate) }, both)
						if diff := cmp.Diff(varying.ReplaceAllString(plain, ""), varying.ReplaceAllString(masked, "")); diff != "" {
							t.Errorf("at -v=%d (-plain +masked):\n%s", verbosity, diff)
						}
					}
				})
			}
		}
	}
}

func TestInfoMessagesAreNotLeftInABuffer(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		c := logsapi.NewLoggingConfiguration()
		c.Format = format
		for _, o := range []*logsapi.OutputRoutingOptions{&c.Options.Text.OutputRoutingOptions, &c.Options.JSON.OutputRoutingOptions} {
			o.SplitStream, o.InfoBufferSize = true, resource.QuantityValue{Quantity: resource.MustParse("64Ki")}
		}
		gate := gates(t, map[string]bool{"LoggingAlphaOptions": true})
		got := logged(t, func() error { return logging.Apply(c, gate) }, func() { klog.InfoS("The last words") })
		if !strings.Contains(got, "The last words") {
			t.Errorf("as %s, they are lost: %q", format, got)
		}
	}
}

func TestAnAuthorsOwnLoggerIsKept(t *testing.T) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	defer func() { logsapi.ReapplyHandling = logsapi.ReapplyHandlingError }()
	for name, options := range map[string][]klog.LoggerOption{"contextual": {klog.ContextualLogger(true)}, "not contextual": nil} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			mine := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			c := logsapi.NewLoggingConfiguration()
			rest := logged(t, func() error { return logging.Apply(c, nil) }, func() {
				klog.SetLoggerWithOptions(mine, options...)
				klog.InfoS("Set after the logs were")
				if err := logging.Apply(c, nil); err != nil { // another command of this process
					t.Error(err)
				}
				klog.InfoS("Set before they were applied again")
				klog.FromContext(logr.NewContext(context.Background(), mine)).Info("In a context")
			})
			if got := strings.Join(lines, "\n"); strings.Count(got, "msg") != 3 || rest != "" {
				t.Errorf("the author's logger has\n%s\nand the process has written %q", got, rest)
			}
		})
	}
}
