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
		uncoded := func(at ast.Node) {
			broken = append(broken, fmt.Sprintf("%s:%d makes a blocker without a code", name, set.Position(at.Pos()).Line))
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
				for _, blocker := range blockersIn(n, n.Type) {
					if !hasCode(blocker) {
						uncoded(blocker)
					}
				}
			case *ast.CallExpr:
				if isNewBlocker(n) {
					uncoded(n)
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

// blockersIn returns the blockers that a literal of a type is, or holds without naming their type again: in lists, as
// values of maps, and behind pointers.
func blockersIn(literal *ast.CompositeLit, of ast.Expr) (out []*ast.CompositeLit) {
	var held ast.Expr
	switch of := of.(type) {
	case *ast.StarExpr:
		return blockersIn(literal, of.X)
	case *ast.ArrayType:
		held = of.Elt
	case *ast.MapType:
		held = of.Value
	default:
		if isBlocker(of) {
			out = append(out, literal)
		}
		return out
	}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Value
		}
		if one, ok := e.(*ast.CompositeLit); ok && one.Type == nil {
			out = append(out, blockersIn(one, held)...)
		}
	}
	return out
}

// isNewBlocker reports whether a call makes a blocker of which nothing is given.
func isNewBlocker(call *ast.CallExpr) bool {
	return isNamed(call.Fun, "new") && len(call.Args) == 1 && isBlocker(call.Args[0])
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
