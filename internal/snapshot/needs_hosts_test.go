package snapshot

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

func TestTheRoleForHostAccessIsWhatItAsksFor(t *testing.T) {
	data, err := os.ReadFile("../../deploy/rbac/host-access.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted, asked []string
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			for _, verb := range r.Verbs {
				granted = append(granted, strings.Join([]string{verb, r.APIGroups[0], r.Resources[0], role.Namespace}, " "))
			}
		}
	}
	for _, n := range permission.PodAccessNeeds {
		for _, verb := range n.Verbs {
			asked = append(asked, strings.Join([]string{verb, n.Group, n.Resource, n.Namespace}, " "))
		}
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if diff := cmp.Diff(asked, granted); diff != "" {
		t.Errorf("-asked +granted:\n%s", diff)
	}
}

func TestRightsForHostAccessJoinTheOthers(t *testing.T) {
	verbs := map[string][]string{}
	for _, n := range permission.WithPodAccess(permission.DefaultNeeds) {
		if n.Namespace == component.Namespace {
			verbs[n.Resource] = append(verbs[n.Resource], n.Verbs...)
		}
	}
	if got := verbs["pods/exec"]; !slices.Equal(got, []string{"create", "get"}) {
		t.Errorf("pods/exec: %v", got)
	}
	if got := verbs["pods"]; !slices.Contains(got, "create") || !slices.Contains(got, "delete") {
		t.Errorf("pods: %v", got)
	}
}
