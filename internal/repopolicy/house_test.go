package repopolicy

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	maxFiles    = 10 // of a package, tests left out
	maxCLIFiles = 12 // of internal/cli, which has a file for each command
	maxMethods  = 40 // of a type
	prefix      = 5  // letters that no two files of a package share at their beginning
)

// isProduct reports whether a file is Go code of the product.
func isProduct(name string) bool {
	return path.Ext(name) == goExtension && !strings.HasPrefix(name, "lab/") && !strings.HasPrefix(name, "tools/") &&
		!strings.Contains(name, "testdata/") && !strings.HasPrefix(path.Base(name), "zz_generated")
}

// sources returns the product's files without tests, by directory.
func sources(tree fs.FS) (map[string][]string, error) {
	out := map[string][]string{}
	err := files(tree, func(name string, _ []byte) error {
		if isProduct(name) && !isTest(name) {
			out[path.Dir(name)] = append(out[path.Dir(name)], strings.TrimSuffix(path.Base(name), goExtension))
		}
		return nil
	})
	return out, err
}

func packageSizes(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	var broken []string
	for dir, names := range all {
		most := maxFiles
		if dir == "internal/cli" {
			most = maxCLIFiles
		}
		if len(names) > most {
			broken = append(broken, fmt.Sprintf("%s has %d files, a package may have %d", dir, len(names), most))
		}
	}
	slices.Sort(broken)
	return broken, err
}

// filePrefixes reports files of one package whose names begin alike: what they have in common is a package.
func filePrefixes(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	var broken []string
	for dir, names := range all {
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			a, platform, _ := strings.Cut(names[i-1], "_") // clock_linux and clock_other are one file to Go
			b, _, _ := strings.Cut(names[i], "_")
			same := len(a) >= prefix && len(b) >= prefix && a[:prefix] == b[:prefix]
			if same && !(a == b && platform != "") {
				broken = append(broken, fmt.Sprintf("%s: %s.go and %s.go begin alike", dir, names[i-1], names[i]))
			}
		}
	}
	slices.Sort(broken)
	return broken, err
}

func methodCounts(tree fs.FS) ([]string, error) {
	methods := map[string]int{}
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[path.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
		return nil
	})
	var broken []string
	for name, count := range methods {
		if count > maxMethods {
			broken = append(broken, fmt.Sprintf("%s has %d methods, a type may have %d", name, count, maxMethods))
		}
	}
	slices.Sort(broken)
	return broken, err
}

// wholes are types that a part is given what it needs of, and never is: as an embedded field each of their methods
// would be the part's own.
var wholes = []string{"Engine", "Draft"}

func embeddedWholes(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			fields := &ast.FieldList{}
			if structure, is := n.(*ast.StructType); is {
				fields = structure.Fields
			}
			for _, field := range fields.List {
				if what := embedded(field.Type); len(field.Names) == 0 && slices.Contains(wholes, what) {
					broken = append(broken, fmt.Sprintf("%s embeds %s: give it what it needs of it", name, what))
				}
			}
			return true
		})
		return nil
	})
	slices.Sort(broken)
	return broken, err
}

// embedded is the name of a type that stands as a field without a name.
func embedded(t ast.Expr) string {
	switch x := t.(type) {
	case *ast.StarExpr:
		return embedded(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// receiver is the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch x := t.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func clientImports(tree fs.FS) ([]string, error) {
	imported, err := imports(tree)
	var broken []string
	for dir, list := range imported {
		if dir != "internal/client" && !strings.HasPrefix(dir, "internal/client/") {
			continue
		}
		for _, what := range list {
			if within(what, "github.com/spf13/cobra") || within(what, modulePath+"/internal/cli") {
				broken = append(broken, fmt.Sprintf("%s imports %s", dir, what))
			}
		}
	}
	slices.Sort(broken)
	return broken, err
}

// packagesPage says what each package decides.
const packagesPage = "docs/contributing/packages.md"

// namedPackages reports packages of the product that the list of packages leaves out. One below another that it names
// is described with that. A tree without the page is not asked.
func namedPackages(tree fs.FS) ([]string, error) {
	page, err := fs.ReadFile(tree, packagesPage)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	packages, err := sources(tree)
	if err != nil {
		return nil, err
	}
	var broken []string
	for dir := range packages {
		named := dir
		for strings.Contains(named, "/") && !bytes.Contains(page, []byte("`"+named+"`")) {
			named = path.Dir(named)
		}
		if strings.Contains(dir, "/") && !strings.Contains(named, "/") {
			broken = append(broken, dir+" is not named in "+packagesPage)
		}
	}
	slices.Sort(broken)
	return broken, nil
}
