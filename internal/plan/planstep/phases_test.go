package planstep

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPhasesAreAllThatTheSourceNames: a phase that is missing has no time in a status.
func TestPhasesAreAllThatTheSourceNames(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "phases.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Phase") || spec.Names[0].Name == "Phases" {
			return true
		}
		phase, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if named++; err != nil || !slices.Contains(Phases, phase) {
			t.Errorf("%s is not in Phases: %v", spec.Names[0].Name, err)
		}
		return true
	})
	if named < 20 || named != len(Phases) {
		t.Errorf("the source names %d phases, and the list %d", named, len(Phases))
	}
}
