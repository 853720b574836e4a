package answerlimit

import (
	"reflect"
	"time"
)

// Size is about how many bytes of memory a value takes, with all that it leads to. What two places lead to counts
// twice. The value leads to nothing that leads back to it.
func Size(v any) int64 {
	r := reflect.ValueOf(v)
	if !r.IsValid() {
		return 0
	}
	return int64(r.Type().Size()) + behind(r)
}

// behind is what a value takes besides itself.
func behind(v reflect.Value) (n int64) {
	switch v.Kind() { //nolint:exhaustive // values of other kinds lead to nothing
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = int64(v.Elem().Type().Size()) + behind(v.Elem())
		}
	case reflect.Slice:
		n = int64(v.Cap()) * int64(v.Type().Elem().Size())
		if isFlat(v.Type().Elem()) {
			return n
		}
		for i := range v.Len() {
			n += behind(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			n += behind(v.Index(i))
		}
	case reflect.Map:
		slot := int64(v.Type().Key().Size()+v.Type().Elem().Size()) * 2
		for entries := v.MapRange(); entries.Next(); {
			n += slot + behind(entries.Key()) + behind(entries.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0 // it leads to a place that all times share
		}
		for i := range v.NumField() {
			n += behind(v.Field(i))
		}
	}
	return n
}

// isFlat reports whether values of a type lead to nothing.
func isFlat(t reflect.Type) bool {
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128
}
