package ccm

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // several managers run in this process
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")               // the API server of these tests lists, then watches
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
