package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

// ofProviders are what each provider has a part of its own in: its package, the catalogue, the translation of cloud
// configs, and what Kubermatic's API says of clusters, a struct a provider.
var ofProviders = []string{
	"provider/", "internal/catalogue/", "internal/cloudconfig/", "internal/fleet/parts/", "internal/fleet/rules/",
}

// providerNames reports code that compares with the name of a provider: what is special about one is a fact of the
// catalogue, or it is in the provider's own package. So a new provider is a new entry there, and no search.
func providerNames(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) ||
			slices.ContainsFunc(ofProviders, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ask := func(exprs ...ast.Expr) {
			for _, e := range exprs {
				if provider := providerIn(e); provider != "" {
					broken = append(broken, fmt.Sprintf(
						"%s:%d asks for the provider %s: make what it is asked for a fact of internal/catalogue/cloudprovider",
						name, set.Position(e.Pos()).Line, provider,
					))
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					ask(n.X, n.Y)
				}
			case *ast.CaseClause:
				ask(n.List...)
			}
			return true
		})
		return nil
	})
	return broken, err
}

// providerIn is the provider that an expression names, as a constant of the catalogue or as a text; empty for none.
func providerIn(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if isNamed(e.X, "cloudprovider") && slices.Contains([]string{"AWS", "Azure", "GCE", "OpenStack", "VSphere"}, e.Sel.Name) {
			return e.Sel.Name
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			if p, ok := cloudprovider.Lookup(text); ok {
				return p.Name
			}
		}
	}
	return ""
}
