package openstacktrial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/lab/build"
)

// fieldsRead are the fields that the provider selects of the SDK's types, as "package.Type.Field".
type fieldsRead map[string]bool

// sdk begins the paths of the packages of the SDK.
const sdk = "github.com/gophercloud/gophercloud/"

// listed is a package as "go list" describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// readFields checks the types of the provider's packages, and notes what they select.
func readFields(t *testing.T) fieldsRead {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./provider/openstack/...")
	list.Dir = root
	list.Stderr = narration{t}
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var own []listed
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	fields := fieldsRead{}
	for _, p := range own {
		if err := fields.addPackage(p, fset, from); err != nil {
			t.Fatal(err)
		}
	}
	return fields
}

func (f fieldsRead) addPackage(p listed, fset *token.FileSet, from types.Importer) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	if _, err := (&types.Config{Importer: from}).Check(p.ImportPath, fset, files, info); err != nil {
		return fmt.Errorf("checking the types of %s: %w", p.ImportPath, err)
	}
	for _, selection := range info.Selections {
		if selection.Kind() == types.FieldVal {
			f.addSelection(selection.Recv(), selection.Index())
		}
	}
	return nil
}

// addSelection notes each field on the way to the one that is selected: it may be a promoted one.
func (f fieldsRead) addSelection(of types.Type, path []int) {
	for _, i := range path {
		if pointer, ok := of.Underlying().(*types.Pointer); ok {
			of = pointer.Elem()
		}
		in, ok := of.Underlying().(*types.Struct)
		if !ok {
			return
		}
		f[of.String()+"."+in.Field(i).Name()] = true
		of = in.Field(i).Type()
	}
}

// reads reports whether the provider reads a field. It reads all of a type that is not the SDK's.
func (f fieldsRead) reads(field reflect.StructField, of reflect.Type) bool {
	for _, i := range field.Index[:len(field.Index)-1] { // to the type that declares the field
		of = of.Field(i).Type
	}
	return !strings.HasPrefix(of.PkgPath(), sdk) || f[of.PkgPath()+"."+of.Name()+"."+field.Name]
}

// shape is what an answer has of the keys that a type decodes and the provider reads: "key.of.lists[] type" in lines.
func (f fieldsRead) shape(body, into any) []string {
	lines := map[string]bool{}
	f.add(lines, "", body, reflect.TypeOf(into))
	return sortedLines(lines)
}

func (f fieldsRead) add(lines map[string]bool, at string, value any, kind reflect.Type) {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if at != "" {
		lines[strings.TrimPrefix(at, ".")+" "+typeOf(value)] = true
	}
	switch in := value.(type) {
	case []any:
		for _, item := range in {
			if kind.Kind() == reflect.Slice {
				f.add(lines, at+"[]", item, kind.Elem())
			}
		}
	case map[string]any:
		if kind.Kind() == reflect.Map {
			for _, item := range in {
				f.add(lines, at+".*", item, kind.Elem())
			}
		}
		if kind.Kind() != reflect.Struct {
			return
		}
		for _, field := range reflect.VisibleFields(kind) {
			name, item := valueOf(in, field)
			if name != "" && f.reads(field, kind) {
				f.add(lines, at+"."+name, item, field.Type)
			}
		}
	}
}

// valueOf is what an answer has for a field, and the key; no key for none. A field without a tag takes its name.
func valueOf(in map[string]any, field reflect.StructField) (key string, value any) {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && !field.Anonymous {
		name = field.Name
	}
	for key, value := range in {
		if strings.EqualFold(key, name) {
			return key, value
		}
	}
	return "", nil
}
