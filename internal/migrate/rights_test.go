package migrate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// TestAWholeMigrationStaysWithinTheMigratorsRights holds the shipped roles to every request that a migration and its rollback send.
func TestAWholeMigrationStaysWithinTheMigratorsRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	asked := w.api.Record()
	p, _ := w.begin()
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
	var roles []string
	for _, name := range []string{"reader", "planner", "pauser", "migrator"} {
		roles = append(roles, filepath.Join("..", "..", "deploy", "rbac", name+".yaml"))
	}
	needed := asked.Rights()
	if missing := apitest.Uncovered(apitest.Granted(t, roles...), needed); len(missing) > 0 {
		t.Errorf("the roles do not allow to\n  %s", strings.Join(missing, "\n  "))
	}
	if !slices.ContainsFunc(needed, func(r apitest.Right) bool { return r.Verb == "update" && r.Name == journal.Name }) {
		t.Errorf("what was asked for was not recorded: %v", needed)
	}
}
