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

// ownNamesIn finds the variables with the names of the node and of the pod, in a manifest and in an object. Where there are no others, their list goes along.
var ownNamesIn = regexp.MustCompile(`    - name: (?:NODE|POD)_NAME\n      valueFrom:\n        fieldRef:\n          fieldPath: \S+\n|` +
	`"env":\[\{"name":"NODE_NAME","valueFrom":\{[^}]*\}\}\},\{"name":"POD_NAME","valueFrom":\{[^}]*\}\}\}\],|` +
	`\{"name":"(?:NODE|POD)_NAME","valueFrom":\{[^}]*\}\}\},?`)

// TestAPlanFromBeforeManagersKnewTheirNodeIsGoneOnWith: what a newer version adds to a manager is no reason to refuse
// the plan that a journal holds. What was approved is executed.
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
			content, object := ownNamesIn.ReplaceAllString(s.Content, ""), ownNamesIn.ReplaceAllString(s.Object, "")
			content = strings.Replace(content, "    env:\n    image", "    image", 1)
			if content != s.Content || object != s.Object {
				taken++
			}
			s.Content, s.Object = content, object
			if strings.Contains(content+object, "NODE_NAME") || strings.Contains(content+object, "POD_NAME") {
				t.Errorf("%s: step %s still has a variable:\n%s%s", shape.name, s.ID, content, object)
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
