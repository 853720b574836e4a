package mains

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

// changeImport returns a Go file with UpstreamImport changed to another package, and whether the file has it. The name
// that the file knows the package by stays, and so does every other byte.
func changeImport(name string, source []byte, to string) (changed []byte, found bool, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ImportsOnly)
	if err != nil {
		return nil, false, fmt.Errorf("reading the imports of %q: %w", name, err)
	}
	var at []*ast.ImportSpec
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == UpstreamImport {
			at = append(at, spec)
		}
	}
	switch len(at) {
	case 0:
		return source, false, nil
	case 1:
	default:
		return nil, false, fmt.Errorf("%q imports %s %d times: it must be once", name, UpstreamImport, len(at))
	}
	begin, end := set.Position(at[0].Path.Pos()).Offset, set.Position(at[0].Path.End()).Offset
	text := strconv.Quote(to)
	if at[0].Name == nil {
		text = "app " + text // the name that the file knows the package by
	}
	return slices.Concat(source[:begin], []byte(text), source[end:]), true, nil
}
