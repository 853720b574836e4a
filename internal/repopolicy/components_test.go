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

	"github.com/transplant-dev/transplant/internal/component"
)

// componentNames reports string literals that are a component's name, its account, the migration lease or another value
// that internal/component names. The formats in api/ say their values themselves, and a longer text may hold a name.
func componentNames(tree fs.FS) ([]string, error) {
	named := []string{
		component.KAS, component.KCM, component.Scheduler, component.CCM, component.Kubelet, component.Etcd, component.Namespace,
		component.MigrationLease, component.TaintUninitialized, component.UserKCM, component.UserCCM, component.Registry,
		component.RangeAllocator, component.CloudAllocator,
	}
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) || strings.HasPrefix(name, "internal/component/") || strings.HasPrefix(name, "api/") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && slices.Contains(named, text) {
				broken = append(broken, fmt.Sprintf(
					"%s:%d holds the literal %s: internal/component names it", name, set.Position(literal.Pos()).Line, literal.Value,
				))
			}
			return true
		})
		return nil
	})
	return broken, err
}
