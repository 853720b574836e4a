package stage

import (
	"flag"
	"os"
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
	table := &faults.Table{Title: "apply and rollback, " + lab.Name(), How: map[faults.Kind]string{}}
	for _, kind := range append([]faults.Kind{faults.Killed}, faults.OfTheCluster...) {
		table.How[kind] = lab.How(kind)
	}
	kinds := append([]faults.Kind{faults.Killed}, faults.OfTheCluster...)
	for _, args := range [][]string{s.apply(), {"rollback", "--yes", "--cloud", Cloud}} {
		judge, err := lab.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := faults.Campaign{
			Cluster: lab, Args: args, Choose: faults.InTurns(kinds, 0, lengths()), StateDir: s.StateDir(),
			Log: func(format string, args ...any) {
				t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
			},
		}
		r, runErr := c.Run(t.Context())
		problems, err := judge()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range faults.Blame(r.Outcomes, problems) {
			t.Error(p.Text)
		}
		table.Add(r)
		for _, o := range r.Outcomes {
			if o.Problem != "" {
				t.Errorf("%s at %s:%s: %s", o.Kind, o.Point, o.Step, o.Problem)
			}
		}
		writeTable(t, s, table)
		if runErr != nil {
			t.Fatal(runErr)
		}
		verified(t, s)
	}
	asBefore(t, s, before)
}

func writeTable(t *testing.T, s *Stage, table *faults.Table) {
	t.Helper()
	f, err := os.Create(filepath.Join(s.dir, "matrix-hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := table.Write(f); err != nil {
		t.Fatal(err)
	}
}

// recovery is how long what the last outages did to the managers may take: one that loses its lease ends, and its kubelet waits longer each time before it
// starts it again.
const recovery = 5 * time.Minute

// verified waits until transplant verify passes, which says meanwhile that nobody runs the loops.
func verified(t *testing.T, s *Stage) {
	t.Helper()
	deadline := time.Now().Add(recovery)
	for {
		r, err := s.Run(t.Context(), nil, "verify", "--cloud", Cloud)
		if err != nil {
			t.Fatal(err)
		}
		if r.Code == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("verify still ends with exit code %d after %s\n%s\n%s", r.Code, recovery, r.Stdout, r.Stderr)
		}
		select {
		case <-time.After(2 * time.Second):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
