package processlab

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/lab/faults"
)

var (
	matrix = flag.String("faults.matrix", "", "let every kind of fault happen at every step, and write the table into this directory")
	only   = flag.String("faults.campaigns", "", "these campaigns only, separated by commas: killed, cluster-1 to cluster-4, operator")
	ways   = flag.String("faults.strategies", "", "these strategies only, separated by commas: leader-migration, downtime, downtime-single")
)

// campaign is a migration and its way back in which something goes wrong at every step.
type campaign struct {
	name   string
	choose func() func(step, host string) []faults.Fault
}

func campaigns() []campaign {
	out := []campaign{{"killed", func() func(string, string) []faults.Fault { return faults.KilledEverywhere }}}
	for turn := range faults.OfTheCluster {
		out = append(out, campaign{fmt.Sprintf("cluster-%d", turn+1), func() func(string, string) []faults.Fault {
			return faults.InTurns(faults.OfTheCluster, turn, faults.Whole)
		}})
	}
	return append(out, campaign{"operator", func() func(string, string) []faults.Fault {
		return faults.InTurns(faults.OfTheOperator, 0, faults.Whole)
	}})
}

// Every kind of fault at every step, there and back; each campaign has a migration and a rollback of its own, on one lab for each strategy.
func TestEveryFaultAtEveryStep(t *testing.T) {
	if *matrix == "" {
		t.Skip("a campaign of an hour and more: make faults")
	}
	for _, s := range strategies {
		if wanted(*ways, s.name) {
			t.Run(s.name, func(t *testing.T) { everyFault(t, s) })
		}
	}
}

func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

func everyFault(t *testing.T, s strategy) {
	lab := start(t, s)
	before := facts(t, lab)
	forward := &faults.Table{Title: "apply, strategy " + s.name + ", " + lab.Name(), How: map[faults.Kind]string{}}
	back := &faults.Table{Title: "rollback, strategy " + s.name + ", " + lab.Name(), How: map[faults.Kind]string{}}
	disturbed(t, lab, forward, faults.These(nil), nil, s.apply()...)
	after := facts(t, lab)
	if strings.HasPrefix(s.name, "downtime") {
		reportsItsGap(t, lab)
	}
	disturbed(t, lab, back, faults.These(nil), before, rollback()...)
	for _, kind := range append(slices.Clone(faults.OfTheCluster), faults.OfTheOperator...) {
		forward.How[kind], back.How[kind] = lab.How(kind), lab.How(kind)
	}
	for _, c := range campaigns() {
		if !wanted(*only, c.name) {
			continue
		}
		ok := t.Run(c.name, func(t *testing.T) {
			defer write(t, s, forward, back)
			disturbed(t, lab, forward, c.choose(), after, s.apply()...)
			verified(t, lab)
			disturbed(t, lab, back, c.choose(), before, rollback()...)
			verified(t, lab)
		})
		if !ok && !recovered(t, lab, before) {
			t.Fatal("the lab is not as it was: the other campaigns would tell nothing")
		}
	}
}

// recovered rolls back what a failed campaign has left, so that the next kind begins where this one did.
func recovered(t *testing.T, lab *Lab, before []string) bool {
	t.Helper()
	for range 3 {
		if r, err := lab.CLI(t.Context(), nil, nil, rollback()...); err == nil && r.Code == 0 {
			break
		}
	}
	return faults.Different(before, facts(t, lab)) == ""
}

// write writes the tables as they are by now.
func write(t *testing.T, s strategy, tables ...*faults.Table) {
	t.Helper()
	if err := os.MkdirAll(*matrix, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(*matrix, "matrix-"+s.name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, table := range tables {
		if err := table.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	join(t)
}

// join writes the one file that holds the tables of all strategies.
func join(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# What goes wrong at each step, and what comes of it\n\nHow to read it: docs/reference/faults.md.\n\n")
	for _, s := range strategies {
		if data, err := os.ReadFile(filepath.Join(*matrix, "matrix-"+s.name+".md")); err == nil {
			b.Write(data)
		}
	}
	if err := os.WriteFile(filepath.Join(*matrix, "matrix.md"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reportsItsGap fails the test unless the report has a gap of every loop that was moved.
func reportsItsGap(t *testing.T, lab *Lab) {
	t.Helper()
	r := report(t, lab)
	if r.Result != "ok" {
		t.Errorf("the report says %s: %v", r.Result, r.Reasons)
	}
	for _, loop := range []string{"service", "route", "cloud-node-lifecycle"} {
		found := ""
		for _, g := range r.Gaps {
			if g.Loop == loop && strings.HasPrefix(g.From, "kube-controller-manager") && strings.HasPrefix(g.To, "cloud-controller-manager") {
				found = fmt.Sprintf("%.1f s", g.Seconds)
				if !g.Certain {
					found += ", or less: a look was missing"
				}
			}
		}
		if found == "" {
			t.Errorf("no gap of %s was measured: %+v", loop, r.Gaps)
		}
		t.Logf("nobody ran %s for %s", loop, found)
	}
}
