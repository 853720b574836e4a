package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// blockerCodes reports blockers of a status that are made without a code, and codes that no blocker is made with.
// Who compares codes would miss the first, and wait for the second for ever. internal/cli reads codes and makes none.
func blockerCodes(tree fs.FS) ([]string, error) {
	var broken []string
	declared, made := map[string]bool{}, map[string]bool{}
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if isNamed(n.Type, "BlockerCode") {
					declared[n.Names[0].Name] = true
				}
			case *ast.SelectorExpr:
				if isNamed(n.X, "v1") && !strings.HasPrefix(name, "internal/cli/") {
					made[n.Sel.Name] = true
				}
			case *ast.CompositeLit:
				for _, blocker := range blockersIn(n) {
					if !hasCode(blocker) {
						broken = append(broken, fmt.Sprintf("%s:%d makes a blocker without a code", name, set.Position(blocker.Pos()).Line))
					}
				}
			}
			return true
		})
		return nil
	})
	for code := range declared {
		if !made[code] {
			broken = append(broken, "no blocker is made with the code "+code)
		}
	}
	slices.Sort(broken)
	return broken, err
}

// blockersIn returns the blockers that a literal is, or lists without naming their type again.
func blockersIn(literal *ast.CompositeLit) []*ast.CompositeLit {
	if isBlocker(literal.Type) {
		return []*ast.CompositeLit{literal}
	}
	list, ok := literal.Type.(*ast.ArrayType)
	if !ok || !isBlocker(list.Elt) {
		return nil
	}
	var out []*ast.CompositeLit
	for _, e := range literal.Elts {
		if one, ok := e.(*ast.CompositeLit); ok && one.Type == nil {
			out = append(out, one)
		}
	}
	return out
}

func isBlocker(of ast.Expr) bool {
	s, ok := of.(*ast.SelectorExpr)
	return ok && isNamed(s.X, "v1") && s.Sel.Name == "Blocker"
}

func hasCode(blocker *ast.CompositeLit) bool {
	return slices.ContainsFunc(blocker.Elts, func(e ast.Expr) bool {
		field, ok := e.(*ast.KeyValueExpr)
		return ok && isNamed(field.Key, "Code")
	})
}
