package report

import (
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestTheGapsOfALoopThatStaysArePauses(t *testing.T) {
	in := migration()
	before := Build(in)
	if len(before.Pauses) != 0 || !slices.ContainsFunc(before.Gaps, func(g v1.Gap) bool { return g.Loop == "nodeipam" }) {
		t.Fatalf("a plan that expects nothing of node IPAM must not hide its gaps: %+v, pauses %+v", before.Gaps, before.Pauses)
	}
	in.Journal.Plan.Steps[0].Expect = map[string]string{"service": "kube-controller-manager", "nodeipam": "kube-controller-manager"}
	in.Journal.Plan.Steps[1].Expect = map[string]string{"service": "cloud-controller-manager", "nodeipam": "kube-controller-manager"}
	r := Build(in)
	longest := 0.0
	for _, g := range r.Gaps {
		longest = max(longest, g.Seconds)
		if g.Loop == "nodeipam" {
			t.Errorf("gap %+v is of a loop that stays", g)
		}
	}
	for _, g := range r.Pauses {
		if g.Loop != "nodeipam" {
			t.Errorf("pause %+v is of a loop that moves", g)
		}
	}
	if r.Handover.GapSeconds != longest {
		t.Errorf("the largest gap is %v, the summary says %v", longest, r.Handover.GapSeconds)
	}
	if len(r.Gaps)+len(r.Pauses) != len(before.Gaps) || len(r.Pauses) == 0 {
		t.Errorf("%d gaps and %d pauses, of %d gaps", len(r.Gaps), len(r.Pauses), len(before.Gaps))
	}
}
