// Package logging decides what a process logs: what its logging configuration says, without secrets.
package logging

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"regexp"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/transplant-dev/transplant/internal/mask"
)

// Apply does what logsapi.ValidateAndApply does, and has everything masked that klog, loggers of contexts, slog and the
// package log write from then on. A logger that is set later is its author's, and is not changed. So is one that was
// set after an earlier call, if reapplying is allowed.
//
// Info messages are not buffered, whatever the configuration says. klog cannot keep the function that writes the buffer
// out when its logger is replaced.
func Apply(c *logsapi.LoggingConfiguration, gate featuregate.FeatureGate) error {
	contextual := gate == nil || gate.Enabled(logsapi.ContextualLogging)
	before := klog.Background().GetSink()
	if err := applyUnmasked(c, gate); err != nil {
		return err
	}
	if isSame(before, klog.Background().GetSink()) { // the same configuration was applied before
		return nil
	}
	logger := putMask(contextual)
	klog.EnableContextualLogging(contextual)
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger)))
	return nil
}

// UseText has klog and loggers of contexts write klog's own format to standard error, without secrets and without a
// configuration: one can be applied later. What is logged goes by klog's verbosity alone, also when that changes.
func UseText() {
	text := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(math.MaxInt32)))
	klog.SetLoggerWithOptions(mask.Logger(text.WithSink(byVerbosity{LogSink: text.GetSink()})),
		klog.ContextualLogger(true), klog.WriteKlogBuffer(writeMasked(text)))
}

// byVerbosity has klog's verbosity decide what its sink logs.
type byVerbosity struct {
	logr.LogSink
	depth int
}

// frames are those between klog.VDepth and the code that logs: this sink, the one that masks, and logr's.
const frames = 3

// Enabled implements logr.LogSink.
func (s byVerbosity) Enabled(level int) bool {
	return klog.VDepth(frames+s.depth, klog.Level(level)).Enabled()
}

// WithValues implements logr.LogSink.
func (s byVerbosity) WithValues(values ...any) logr.LogSink {
	return byVerbosity{s.LogSink.WithValues(values...), s.depth}
}

// WithName implements logr.LogSink.
func (s byVerbosity) WithName(name string) logr.LogSink {
	return byVerbosity{s.LogSink.WithName(name), s.depth}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s byVerbosity) WithCallDepth(depth int) logr.LogSink {
	deeper, ok := s.LogSink.(logr.CallDepthLogSink)
	if !ok {
		return s
	}
	return byVerbosity{deeper.WithCallDepth(depth), s.depth + depth}
}

// IsSet reports whether the process has a logger of its own, and not klog's.
func IsSet() bool { return isGiven() || isHidden() }

// isGiven reports whether klog gives the logger away.
func isGiven() bool {
	return reflect.TypeOf(klog.Background().GetSink()) != reflect.TypeOf(klog.NewKlogr().GetSink())
}

// isHidden reports whether klog has a logger that it does not give away, as where contextual logging is off. Nothing
// that klog exports says so.
func isHidden() bool {
	logger := reflect.Indirect(reflect.ValueOf(klog.CaptureState())).FieldByName("logger")
	return logger.IsValid() && logger.Kind() == reflect.Pointer && !logger.IsNil()
}

// Mask masks what others have set up, of slog and the package log too, and leaves it to whom it goes. Where contextual
// logging is off, klog gives no logger away. Then messages and values that go through klog are masked, and errors are
// not.
func Mask() {
	maskStandard()
	switch {
	case mask.IsMasked(klog.Background()):
	case isGiven():
		putMask(true)
	default:
		klog.SetLogFilter(filter{})
	}
}

// SetVerbosity gives klog, and the loggers that follow it, the verbosity of a configuration that is not applied.
func SetVerbosity(c *logsapi.LoggingConfiguration) error {
	if _, err := logs.GlogSetter(fmt.Sprint(uint32(c.Verbosity))); err != nil {
		return fmt.Errorf("setting the verbosity of the log: %w", err)
	}
	return nil
}

// SetFileVerbosity gives klog the verbosities of files of a configuration that is not applied.
func SetFileVerbosity(c *logsapi.LoggingConfiguration) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("vmodule", logsapi.VModuleConfigurationPflag(&c.VModule).String()); err != nil {
		return fmt.Errorf("setting the verbosity of files in the log: %w", err)
	}
	return nil
}

// filter masks the arguments of klog's functions.
type filter struct{}

// Filter implements klog.LogFilter.
func (filter) Filter(args []any) []any { return []any{mask.Text(fmt.Sprint(args...))} }

// FilterF implements klog.LogFilter.
func (filter) FilterF(format string, args []any) (string, []any) {
	return "%s", []any{mask.Text(fmt.Sprintf(format, args...))}
}

// FilterS implements klog.LogFilter.
func (filter) FilterS(message string, values []any) (string, []any) {
	return mask.Text(message), mask.LogValues(values)
}

// putMask puts a logger that masks in front of the one that is set, and returns it.
func putMask(contextual bool) logr.Logger {
	logger := klog.Background()
	masked := mask.Logger(logger)
	options := []klog.LoggerOption{klog.ContextualLogger(contextual)}
	if write := writeMasked(logger); write != nil {
		options = append(options, klog.WriteKlogBuffer(write))
	}
	klog.SetLoggerWithOptions(masked, options...)
	return masked
}

// writeMasked writes the lines that klog itself has formatted; nil for a logger that formats all of them.
func writeMasked(logger logr.Logger) func(line []byte) {
	writer, ok := logger.GetSink().(textlogger.KlogBufferWriter)
	if !ok {
		return nil
	}
	return func(line []byte) { writer.WriteKlogBuffer(maskLine(line)) }
}

// applyUnmasked applies a configuration so that klog.Background returns the logger itself: without contextual logging
// it returns one that calls klog, which would then call itself.
func applyUnmasked(c *logsapi.LoggingConfiguration, gate featuregate.FeatureGate) error {
	if errs := logsapi.Validate(c, gate, nil); len(errs) > 0 {
		return errs.ToAggregate()
	}
	unbuffered := *c
	for _, o := range []*logsapi.OutputRoutingOptions{
		&unbuffered.Options.Text.OutputRoutingOptions,
		&unbuffered.Options.JSON.OutputRoutingOptions,
	} {
		o.InfoBufferSize = resource.QuantityValue{}
	}
	if gate != nil {
		gate = contextualGate{gate}
	}
	if err := logsapi.ValidateAndApply(&unbuffered, gate); err != nil {
		return err
	}
	if isSame(klog.Background().GetSink(), klog.NewKlogr().GetSink()) {
		return errors.New("the log format has no logger of its own, and what it writes cannot be masked")
	}
	return nil
}

// contextualGate has contextual logging enabled.
type contextualGate struct{ featuregate.FeatureGate }

// Enabled implements featuregate.FeatureGate.
func (g contextualGate) Enabled(feature featuregate.Feature) bool {
	return feature == logsapi.ContextualLogging || g.FeatureGate.Enabled(feature)
}

// isSame reports whether two sinks are one. Sinks that are no pointers cannot be compared: two of one type are taken
// for one.
func isSame(a, b logr.LogSink) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	v := reflect.ValueOf(a)
	return v.Kind() != reflect.Pointer || v.Pointer() == reflect.ValueOf(b).Pointer()
}

// header is what klog writes before a message: severity, time, process and place.
var header = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^ \]]+:\d+\] `)

// maskLine masks a line that klog has formatted. Its header stays: it names files, which may be called after secrets.
func maskLine(line []byte) []byte {
	at := len(header.Find(line))
	return append(line[:at:at], mask.Text(string(line[at:]))...)
}
