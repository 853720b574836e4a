package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
)

// Words of a name, which begin with a capital letter but for the first one, and those of them that no name may have.
var (
	nameWords = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	privately = regexp.MustCompile(`^(anew|beside|besides|mend|mends|mended|vain|nobody|somebody|someone|whoever)$`)
)

// plainNames reports names that have a word which comments and texts must not say either. Only where a name is given is
// looked at.
func plainNames(tree fs.FS) ([]string, error) {
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
		ast.Inspect(file, func(n ast.Node) bool {
			for _, id := range namedBy(n) {
				for _, word := range nameWords.FindAllString(id.Name, -1) {
					if word = strings.ToLower(word); privately.MatchString(word) {
						broken = append(broken, fmt.Sprintf("%s:%d calls something %q: %s is no plain word (docs/contributing/words.md)",
							name, set.Position(id.Pos()).Line, id.Name, word))
					}
				}
			}
			return true
		})
		return nil
	})
	return broken, err
}

// namedBy returns the names that a declaration gives.
func namedBy(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var out []*ast.Ident
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				out = append(out, id)
			}
		}
		return out
	}
	return nil
}
