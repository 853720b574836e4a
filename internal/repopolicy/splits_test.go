package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// The fields of findings and problems whose text is for readers, and the functions that take a text apart.
var (
	readFields = []string{"Found", "Object", "Objects", "Summary", "Text"}
	takesApart = regexp.MustCompile(`^(Split|Cut|Fields|Index|LastIndex|Contains|HasPrefix|HasSuffix)`)
)

// textSplits finds code of the checks and their printers that gets a fact back out of a text which a check has made.
func textSplits(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) ||
			!strings.HasPrefix(name, "internal/check/") && !strings.HasPrefix(name, "internal/cli/") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isNamed(f.X, "strings") || !takesApart.MatchString(f.Sel.Name) {
				return true
			}
			if field := readField(call.Args[0]); field != "" {
				broken = append(broken, fmt.Sprintf("%s:%d takes a finding's %s apart with strings.%s: keep the fact from which it was made",
					name, set.Position(call.Pos()).Line, field, f.Sel.Name))
			}
			return true
		})
		return nil
	})
	slices.Sort(broken)
	return broken, err
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// readField returns the field that an expression reads last, if it is one of a finding's or a problem's texts.
func readField(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IndexExpr:
		return readField(e.X)
	case *ast.CallExpr:
		if len(e.Args) > 0 { // strings.ToLower(f.Found)
			return readField(e.Args[0])
		}
		return readField(e.Fun)
	case *ast.SelectorExpr:
		if slices.Contains(readFields, e.Sel.Name) {
			return e.Sel.Name
		}
	}
	return ""
}
