package manifests

import (
	"path"

	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// ChartDir is the Helm chart of the manager, below the root of the repository.
const ChartDir = "deploy/charts/cloud-controller-manager"

// chart renders what the chart reads of a provider: the rules of its roles, and the names of the ConfigMaps that its
// manager writes. The one that names the cluster in the cloud outlives the chart. The Secret of a cloud config's
// credentials has a name in the chart's values.
func (r *renderer) chart(provider string) {
	objects := layout.IdentityObjects(provider, layout.Manager{Ours: true})
	var state, identity []any
	for _, o := range layout.StateObjects(provider, "") {
		name := o["metadata"].(object)["name"]
		if layout.Ref(o) == layout.CloudIdentity {
			identity = append(identity, name)
		} else {
			state = append(state, name)
		}
	}
	out := object{
		"clusterRules":         find(objects, "ClusterRole")["rules"],
		"rules":                find(objects, "Role")["rules"],
		"leaderMigrationRules": find(LeaderMigration(), "Role")["rules"],
		"state":                state,
	}
	if identity != nil {
		out["identity"] = identity
	}
	r.write(path.Join(ChartDir, "files", provider+".yaml"), out)
}
