package rule

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/shell"
)

// Each is a check of single objects by one rule. It passes when no object has a problem.
type Each[T any] struct {
	// Unless returns the finding, and true, for a cluster that the check does not concern; nil when it concerns all.
	Unless func(facts.Facts) (v1.Finding, bool)
	// List returns the objects; false, and the finding, when there is none to judge.
	List func(facts.Facts) ([]T, v1.Finding, bool)
	// Name returns what a finding calls an object.
	Name func(T) string
	// Concerns reports whether an object is judged; nil when all are.
	Concerns func(facts.Facts, T) bool
	// Wrong returns the function that says what is wrong with an object; empty when nothing is.
	Wrong func(facts.Facts) func(T) string
	// Outcome is that of a finding with problems.
	Outcome v1.Outcome
	// Passes is the summary for the number of judged objects. Fails is that for the number of problems among them. Both
	// have the form of findings.Number.
	Passes, Fails string
	// Expected, Source and Fix are those of a finding with problems. Fix is for the first of them.
	Expected, Source string
	Fix              func(object string) string
}

// Judge judges the objects of a cluster.
func (e Each[T]) Judge(f facts.Facts) v1.Finding {
	if e.Unless != nil {
		if finding, ok := e.Unless(f); ok {
			return finding
		}
	}
	objects, finding, ok := e.List(f)
	if !ok {
		return finding
	}
	var bad findings.Problems
	judged, wrong := 0, e.Wrong(f)
	for _, o := range objects {
		if e.Concerns != nil && !e.Concerns(f, o) {
			continue
		}
		judged++
		if problem := wrong(o); problem != "" {
			bad.Add(e.Name(o), "%s: %s", e.Name(o), problem)
		}
	}
	if bad.Empty() {
		return findings.Pass("%s", findings.Number(e.Passes, judged, judged))
	}
	summary := findings.Number(e.Fails, len(bad), judged)
	return findings.With(bad.Finding(e.Outcome, "%s", summary), e.Expected, e.Source, e.Fix(bad[0].Object))
}

// Nodes returns a check of every Node.
func Nodes(e Each[v1.Node]) func(facts.Facts) v1.Finding {
	e.List, e.Name, e.Source = facts.ListNodes, func(n v1.Node) string { return n.Name }, facts.SourceNodes
	return e.Judge
}

// Always returns a value for Wrong that judges an object in the same way in every cluster.
func Always[T any](wrong func(T) string) func(facts.Facts) func(T) string {
	return func(facts.Facts) func(T) string { return wrong }
}

// DescribeNode is the command that shows a Node.
func DescribeNode(name string) string { return "kubectl describe node " + shell.Quote(name) }
