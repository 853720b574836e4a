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
)

// maxDepth is more than any document nests. A reader that goes into each level would run out of stack, which ends the
// process.
const maxDepth = 100

// mapEntry is what an entry of a map takes besides its key and its value.
const mapEntry = 16

// TooHeavyError says that a document would take more memory than one that transplant wrote.
type TooHeavyError struct{ Limit int64 }

func (e *TooHeavyError) Error() string {
	return fmt.Sprintf(
		"it would take more than %d bytes of memory, which is several times what the largest supported cluster needs: "+
			"transplant did not write it; find out who did, and put it back from a backup of the cluster",
		e.Limit,
	)
}

// Of returns about how many bytes a document takes when it is decoded into a value of a type: a *TooHeavyError at the
// first byte above the limit. It counts the elements of slices also where they are null, or of a form that the type
// does not have: the decoder makes room for those, too. What is no JSON is left to the decoder, which refuses it before
// it makes room for anything.
func Of(data []byte, into reflect.Type, limit int64) (int64, error) {
	w := &weighing{tokens: json.NewDecoder(bytes.NewReader(data)), left: limit, limit: limit}
	err := w.value(into, 0)
	if _, heavy := errors.AsType[*TooHeavyError](err); heavy || errors.Is(err, errTooDeep) {
		return limit - w.left, err
	}
	return limit - w.left, nil
}

var errTooDeep = fmt.Errorf("it nests deeper than %d levels, which no document of transplant does", maxDepth)

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
	for t != nil && t.Kind() == reflect.Pointer && token != nil {
		t = t.Elem()
		if err := w.add(int64(t.Size())); err != nil {
			return err
		}
	}
	if t != nil && decodesItself(t) {
		t = nil
	}
	switch token := token.(type) {
	case string:
		return w.add(int64(len(token)))
	case json.Delim:
		if token == '[' {
			return w.elements(t, depth)
		}
		return w.members(t, depth)
	}
	return nil
}

func (w *weighing) elements(t reflect.Type, depth int) error {
	var element reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		element = t.Elem()
	case t.Kind() == reflect.Interface:
		element = t
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
	for w.tokens.More() {
		token, err := w.tokens.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		member, takes := memberOf(t, key)
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

// memberOf is the type of a member, and what it takes besides its value.
func memberOf(t reflect.Type, key string) (reflect.Type, int64) {
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		return fieldOf(t, key), 0
	case t.Kind() == reflect.Map:
		return t.Elem(), int64(t.Key().Size()+t.Elem().Size()) + mapEntry + int64(len(key))
	case t.Kind() == reflect.Interface:
		return t, 2*int64(t.Size()) + mapEntry + int64(len(key))
	}
	return nil, 0
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
