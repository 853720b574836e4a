package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
)

// maxFieldsInLine is how many fields of a struct literal may stand in one line. Among more of them a reader, and a diff,
// does not see the one that matters.
const maxFieldsInLine = 3

// crowdedLiterals finds struct literals of more fields that are in one line. The row of a table may be: its type stands
// once, above all rows.
func crowdedLiterals(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		line := func(p token.Pos) int { return set.Position(p).Line }
		ast.Inspect(file, func(n ast.Node) bool {
			l, ok := n.(*ast.CompositeLit)
			if !ok || l.Type == nil || len(l.Elts) <= maxFieldsInLine || line(l.Lbrace) != line(l.Rbrace) {
				return true
			}
			if field, ok := l.Elts[0].(*ast.KeyValueExpr); ok && isStruct(l.Type, field.Key) {
				broken = append(broken, fmt.Sprintf("%s:%d has %d fields in one line: give each its own", name, line(l.Lbrace), len(l.Elts)))
			}
			return true
		})
		return nil
	})
	return broken, err
}

// isStruct reports whether a literal of a type with this first key is one of a struct.
func isStruct(t, key ast.Expr) bool {
	switch t.(type) {
	case *ast.ArrayType, *ast.MapType:
		return false
	}
	_, ok := key.(*ast.Ident)
	return ok
}
