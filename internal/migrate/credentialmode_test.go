package migrate

import (
	"os"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// TestACredentialFileThatOthersCouldReadLocksNobodyOut: the engine records the mode that a file had. The journal that
// it wrote itself must be judged well, and what is put back is for root alone.
func TestACredentialFileThatOthersCouldReadLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{{layout.CCMCloudConf, 0o644}, {layout.CCMKubeconfig, 0o640}, {layout.CCMToken, 0o604}} {
		w := newWorld(t, 1)
		w.write("cp-1", c.path, "from before", c.mode)
		if err := os.Chmod(w.at("cp-1", c.path), c.mode); err != nil {
			t.Fatal(err)
		}
		p, _ := w.begin()
		if _, err := w.run(p); err != nil {
			t.Fatal(err)
		}
		doc := w.engine().env.Journal.Doc()
		if err := trust.CheckJournal(doc, w.snapshot()); err != nil {
			t.Errorf("%s: the journal of an own run is refused: %v", c.path, err)
		}
		w.rollBack()
		info, err := os.Stat(w.at("cp-1", c.path))
		if err != nil {
			t.Fatal(err)
		}
		if w.read("cp-1", c.path) != "from before" || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is put back with mode %v and content %q", c.path, info.Mode(), w.read("cp-1", c.path))
		}
	}
}

// TestAPlantedModeOfACredentialFileOpensItToNobody: the record is in a ConfigMap, and says more than there was.
func TestAPlantedModeOfACredentialFileOpensItToNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("cp-1", layout.CCMKubeconfig, "a key", 0o600)
	p, _ := w.begin()
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	j := w.engine().env.Journal
	step := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Path == layout.CCMKubeconfig })]
	rec := j.Record(step.ID)
	rec.BackupMode = "0644"
	if err := j.Save(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
	info, err := os.Stat(w.at("cp-1", layout.CCMKubeconfig))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig is put back so that others read it: %v, %v", info, err)
	}
}
