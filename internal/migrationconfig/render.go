package migrationconfig

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Render returns the file for manager of version 1.minor. It is in the newest apiVersion that the version reads, with
// loops in that version's dialect. All are to be run by that component under the lease leaderName ("" means
// component.MigrationLease). It refuses a component or a loop that does not exist.
func Render(
	manager controllernames.Component,
	minor int,
	loops []controllernames.Loop,
	leaderName string,
) ([]byte, error) {
	if minor < firstMinor {
		return nil, fmt.Errorf(
			"rendering the leader migration config of %s 1.%d: leader migration came with 1.%d",
			manager,
			minor,
			firstMinor,
		)
	}
	if leaderName == "" {
		leaderName = component.MigrationLease
	}
	lease, err := yaml.Marshal(leaderName) // quoted where YAML would take it for something else than text
	if err != nil {
		return nil, fmt.Errorf("rendering the lease name %q: %w", leaderName, err)
	}
	var b strings.Builder
	version := versionFor(minor)
	fmt.Fprintf(&b, "# Names as %s 1.%d registers them; other versions may use other names.\n", manager, minor)
	fmt.Fprintf(&b, "apiVersion: %s/%s\nkind: %s\nleaderName: %s", Group, version, Kind, lease)
	if version != V1 {
		fmt.Fprintf(&b, "resourceLock: %s\n", lockLeases)
	}
	b.WriteString("controllerLeaders:\n")
	for _, loop := range loops {
		name := controllernames.Name(manager, minor, loop)
		if name == "" {
			return nil, fmt.Errorf("rendering the leader migration config of %s 1.%d: it has no loop %q", manager, minor, loop)
		}
		fmt.Fprintf(&b, "- name: %s\n  component: %s\n", name, manager)
	}
	return []byte(b.String()), nil
}
