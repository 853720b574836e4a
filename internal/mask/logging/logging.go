// Package logging decides what a process logs: what its logging configuration says, without secrets.
package logging

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/featuregate"
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
	putMask(contextual)
	klog.EnableContextualLogging(contextual)
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))
	return nil
}

// IsSet reports whether the process has a logger of its own, and not klog's.
func IsSet() bool {
	return reflect.TypeOf(klog.Background().GetSink()) != reflect.TypeOf(klog.NewKlogr().GetSink())
}

// Mask masks what others have set up, and leaves it to whom it goes. Where contextual logging is off, klog gives no
// logger away. Then messages and values that go through klog are masked, and errors are not.
func Mask() {
	switch {
	case mask.IsMasked(klog.Background()):
	case IsSet():
		putMask(true)
	default:
		klog.SetLogFilter(filter{})
	}
}

// SetVerbosity gives klog the verbosities of a configuration that is not applied.
func SetVerbosity(c *logsapi.LoggingConfiguration) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", fmt.Sprint(uint32(c.Verbosity))); err != nil {
		return fmt.Errorf("setting the verbosity of the log: %w", err)
	}
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

// putMask puts a logger that masks in front of the one that is set.
func putMask(contextual bool) {
	logger := klog.Background()
	options := []klog.LoggerOption{klog.ContextualLogger(contextual)}
	if writer, ok := logger.GetSink().(textlogger.KlogBufferWriter); ok {
		options = append(options, klog.WriteKlogBuffer(func(line []byte) { writer.WriteKlogBuffer(maskLine(line)) }))
	}
	klog.SetLoggerWithOptions(mask.Logger(logger), options...)
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
