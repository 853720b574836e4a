package mask_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

type speaking struct{ text string }

type choosing struct{ chosen any }

func (c choosing) MarshalLog() any {
	if c.chosen == nil {
		panic("no")
	}
	return c.chosen
}

type nilFails struct{ text string }

func (f *nilFails) String() string { return f.text }
func (f *nilFails) Error() string  { return f.text }

func (s speaking) String() string { return s.text }

func TestALoggerShowsNoSecretWhateverItIsGiven(t *testing.T) {
	secrets, planted := canary.PlantError()
	for name, log := range map[string]func(l logr.Logger){
		"the error":            func(l logr.Logger) { l.Error(planted, "It has failed") },
		"a wrapped error":      func(l logr.Logger) { l.Error(fmt.Errorf("trying: %w", planted), "It has failed") },
		"the message":          func(l logr.Logger) { l.Info(planted.Error()) },
		"the message of error": func(l logr.Logger) { l.Error(nil, planted.Error()) },
		"a value":              func(l logr.Logger) { l.Info("It has failed", "why", planted.Error()) },
		"an error as a value":  func(l logr.Logger) { l.Info("It has failed", "error", planted) },
		"a list":               func(l logr.Logger) { l.Info("It has failed", "why", []string{planted.Error()}) },
		"bytes":                func(l logr.Logger) { l.Info("It has failed", "why", []byte(planted.Error())) },
		"what says itself":     func(l logr.Logger) { l.Info("It has failed", "why", speaking{planted.Error()}) },
		"a structure":          func(l logr.Logger) { l.Info("It has failed", "why", struct{ Text string }{planted.Error()}) },
		"a pointer inside": func(l logr.Logger) {
			l.Info("It has failed", "why", map[string]*string{"text": ptr.To(planted.Error())})
		},
		"what chooses its log":  func(l logr.Logger) { l.Info("It has failed", "why", choosing{struct{ Text string }{planted.Error()}}) },
		"what chooses twice":    func(l logr.Logger) { l.Info("It has failed", "why", choosing{choosing{speaking{planted.Error()}}}) },
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

func TestACommandLineAsAValueIsMaskedAsOne(t *testing.T) {
	var out bytes.Buffer
	l := mask.Logger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))))
	l.Info("Starting", "args", []string{"manager", "--token", "hunter2", "--v=2"})
	if !strings.Contains(out.String(), `["manager","--token","(masked)","--v=2"]`) {
		t.Errorf("it is written as %s", &out)
	}
}

// What holds no secret is written by a masked logger as by the logger itself, in each format.
func TestWhatHoldsNoSecretLooksAsBefore(t *testing.T) {
	values := []any{
		"ref", klog.KRef("ns", "name"), "refs", klog.KObjSlice([]klog.KMetadata{&metav1.ObjectMeta{Name: "a"}}), "after", 3 * time.Second,
		"list", []string{"a", "b"}, "bytes", []byte("ab"), "error", errors.New("refused"), "structure", struct{ A *string }{ptr.To("b")},
		"map", map[string]int{"a": 1}, "chosen", choosing{map[string]string{"a": "b"}}, "speaking", speaking{"x"}, "channel", make(chan int), "odd",
	}
	for name, logger := range map[string]func(*bytes.Buffer) logr.Logger{
		"text": func(out *bytes.Buffer) logr.Logger {
			return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out), textlogger.FixedTime(time.Unix(0, 0))))
		},
		"JSON": func(out *bytes.Buffer) logr.Logger {
			l, _ := json.NewJSONLogger(0, json.AddNopSync(out), nil, &zapcore.EncoderConfig{MessageKey: "msg"})
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			var plain, masked bytes.Buffer
			for _, l := range []logr.Logger{logger(&plain), mask.Logger(mask.Logger(logger(&masked)))} {
				l.Info("It was begun", values...)
				l.Error(errors.New("refused"), "It has failed", values...)
			}
			if diff := cmp.Diff(plain.String(), masked.String()); diff != "" {
				t.Errorf("(-plain +masked):\n%s", diff)
			}
		})
	}
}

func TestALoggerOutlivesWhatPanicsWhenItIsShown(t *testing.T) {
	var out bytes.Buffer
	l := mask.Logger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))))
	var none *nilFails
	l.Error(none, "It has failed", "value", none, "chosen", choosing{}, "address", (*url.URL)(nil))
	if !strings.Contains(out.String(), "It has failed") {
		t.Errorf("it is written as %s", &out)
	}
}

// BenchmarkALine compares a usual line of a controller with and without the mask.
func BenchmarkALine(b *testing.B) {
	for name, wrap := range map[string]func(logr.Logger) logr.Logger{"plain": func(l logr.Logger) logr.Logger { return l }, "masked": mask.Logger} {
		l := wrap(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(io.Discard), textlogger.Verbosity(2))))
		for line, log := range map[string]func(){
			"usual": func() {
				l.Info("Initialised node", "node", "ip-10-0-0-21.ec2.internal", "providerID", "aws:///eu-central-1a/i-0123456789abcdef0")
			},
			"error": func() {
				l.Error(errors.New("dial tcp 10.0.0.1:443: connection refused"), "Updating a load balancer failed", "service", "default/web")
			},
			"disabled": func() { l.V(4).Info("Looked at node", "node", "ip-10-0-0-21.ec2.internal") },
			"values":   func() { l.WithValues("node", "ip-10-0-0-21.ec2.internal").V(4).Info("Looked at node") },
		} {
			b.Run(line+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					log()
				}
			})
		}
	}
}
