package plan

import (
	"regexp"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// nodeNameIn finds the variable with the node's name, in a manifest and in an object. The only variable takes its list along.
var nodeNameIn = regexp.MustCompile(`    - name: NODE_NAME\n      valueFrom:\n        fieldRef:\n          fieldPath: spec.nodeName\n|` +
	`"env":\[\{"name":"NODE_NAME","valueFrom":\{"fieldRef":\{"fieldPath":"spec.nodeName"\}\}\}\],|\{"name":"NODE_NAME","valueFrom":\{"fieldRef":\{"fieldPath":"spec.nodeName"\}\}\},`)

// TestAPlanFromBeforeManagersKnewTheirNodeIsGoneOnWith: what a newer version adds to a manager is no reason to refuse
// the plan that a journal holds. What was approved is carried out.
func TestAPlanFromBeforeManagersKnewTheirNodeIsGoneOnWith(t *testing.T) {
	for _, shape := range []struct {
		name    string
		snap    func() *v1.Snapshot
		options v1.Options
	}{
		{"static pod", aws26HA, v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeStaticPod}},
		{"DaemonSet", aws26HA, v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeDaemonSet}},
		{"Deployment", deployedCluster, v1.Options{}},
	} {
		p := mustMake(t, shape.snap(), shape.options)
		taken := 0
		for i := range p.Steps {
			s := &p.Steps[i]
			if s.Component != component.CCM {
				continue
			}
			content, object := nodeNameIn.ReplaceAllString(s.Content, ""), nodeNameIn.ReplaceAllString(s.Object, "")
			content = strings.Replace(content, "    env:\n    image", "    image", 1)
			if content != s.Content || object != s.Object {
				taken++
			}
			s.Content, s.Object = content, object
			if strings.Contains(content+object, "NODE_NAME") {
				t.Errorf("%s: step %s still has the variable:\n%s%s", shape.name, s.ID, content, object)
			}
		}
		if taken == 0 {
			t.Errorf("%s: no manager had the variable", shape.name)
		}
		if err := invariant.CheckJournaled(p, shape.snap()); err != nil {
			t.Errorf("%s: the plan of an earlier version is refused: %v", shape.name, err)
		}
	}
}
