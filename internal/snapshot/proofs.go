package snapshot

import (
	"context"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
)

// SetPreview puts into a snapshot what the new provider's own code said of the nodes; what it did not say is unknown.
func SetPreview(s *v1.Snapshot, p *v1.Preview) {
	s.Preview = p
	forget(s, "preview")
	if p.Error != "" {
		addError(s, "preview", "asking the new provider about the nodes: "+p.Error)
	}
	for _, n := range p.Nodes {
		if n.Error != "" {
			addError(s, "preview/"+n.Node, "asking the new provider about node "+n.Node+": "+n.Error)
		}
	}
	sortErrors(s)
}

// SetDryRuns puts into a snapshot what the API server said of the objects that a plan writes. The reason is why there are none; empty when there are.
func SetDryRuns(s *v1.Snapshot, runs []v1.DryRun, reason string) {
	s.DryRuns = runs
	forget(s, "dryruns")
	if reason != "" {
		addError(s, "dryruns", "trying the objects of the plan: "+reason)
	}
	sortErrors(s)
}

// AskAgain puts in place of what the caller was asked about before whether the caller may do exactly this: what the steps of a plan need.
func AskAgain(ctx context.Context, s *v1.Snapshot, src Sources, needs []Need) {
	g := &gatherer{Sources: src, Options: Options{Timeout: defaultTimeout}, snap: s}
	questions := ask("self", needs)
	g.answer(ctx, questions)
	others := slices.DeleteFunc(s.Access, func(a v1.AccessAnswer) bool { return a.Who == "self" })
	s.Access = append(questions, others...)
	forget(s, "access")
	if refused := slices.IndexFunc(s.Access, func(a v1.AccessAnswer) bool { return a.Error != "" }); refused >= 0 {
		addError(s, "access", s.Access[refused].Error)
	}
	sortErrors(s)
}

// forget drops the errors of a fact and of all below it.
func forget(s *v1.Snapshot, fact string) {
	s.Errors = slices.DeleteFunc(s.Errors, func(e v1.GatherError) bool { return e.Fact == fact || strings.HasPrefix(e.Fact, fact+"/") })
}

func addError(s *v1.Snapshot, fact, why string) {
	s.Errors = append(s.Errors, v1.GatherError{Fact: fact, Error: mask.Text(why)})
}

func sortErrors(s *v1.Snapshot) {
	slices.SortFunc(s.Errors, func(a, b v1.GatherError) int {
		return strings.Compare(a.Fact+"\x00"+a.Error, b.Fact+"\x00"+b.Error)
	})
}
