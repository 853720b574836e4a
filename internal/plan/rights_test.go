package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// grantedBy are the rights of the roles of a plan's manager.
func grantedBy(t *testing.T, p *v1.Plan) []apitest.Right {
	t.Helper()
	var out []apitest.Right
	for _, id := range []string{"create/ClusterRole/" + layout.CCMRole, "create/Role/kube-system/" + layout.CCMRole} {
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := json.Unmarshal([]byte(find(t, p, id).Object), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			out = append(out, apitest.RightsOf(rule, role.Namespace)...)
		}
	}
	return out
}

// The role of a plan follows its image: what only upstream's library does, our manager may not do.
func TestOurManagerGetsNoRightThatOnlyUpstreamsLibraryUses(t *testing.T) {
	official := grantedBy(t, mustMake(t, vsphere29(), v1.Options{Image: "official"}))
	ours := grantedBy(t, mustMake(t, vsphere29(), v1.Options{Image: "ours"}))
	var more []string
	for _, right := range official {
		if !slices.Contains(ours, right) {
			more = append(more, right.String())
		}
	}
	slices.Sort(more)
	want := []string{
		"get services", "list leases.coordination.k8s.io in kube-system named cloud-controller-manager", "patch services", "update events",
		"update nodes", "update nodes/status", "update services", "update services/status",
	}
	if got := strings.Join(more, "; "); got != strings.Join(want, "; ") {
		t.Errorf("managers on upstream's library get besides: %s", got)
	}
}

// What RBAC-002 asks of the running manager is what the plan has granted it: a run that goes on would be refused otherwise.
func TestThePlanGrantsWhatTheChecksAskOfItsManager(t *testing.T) {
	for image, ours := range map[string]bool{"official": false, "ours": true} {
		granted := grantedBy(t, mustMake(t, vsphere29(), v1.Options{Image: image}))
		needs := permission.ManagerNeeds(ours)
		if len(needs) == 0 {
			t.Fatal("nothing is asked of the manager")
		}
		for _, n := range needs {
			for _, verb := range n.Verbs {
				right := apitest.Right{Verb: verb, Group: n.Group, Resource: n.Resource, Namespace: n.Namespace, Name: n.Name}
				if !slices.Contains(granted, right) {
					t.Errorf("image %s: %s is asked and not granted", image, right)
				}
			}
		}
	}
}

// A migration that an earlier version began goes on: it gave our manager the same rights as any other.
func TestTheWiderRoleOfAnEarlierVersionIsAllowed(t *testing.T) {
	wider := mustMake(t, vsphere29(), v1.Options{Image: "official"})
	for _, ref := range []string{"create/ClusterRole/" + layout.CCMRole, "create/Role/kube-system/" + layout.CCMRole} {
		p := mustMake(t, vsphere29(), v1.Options{Image: "ours"})
		find(t, p, ref).Object = find(t, wider, ref).Object
		if err := invariant.CheckAllowed(p, nil); err != nil {
			t.Errorf("%s of an earlier version is refused: %v", ref, err)
		}
	}
}
