package snapshot

import (
	"context"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// SetPreview puts into a snapshot what the new provider's own code said of the nodes; what it did not say is unknown. A
// nil preview says that there is no such code to ask.
func SetPreview(s *v1.Snapshot, p *v1.Preview) {
	s.Preview = p
	collect.ForgetErrors(s, "preview")
	if p == nil {
		return
	}
	if p.Error != "" {
		collect.AddError(s, "preview", "asking the new provider about the nodes: "+p.Error)
	}
	for _, n := range p.Nodes {
		if n.Error != "" {
			collect.AddError(s, "preview/"+n.Node, "asking the new provider about node "+n.Node+": "+n.Error)
		}
	}
	collect.SortErrors(s)
}

// SetDryRuns puts into a snapshot what the API server said of the objects that a plan writes. The reason is why there
// are none; empty when there are.
func SetDryRuns(s *v1.Snapshot, runs []v1.DryRun, reason string) {
	s.DryRuns = runs
	collect.ForgetErrors(s, "dryruns")
	if reason != "" {
		collect.AddError(s, "dryruns", "trying the objects of the plan: "+reason)
	}
	collect.SortErrors(s)
}

// AskAgain asks whether the caller may do exactly what the steps of a plan need. The answers take the place of the
// earlier ones about the caller.
func AskAgain(ctx context.Context, s *v1.Snapshot, src collect.Sources, needs []collect.Need) {
	g := &collect.Collector{Sources: src, Options: collect.Options{Timeout: collect.DefaultTimeout}, Snap: s}
	questions := permission.Questions("self", needs)
	permission.Answer(ctx, g, questions)
	others := slices.DeleteFunc(s.Access, func(a v1.AccessAnswer) bool { return a.Who == "self" })
	s.Access = append(questions, others...)
	collect.ForgetErrors(s, "access")
	if refused := slices.IndexFunc(s.Access, func(a v1.AccessAnswer) bool { return a.Error != "" }); refused >= 0 {
		collect.AddError(s, "access", s.Access[refused].Error)
	}
	collect.SortErrors(s)
}
