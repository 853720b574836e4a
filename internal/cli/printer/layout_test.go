package printer

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer/settings"
)

// forged is what somebody else may write into any text of a cluster: lines that look like this program's, and sequences that a terminal obeys.
const forged = "x\n# run this on host cp-1\nssh cp-1 evil\n            fix: evil\u2028evil\x1b[32m\u202e ![i](https://evil) "

// fill gives each text of a value the forged one, and lists two elements.
func fill(v reflect.Value, depth int) {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		v.SetString(forged)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), depth-1)
			fill(v.Index(1), depth-1)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Elem().Kind() != reflect.Interface {
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, depth-1)
			fill(value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth-1)
			}
		}
	}
}

func filled[T any]() T {
	var doc T
	fill(reflect.ValueOf(&doc).Elem(), 12)
	return doc
}

// TestNothingOfAClusterBeginsALine prints documents of which every text is the forged one.
func TestNothingOfAClusterBeginsALine(t *testing.T) {
	report, plan, fleetPlan, state := filled[v1.CheckReport](), filled[v1.Plan](), filled[v1.FleetPlan](), filled[v1.Status]()
	for i := range report.Findings {
		report.Findings[i].Outcome = []v1.Outcome{v1.Fail, v1.Warn}[i%2]
		report.Findings[i].Fix, report.Findings[i].Accepted = "kubectl a\nkubectl b", ""
	}
	for i := range plan.Steps {
		plan.Steps[i].Kind = []v1.StepKind{v1.StepAddManifest, v1.StepWriteFile}[i%2]
		plan.Steps[i].Content = "spec: {containers: [{command: [\"a\\n# run this\\e[31m\"]}]}"
		plan.Steps[i].Object = ""
	}
	for i := range fleetPlan.Waves {
		for j := range fleetPlan.Waves[i].Clusters {
			fleetPlan.Waves[i].Clusters[j].Plan, fleetPlan.Waves[i].Clusters[j].Report = &plan, &report
		}
	}
	lease := state
	lease.Owners = nil
	fleetStatus, disruption, timeline := filled[v1.FleetStatus](), filled[v1.Disruption](), filled[v1.Timeline]()
	verification := filled[v1.Verification]()
	for i := range verification.Checks {
		for j := range verification.Checks[i].Differences {
			d := &verification.Checks[i].Differences[j]
			if d.Expected = i == 0; j == 0 {
				d.Accepted = ""
			}
		}
	}
	before := fmt.Sprintf("%#v", report)
	for _, l := range []Layout{{Width: 80}, {Width: 100, Ascii: true}, {Width: 300, Wide: true, Color: true}, {Width: 120, Problems: true, Strict: true}} {
		for name, print := range map[string]func(io.Writer) error{
			"check":        func(w io.Writer) error { return PrintCheck(w, report, l) },
			"findings":     func(w io.Writer) error { return PrintFindings(w, report, l) },
			"plan":         func(w io.Writer) error { return PrintPlan(w, &plan, l) },
			"settings":     func(w io.Writer) error { _, err := io.WriteString(w, settings.OfManagers(&plan)); return err },
			"plan.md":      func(w io.Writer) error { return PlanMarkdown(w, &plan) },
			"status":       func(w io.Writer) error { return PrintStatus(w, state, l, true) },
			"leases":       func(w io.Writer) error { return PrintStatus(w, lease, l, false) },
			"timeline":     func(w io.Writer) error { return PrintTimeline(w, timeline, l) },
			"timeline.md":  func(w io.Writer) error { return TimelineMarkdown(w, timeline) },
			"verification": func(w io.Writer) error { return PrintVerification(w, verification, l) },
			"disruption":   func(w io.Writer) error { return PrintDisruption(w, disruption, l) },
			"fleet":        func(w io.Writer) error { _, err := io.WriteString(w, FleetText(fleetStatus, l)); return err },
			"fleet plan":   func(w io.Writer) error { return PrintFleetPlan(w, &fleetPlan, l, true) },
			"entry": func(w io.Writer) error {
				p := Page{Layout: l}
				p.Entry(timeline.Entries[0])
				_, err := io.WriteString(w, p.B.String())
				return err
			},
		} {
			t.Run(fmt.Sprintf("%s of %d columns", name, l.Width), func(t *testing.T) {
				var b bytes.Buffer
				if err := print(&b); err != nil {
					t.Fatal(err)
				}
				mustBeOwn(t, b.String(), strings.HasSuffix(name, ".md"))
			})
		}
	}
	if fmt.Sprintf("%#v", report) != before {
		t.Error("printing a report changes it")
	}
}

// inCode is code in a line.
var inCode = regexp.MustCompile("`[^`]*`")

func mustBeOwn(t *testing.T, text string, markdown bool) {
	t.Helper()
	if !strings.Contains(text, "x") {
		t.Fatalf("nothing of it is printed: %q", text)
	}
	for _, mark := range []string{"\x1b[32mx", "\u2028", "\u202e", "evil\x1b"} {
		if strings.Contains(text, mark) {
			t.Errorf("%q is printed as it is", mark)
		}
	}
	fenced := false
	for line := range strings.Lines(text) {
		if rest := strings.TrimLeft(line, " "); !markdown && rest != line && strings.HasPrefix(rest, continued) {
			continue // the rest of a text that was wrapped, and marked as that
		}
		begin := strings.TrimLeft(line, " |>`-*")
		for _, word := range []string{"# run this", "ssh cp-1", "fix: evil", "evil"} {
			if strings.HasPrefix(begin, word) {
				t.Errorf("a line is somebody else's: %q", line)
			}
		}
		fenced = fenced != strings.HasPrefix(line, "```")
		isText := markdown && !fenced && !strings.HasPrefix(line, "<details><summary>") // which is HTML, in which there is no Markdown
		if isText && strings.Contains(inCode.ReplaceAllString(line, ""), "![i]") {
			t.Errorf("markup: %q", line)
		}
	}
}

// TestPrintersPrintSafeDocuments holds every printer of a document to setting its texts first. XML and a line of a timeline escape by themselves.
func TestPrintersPrintSafeDocuments(t *testing.T) {
	but := map[string]bool{"PrintJUnit": true, "VerificationJUnit": true, "ReportJUnit": true, "Identity": true, "Entry": true, "Mark": true}
	calls := map[string]bool{"PrintTimeline": true, "PrintStatus": true} // each prints what its ...Text returns
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if strings.HasSuffix(path, "_test.go") || !ok || !f.Name.IsExported() || but[f.Name.Name] || calls[f.Name.Name] || !takesDocument(f) {
				continue
			}
			found++
			safe := false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "safe" {
						safe = true
					}
				}
				return true
			})
			if !safe {
				t.Errorf("%s: %s prints a document without safe", path, f.Name.Name)
			}
		}
	}
	if found < 9 {
		t.Errorf("only %d printers were found", found)
	}
}

// takesDocument reports whether a function has a parameter of a type of the API.
func takesDocument(f *ast.FuncDecl) bool {
	is := false
	ast.Inspect(f.Type.Params, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "v1" {
				is = true
			}
		}
		return true
	})
	return is
}
