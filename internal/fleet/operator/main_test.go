package operator

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 10_000 // the fake client's watches panic when a busy machine lets their reader fall behind by more
	// the handler behind it, which slows errors down, sleeps for decades in a bubble: its clock began outside
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
