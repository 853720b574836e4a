package jsonweight

import (
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
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
	named := mapHeader + mapRoom*(one+int64(reflect.TypeFor[string]().Size())+mapSlot)
	anything := int64(mapHeader + mapRoom*(2*16+mapSlot))
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
		{"entries of a map", `{"named":{"ab":{},"c":null}}`, named + 3},
		{"an empty map", `{"named":{}}`, mapHeader},
		{"a map that grows", `{"named":{"1":{},"2":{},"3":{},"4":{},"5":{},"6":{},"7":{},"8":{},"9":{}}}`, named + 9 + 2*(named-mapHeader)/mapRoom},
		{"a string as anything", `{"any":"abc"}`, 16 + 3},
		{"pointers", `{"list":[{"next":{"next":null}}]}`, 2 * one},
		{"strings in a list", `{"list":[{"words":["","xyz"]}]}`, one + 2*16 + 3},
		{"anything", `{"any":[1,{"k":[]}]}`, 24 + 2*16 + boxed + anything + 1 + 24},
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

// TestWhatTakesMostForItsBytesIsNotTakenForLess compares with what the decoder's result takes.
func TestWhatTakesMostForItsBytesIsNotTakenForLess(t *testing.T) {
	for _, element := range []string{`{}`, `[]`, `0`, `1.5`, `""`, `{"":0}`, `{"a":{"b":{}}}`, `[[]]`, `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0}`} {
		const n = 20_000
		data := []byte(`[` + strings.Repeat(element+",", n) + element + `]`)
		weight, err := Of(data, reflect.TypeFor[any](), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var out any
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		takes := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%s: %d bytes each, weighed as %d", element, takes/n, weight/n)
		if takes > 2*weight {
			t.Errorf("%s: it takes %d bytes, and was weighed as %d", element, takes, weight)
		}
		runtime.KeepAlive(out)
	}
}
