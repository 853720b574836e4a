package migrate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// tiny has a journal of a few hosts kept as one of thousands is.
func tiny(h journal.ObjectLocation) journal.ObjectLocation {
	h.Sizes = &journal.Sizes{Inline: 500, Recent: 700, Part: 9_000}
	return h
}

const configMaps = "/api/v1/namespaces/kube-system/configmaps/"

// partsOf are the names of the parts that are there.
func partsOf(api *apitest.Server) []string {
	var out []string
	for path := range api.Objects() {
		if name, ok := strings.CutPrefix(path, configMaps+journal.Name+"-"); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestAMigrationWhoseJournalIsInPartsSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.home = tiny(w.home)
	files := w.files()
	p, _ := w.begin()
	w.afterEveryDeath(p)
	w.migrated(p)
	w.rollBack()
	w.rolledBack(files)
	made := 0
	for _, write := range w.api.Writes() {
		if strings.HasPrefix(write, "create "+configMaps+journal.Name+"-") {
			made++
		}
	}
	if made < 20 {
		t.Errorf("%d parts were made: little was tried", made)
	}
	for _, name := range partsOf(w.api) { // the head names each part that is there: without one the journal cannot be read
		var cm corev1.ConfigMap
		w.api.Get(t, configMaps+journal.Name+"-"+name, &cm)
		w.api.Delete(configMaps + journal.Name + "-" + name)
		if _, err := w.home.Open(t.Context()); err == nil {
			t.Errorf("part %s is there, and the head does not name it", name)
		}
		w.api.Put(t, &cm)
	}
}

func TestAJournalThatAnEarlierVersionKeptInOnePieceGoesOnInParts(t *testing.T) {
	t.Parallel()
	w, before := takeUp(t, filepath.Join(keptWorlds, "660a25f-in-a-kubelet.json"))
	w.home = tiny(w.home)
	was := w.engine().env.Journal.Doc()
	if err := w.engine().Run(t.Context(), &was.Plan, nil); err != nil {
		t.Fatal(err)
	}
	w.migrated(&was.Plan)
	if have := partsOf(w.api); len(have) == 0 {
		t.Error("it is still in one piece")
	}
	w.rollBack()
	w.rolledBack(before)
}
