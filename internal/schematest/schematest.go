// Package schematest decides whether the form of what is kept has changed without a new number of its schema. The
// fields of each number are listed in a file, and a listing that was released stays as it is.
package schematest

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Form is what is kept under a number.
type Form struct {
	// Name is that of the files: NAME-NUMBER.txt.
	Name string
	// Constant is where the number is written, for the instruction.
	Constant string
	Number   int
	// Of are values of the types that are kept.
	Of []any
}

// Words in the first line of a listing.
const (
	released = "released"
	pending  = "not released"
)

// Listing lists the JSON fields of types, and of the types of these fields: a block for each, the given ones first.
// Types of another package are named and not listed: they have a listing of their own.
func Listing(of ...any) string {
	var order []reflect.Type
	for _, v := range of {
		order = append(order, reflect.TypeOf(v))
	}
	blocks := map[reflect.Type][]string{}
	found := map[string]reflect.Type{}
	for queue := slices.Clone(order); len(queue) > 0; queue = queue[1:] {
		t := queue[0]
		if _, listed := blocks[t]; listed {
			continue
		}
		var more []reflect.Type
		blocks[t], more = fields(t)
		more = slices.DeleteFunc(more, func(m reflect.Type) bool { return m.PkgPath() != order[0].PkgPath() })
		for _, m := range more {
			found[m.String()] = m
		}
		queue = append(queue, more...)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(order, found[name]) {
			order = append(order, found[name])
		}
	}
	var b strings.Builder
	for _, t := range order {
		fmt.Fprintf(&b, "%s\n", t)
		for _, line := range blocks[t] {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	return b.String()
}

// fields are the JSON fields of a struct, sorted, and the structs that they are made of.
func fields(t reflect.Type) (lines []string, more []reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue // the fields of what is embedded are visible themselves
		}
		if name == "" {
			name = f.Name
		}
		words, structs := describeType(f.Type)
		lines = append(lines, name+" "+words)
		more = append(more, structs...)
	}
	slices.Sort(lines)
	return lines, more
}

var (
	ownJSON = reflect.TypeFor[json.Marshaler]()
	ownText = reflect.TypeFor[encoding.TextMarshaler]()
)

// describeType is the JSON type of a Go type.
func describeType(t reflect.Type) (words string, structs []reflect.Type) {
	if t.Kind() == reflect.Pointer { // null and absent are one for a reader
		return describeType(t.Elem())
	}
	if own := reflect.PointerTo(t); own.Implements(ownJSON) || own.Implements(ownText) {
		return t.String(), nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		words, structs = describeType(t.Elem())
		return "[]" + words, structs
	case reflect.Map:
		words, structs = describeType(t.Elem())
		return "map[" + t.Key().Kind().String() + "]" + words, structs
	case reflect.Struct:
		return t.String(), []reflect.Type{t}
	default:
		return t.Kind().String(), nil
	}
}

// update is what lists the fields.
const update = "go test ./internal/repopolicy -update"

// Broken says how the listings in a directory fail a form, a line each.
func (f Form) Broken(dir fs.FS) ([]string, error) {
	var out []string
	now := parseFields(Listing(f.Of...))
	for n := 1; n <= f.Number; n++ {
		state, kept, err := readListing(dir, f.file(n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(
				out,
				fmt.Sprintf("%s: the fields of schema %d are not listed: write them with %s", f.file(n), n, update),
			)
		case err != nil:
			return nil, err
		case n < f.Number && state != released:
			out = append(
				out,
				fmt.Sprintf(
					"%s: schema %d is not released, and there is schema %d already: %s need not be raised before it is",
					f.file(n),
					n,
					f.Number,
					f.Constant,
				),
			)
		case n < f.Number:
			if gone := without(kept, now); len(gone) > 0 {
				out = append(
					out,
					fmt.Sprintf(
						"%s: what was kept under schema %d can no longer be read, for these fields are gone or of another type: %s; keep them, or convert such documents where they are read",
						f.file(n),
						n,
						strings.Join(gone, ", "),
					),
				)
			}
		case !maps.Equal(kept, now):
			changes := strings.Join(append(marked("-", without(kept, now)), marked("+", without(now, kept))...), ", ")
			what := fmt.Sprintf(
				"raise %s to %d, and list its fields with %s; add documents of schema %d that the tests read, continue "+
					"and revert (testdata/kept of internal/migrate and internal/hosted); write a conversion where an older one means something else",
				f.Constant,
				n+1,
				update,
				n,
			)
			if state == pending {
				what = fmt.Sprintf("schema %d was never released: list its fields again with %s", n, update)
			}
			out = append(out, fmt.Sprintf("%s: the fields are not those of schema %d (%s); %s", f.file(n), n, changes, what))
		}
	}
	return out, nil
}

// Update lists the fields of the number as it is, unless they were released.
func (f Form) Update(dir string) error {
	state, _, err := readListing(os.DirFS(dir), f.file(f.Number))
	if err == nil && state == released || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# %s, schema %d, %s\n%s", f.Name, f.Number, pending, Listing(f.Of...))
	return os.WriteFile(filepath.Join(dir, f.file(f.Number)), []byte(text), 0o644)
}

func (f Form) file(n int) string { return fmt.Sprintf("%s-%d.txt", f.Name, n) }

// readListing returns whether a listing was released, and its fields.
func readListing(dir fs.FS, name string) (state string, kept map[string]bool, err error) {
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return "", nil, err
	}
	head, rest, _ := strings.Cut(string(data), "\n")
	_, state, _ = strings.Cut(head, ", schema ")
	if _, state, _ = strings.Cut(state, ", "); state != released && state != pending {
		return "", nil, fmt.Errorf("%s: its first line ends neither with %q nor with %q: %s", name, released, pending, head)
	}
	return state, parseFields(rest), nil
}

// parseFields are the fields of a listing, each with its type.
func parseFields(listing string) map[string]bool {
	out, of := map[string]bool{}, ""
	for line := range strings.Lines(listing) {
		line = strings.TrimRight(line, "\n")
		if field, ok := strings.CutPrefix(line, "  "); ok {
			out[of+"."+field] = true
		} else {
			of = line
		}
	}
	return out
}

// without are the fields of a that b has not, sorted.
func without(a, b map[string]bool) []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(a)) {
		if !b[field] {
			out = append(out, field)
		}
	}
	return out
}

func marked(sign string, fields []string) []string {
	for i := range fields {
		fields[i] = sign + fields[i]
	}
	return fields
}
