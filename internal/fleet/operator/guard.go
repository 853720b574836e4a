package operator

import (
	"fmt"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/mask"
)

// panicError is a panic in what was done for one cluster. What a journal, an object or an answer holds may be anything, and one cluster must not end the operator
// of all others.
type panicError struct{ value string }

func (e *panicError) Error() string {
	return "the operator's own code has failed (panic: " + e.value + "); its log has the stack: please report it. Other clusters are not affected, and this one is tried again with growing intervals"
}

// guard calls f and returns its panic as an error, which is logged with its stack, counted and told as an event of the cluster.
func (op *Operator) guard(name, what string, f func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		failed := &panicError{mask.Text(fmt.Sprint(value))}
		err = failed
		op.Metrics.panicked(what)
		op.Log.Error(failed, "Code that worked for one cluster has panicked", "cluster", name, "what", what, "stack", string(debug.Stack()))
		for _, o := range op.clusters.get(name) {
			op.Recorder.Event(reference(o.Group, o.Cluster), corev1.EventTypeWarning, state.ReasonPanicked, what+": "+failed.Error())
		}
	}()
	return f()
}

// start begins a job for a cluster. A panic that nothing else has caught ends the job alone; the cluster is decided about again later.
func (op *Operator) start(name, what string, job func()) {
	op.jobs.Go(func() {
		if op.guard(name, what, func() error { job(); return nil }) != nil {
			op.queue.AddRateLimited(name)
		}
	})
}
