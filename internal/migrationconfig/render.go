package migrationconfig

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Render returns the file for component of version 1.minor. It is in the newest apiVersion that the version reads, with
// loops in that version's dialect. All are to be run by that component under the lease leaderName ("" means
// DefaultLeaderName). It refuses a component or a loop that does not exist.
func Render(
	component controllernames.Component,
	minor int,
	loops []controllernames.Loop,
	leaderName string,
) ([]byte, error) {
	if minor < firstMinor {
		return nil, fmt.Errorf(
			"rendering the leader migration config of %s 1.%d: leader migration came with 1.%d",
			component,
			minor,
			firstMinor,
		)
	}
	if leaderName == "" {
		leaderName = DefaultLeaderName
	}
	lease, err := yaml.Marshal(leaderName) // quoted where YAML would take it for something else than text
	if err != nil {
		return nil, fmt.Errorf("rendering the lease name %q: %w", leaderName, err)
	}
	var b strings.Builder
	version := versionFor(minor)
	fmt.Fprintf(&b, "# Names as %s 1.%d registers them; other versions may use other names.\n", component, minor)
	fmt.Fprintf(&b, "apiVersion: %s/%s\nkind: %s\nleaderName: %s", Group, version, Kind, lease)
	if version != V1 {
		fmt.Fprintf(&b, "resourceLock: %s\n", lockLeases)
	}
	b.WriteString("controllerLeaders:\n")
	for _, loop := range loops {
		name := controllernames.Name(component, minor, loop)
		if name == "" {
			return nil, fmt.Errorf("rendering the leader migration config of %s 1.%d: it has no loop %q", component, minor, loop)
		}
		fmt.Fprintf(&b, "- name: %s\n  component: %s\n", name, component)
	}
	return []byte(b.String()), nil
}
