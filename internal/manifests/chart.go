package manifests

import (
	"path"

	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// ChartDir is the Helm chart of the manager, below the root of the repository.
const ChartDir = "deploy/charts/cloud-controller-manager"

// chart renders what the chart reads of a provider: the rules of its roles, and the names of the ConfigMaps that its
// manager writes. The Secret of a cloud config's credentials has a name in the chart's values.
func (r *renderer) chart(provider string) {
	objects := layout.IdentityObjects(provider, layout.Manager{Ours: true})
	var state []any
	for _, o := range layout.StateObjects(provider, "") {
		state = append(state, o["metadata"].(object)["name"])
	}
	r.write(path.Join(ChartDir, "files", provider+".yaml"), object{
		"clusterRules":         find(objects, "ClusterRole")["rules"],
		"rules":                find(objects, "Role")["rules"],
		"leaderMigrationRules": find(LeaderMigration(), "Role")["rules"],
		"state":                state,
	})
}
