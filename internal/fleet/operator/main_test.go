package operator

import (
	"testing"

	"go.uber.org/goleak"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
