package jsonweight

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Words []string `json:"words,omitempty"`
	Next  *inner   `json:"next,omitempty"`
}

type base struct {
	Kind string `json:"kind"`
}

type outer struct {
	base  `json:",inline"`
	List  []inner          `json:"list"`
	Named map[string]inner `json:"named"`
	Any   any              `json:"any"`
	When  *time.Time       `json:"when"`
	Plain int
}

func TestWhatADocumentTakes(t *testing.T) {
	t.Parallel()
	one := int64(reflect.TypeFor[inner]().Size())
	entry := one + int64(reflect.TypeFor[string]().Size()) + mapEntry
	for _, c := range []struct {
		name, data string
		want       int64
	}{
		{"an empty document", `{}`, 0},
		{"scalars", `{"Plain":1,"kind":"abc"}`, 3},
		{"empty records", `{"list":[{},{},{}]}`, 3 * one},
		{"nulls", `{"list":[null,null]}`, 2 * one},
		{"elements of another form", `{"list":["","",1,[]]}`, 4 * one},
		{"a name in other letters", `{"LiSt":[{}]}`, one},
		{"a field that there is not", `{"other":[{},{}]}`, 0},
		{"a list twice", `{"list":[{}],"list":[{}]}`, 2 * one},
		{"entries of a map", `{"named":{"ab":{},"c":null}}`, 2*entry + 3},
		{"pointers", `{"list":[{"next":{"next":null}}]}`, 2 * one},
		{"strings in a list", `{"list":[{"words":["","xyz"]}]}`, one + 2*16 + 3},
		{"anything", `{"any":[1,{"k":[]}]}`, 2*16 + 2*16 + mapEntry + 1},
		{"what decodes itself", `{"when":"2026-11-23T04:41:38Z"}`, int64(reflect.TypeFor[time.Time]().Size()) + 20},
	} {
		got, err := Of([]byte(c.data), reflect.TypeFor[outer](), 1<<20)
		if err != nil || got != c.want {
			t.Errorf("%s: %d bytes, not %d: %v", c.name, got, c.want, err)
		}
		if c.want == 0 {
			continue
		}
		if _, err := Of([]byte(c.data), reflect.TypeFor[outer](), c.want); err != nil {
			t.Errorf("%s: at the limit: %v", c.name, err)
		}
		_, err = Of([]byte(c.data), reflect.TypeFor[outer](), c.want-1)
		if _, heavy := errors.AsType[*TooHeavyError](err); !heavy {
			t.Errorf("%s: a byte above the limit: %v", c.name, err)
		}
	}
}

func TestADocumentThatIsNoneOrNestsWithoutEnd(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"":                                "",
		`{"list":[`:                       "",
		`{"list":[}`:                      "",
		strings.Repeat("[", 10_000_000):   "nests deeper than 100 levels",
		strings.Repeat(`{"a":`, 1000_000): "nests deeper than 100 levels",
	} {
		_, err := Of([]byte(data), reflect.TypeFor[outer](), 1<<20)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20s: %v, not %q", data, err, want)
		}
	}
}

// FuzzNoDocumentIsRefusedForItsForm compares with the decoder: what it decodes without an error is weighed without one, other than for its weight.
func FuzzNoDocumentIsRefusedForItsForm(f *testing.F) {
	f.Add(`{"list":[{"words":["a"]}],"any":{"x":[1,2]}}`)
	f.Fuzz(func(t *testing.T, data string) {
		var into outer
		if json.Unmarshal([]byte(data), &into) != nil {
			return
		}
		if _, err := Of([]byte(data), reflect.TypeFor[outer](), 1<<30); err != nil && !strings.Contains(err.Error(), "nests deeper") {
			t.Errorf("%q: %v", data, err)
		}
	})
}
