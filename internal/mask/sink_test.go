package mask_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

type speaking struct{ text string }

func (s speaking) String() string { return s.text }

func TestALoggerShowsNoSecretWhateverItIsGiven(t *testing.T) {
	secrets, planted := canary.PlantError()
	for name, log := range map[string]func(l logr.Logger){
		"the error":             func(l logr.Logger) { l.Error(planted, "It has failed") },
		"a wrapped error":       func(l logr.Logger) { l.Error(fmt.Errorf("trying: %w", planted), "It has failed") },
		"the message":           func(l logr.Logger) { l.Info(planted.Error()) },
		"the message of error":  func(l logr.Logger) { l.Error(nil, planted.Error()) },
		"a value":               func(l logr.Logger) { l.Info("It has failed", "why", planted.Error()) },
		"an error as a value":   func(l logr.Logger) { l.Info("It has failed", "error", planted) },
		"a list":                func(l logr.Logger) { l.Info("It has failed", "why", []string{planted.Error()}) },
		"bytes":                 func(l logr.Logger) { l.Info("It has failed", "why", []byte(planted.Error())) },
		"what says itself":      func(l logr.Logger) { l.Info("It has failed", "why", speaking{planted.Error()}) },
		"a structure":           func(l logr.Logger) { l.Info("It has failed", "why", struct{ Text string }{planted.Error()}) },
		"a value for all lines": func(l logr.Logger) { l.WithValues("why", planted.Error()).Info("It has failed") },
		"a named logger":        func(l logr.Logger) { l.WithName("x").WithCallDepth(1).V(1).Info("It has failed", "why", planted) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log(mask.Logger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out), textlogger.Verbosity(9)))))
			if found := secrets.In(out.String()); len(found) > 0 {
				t.Errorf("it shows the secret of %q", found)
			}
			if !strings.Contains(out.String(), mask.Masked) {
				t.Errorf("nothing is said to be masked: %s", &out)
			}
		})
	}
}

func TestALoggerKeepsWhatIsNoSecret(t *testing.T) {
	var out bytes.Buffer
	l := mask.Logger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out), textlogger.Verbosity(1))))
	l.WithValues("cluster", "x").Info("A run was begun", "node", klog.KRef("ns", "name"), "after", 3*time.Second, "count", 7)
	l.V(2).Info("Too much detail")
	l.Error(errors.New("connection refused"), "A look has failed")
	for _, want := range []string{
		`sink_test.go:`, `"A run was begun" cluster="x" node="ns/name" after="3s" count=7`, `"A look has failed" err="connection refused"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "Too much detail") || strings.Contains(out.String(), " sink.go:") {
		t.Errorf("the verbosity or the place of the caller is lost:\n%s", &out)
	}
	if l := mask.Logger(logr.Discard()); l.GetSink() != nil {
		t.Error("a logger that discards everything has a sink")
	}
}
