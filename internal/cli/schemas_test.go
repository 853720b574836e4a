package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	schemaDir  = "../../docs/reference/schemas"
	schemaPage = "../../docs/reference/schemas.md"
	apiDir     = "../../api/transplant/v1alpha1"
)

// documented are the types that have a schema, in the order of the page, and where a document of each comes from.
var documented = []struct {
	of   any
	from string
}{
	{v1.Snapshot{}, "`transplant snapshot`; kept in the cluster as it was before the migration"},
	{v1.CheckReport{}, "`transplant check -o json`"},
	{v1.CheckList{}, "`transplant check --list -o json`, `transplant explain -o json`"},
	{v1.Explanation{}, "`transplant explain CODE -o json`"},
	{v1.Plan{}, "`transplant plan -o json`, and the file of `--out`"},
	{v1.Diff{}, "`transplant diff -o json`"},
	{v1.RunEvent{}, "a line of `transplant apply -o jsonl`, `rollback -o jsonl` and `fleet apply -o jsonl`"},
	{v1.Journal{}, "kept in the cluster: ConfigMap `transplant-journal`"},
	{v1.Status{}, "`transplant status -o json`; with `--watch`, a line"},
	{v1.Timeline{}, "`transplant timeline -o json`; with `--watch`, a line"},
	{v1.ChangeResult{}, "`transplant pause`, `resume` and `unlock -o json`"},
	{v1.TokenList{}, "`transplant renew -o json`"},
	{v1.OrphanList{}, "`transplant remove-orphans -o json`"},
	{v1.Verification{}, "`transplant verify -o json`"},
	{v1.Report{}, "`transplant report -o json`"},
	{v1.Disruption{}, "`transplant probe -o json`"},
	{v1.BundleManifest{}, "`transplant bundle -o json`, and `manifest.json` of a bundle"},
	{v1.BundleVersions{}, "`versions.json` of a bundle"},
	{v1.BundlePods{}, "`pods.json` of a bundle"},
	{v1.BundleLeases{}, "`leases.json` of a bundle"},
	{v1.BundleEvents{}, "`events.json` of a bundle"},
	{v1.FleetStatus{}, "`transplant fleet status -o json`; with `--watch`, a line"},
	{v1.FleetPlan{}, "`transplant fleet plan -o json`"},
	{v1.Version{}, "`transplant version -o json`"},
	{v1.OwnershipEvent{}, "a line of an ownership log, which `apply` keeps on its machine"},
	{v1.ProbeEvent{}, "a line of a disruption log: `apply --probe`, `probe --log`"},
	{v1.CloudCall{}, "a line of the file that `report --cloud-audit` reads"},
}

// strict are the kinds that are read back: a reader refuses fields that it does not know.
var strict = []string{v1.KindSnapshot, v1.KindPlan, v1.KindJournal}

func TestTheSchemasAreThoseOfTheTypes(t *testing.T) {
	source := readAPI(t)
	want := map[string]string{schemaPage: schemaIndex()}
	for _, d := range documented {
		of := reflect.TypeOf(d.of)
		want[filepath.Join(schemaDir, of.Name()+".json")] = source.file(t, of)
	}
	if *update {
		if err := os.MkdirAll(schemaDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range want {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, text := range want {
		if have, err := os.ReadFile(path); err != nil || string(have) != text {
			t.Errorf("%s is old (%v); run go test ./internal/cli -update", path, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(schemaDir, "*"))
	if err != nil || len(files) != len(documented) {
		t.Errorf("%d files for %d types: %v", len(files), len(documented), err)
	}
	for name, embeds := range source.documents {
		if embeds && !slices.ContainsFunc(documented, func(d struct {
			of   any
			from string
		}) bool {
			return reflect.TypeOf(d.of).Name() == name
		}) {
			t.Errorf("%s is a document and has no schema", name)
		}
	}
}

func TestWhatCommandsPrintConformsToTheSchemas(t *testing.T) {
	kinds := map[string]int{}
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text := mustRead(t, path)
		line, _, _ := strings.Cut(text, "\n")
		_, out, isPrinted := strings.Cut(text, "--- standard output\n")
		out, _, _ = strings.Cut(out, "--- standard error\n")
		switch {
		case !isPrinted:
		case strings.Contains(line, "-o jsonl"):
			for _, event := range strings.Split(strings.TrimSpace(out), "\n") {
				kinds[conforms(t, event)]++
			}
		case strings.Contains(line, "-o json"), strings.Contains(line, "-o yaml"):
			kinds[conforms(t, out)]++
		}
	}
	for _, path := range []string{labSnapshot, "../plan/testdata/lab.plan.yaml", "../plan/testdata/lab.rollback.yaml"} {
		kinds[conforms(t, mustRead(t, path))]++
	}
	journal, err := json.Marshal(withKind(newOnlooker(t).doc))
	if err != nil {
		t.Fatal(err)
	}
	kinds[conforms(t, string(journal))]++
	for _, kind := range []string{
		v1.KindCheckReport, v1.KindCheckList, v1.KindPlan, v1.KindSnapshot, v1.KindJournal, v1.KindStatus, v1.KindTimeline, v1.KindFleetStatus,
		v1.KindFleetPlan, v1.KindRunEvent, v1.KindExplanation, v1.KindDiff,
	} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was compared with its schema", kind)
		}
	}
}

func withKind(j v1.Journal) v1.Journal {
	j.TypeMeta = v1.Type(v1.KindJournal)
	j.Plan.TypeMeta = v1.Type(v1.KindPlan)
	return j
}

func TestASchemaRefusesWhatIsNoDocumentOfItsKind(t *testing.T) {
	report := transplant(t, "check", "--from-snapshot", labSnapshot, "-o", "json").out
	plan := mustRead(t, "../plan/testdata/lab.plan.yaml")
	for _, c := range []struct {
		name, kind, doc string
		good            bool
	}{
		{"a report", v1.KindCheckReport, report, true},
		{"a field that a later version has", v1.KindCheckReport, strings.Replace(report, `"findings"`, `"later": 1, "findings"`, 1), true},
		{"another kind", v1.KindCheckReport, strings.Replace(report, `"CheckReport"`, `"Plan"`, 1), false},
		{"a text for a number", v1.KindCheckReport, strings.Replace(report, `"passed": `, `"passed": "x", "was": `, 1), false},
		{"no summary", v1.KindCheckReport, strings.Replace(report, `"summary"`, `"summery"`, 1), false},
		{"an outcome that there is not", v1.KindCheckReport, strings.Replace(report, `"outcome": "pass"`, `"outcome": "passed"`, 1), false},
		{"a plan", v1.KindPlan, plan, true},
		{"a field that no reader knows", v1.KindPlan, "later: 1\n" + plan, false},
		{"a step with a field that no reader knows", v1.KindPlan, strings.Replace(plan, "\n  phase: ", "\n  later: 1\n  phase: ", 1), false},
	} {
		if err := validate(t, c.kind, c.doc); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// conforms compares a document with the schema of its kind, as it lies in the documentation, and returns the kind.
func conforms(t *testing.T, doc string) string {
	t.Helper()
	var meta v1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &meta); err != nil || meta.Kind == "" {
		t.Fatalf("a document without a kind: %v\n%s", err, doc)
	}
	if err := validate(t, meta.Kind, doc); err != nil {
		t.Errorf("a %s: %v\n%.2000s", meta.Kind, err, doc)
	}
	return meta.Kind
}

func validate(t *testing.T, kind, doc string) error {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(schemaDir, kind+".json"))), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatalf("the schema of %s: %v", kind, err)
	}
	var value any
	if err := yaml.Unmarshal([]byte(doc), &value); err != nil {
		t.Fatal(err)
	}
	return resolved.Validate(value)
}

// apiSource is what the source of the API says and reflection does not: comments and constants.
type apiSource struct {
	// docs of types, and of fields as Type.Field.
	docs map[string]string
	// values of the constants of a type of texts.
	values map[string][]any
	// documents reports for each type whether it has a kind.
	documents map[string]bool
}

func readAPI(t *testing.T) apiSource {
	t.Helper()
	out := apiSource{docs: map[string]string{}, values: map[string][]any{}, documents: map[string]bool{}}
	paths, err := filepath.Glob(filepath.Join(apiDir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no source of the API", err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok {
				for _, spec := range g.Specs {
					out.read(g, spec)
				}
			}
		}
	}
	return out
}

func (a *apiSource) read(g *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		doc := s.Doc
		if doc == nil {
			doc = g.Doc
		}
		a.docs[s.Name.Name] = sentence(doc)
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range fields.Fields.List {
			if name, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && name.Name == "TypeMeta" {
				a.documents[s.Name.Name] = true
			}
			for _, name := range f.Names {
				a.docs[s.Name.Name+"."+name.Name] = sentence(f.Doc)
			}
		}
	case *ast.ValueSpec:
		of, ok := s.Type.(*ast.Ident)
		if !ok || g.Tok != token.CONST || len(s.Values) != 1 {
			return
		}
		if literal, ok := s.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				a.values[of.Name] = append(a.values[of.Name], text)
			}
		}
	}
}

// sentence is a comment in one line.
func sentence(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// file is the schema of a document.
func (a apiSource) file(t *testing.T, root reflect.Type) string {
	t.Helper()
	isStrict := slices.Contains(strict, root.Name())
	var all []reflect.Type
	structsOf(root, &all)
	out := a.schema(t, root, all, isStrict)
	out.Schema, out.Title = "https://json-schema.org/draft/2020-12/schema", root.Name()
	for _, of := range all[1:] {
		if out.Defs == nil {
			out.Defs = map[string]*jsonschema.Schema{}
		}
		out.Defs[of.Name()] = a.schema(t, of, all, isStrict)
	}
	if meta, ok := root.FieldByName("TypeMeta"); ok && meta.Anonymous {
		is := v1.Type(root.Name())
		out.Properties["apiVersion"].Const = jsonschema.Ptr[any](is.APIVersion)
		out.Properties["kind"].Const = jsonschema.Ptr[any](is.Kind)
		if is.Schema == 0 {
			delete(out.Properties, "schema")
			out.PropertyOrder = slices.DeleteFunc(out.PropertyOrder, func(p string) bool { return p == "schema" })
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ code, text string }{{`\u003c`, "<"}, {`\u003e`, ">"}, {`\u0026`, "&"}} {
		data = bytes.ReplaceAll(data, []byte(r.code), []byte(r.text))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// structsOf are the structs of the API that a type consists of, itself first.
func structsOf(of reflect.Type, all *[]reflect.Type) {
	switch of.Kind() { //nolint:exhaustive // the others consist of nothing
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structsOf(of.Elem(), all)
	case reflect.Struct:
		if of.PkgPath() != reflect.TypeFor[v1.Plan]().PkgPath() || slices.Contains(*all, of) {
			return
		}
		*all = append(*all, of)
		for _, f := range reflect.VisibleFields(of) {
			if !f.Anonymous {
				structsOf(f.Type, all)
			}
		}
	}
}

// schema is the schema of one struct, which refers to those of the others.
func (a apiSource) schema(t *testing.T, of reflect.Type, all []reflect.Type, isStrict bool) *jsonschema.Schema {
	t.Helper()
	types := map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"}}
	embedded := map[reflect.Type]bool{}
	for _, f := range reflect.VisibleFields(of) {
		embedded[f.Type] = f.Anonymous
		text := f.Type
		if text.Kind() == reflect.Slice || text.Kind() == reflect.Pointer {
			text = text.Elem()
		}
		if values := a.values[text.Name()]; text.Kind() == reflect.String && len(values) > 0 {
			types[text] = &jsonschema.Schema{Type: "string", Enum: values}
		}
	}
	for _, other := range all {
		if other != of && !embedded[other] {
			types[other] = &jsonschema.Schema{Ref: "#/$defs/" + other.Name()}
		}
	}
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		t.Fatal(err)
	}
	s.Description = a.docs[of.Name()]
	if !isStrict {
		s.AdditionalProperties = nil
	}
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if f.Anonymous || p == nil {
			continue
		}
		p.Description = a.docs[declarer(of, f).Name()+"."+f.Name]
		if f.Type.Kind() == reflect.Pointer && p.Ref != "" {
			p.Types = nil
			if !strings.HasPrefix(options, "omit") {
				p.AnyOf, p.Ref = []*jsonschema.Schema{{Type: "null"}, {Ref: p.Ref}}, ""
			}
		}
	}
	return s
}

// declarer is the struct in which a field is declared: the type itself, or one that it embeds.
func declarer(of reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		of = of.Field(i).Type
	}
	return of
}

func schemaIndex() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Schemas

Generated from the types; do not edit. What commands print with %[1]s-o json%[1]s and %[1]s-o yaml%[1]s, and what is kept, is of the version %[1]s%[2]s%[1]s.
Each kind has a JSON Schema (draft 2020-12), which a validator of any language takes.

Kinds that are read back are strict: a document with an unknown field is refused, and the schema refuses it, too. The others get new fields without
a new version; ignore those that you do not know. [What is kept, and which version reads it](../explanation/what-is-kept.md).

| kind | unknown fields | where it comes from |
|---|---|---|
`, "`", v1.GroupVersion)
	for _, d := range documented {
		name := reflect.TypeOf(d.of).Name()
		fields := "ignored"
		if slices.Contains(strict, name) {
			fields = "refused"
		}
		fmt.Fprintf(&b, "| [%s](schemas/%s.json) | %s | %s |\n", name, name, fields, d.from)
	}
	return b.String()
}
