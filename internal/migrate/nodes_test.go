package migrate

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// runFor executes the part of a plan that is about some hosts, as apply --node does.
func (w *world) runFor(p *v1.Plan, hosts ...string) error {
	w.t.Helper()
	var named []planstep.NamedNode
	for _, h := range hosts {
		named = append(named, planstep.NamedNode{Host: h, Node: w.nodeNames()[h]})
	}
	selected, err := planstep.ForNodes(p, w.engine().env.Journal.Doc().Records, named)
	if err != nil {
		return err
	}
	part := *p
	part.Until = selected.Until
	_, err = w.run(&part, func(o *step.Options) { o.Later = selected.Later })
	return err
}

func TestARunForSomeNodesLeavesTheOthersForALaterOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	steps := append([]v1.Step{plainStep("cp-1")}, batchOfHosts(5, 2)[1:]...)
	steps[0].Canary = true
	p := w.givenWithin("2", steps...)
	externals := func(want ...string) {
		t.Helper()
		is := map[string]bool{}
		for _, h := range want {
			is[h] = true
		}
		for _, h := range []string{"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"} {
			if have := w.running(h, "cloud-provider") == "external"; have != is[h] {
				t.Errorf("%s: external %v, want %v", h, have, is[h])
			}
		}
	}
	says(t, w.runFor(p, "cp-4"), "cp-1 is the first worker, and no other one changes before it")
	externals()
	for _, hosts := range [][]string{{"cp-4", "cp-1"}, {"cp-3"}} {
		if err := w.runFor(p, hosts...); err != nil {
			t.Fatal(err)
		}
	}
	externals("cp-1", "cp-3", "cp-4")
	says(t, w.runFor(p, "cp-3", "cp-1"), "nothing is left to do on cp-3, cp-1")
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	externals("cp-1", "cp-2", "cp-3", "cp-4", "cp-5")
	for _, s := range p.Steps {
		if w.restarts["kubelet@"+s.Host] != 1 {
			t.Errorf("%s: %d restarts", s.Host, w.restarts["kubelet@"+s.Host])
		}
	}
}

func TestARunForSomeNodesCanBeRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	p := w.givenWithin("2", batchOfHosts(4, 2)...)
	if err := w.runFor(p, "cp-4"); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
	for _, s := range p.Steps {
		if w.running(s.Host, "cloud-provider") != "aws" {
			t.Errorf("%s is not back", s.Host)
		}
	}
	if w.restarts["kubelet@cp-1"] != 0 || w.restarts["kubelet@cp-4"] != 2 {
		t.Errorf("restarts: %v", w.restarts)
	}
}
