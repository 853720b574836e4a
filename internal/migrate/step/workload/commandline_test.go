package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

func TestWhatIsKeptOfACommandLinePutsItBackAndHoldsNoSecret(t *testing.T) {
	for name, was := range secretLines(t) {
		for what, edits := range map[string][]v1.Edit{
			"nothing": nil,
			"set":     {{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
			"unset":   {{Op: v1.EditUnsetFlag, Name: "cloud-config"}, {Op: v1.EditUnsetFlag, Name: "cloud-provider"}},
			"new":     {{Op: v1.EditSetFlag, Name: "controllers", Value: "*,-route"}, {Op: v1.EditSetFlag, Name: "v", Value: "4"}},
			"all": {{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"},
				{Op: v1.EditSetFlag, Name: "enable-leader-migration", Value: "true"}},
			"the last": {{Op: v1.EditUnsetFlag, Name: "v"}},
			"in the place of another": {
				{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"}, {Op: v1.EditSetFlag,
					Name: "feature-gates", Value: "InTreePluginAWSUnregister=true"},
			},
		} {
			s := v1.Step{ID: "edit", Ref: "Deployment/kube-system/" + component.KCM, Component: component.KCM, Edits: edits}
			is, err := was.edited(edits)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			back, err := takeBackOf(s, was, is)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			data, err := json.Marshal(back)
			if err != nil || strings.Contains(string(data), canary) {
				t.Errorf("%s, %s: %v: it keeps %s", name, what, err, data)
			}
			var read CommandBack
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatal(err)
			}
			if again, err := read.apply(is); err != nil || fmt.Sprint(again) != fmt.Sprint(was) || again.Sum() != back.Was || is.Sum() != back.Is {
				t.Errorf("%s, %s: %v: put back is %q, was %q", name, what, err, again, was)
			}
			// A secret that was rotated since stays so.
			rotated := CommandLine{replaceAll(is.Command, canary, "rotated"), replaceAll(is.Args, canary, "rotated")}
			if again, err := read.apply(rotated); err != nil || strings.Contains(fmt.Sprint(again), canary) || rotated.Sum() != back.Is {
				t.Errorf("%s, %s: rotated, put back is %q (%v)", name, what, again, err)
			}
			// Who hosts the control plane has added a flag: the values of the edited ones come back all the same.
			other, err := is.edited([]v1.Edit{{Op: v1.EditSetFlag, Name: "theirs", Value: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			inverse, err := read.inverse(&v1.Plan{}, s, other)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			text := fmt.Sprint(inverse)
			if !strings.Contains(text, "--theirs") || !strings.Contains(text, canary) || strings.Contains(text, "external") ||
				strings.Contains(text, "-route") {
				t.Errorf("%s, %s: turned back it is %s", name, what, text)
			}
		}
	}
}

func replaceAll(in []string, old, by string) []string {
	var out []string
	for _, s := range in {
		out = append(out, strings.ReplaceAll(s, old, by))
	}
	return out
}

func TestASecretThatAStepEditsIsNotKept(t *testing.T) {
	s := v1.Step{ID: "edit", Ref: "Deployment/kube-system/x", Component: "x", Edits: []v1.Edit{{Op: v1.EditUnsetFlag, Name: "api-token"}}}
	was := CommandLine{[]string{"x", "--api-token=" + canary}, nil}
	is, err := was.edited(s.Edits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeBackOf(s, was, is); err == nil || strings.Contains(err.Error(), canary) ||
		!strings.Contains(err.Error(), "move it into a Secret or a file") {
		t.Errorf("got %v", err)
	}
}

func TestAChangeThatDoesNotFitIsNoCommandLine(t *testing.T) {
	t.Parallel()
	is := CommandLine{[]string{component.KCM, "--v=2"}, nil}
	for name, c := range map[string]tokenChange{
		"before the line": {At: -1}, "behind it": {At: 100}, "fewer than none": {Drop: -1}, "more than there are": {Drop: 100},
		"a piece before the line": {Put: []putPiece{{From: -1}}}, "a piece behind it": {Put: []putPiece{{From: 100}}},
	} {
		b := CommandBack{Changes: []tokenChange{c}}
		if back, err := b.apply(is); err == nil {
			t.Errorf("%s: %v", name, back)
		}
	}
}
