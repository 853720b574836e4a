package ccm

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

// logsInChild is set in the process in which a manager sets its loggers itself.
const logsInChild = "TRANSPLANT_TEST_LOGS"

// chatty is a provider that logs an error of its cloud in all ways that klog has.
type chatty struct {
	provider
	err  error
	done chan struct{}
}

func (c *chatty) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	klog.Infof("asking the cloud: %v", c.err)
	klog.Errorf("asking the cloud: %v", c.err)
	klog.InfoS("Asking the cloud", "answer", c.err)
	klog.ErrorS(c.err, "Asking the cloud")
	klog.V(2).InfoS("Asking the cloud", "answer", c.err.Error())
	klog.Background().WithValues("answer", c.err).Info("Asking the cloud")
	close(c.done)
}

// inProcess runs something in a process of its own, whose loggers a manager sets itself, and returns what that has logged.
// In that process it does not return.
func inProcess(t *testing.T, do func(*testing.T)) string {
	t.Helper()
	if os.Getenv(logsInChild) != "" {
		do(t)
		t.SkipNow() // what is logged is for the process that has started this one
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), logsInChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, mask.Lines(string(out)))
	}
	return string(out)
}

func TestWhatAProviderLogsShowsNoSecret(t *testing.T) {
	secrets, planted := canary.PlantError()
	out := inProcess(t, func(t *testing.T) { speak(t, planted) })
	if found := secrets.In(out); len(found) > 0 {
		t.Errorf("the secrets of %q are logged", found)
	}
	if got := strings.Count(strings.ToLower(out), "asking the cloud"); got != 6 {
		t.Errorf("%d of 6 lines are logged", got)
	}
	if !strings.Contains(out, mask.Masked) {
		t.Error("nothing is said to be masked")
	}
	for _, want := range []string{"logs_test.go:", `"Asking the cloud" answer=`, "asking the cloud: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no line has %q", want)
		}
	}
}

// speak runs a manager until its provider has logged all that it logs.
func speak(t *testing.T, err error) {
	cloud := &chatty{err: err, done: make(chan struct{})}
	w := newWorker("mine")
	m := run(t, apitest.New(t), cloud, map[string]*worker{"mine": w}, "--v=2")
	w.leads(t)
	<-cloud.done
	if err := m.end(); err != nil {
		t.Error(errors.New(mask.Error(err)))
	}
}
