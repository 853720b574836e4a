package cloud

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"
)

// ErrPanic is what a call gets in which the provider panicked. One object with which a provider cannot deal must not end the process, and so the work
// on all others.
var ErrPanic = errors.New("the cloud provider panicked")

// broken is the error of a call that did not return, with what the provider panicked with: nil if it ended its goroutine.
func broken(c call, panicked any) error {
	if panicked == nil {
		panicked = "it ended the goroutine that it was called in"
	}
	logPanic(c.operation, panicked)
	return fmt.Errorf("calling %s of the cloud provider for %s: %w: %v", c.operation, c.object, ErrPanic, panicked)
}

// panicked are the operations of which a stack was logged. A controller comes to the place that panics with every retry.
var panicked sync.Map

func logPanic(operation string, value any) {
	if _, logged := panicked.LoadOrStore(operation, true); !logged {
		klog.ErrorS(nil, "The cloud provider panicked; further panics in this operation are only in the errors of its calls",
			"operation", operation, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
}
