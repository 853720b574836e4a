package ccm

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/transplant-dev/transplant/internal/mask/logging"
)

// klog's flusher never ends.
func TestMain(m *testing.M) {
	// Several managers run in this process. Their loggers are set once, here: klog's logger is global, and a goroutine of a test before may still read it.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if os.Getenv(logsInChild) == "" {
		if err := logging.Apply(logsapi.NewLoggingConfiguration(), utilfeature.DefaultFeatureGate); err != nil {
			fmt.Fprintln(os.Stderr, "set the loggers of the tests:", err)
			os.Exit(1)
		}
	}
	os.Setenv("KUBE_FEATURE_WatchListClient", "false") // the API server of these tests lists, then watches
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
