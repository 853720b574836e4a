package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// restartless is a host whose programs this machine does not run.
type restartless struct{ host }

func (restartless) CanRun() error { return hostaccess.ErrRunsNoPrograms }

func (restartless) CanRestart() error { return hostaccess.ErrRunsNoPrograms }

func TestAMigrationThatCouldRestartNoKubeletIsNotBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	before := w.read("cp-1", flagsFile)
	_, err := w.run(w.given(plainStep("cp-1")), func(o *step.Options) { o.Hosts = []hostaccess.Host{restartless{w.hosts[0].(host)}} })
	if !errors.Is(err, hostaccess.ErrRunsNoPrograms) || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(err.Error(), "host cp-1") {
		t.Errorf("err = %v", err)
	}
	if got := w.read("cp-1", flagsFile); got != before {
		t.Errorf("the kubelet's flags were changed: %s", got)
	}
}
