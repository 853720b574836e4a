package migrationconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/transplant-dev/transplant/internal/safeyaml"
)

var (
	// unquotedWildcard finds an asterisk that is a component's whole value, in block style and in flow style.
	unquotedWildcard = regexp.MustCompile(`\bcomponent:[ \t]+(\*)[ \t]*(?:[,}#\r\n]|$)`)
	// documentMarker is what stands between two YAML documents.
	documentMarker = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)
)

// Parse reads a leader migration config of any version. It refuses everything that a manager of any version would
// refuse or silently leave out. The *ParseError has all problems at once. Two things are left to Judge, since only it
// can weigh them: names, and resourceLock in a v1 file. Next to the error it returns what could be read.
func Parse(data []byte) (Config, error) {
	r := reader{}
	config := r.file(data)
	if len(r.problems) > 0 {
		return config, &ParseError{Problems: r.problems}
	}
	return config, nil
}

// reader collects problems while it walks a document.
type reader struct{ problems []Problem }

func (r *reader) problem(code Code, field, fix, format string, args ...any) {
	r.problems = append(
		r.problems,
		Problem{
			Code:     code,
			Field:    field,
			Summary:  fmt.Sprintf(format, args...),
			Fix:      fix,
			Blocking: true,
		},
	)
}

func (r *reader) file(data []byte) Config {
	document, err := decodeConfig(data)
	if err != nil {
		// The asterisk is by far the likeliest reason, since the documentation prints it so. With it quoted, the rest can be
		// read too.
		repaired, found := r.repair(data)
		if !found {
			r.problem(NotYAML, "", "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if document, err = decodeYAML(repaired); err != nil && !found {
			return Config{}
		} else if err != nil {
			r.problem(NotYAML, "", "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			return Config{}
		}
	}
	if hasSeveralDocuments(data) {
		r.problem(SeveralDocuments, "", "keep one", "the file holds several YAML documents, and managers read only the first")
	}
	top, ok := document.(map[string]any)
	if !ok {
		r.problem(WrongKind, "", "", "the file holds %s, not a %s", describeValue(document), Kind)
		return Config{}
	}
	return r.config(top)
}

// decodeConfig reads YAML the way the managers do: through JSON, with duplicate keys refused, and as nothing but JSON
// when it begins with a brace.
func decodeConfig(data []byte) (any, error) {
	if bytes.HasPrefix(bytes.TrimLeftFunc(data, unicode.IsSpace), []byte("{")) {
		if err := json.Unmarshal(data, new(any)); err != nil {
			return nil, fmt.Errorf("the file begins like JSON, which managers then read it as, and is not: %w", err)
		}
	}
	return decodeYAML(data)
}

// decodeYAML reads a file as YAML whatever it begins with.
func decodeYAML(data []byte) (any, error) {
	asJSON, err := safeyaml.ToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(asJSON, &document); err != nil {
		return nil, err
	}
	return document, nil
}

// indentingTab finds tabs among the white space at the beginning of a line, and a list item that is followed by one.
var indentingTab = regexp.MustCompile(`(?m)^[ \t]*(?:- ?)?\t[ \t]*`)

// repair returns the file without the faults that are common and leave no doubt about what was meant; found reports
// whether there was one.
func (r *reader) repair(data []byte) (repaired []byte, found bool) {
	repaired = data
	if at := indentingTab.FindIndex(data); at != nil {
		found = true
		r.problem(
			TabIndent,
			fmt.Sprintf("line %d", 1+bytes.Count(data[:at[1]], []byte("\n"))),
			"indent with spaces",
			"YAML takes no tabs for indentation: no manager can read the file",
		)
		repaired = indentingTab.ReplaceAllFunc(data, func(indent []byte) []byte {
			return bytes.ReplaceAll(bytes.ReplaceAll(indent, []byte("-\t"), []byte("- ")), []byte("\t"), []byte("  "))
		})
	}
	if quoted := r.wildcards(repaired); quoted != nil {
		repaired, found = quoted, true
	}
	return repaired, found
}

// wildcards reports every unquoted asterisk and returns the file with them quoted; nil when there is none.
func (r *reader) wildcards(data []byte) []byte {
	var quoted []byte
	done := 0
	for _, at := range unquotedWildcard.FindAllSubmatchIndex(data, -1) {
		asterisk := at[2]
		line := data[bytes.LastIndexByte(data[:asterisk], '\n')+1 : asterisk]
		if bytes.ContainsRune(line, '#') {
			continue // in a comment
		}
		r.problem(
			UnquotedWildcard,
			fmt.Sprintf("line %d", 1+bytes.Count(data[:asterisk], []byte("\n"))),
			`write component: "*"`,
			"component: * is not valid YAML: an asterisk without quotes starts an alias",
		)
		quoted = append(append(quoted, data[done:asterisk]...), `"*"`...)
		done = asterisk + 1
	}
	if quoted == nil {
		return nil
	}
	return append(quoted, data[done:]...)
}

// hasSeveralDocuments reports whether more than one document of a file has content.
func hasSeveralDocuments(data []byte) bool {
	full := 0
	for _, document := range documentMarker.Split(string(data), -1) {
		for line := range strings.Lines(document) {
			if line = strings.TrimSpace(
				line,
			); line != "" && line != "..." && !strings.HasPrefix(line, "#") &&
				!strings.HasPrefix(line, "%") {
				full++
				break
			}
		}
	}
	return full > 1
}

// config reads the top level of a file.
func (r *reader) config(top map[string]any) Config {
	apiVersion := r.text(top, "", "apiVersion")
	kind := r.text(top, "", "kind")
	group, version, _ := strings.Cut(apiVersion, "/")
	if group != Group || !slices.Contains([]string{V1Alpha1, V1Beta1, V1}, version) || kind != Kind {
		r.problem(WrongKind, "", fmt.Sprintf("write apiVersion: %s/%s and kind: %s", Group, V1, Kind),
			"the file says that it is %q of %q", kind, apiVersion)
		if _, listed := top["controllerLeaders"]; !listed {
			return Config{}
		}
		version = V1 // it is one in all but name, so what else is wrong with it is worth saying
	}
	config := Config{
		Version:      version,
		LeaderName:   r.required(top, "", "leaderName"),
		ResourceLock: r.text(top, "", "resourceLock"),
	}
	r.lock(config)
	config.Leaders = r.leaders(top["controllerLeaders"])
	r.reportUnknownFields(top, "", "apiVersion", "kind", "leaderName", "resourceLock", "controllerLeaders")
	return config
}

// lock checks resourceLock where it exists; without a good one managers exit.
func (r *reader) lock(config Config) {
	const fix = "write resourceLock: " + lockLeases
	switch {
	case config.Version == V1, config.ResourceLock == lockLeases, config.ResourceLock == lockEndpoints:
	case config.ResourceLock == "":
		r.problem(MissingValue, "resourceLock", fix, "%s needs it", config.Version)
	default:
		r.problem(BadResourceLock, "resourceLock", fix, "there is no lock %q", config.ResourceLock)
	}
}

func (r *reader) leaders(value any) []Leader {
	const field = "controllerLeaders"
	list, ok := value.([]any)
	if !ok {
		if value != nil {
			r.problem(WrongType, field, "", "is %s, not a list", describeValue(value))
		}
		return nil
	}
	var leaders []Leader
	for i := 0; i < len(list); i++ {
		at := fmt.Sprintf("%s[%d]", field, i)
		if name, component, stray := strayItem(list[i:]); stray {
			r.problem(StrayListItem, at, `remove the "-" before "component" in the item below`,
				"the item has only a name (%q) and the one below it only a component (%q)", name, component)
			leaders = append(leaders, Leader{Name: name, Component: component})
			i++ // the item below belongs to this one
			continue
		}
		leaders = append(leaders, r.leader(list[i], at))
	}
	return leaders
}

// strayItem recognises a leader that is spread over the first two items of a list.
func strayItem(items []any) (name, component string, stray bool) {
	if len(items) < 2 {
		return "", "", false
	}
	upper, _ := items[0].(map[string]any)
	lower, _ := items[1].(map[string]any)
	if len(upper) != 1 || len(lower) != 1 {
		return "", "", false
	}
	name, named := upper["name"].(string)
	component, given := lower["component"].(string)
	return name, component, named && given
}

func (r *reader) leader(value any, at string) Leader {
	item, ok := value.(map[string]any)
	if !ok {
		r.problem(WrongType, at, "", "is %s, not a name and a component", describeValue(value))
		return Leader{}
	}
	leader := Leader{Name: r.required(item, at, "name"), Component: r.required(item, at, "component")}
	r.reportUnknownFields(item, at, "name", "component")
	return leader
}

// text returns a string field, "" when it is absent or null.
func (r *reader) text(from map[string]any, at, key string) string {
	switch value := from[key].(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		r.problem(WrongType, child(at, key), "put it in quotes if it is meant as text", "is %s, not text", describeValue(value))
		return ""
	}
}

// required returns a string field without which managers exit.
func (r *reader) required(from map[string]any, at, key string) string {
	before := len(r.problems)
	value := r.text(from, at, key)
	if value == "" && len(r.problems) == before {
		r.problem(MissingValue, child(at, key), "", "is missing or empty")
	}
	return value
}

// reportUnknownFields reports the fields that are not among known, sorted.
func (r *reader) reportUnknownFields(from map[string]any, at string, known ...string) {
	var extra []string
	for key := range from {
		if !slices.Contains(known, key) {
			extra = append(extra, key)
		}
	}
	slices.Sort(extra)
	for _, key := range extra {
		fix := "remove it"
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) }); i >= 0 {
			fix = "write " + known[i]
		}
		r.problem(UnknownField, child(at, key), fix, "there is no such field: managers up to 1.31 ignore it, later ones exit")
	}
}

func child(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// describeValue says what kind of value stands where another was expected.
func describeValue(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "a truth value"
	default:
		return "a number"
	}
}
