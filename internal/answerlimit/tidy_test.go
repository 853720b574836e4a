package answerlimit

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTidyLeavesWhatAnAPIServerSends(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\" :\t[1,\r\n  -2.5e10, true, null ],\"b\":\"x  y\"}\n": `{"a" : [1, -2.5e10, true, null ],"b":"x  y"} `,
		`{"a":"\"  \\","b":"  "}`:                                    `{"a":"\"  \\","b":"  "}`,
		`{"cut`:                                                      `{"cut`,
		`{"cut\`:                                                     `{"cut\`,
		``:                                                           ``,
	} {
		out, err := tidy([]byte(in))
		if err != nil || string(out) != want {
			t.Errorf("of %q comes %q, %v", in, out, err)
		}
	}
}

// TestQuantitiesOfAPIServersAreTaken, and those that stand for a billion digits are not.
func TestQuantitiesOfAPIServersAreTaken(t *testing.T) {
	for q, isTaken := range map[string]bool{
		`"1E"`: true, `"12Ei"`: true, `"100m"`: true, `"1e3"`: true, `"-129e6"`: true, `"128974848"`: true, `7`: true, `"1e-100"`: true, `"n"`: true,
		`"1e-999999999"`: false, `" 1e-999999999"`: false, `"1e-999999999 "`: false, `"\t1E+999999999"`: false, `"\u0031e999999999"`: false, `1e999999999`: false,
		"\"\u00a01e-999999999\"":            false,
		`"` + strings.Repeat("1", 65) + `"`: false,
	} {
		node := `{"kind":"Node","apiVersion":"v1","status":{"capacity":{"cpu":` + q + `}}}`
		if _, err := weighObject([]byte(node), nil, maxWeight); (err == nil) != isTaken {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// TestWhatNoAPIServerSendsIsRefused: decoders copy and quote it.
func TestWhatNoAPIServerSendsIsRefused(t *testing.T) {
	nodes := func(more string) string {
		return `{"kind":"NodeList","apiVersion":"v1"` + more + `,"items":[{"status":{"capacity":{"cpu":"1"}}}]}`
	}
	long := strings.Repeat("x", 70<<10)
	for name, c := range map[string]struct{ answer, want string }{
		"a long string":                    {nodes(`,"x":"` + strings.Repeat("x", maxString) + `"`), "has a string of more than 2 MiB"},
		"a long number":                    {nodes(`,"x":` + strings.Repeat("1", 70)), "has a number of more than 64 characters"},
		"a number out of range":            {nodes(`,"x":1e999,"items":[` + strings.Repeat("{},", 200_000) + `{}]`), "more than 64 MiB of memory"},
		"a quantity of a billion digits":   {strings.Replace(nodes(""), `"1"`, `"1e-999999999"`, 1), "has a quantity of more than 64 characters"},
		"the same as a number":             {strings.Replace(nodes(""), `"1"`, `1e-999999999`, 1), "has a quantity of more than 64 characters"},
		"a quantity that is escaped":       {strings.Replace(nodes(""), `"1"`, `"\u0031e999999999"`, 1), "has a quantity of more than 64 characters"},
		"a long quantity":                  {strings.Replace(nodes(""), `"1"`, `"`+strings.Repeat("1", 65)+`"`, 1), "has a quantity of more than 64 characters"},
		"much without a kind":              {`{"apiVersion":"v1","items":[],"x":"` + long + `"}`, "does not say what kind and version"},
		"much without a version":           {`{"kind":"NodeList","items":[],"x":"` + long + `"}`, "does not say what kind and version"},
		"much with an empty version":       {`{"kind":"NodeList","apiVersion":"x/","items":[],"x":"` + long + `"}`, "does not say what kind and version"},
		"much whose kind is taken back":    {`{"kind":"NodeList","apiVersion":"v1","items":[],"x":"` + long + `","kind":null}`, "does not say what kind and version"},
		"much of a kind in large letters":  {`{"KIND":"NodeList","apiVersion":"v1","items":[],"x":"` + long + `"}`, "does not say what kind and version"},
		"much of a kind with a long name":  {`{"kind":"` + long + `","apiVersion":"v1","items":[]}`, "does not say what kind and version"},
		"an element of a list that hides":  {`{"kind":"XList","apiVersion":"x/v1","items":[` + strings.Repeat("{},", 200_000) + `{}],"Items":0}`, "more than 64 MiB of memory"},
		"as much as may be, and no blanks": {nodes(`,"x":"` + long + `"` + strings.Repeat(" \n", 1<<20)), ""},
	} {
		a := &answer{cluster: newTotal(0).cluster(maxOpen), ReadCloser: io.NopCloser(strings.NewReader(c.answer)), most: maxAnswer, ctx: t.Context()}
		w := &weighed{weighing: weighing{answer: a, name: "the answer", as: untyped}}
		data, err := io.ReadAll(w)
		if c.want == "" && (err != nil || len(data) > 80<<10) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s is not refused with %q: %.300v", name, c.want, err)
		}
	}
}

// TestEventsThatNoAPIServerSendsAreRefused, before their decoder has the last byte of them.
func TestEventsThatNoAPIServerSendsAreRefused(t *testing.T) {
	node := `{"kind":"Node","apiVersion":"v1","status":{"capacity":{"cpu":"%s"}}}`
	long := strings.Repeat("x", 70<<10)
	for name, c := range map[string]struct{ event, want string }{
		"a quantity of a billion digits": {`{"type":"ADDED","object":` + fmt.Sprintf(node, "1e-999999999") + `}`, "has a quantity of more than 64 characters"},
		"an error that is no status":     {`{"type":"ERROR","object":{"kind":"Node","apiVersion":"v1","x":"` + long + `"}}`, "says why the watch failed in more than 64 KiB"},
		"a type that is long":            {`{"type":"` + long + `","object":` + fmt.Sprintf(node, "1") + `}`, "is no event of a watch"},
		"a type that is a number":        {`{"type":5,"kind":"NodeList","apiVersion":"v1","items":[{}]}`, "is no event of a watch"},
		"a list":                         {`{"type":"ADDED","kind":"NodeList","apiVersion":"v1","items":[{}]}`, "is no event of a watch"},
		"a quantity behind a blank":      {`{"type":"ADDED","object":` + fmt.Sprintf(node, " 1e-999999999") + `}`, "has a quantity of more than 64 characters"},
		"much without a kind":            {`{"type":"ADDED","object":{"x":"` + long + `"}}`, "does not say what kind and version"},
	} {
		light := `{"type":"ADDED","object":` + fmt.Sprintf(node, "1") + `}`
		b := &bounded{rt: answers(light + light + c.event + light), answer: maxAnswer, event: maxEvent, cluster: newTotal(0).cluster(maxOpen)}
		resp, err := b.RoundTrip(httptest.NewRequest("GET", "/api/v1/nodes?watch=1", nil))
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(resp.Body)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(read) >= len(light+light+c.event) {
			t.Errorf("%s: %d bytes were read, and %.300v", name, len(read), err)
		}
	}
}
