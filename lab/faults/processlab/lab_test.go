package processlab

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/trial"
)

var keep = flag.String("faults.dir", "", "keep the labs' files in this directory (default: a temporary one)")

// strategy is a way of migrating, and the lab for it.
type strategy struct {
	name          string
	controlPlanes int
	flags         []string
}

var strategies = []strategy{
	{name: "leader-migration", controlPlanes: 3},
	{name: "downtime", controlPlanes: 3, flags: []string{"--strategy", "downtime"}},
	{name: "downtime-single", controlPlanes: 1},
}

func (s strategy) apply() []string {
	return append(append([]string{"apply", "--yes", "--cloud", trial.Cloud}, trial.MigrationFlags()...), s.flags...)
}

func rollback() []string { return []string{"rollback", "--yes", "--cloud", trial.Cloud} }

// start starts a lab for a strategy, with disks to fill where this process may mount them.
func start(t *testing.T, s strategy) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a lab; run without -short")
	}
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	o := trial.Options{Dir: filepath.Join(dir, s.name), Workers: 2, ControlPlanes: s.controlPlanes, Profile: kubelet.Short(), Progress: os.Stderr}
	if os.Geteuid() == 0 {
		o.DiskSize = 16 << 20
	}
	tr, err := trial.Start(t.Context(), o)
	if err != nil && o.DiskSize > 0 && strings.Contains(err.Error(), "mounting a file system") {
		t.Logf("without disks of their own: %v", err)
		o.DiskSize = 0
		tr, err = trial.Start(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := tr.Stop(ctx); err != nil {
			t.Errorf("stopping the lab: %v", err)
		}
	})
	lab, err := New(tr, filepath.Join(o.Dir, "faults"))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// disturbed runs a command under faults and judges all that happened meanwhile; want are the facts of its undisturbed end, nil for not known.
func disturbed(t *testing.T, lab *Lab, part *faults.Part, keep func(*faults.Part) error,
	choose func(step, host string) []faults.Fault, want []string, args ...string) {
	t.Helper()
	c := &faults.Campaign{
		Cluster: lab, Args: args, Choose: choose, StateDir: filepath.Join(lab.Dir(), "..", "state"),
		Log: func(format string, args ...any) {
			t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
		},
	}
	err := part.Try(t.Context(), c, keep)
	if err != nil {
		t.Error(err)
	}
	if !part.Ended {
		t.FailNow()
	}
	if want != nil {
		if err := part.Alike(t.Context(), lab, want); err != nil {
			t.Error(err)
		}
	}
}

// must runs a command that has to end well.
func must(t *testing.T, lab *Lab, args ...string) trial.Result {
	t.Helper()
	r, err := lab.CLI(t.Context(), nil, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Fatalf("transplant %s ended with exit code %d\n%s\n%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r
}

func facts(t *testing.T, lab *Lab) []string {
	t.Helper()
	f, err := lab.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (l *Lab) verify(ctx context.Context) (int, string, error) {
	r, err := l.CLI(ctx, nil, nil, "verify", "--cloud", trial.Cloud)
	return r.Code, r.Stdout + "\n" + r.Stderr, err
}
