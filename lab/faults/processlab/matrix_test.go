package processlab

import (
	"flag"
	"fmt"
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
	m := &matrixOf{store: faults.Store(filepath.Join(*matrix, "parts")), commit: faults.Commit(t.Context())}
	for _, s := range strategies {
		if wanted(*ways, s.name) {
			t.Run(s.name, func(t *testing.T) { m.everyFault(t, s) })
		}
	}
}

func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// matrixOf is the matrix of one commit, in the making.
type matrixOf struct {
	store  faults.Store
	commit string
}

// The commands of a campaign.
const (
	there   = "apply"
	andBack = "rollback"
	// undisturbed is the campaign without a fault, which the others are compared with.
	undisturbed = "undisturbed"
)

func nameOf(s strategy, campaign, command string) string {
	return strings.Join([]string{s.name, campaign, command}, "_")
}

func (m *matrixOf) part(s strategy, lab *Lab, campaign, command string) *faults.Part {
	p := &faults.Part{Name: nameOf(s, campaign, command), Campaign: campaign, Commit: m.commit}
	p.Title = command + ", strategy " + s.name + ", " + lab.Name()
	p.How = map[faults.Kind]string{}
	for _, kind := range append(slices.Clone(faults.OfTheCluster), faults.OfTheOperator...) {
		p.How[kind] = lab.How(kind)
	}
	return p
}

// left are the campaigns that are still to be run: those that have not passed at this very commit.
func (m *matrixOf) left(t *testing.T, s strategy) []campaign {
	t.Helper()
	parts, err := m.store.Parts()
	if err != nil {
		t.Fatal(err)
	}
	var out []campaign
	for _, c := range campaigns() {
		if !wanted(*only, c.name) {
			continue
		}
		if parts[nameOf(s, c.name, there)].Still(m.commit) && parts[nameOf(s, c.name, andBack)].Still(m.commit) {
			t.Logf("%s passed at this commit before; to run it again, remove %s", c.name, m.store)
			continue
		}
		out = append(out, c)
	}
	return out
}

func (m *matrixOf) everyFault(t *testing.T, s strategy) {
	left := m.left(t, s)
	if len(left) == 0 {
		return
	}
	lab := start(t, s)
	before := facts(t, lab)
	var after []string
	m.run(t, lab, m.part(s, lab, undisturbed, there), func(t *testing.T, p *faults.Part) {
		disturbed(t, lab, p, m.keep, faults.These(nil), nil, s.apply()...)
		after = facts(t, lab)
		if strings.HasPrefix(s.name, "downtime") {
			reportsItsGap(t, lab)
		}
	})
	m.run(t, lab, m.part(s, lab, undisturbed, andBack), func(t *testing.T, p *faults.Part) {
		disturbed(t, lab, p, m.keep, faults.These(nil), before, rollback()...)
	})
	if t.Failed() {
		t.Fatal("without a fault it does not work either")
	}
	for _, c := range left {
		way := m.part(s, lab, c.name, there)
		passed := m.run(t, lab, way, func(t *testing.T, p *faults.Part) { disturbed(t, lab, p, m.keep, c.choose(), after, s.apply()...) })
		if way.Ended {
			passed = m.run(t, lab, m.part(s, lab, c.name, andBack), func(t *testing.T, p *faults.Part) {
				disturbed(t, lab, p, m.keep, c.choose(), before, rollback()...)
			}) && passed
		}
		if !passed && !recovered(t, lab, before) {
			t.Fatal("the lab is not as it was: the other campaigns would tell nothing")
		}
	}
}

// run makes one part of the matrix. It has passed when nothing failed, and verify passes behind it.
func (m *matrixOf) run(t *testing.T, lab *Lab, part *faults.Part, try func(*testing.T, *faults.Part)) bool {
	t.Helper()
	part.Passed = t.Run(part.Name, func(t *testing.T) {
		try(t, part)
		if err := part.Verified(t.Context(), lab.verify); err != nil {
			t.Error(err)
		}
	})
	if err := m.keep(part); err != nil {
		t.Error(err)
	}
	return part.Passed
}

// recovered rolls back what a failed campaign has left and waits until somebody runs the loops, so that the next kind begins where this one did.
func recovered(t *testing.T, lab *Lab, before []string) bool {
	t.Helper()
	for range 3 {
		if r, err := lab.CLI(t.Context(), nil, nil, rollback()...); err == nil && r.Code == 0 {
			break
		}
	}
	if err := new(faults.Part).Verified(t.Context(), lab.verify); err != nil {
		t.Log(err)
		return false
	}
	return faults.Different(before, facts(t, lab)) == ""
}

// keep keeps a part, and writes the one file that shows all parts.
func (m *matrixOf) keep(p *faults.Part) error {
	if err := m.store.Keep(p); err != nil {
		return err
	}
	var groups []faults.Group
	for _, s := range strategies {
		for _, command := range []string{there, andBack} {
			g := faults.Group{Title: command + ", " + s.name}
			for _, c := range append([]campaign{{name: undisturbed}}, campaigns()...) {
				g.Names = append(g.Names, nameOf(s, c.name, command))
			}
			groups = append(groups, g)
		}
	}
	return m.store.Write(filepath.Join(*matrix, "matrix.md"), groups)
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
		t.Logf("no manager ran %s for %s", loop, found)
	}
}
