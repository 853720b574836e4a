package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

func TestProofsAreAddedToASnapshot(t *testing.T) {
	s := &v1.Snapshot{Errors: []v1.GatherError{{Fact: "services", Error: "x"}, {Fact: "preview/old", Error: "x"}, {Fact: "previewed", Error: "x"}}}
	SetPreview(s, &v1.Preview{Provider: "aws", Error: "half of it", Nodes: []v1.NodePreview{{Node: "a", Found: true}, {Node: "b", Error: "token=" + planted}}})
	SetDryRuns(s, nil, "no plan can be made")
	want := []v1.GatherError{
		{Fact: "dryruns", Error: "trying the objects of the plan: no plan can be made"},
		{Fact: "preview", Error: "asking the new provider about the nodes: half of it"},
		{Fact: "preview/b", Error: "asking the new provider about node b: token=(masked)"},
		{Fact: "previewed", Error: "x"}, {Fact: "services", Error: "x"},
	}
	if diff := cmp.Diff(want, s.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	SetDryRuns(s, []v1.DryRun{{Ref: "Role/kube-system/r", OK: true}}, "")
	if why(s, "dryruns") != "(not among the errors)" || len(s.DryRuns) != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestTheCallerIsAskedAgainForWhatThePlanNeeds(t *testing.T) {
	server := everything(t)
	server.Deny("update", "deployments")
	src := live(t, server)
	s := Gather(t.Context(), src, collect.Options{})
	managers := 0
	for _, a := range s.Access {
		if a.Who != "self" {
			managers++
		}
	}
	AskAgain(t.Context(), s, src, permission.NeedsOf([]v1.Step{{Kind: v1.StepScale, Ref: "Deployment/plane/kcm"}}))
	denied, left := 0, 0
	for _, a := range s.Access {
		if a.Who != "self" {
			left++
		}
		if a.Who == "self" && !a.Allowed {
			denied++
			if a.Verb != "update" || a.Group != "apps" || a.Resource != "deployments" || a.Name != "kcm" {
				t.Errorf("denied: %+v", a)
			}
		}
		if a.Verb == "escalate" {
			t.Error("a plan without roles was asked about escalate")
		}
	}
	if denied != 1 || left != managers || managers == 0 || managers >= 40 {
		t.Errorf("%d denied; %d of %d answers about managers are left", denied, left, managers)
	}
}
