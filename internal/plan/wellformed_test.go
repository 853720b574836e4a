package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
)

// TestAPlanThatWasEditedByHandIsRefused edits the plan of the lab as somebody would in a file, and reads it without its snapshot.
func TestAPlanThatWasEditedByHandIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		change     func(t *testing.T, p *v1.Plan)
	}{
		{"a kind is misspelt", `kind "editManifets" is not known`, func(t *testing.T, p *v1.Plan) { find(t, p, "external/"+component.KCM).Kind = "editManifets" }},
		{"a fact is removed", "which the plan does not state", func(_ *testing.T, p *v1.Plan) { p.Facts = p.Facts[1:] }},
		{"the facts and who requires them are removed", "rule P-19", func(_ *testing.T, p *v1.Plan) {
			p.Facts = nil
			for i := range p.Steps {
				p.Steps[i].Requires = nil
			}
		}},
		{"the steps are turned round", "rule P-01", func(_ *testing.T, p *v1.Plan) {
			for i, j := 0, len(p.Steps)-1; i < j; i, j = i+1, j-1 {
				p.Steps[i], p.Steps[j] = p.Steps[j], p.Steps[i]
			}
		}},
		{"a kubelet comes before the manager", "rule P-05", func(t *testing.T, p *v1.Plan) { move(t, p, "external/kubelet@", "start/") }},
		{"the managers are removed", "rule P-34", func(_ *testing.T, p *v1.Plan) {
			var kept []v1.Step
			for _, s := range p.Steps {
				if !strings.HasPrefix(s.ID, "start/") {
					kept = append(kept, s)
				}
			}
			p.Steps = kept
		}},
		{"a step is there twice", "is there twice", func(_ *testing.T, p *v1.Plan) { p.Steps = append(p.Steps, p.Steps[0]) }},
		{"a path leads elsewhere", "without detours", func(t *testing.T, p *v1.Plan) { find(t, p, "write/").Path = "/etc/kubernetes/../shadow" }},
		{"a file that everybody may write", "lets others than its owner change", func(t *testing.T, p *v1.Plan) { find(t, p, "write/").Mode = "0666" }},
		{"a mode that is none", "no octal file mode", func(t *testing.T, p *v1.Plan) { find(t, p, "write/").Mode = "rw-r--r--" }},
		{"a secret among the options", "AWS_SECRET_ACCESS_KEY is a secret", func(_ *testing.T, p *v1.Plan) { p.Options.Env = append(p.Options.Env, "AWS_SECRET_ACCESS_KEY=x") }},
		{"it stops behind a step that is not there", `no phase "nowhere"`, func(_ *testing.T, p *v1.Plan) { p.Until = "nowhere" }},
		{"it is of no cluster", "cluster.uid is empty", func(_ *testing.T, p *v1.Plan) { p.Cluster.UID = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := base(t, "lab")
			c.change(t, p)
			if err := invariant.CheckWellFormed(p); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the plan is not refused with %q: %v", c.says, err)
			}
		})
	}
}
