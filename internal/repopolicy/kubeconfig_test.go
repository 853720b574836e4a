package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	clientcmdPath    = "k8s.io/client-go/tools/clientcmd"
	kubeconfigReader = "internal/kubeconfig"
)

// kubeconfigUses are the places that may use client-go's reader of kubeconfigs, and what of it. The commands read files
// that their caller names. The others read an address or a certificate from what a host or a seed keeps, and connect
// to nothing with it. Any other name of that package is a door.
var kubeconfigUses = map[string][]string{
	"internal/client/client.go":               {"NewDefaultClientConfigLoadingRules", "NewNonInteractiveDeferredLoadingClientConfig", "ConfigOverrides", "IsEmptyConfig"},
	"internal/cli/seed/connect.go":            {"NewDefaultClientConfigLoadingRules", "NewNonInteractiveDeferredLoadingClientConfig", "ConfigOverrides"},
	"internal/fleet/process/run.go":           {"BuildConfigFromFlags"},
	"internal/migrate/step/object/derived.go": {"Load"},
	"internal/migrate/step/file/files.go":     {"Load"},
	"internal/snapshot/host/authority.go":     {"Load"},
}

// ownTokenFile is the one place that looks where a process has its own token from: its clients read it again there.
const ownTokenFile = "ccm/clients.go"

// kubeconfigDoors finds what would let client-go act on a kubeconfig that another one wrote. The lab's kubeconfigs
// are its own.
func kubeconfigDoors(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		exempt := within(name, "lab") || within(name, kubeconfigReader) || within(name, "internal/apitest")
		if path.Ext(name) != goExtension || isTest(name) || exempt {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		report := func(at token.Pos, what string) {
			broken = append(broken, fmt.Sprintf("%s:%d %s: read a cluster's kubeconfig with %s", name, set.Position(at).Line, what, kubeconfigReader))
		}
		local, err := kubeconfigImports(file, report)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		allowed := append(slices.Clone(kubeconfigUses[name]), "Write", "WriteToFile")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && local != "" && x.Name == local && !slices.Contains(allowed, n.Sel.Name) {
					report(n.Pos(), "uses clientcmd."+n.Sel.Name)
				}
				if runsOrReads(n.Sel.Name) && (name != ownTokenFile || n.Sel.Name != "BearerTokenFile") {
					report(n.Pos(), "sets "+n.Sel.Name)
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && runsOrReads(key.Name) {
					report(n.Pos(), "sets "+key.Name)
				}
			}
			return true
		})
		return nil
	})
	return broken, err
}

// kubeconfigImports returns the name by which a file knows client-go's reader of kubeconfigs, and reports imports that
// are doors by themselves.
func kubeconfigImports(file *ast.File, report func(token.Pos, string)) (string, error) {
	local := ""
	for _, spec := range file.Imports {
		what, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return "", err
		}
		switch {
		case what == clientcmdPath && spec.Name != nil && spec.Name.Name == ".":
			report(spec.Pos(), "imports "+what+" without a name")
		case what == clientcmdPath && spec.Name != nil:
			local = spec.Name.Name
		case what == clientcmdPath:
			local = path.Base(what)
		case strings.HasPrefix(what, clientcmdPath+"/api/"), within(what, "k8s.io/client-go/plugin/pkg/client/auth"):
			report(spec.Pos(), "imports "+what)
		}
	}
	return local, nil
}

// runsOrReads reports whether a field of a rest.Config runs a program or reads a file for every request.
func runsOrReads(field string) bool {
	return slices.Contains([]string{"ExecProvider", "AuthProvider", "AuthConfigPersister", "BearerTokenFile"}, field)
}
