// Package term decides what every controller does when it starts to work under a lease, and undoes when it ends. It
// sets the fence, the context of its calls, where its events go, and the gauge of running controllers. The gauge must
// fall again: a process that ends its work and goes on living would otherwise look like a second owner of the loop.
package term

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/mask/events"
)

// Config says whose term it is.
type Config struct {
	Name        string                                       // the controller's name in the gauge of running controllers
	EventSource string                                       // the component that its events name
	Verbosity   klog.Level                                   // at which its events are logged
	Client      kubernetes.Interface                         // writes its events
	Metrics     *controllersmetrics.ControllerManagerMetrics // may be nil
	Clock       clock.PassiveClock
}

// Term is the time for which a controller works under a lease.
type Term struct {
	// Fence is that of the context, or one that is open for good where there is none.
	Fence    *election.Fence
	Recorder record.EventRecorder
	end      func()
}

// Begin begins a term, and returns the context of its calls. It outlives ctx, which asks for the end of work, and ends
// when the fence closes. The caller calls End when all work has ended.
func Begin(ctx context.Context, config Config) (context.Context, Term) {
	fence := election.FromContext(ctx)
	if fence == nil {
		fence = election.Unfenced(config.Clock.Now())
	}
	calls, cancel := fence.Bind(ctx)
	broadcaster := record.NewBroadcaster(record.WithContext(calls))
	broadcaster.StartStructuredLogging(config.Verbosity)
	broadcaster.StartRecordingToSink(events.Sink(config.Client.CoreV1()))
	if config.Metrics != nil {
		config.Metrics.ControllerStarted(config.Name)
	}
	return calls, Term{
		Fence: fence, Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: config.EventSource}),
		end: func() {
			if config.Metrics != nil {
				config.Metrics.ControllerStopped(config.Name)
			}
			broadcaster.Shutdown()
			cancel()
		},
	}
}

// End ends the term.
func (t Term) End() { t.end() }

// IsFinal reports whether what has come of a call, or of a wait for it, says that this process may no longer act. The
// next leader will see to it. Calls is the context of Begin.
func IsFinal(calls context.Context, err error) bool {
	return errors.Is(err, election.ErrFenced) || calls.Err() != nil
}

// SleepUnlessDone waits, and reports whether ctx went on for as long.
func SleepUnlessDone(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
