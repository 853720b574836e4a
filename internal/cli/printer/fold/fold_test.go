package fold

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// kubelets are the steps of some workers of a plan, which change the same.
func kubelets(hosts ...string) []v1.Step {
	var out []v1.Step
	for _, host := range hosts {
		out = append(out, v1.Step{ID: host, Phase: planstep.PhaseKubelets, Kind: v1.StepKubelet, Host: host, Path: "/etc/kubelet"})
	}
	return out
}

func TestPartsOfAPlan(t *testing.T) {
	prepare := []v1.Step{{ID: "p", Phase: planstep.PhasePrepare}, {ID: "q", Phase: planstep.PhasePrepare}}
	awaits := []v1.Step{{ID: "p", Phase: planstep.PhasePrepare}, {ID: "q", Phase: planstep.PhasePrepare, Await: &v1.Await{}}}
	other := kubelets("w-1", "w-2")
	other[1].Path = "/etc/default/kubelet"
	nameless := kubelets("", "")
	nameless[1].ID = "x"
	for name, c := range map[string]struct {
		steps []v1.Step
		until string
		want  []Part
	}{
		"no step":                {nil, "", nil},
		"steps that prepare":     {prepare, "", []Part{{First: 0, End: 2, Prepares: true}}},
		"one of them waits":      {awaits, "", singleParts(0, 2)},
		"apply stops among them": {prepare, "p", singleParts(0, 2)},
		"workers": {slices.Concat(prepare, kubelets("w-1", "w-2")), "",
			[]Part{{First: 0, End: 2, Prepares: true}, {First: 2, End: 4, Workers: [][]int{{2, 3}}}}},
		"one worker":                  {kubelets("w-1"), "", singleParts(0, 1)},
		"no two of them alike":        {other, "", singleParts(0, 2)},
		"apply stops behind each":     {kubelets("w-1", "w-2"), "w-1", singleParts(0, 2)},
		"steps that name no host":     {nameless, "", singleParts(0, 2)},
		"two of three, and the third": {slices.Concat(other, kubelets("w-3")), "", []Part{{First: 0, End: 3, Workers: [][]int{{0, 2}, {1}}}}},
	} {
		p := &v1.Plan{Steps: c.steps, Until: c.until}
		if diff := cmp.Diff(c.want, Together(p)); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
		if diff := cmp.Diff(singleParts(0, len(c.steps)), Single(p)); diff != "" {
			t.Errorf("%s, one by one (-want +have):\n%s", name, diff)
		}
	}
}

func TestAStepWithoutItsHostLeavesTheStepAsItIs(t *testing.T) {
	made := func() v1.Step {
		return v1.Step{
			Host: "w-1", Path: "/etc/w-1/kubelet", Files: []string{"/etc/w-1/env"},
			Edits:   []v1.Edit{{Name: "hostname-override", Value: "w-1", Path: "/etc/w-1/env"}, {Name: "v", Value: "w-11"}},
			Changes: []v1.Change{{Field: "--hostname-override", After: "w-1"}, {Field: "--v", After: "w-11"}},
		}
	}
	s := made()
	want := v1.Step{
		Host: "w-1", Path: "/etc/{host}/kubelet", Files: []string{"/etc/{host}/env"},
		Edits:   []v1.Edit{{Name: "hostname-override", Value: "{host}", Path: "/etc/{host}/env"}, {Name: "v", Value: "w-11"}},
		Changes: []v1.Change{{Field: "--hostname-override", After: "{host}"}, {Field: "--v", After: "w-11"}},
	}
	if diff := cmp.Diff(want, WithoutHost(s)); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	if diff := cmp.Diff(made(), s); diff != "" {
		t.Errorf("the step itself is changed (-want +have):\n%s", diff)
	}
	part := v1.Step{Host: "kube", Path: "/etc/kubernetes/kubelet.env", Files: []string{"/etc/kube/kube"}}
	if have := WithoutHost(part); have.Path != part.Path || have.Files[0] != "/etc/{host}/{host}" {
		t.Errorf("a name within a word: %s, %v", have.Path, have.Files)
	}
}
