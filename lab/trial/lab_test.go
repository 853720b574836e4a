package trial

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

var (
	profile = flag.String("lab.profile", "short", "delays of the lab's kubelets: short or kubelet")
	dir     = flag.String("lab.dir", "", "keep the lab's files in this directory (default: a temporary one)")
	whole   = flag.Bool("trial.all", false, "try a crash, upgrades, rollbacks from every phase and the documented mistakes, too, which takes a quarter of an hour")

	realOpenStack = flag.Bool("trial.openstack", false, "migrate a cluster on a real OpenStack, too, which needs root (make e2e-openstack)")
)

// long skips a test that make test leaves to make e2e.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("takes minutes: make e2e, or -trial.all")
	}
}

// The tests of this package share a lab, one after the other: each one leaves it as it found it, which is a part of what they prove.
var shared struct {
	once  sync.Once
	trial *Trial
	err   error
}

func TestMain(m *testing.M) {
	kubelet.RunContainer()
	csi.Run()
	flag.Parse()
	code := m.Run()
	if shared.trial != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := shared.trial.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the lab:", err)
			code = 1
		}
		cancel()
		if *dir == "" {
			_ = os.RemoveAll(shared.trial.dir) // a temporary directory of this run
		}
	}
	os.Exit(code)
}

func theLab(t *testing.T) *Trial {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a lab; run without -short")
	}
	shared.once.Do(func() {
		where := *dir
		if where == "" {
			if where, shared.err = os.MkdirTemp("", "transplant-trial-"); shared.err != nil {
				return
			}
		}
		p, err := kubelet.ProfileByName(*profile)
		if err != nil {
			shared.err = err
			return
		}
		shared.trial, shared.err = Start(context.Background(), Options{Dir: where, Workers: 2, Profile: p, Audit: true, Progress: os.Stderr})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	settled(t, shared.trial)
	return shared.trial
}

// settled waits until kube-controller-managers run every loop, as they do before a migration. On a busy machine one can lose its lease for no fault of
// its own, and its successor takes seconds to start its loops: a test that began meanwhile would find loops that run nowhere.
func settled(t *testing.T, lab *Trial) {
	t.Helper()
	newOperator(t, lab).awaitOwners(t, inTree("service", "route", "cloud-node-lifecycle", "nodeipam"))
}

// unchanged fails the test when the lab does not come back to the facts that it had.
func unchanged(t *testing.T, lab *Trial, before []string) {
	t.Helper()
	after, err := lab.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the cluster is not as it was before (-before +after):\n%s", diff)
	}
}

func facts(t *testing.T, lab *Trial) []string {
	t.Helper()
	f, err := lab.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// watched runs f under the lab's own recorder, and fails the test on two owners, on a look that was missing, and on calls that nobody knows.
func watched(t *testing.T, lab *Trial, f func()) ownership.Judgement {
	t.Helper()
	w, err := lab.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	f()
	j, err := w.Judge()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range j.Overlaps {
		t.Errorf("two owners of %s: %s and %s, %s to %s, by %s %v", o.Loop, o.Old, o.New, o.Start, o.End, o.Evidence, o.Calls)
	}
	for _, call := range lab.Cluster.Cloud().Unknown() {
		t.Errorf("the simulated cloud was asked for %s, which it does not know", call)
	}
	for _, g := range j.Gaps {
		lease := "not seen to be won"
		if g.LeaseSeconds != nil {
			lease = fmt.Sprintf("won after %.2fs", *g.LeaseSeconds)
		}
		t.Logf("gap of %-20s %6.2fs  %s -> %s (%s), lease %s", g.Loop, g.Seconds, g.From, g.To, g.Cause, lease)
	}
	t.Logf("took %s", time.Since(from).Round(time.Second))
	return j
}

// cli runs a command and fails the test unless it ends with the exit code.
func cli(t *testing.T, lab *Trial, code int, env []string, args ...string) Result {
	t.Helper()
	r, err := lab.CLI(t.Context(), nil, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != code {
		t.Fatalf("transplant %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), r.Code, code, r.Stdout, tail(r.Stderr, 40))
	}
	return r
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// apply returns the arguments of a migration of the lab.
func apply(more ...string) []string {
	return append(append([]string{"apply", "--yes", "--cloud", Cloud}, MigrationFlags()...), more...)
}
