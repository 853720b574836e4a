package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate"
	"github.com/transplant-dev/transplant/internal/plan"
)

// plant writes a journal of a migration that nobody began, as somebody would who may write ConfigMaps in kube-system.
func (c *live) plant(change func(p *v1.Plan, doc *v1.Journal)) {
	c.t.Helper()
	kube, _ := c.api.Clients(c.t)
	p, err := readPlan(c.plan())
	if err != nil {
		c.t.Fatal(err)
	}
	doc := v1.Journal{Run: "20261121-120000", Started: now(), Phase: v1.RunApplying, User: "ops"}
	change(p, &doc)
	doc.Plan = *p
	if _, err := migrate.Create(c.t.Context(), kube, doc, c.snapshot()); err != nil {
		c.t.Fatal(err)
	}
}

// cron is a step that keeps every rule of order, and that no migration has.
func cron(p *v1.Plan) v1.Step {
	id := plan.FileFact("cp-1", "/etc/cron.d/x")
	p.Facts = append(p.Facts, v1.Fact{ID: id, Value: "absent"})
	return v1.Step{
		ID: "write/leader-migration", Phase: p.Steps[0].Phase, Kind: v1.StepWriteFile, Title: "write " + plan.KCMMigration + " on cp-1", Host: "cp-1", Path: "/etc/cron.d/x",
		Content: "* * * * * root id\n", Mode: "0644", Requires: []string{"cluster:uid", id}, Undo: "remove it",
	}
}

// TestAPlantedJournalIsNotGoneOnWithNorBack, though whoever runs the command says yes to everything.
func TestAPlantedJournalIsNotGoneOnWithNorBack(t *testing.T) {
	c := newLive(t)
	c.plant(func(p *v1.Plan, _ *v1.Journal) { p.Steps = append([]v1.Step{cron(p)}, p.Steps...) })
	for _, args := range [][]string{{"apply", "--yes"}, {"rollback", "--yes"}} {
		r := c.run(args...)
		if r.code == exitOK || !strings.Contains(r.text(nil), "rule P-42") || !strings.Contains(r.text(nil), "/etc/cron.d/x") {
			t.Errorf("%v is not refused with the file that it would write (code %d):\n%s", args, r.code, r.text(nil))
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cp-1", "etc", "cron.d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written for cron: %v", err)
	}
}
