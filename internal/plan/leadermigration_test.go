package plan

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// TestTheCatalogueKnowsWhichManagersHaveLeaderMigration holds what checks advise to what plans refuse.
func TestTheCatalogueKnowsWhichManagersHaveLeaderMigration(t *testing.T) {
	for _, p := range catalogue.Providers() {
		image, ok := catalogue.OfficialImage(p.Name, 26)
		if !ok {
			continue
		}
		program, err := programOf(p.Name, image.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := catalogue.HasLeaderMigration(p.Name); got != program.leaderMigration {
			t.Errorf("%s: the catalogue says %v, and a plan goes by %v", p.Name, got, program.leaderMigration)
		}
	}
}
