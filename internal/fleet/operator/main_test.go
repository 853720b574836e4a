package operator

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/watch"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 10_000 // the fake client's watches panic when a busy machine lets their reader fall behind by more
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
