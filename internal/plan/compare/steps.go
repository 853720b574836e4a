package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// DescribeDifferences says in which steps and options two plans differ.
func DescribeDifferences(have, made *v1.Plan) []string {
	var out []string
	if have.Strategy != made.Strategy {
		out = append(out, fmt.Sprintf("strategy: %q instead of %q", have.Strategy, made.Strategy))
	}
	for _, field := range fieldsThatDiffer(have.Options, made.Options) {
		out = append(out, "options."+field)
	}
	index := map[string]int{}
	for i, s := range made.Steps {
		index[s.ID] = i
	}
	seen := map[string]bool{}
	last, turned := -1, ""
	for _, s := range have.Steps {
		at, there := index[s.ID]
		seen[s.ID] = true
		if !there {
			out = append(
				out,
				fmt.Sprintf("step %s (%s %s) is not made again", s.ID, s.Kind, strings.Trim(s.Host+s.Path+s.Ref, " ")),
			)
			continue
		}
		if at < last && turned == "" {
			turned = s.ID
		}
		last = at
		for _, field := range fieldsThatDiffer(s, made.Steps[at]) {
			out = append(out, fmt.Sprintf("step %s: %s", s.ID, field))
		}
	}
	for _, s := range made.Steps {
		if !seen[s.ID] {
			out = append(out, fmt.Sprintf("step %s is missing", s.ID))
		}
	}
	if turned != "" {
		out = append(out, fmt.Sprintf("step %s comes at another place", turned))
	}
	return out
}

// ChangedOptions are the options in which two plans are not the same, with both values.
func ChangedOptions(have, of *v1.Plan) []string { return fieldsThatDiffer(have.Options, of.Options) }

// fieldsThatDiffer are the fields of two documents that are not the same, with both values as far as a line has room
// for them.
func fieldsThatDiffer(have, made any) []string {
	a, b := fieldsOf(have), fieldsOf(made)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(withKeys(a, b))) {
		if string(a[name]) != string(b[name]) {
			one, other := shortened(a[name], b[name])
			out = append(out, fmt.Sprintf("%s: %s instead of %s", name, one, other))
		}
	}
	return out
}

func withKeys(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func fieldsOf(doc any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	data, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // a struct of texts, numbers and maps of texts
	}
	return out
}

// shortened are two values as a line has room for them, from shortly before where they begin to differ.
func shortened(a, b json.RawMessage) (string, string) {
	const before = 40
	one, other := []rune(string(a)), []rune(string(b))
	same := 0
	for same < min(len(one), len(other)) && one[same] == other[same] {
		same++
	}
	from := max(0, same-before)
	if max(len(one), len(other)) <= enough {
		from = 0
	}
	return part(one, from), part(other, from)
}

// enough is how many letters of a value a line has room for.
const enough = 120

func part(value []rune, from int) string {
	if len(value) == 0 {
		return "nothing"
	}
	text := value[min(from, len(value)):]
	out := string(text[:min(len(text), enough)])
	if from > 0 {
		out = "…" + out
	}
	if len(text) > enough {
		out += "…"
	}
	return out
}
