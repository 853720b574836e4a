// Package jsonweight decides whether a JSON document may be decoded: by the memory that it would take. An empty record
// is two bytes of a document and hundreds of its reader, so that a small ConfigMap of nothing else would take
// gigabytes.
package jsonweight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxDepth is more than any document nests. A reader that goes into each level would run out of stack, which ends the
// process.
const maxDepth = 100

// What the runtime takes for a map, for each slot of one besides its key and its value, and for a number in an
// interface. A map that has an entry has room for some: an object with one field takes hundreds of bytes.
const (
	mapHeader = 48
	mapSlot   = 16
	mapRoom   = 8
	boxed     = 8
)

// TooHeavyError says that a document would take more memory than one that transplant wrote.
type TooHeavyError struct{ Limit int64 }

func (e *TooHeavyError) Error() string {
	return fmt.Sprintf(
		"it would take more than %d bytes of memory, which is several times what the largest supported cluster needs: "+
			"transplant did not write it; find out who did, and put it back from a backup of the cluster",
		e.Limit,
	)
}

// Of returns about how many bytes a document takes when it is decoded into a value of a type. At the first byte above
// the limit it returns a *TooHeavyError. It also counts elements of slices that are null, or of a form that the type
// does not have. The decoder makes room for those, too. What is no JSON is left to the decoder, which refuses it before
// it makes room for anything.
func Of(data []byte, into reflect.Type, limit int64) (int64, error) {
	w := &weighing{tokens: json.NewDecoder(bytes.NewReader(data)), left: limit, limit: limit}
	w.tokens.UseNumber() // decoders go on behind a number that is out of range
	err := w.value(into, 0)
	if _, heavy := errors.AsType[*TooHeavyError](err); heavy || errors.Is(err, errTooDeep) || errors.Is(err, ErrQuantity) {
		return limit - w.left, err
	}
	return limit - w.left, nil
}

var errTooDeep = fmt.Errorf("it nests deeper than %d levels, which no document of transplant does", maxDepth)

var quantity = reflect.TypeFor[resource.Quantity]()

// ErrQuantity says that a quantity is larger than any that Kubernetes writes. It is decoded into the number that it
// stands for, and one of twelve characters may have a billion digits.
var ErrQuantity = fmt.Errorf(
	"it has a quantity of more than %d characters, or with an exponent of more than %d digits",
	maxQuantity,
	maxExponent,
)

const (
	maxQuantity = 64
	maxExponent = 3
)

// isLarge reports whether a quantity is larger than Kubernetes writes any.
func isLarge(token json.Token) bool {
	text := fmt.Sprint(token)
	if len(text) > maxQuantity {
		return true
	}
	_, exponent, has := strings.Cut(strings.ToLower(text), "e")
	return has && len(strings.TrimLeft(exponent, "+-")) > maxExponent
}

type weighing struct {
	tokens      *json.Decoder
	left, limit int64
}

func (w *weighing) add(bytes int64) error {
	if w.left -= bytes; w.left < 0 {
		return &TooHeavyError{Limit: w.limit}
	}
	return nil
}

// value weighs the next value; t is nil where the decoder keeps nothing of it.
func (w *weighing) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	token, err := w.tokens.Token()
	if err != nil {
		return err
	}
	if token != nil {
		if t, err = w.pointed(t); err != nil {
			return err
		}
	}
	if t != nil && decodesItself(t) {
		return w.whole(t, token, depth)
	}
	isAny := t != nil && t.Kind() == reflect.Interface
	switch token := token.(type) {
	case string:
		if isAny {
			return w.add(int64(len(token)) + int64(reflect.TypeFor[string]().Size()))
		}
		return w.add(int64(len(token)))
	case json.Number:
		if isAny {
			return w.add(boxed)
		}
	case json.Delim:
		if token == '[' {
			return w.elements(t, depth)
		}
		return w.members(t, depth)
	}
	return nil
}

// whole weighs a value whose type decodes it itself: it may keep all of its bytes, as a RawMessage does. token is its
// first one.
func (w *weighing) whole(t reflect.Type, token json.Token, depth int) error {
	if t == quantity && isLarge(token) {
		return ErrQuantity
	}
	if text, ok := token.(string); ok {
		return w.add(int64(len(text)))
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	before := w.tokens.InputOffset()
	var err error
	if delim == '[' {
		err = w.elements(nil, depth)
	} else {
		err = w.members(nil, depth)
	}
	if err != nil {
		return err
	}
	return w.add(w.tokens.InputOffset() - before)
}

// pointed weighs what a pointer leads to, and returns its type.
func (w *weighing) pointed(t reflect.Type) (reflect.Type, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
		if err := w.add(int64(t.Size())); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (w *weighing) elements(t reflect.Type, depth int) error {
	var element reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		element = t.Elem()
	case t.Kind() == reflect.Interface:
		element = t
		if err := w.add(int64(reflect.TypeFor[[]any]().Size())); err != nil {
			return err
		}
	}
	for w.tokens.More() {
		if element != nil {
			if err := w.add(int64(element.Size())); err != nil {
				return err
			}
		}
		if err := w.value(element, depth+1); err != nil {
			return err
		}
	}
	_, err := w.tokens.Token()
	return err
}

func (w *weighing) members(t reflect.Type, depth int) error {
	if isMap(t) {
		if err := w.add(mapHeader); err != nil {
			return err
		}
	}
	for n := 0; w.tokens.More(); n++ {
		token, err := w.tokens.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		member, takes := memberOf(t, key, n)
		if err := w.add(takes); err != nil {
			return err
		}
		if err := w.value(member, depth+1); err != nil {
			return err
		}
	}
	_, err := w.tokens.Token()
	return err
}

// isMap reports whether an object is decoded into a map.
func isMap(t reflect.Type) bool {
	return t != nil && (t.Kind() == reflect.Map || t.Kind() == reflect.Interface)
}

// memberOf is the type of a member, and what it takes besides its value, after n others.
func memberOf(t reflect.Type, key string, n int) (reflect.Type, int64) {
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		return fieldOf(t, key), 0
	case t.Kind() == reflect.Map:
		return t.Elem(), slots(t.Key().Size()+t.Elem().Size(), n) + int64(len(key))
	case t.Kind() == reflect.Interface:
		return t, slots(reflect.TypeFor[string]().Size()+t.Size(), n) + int64(len(key))
	}
	return nil, 0
}

// slots is what a map grows by for one more entry.
func slots(size uintptr, before int) int64 {
	slot := int64(size) + mapSlot
	switch {
	case before == 0:
		return mapRoom * slot
	case before < mapRoom:
		return 0
	}
	return 2 * slot
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func decodesItself(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshaler) }

// fieldsOf keeps the JSON names of struct types with the types of their fields.
var fieldsOf sync.Map

// fieldOf finds a field as encoding/json does: by its name, else by one that differs in upper and lower case.
func fieldOf(t reflect.Type, name string) reflect.Type {
	known, ok := fieldsOf.Load(t)
	if !ok {
		fields := map[string]reflect.Type{}
		addFields(t, fields)
		known, _ = fieldsOf.LoadOrStore(t, fields)
	}
	fields, _ := known.(map[string]reflect.Type)
	if field, ok := fields[name]; ok {
		return field
	}
	for other, field := range fields {
		if strings.EqualFold(other, name) {
			return field
		}
	}
	return nil
}

func addFields(t reflect.Type, fields map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			addFields(f.Type, fields)
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
}
