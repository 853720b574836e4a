package plan

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// TestAListIsPutBackItemByItem: the plan changes the flag, and of its items those of the in-tree provider alone.
func TestAListIsPutBackItemByItem(t *testing.T) {
	manifest := func(image, flags string) []byte {
		return fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %[1]s\n  namespace: kube-system\nspec:\n  containers:\n  - name: %[1]s\n"+
			"    image: registry.k8s.io/%[2]s\n    command:\n    - %[1]s\n    - --profiling=false\n%[3]s", component.KCM, image, flags)
	}
	const now = "    - --cloud-provider=external\n    - --feature-gates=A=true\n    - --controllers=*,-route\n"
	s := v1.Step{ID: "external/x", Kind: v1.StepEditManifest, Host: "cp-1", Component: component.KCM, Path: "/etc/kubernetes/manifests/kcm.yaml", Edits: []v1.Edit{
		{
			Op:    v1.EditSetFlag,
			Name:  "cloud-provider",
			Value: "external",
		},
		{Op: v1.EditUnsetFlag, Name: flagvalue.FlagFeatureGates},
		{Op: v1.EditSetFlag, Name: flagvalue.FlagControllers, Value: "*,-route"},
	}}
	back := v1.Step{ID: "undo/external/x", Kind: v1.StepRestoreManifest, Host: s.Host, Component: component.KCM, Path: s.Path, Restore: s.ID}
	upgrade := s
	upgrade.Edits = append(upgrade.Edits, v1.Edit{Op: v1.EditSetImage, Name: component.KCM, Value: "v1.27.4"})
	for _, c := range []struct {
		name, image, flags, says string
		of                       v1.Step
	}{
		{"as the plan found it", component.KCM + ":v1", "    - --cloud-provider=aws\n    - --feature-gates=A=true\n", "", s},
		{"another gate", component.KCM + ":v1", "    - --cloud-provider=aws\n    - --feature-gates=A=false\n", "feature gate A", s},
		{"a controller less", component.KCM + ":v1", "    - --feature-gates=A=true\n    - --controllers=*,-csrsigning\n", "--controllers", s},
		{"another version", component.KCM + ":v0", "    - --feature-gates=A=true\n", "in more than the plan changes", s},
		{"another version, which the plan changes", component.KCM + ":v0", "    - --feature-gates=A=true\n", "", upgrade},
		{"another image, of which the plan changes the version", "other:v0", "    - --feature-gates=A=true\n", "in more than the plan changes", upgrade},
	} {
		p := &v1.Plan{Cluster: v1.Cluster{Provider: cloudprovider.AWS}, Steps: []v1.Step{c.of}}
		err := allowed.CheckManifest(p, back, manifest(component.KCM+":v1", now), manifest(c.image, c.flags))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: it is not refused with %q: %v", c.name, c.says, err)
		}
	}
}
