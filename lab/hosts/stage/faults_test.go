package stage

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/faults"
)

var (
	goWrong = flag.Bool("hosts.faults", false, "let things go wrong on real hosts, a few at each sort of step")
	outage  = flag.Duration("hosts.outage", time.Minute, "how long nobody reaches an API server at the first step of each sort")
)

// lengths on real hosts: a kubelet takes ten seconds and more to notice anything.
func lengths() faults.Lengths {
	return faults.Lengths{Outage: *outage, ShortOutage: 15 * time.Second, Access: 5 * time.Second, Off: 10 * time.Second, Full: 10 * time.Second}
}

// What the lab of processes cannot show: evicted pods, full file systems and power cuts below real kubelets; one at each step, there and back.
func TestRealHostsGetOverWhatGoesWrong(t *testing.T) {
	if !*goWrong {
		t.Skip("an hour on real hosts: make faults-hosts")
	}
	s := theStage(t)
	lab := Faulty{s}
	before, _ := settledFacts(t, s)
	kinds := append([]faults.Kind{faults.Killed}, faults.OfTheCluster...)
	group := faults.Group{Title: lab.Name()}
	var parts []*faults.Part
	for _, command := range []string{"apply", "rollback"} {
		p := &faults.Part{Name: command, Campaign: command, Commit: faults.Commit(t.Context())}
		p.Title, p.How = "apply and rollback, "+lab.Name(), map[faults.Kind]string{}
		for _, kind := range kinds {
			p.How[kind] = lab.How(kind)
		}
		group.Names, parts = append(group.Names, p.Name), append(parts, p)
	}
	store := faults.Store(filepath.Join(s.dir, "parts"))
	if err := store.Clear(); err != nil {
		t.Fatal(err)
	}
	keep := func(p *faults.Part) error { // at every fault, for a run may be interrupted
		return errors.Join(store.Keep(p), store.Write(filepath.Join(s.dir, "matrix-hosts.md"), []faults.Group{group}))
	}
	for i, args := range [][]string{s.apply(), {"rollback", "--yes", "--cloud", Cloud}} {
		p := parts[i]
		p.Passed = t.Run(p.Name, func(t *testing.T) {
			c := &faults.Campaign{
				Cluster: lab, Args: args, Choose: faults.InTurns(kinds, 0, lengths()), StateDir: s.StateDir(),
				Log: func(format string, args ...any) {
					t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
				},
			}
			if err := p.Try(t.Context(), c, keep); err != nil {
				t.Error(err)
			}
			if !p.Ended {
				t.FailNow()
			}
			if err := p.Verified(t.Context(), func(ctx context.Context) (int, string, error) {
				r, err := s.Run(ctx, nil, "verify", "--cloud", Cloud)
				return r.Code, r.Stdout + "\n" + r.Stderr, err
			}); err != nil {
				t.Error(err)
			}
			if i > 0 {
				asBefore(t, s, before)
			}
		})
		if err := keep(p); err != nil {
			t.Fatal(err)
		}
		if !p.Ended {
			t.FailNow()
		}
	}
}
