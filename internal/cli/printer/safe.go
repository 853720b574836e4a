package printer

import (
	"reflect"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/visible"
)

// safe returns a copy of a document of which every text is one line, and holds nothing that a terminal obeys. A printer
// prints no other: names, annotations, errors and reasons of a cluster could write lines that look like this program's,
// a "fix:" or a command to paste. Only manyLines are left as they are.
func safe[T any](doc T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	out.Set(safeValue(reflect.ValueOf(&doc).Elem()))
	return out.Interface().(T) //nolint:forcetypeassert // it was made as one
}

// manyLines are the fields that may have more than one line: texts of this program, whose further lines are indented,
// and contents of files, of which no more than a line is printed or each in a fence.
var manyLines = map[reflect.Type][]string{
	reflect.TypeFor[v1.Finding](): {"Fix"},
	reflect.TypeFor[v1.Step]():    {"Content", "Object"},
	reflect.TypeFor[v1.Change]():  {"Before", "After"},
	reflect.TypeFor[v1.Edit]():    {"Value"},
}

func safeValue(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		out.SetString(visible.Line(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(safeValue(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(safeValue(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(safeValue(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for key, value := range v.Seq2() {
				out.SetMapIndex(safeValue(key), safeValue(value))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(manyLines[v.Type()], f.Name) {
				out.Field(i).Set(safeValue(v.Field(i)))
			}
		}
	}
	return out
}
