package catalogue

import (
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/gates-v*.txt from the module cache, and gates.txt from them")

// features are the packages that register feature gates, by module. Kubernetes' own components have them all; a cloud-controller-manager has those
// whose last field says so.
var features = []struct {
	module, dir, alias string
	ccm                bool
}{
	{"controller-manager", "pkg/features", "kcmfeatures", true},
	{"apiserver", "pkg/features", "genericfeatures", true},
	{"apiextensions-apiserver", "pkg/features", "apiextensionsfeatures", false},
	{"component-base", "logs/api/v1", "logsapi", true},
	{"component-base", "metrics/features", "metricsfeatures", true},
	{"component-base", "zpages/features", "zpagesfeatures", false},
	{"client-go", "features", "clientfeatures", false},
	{"kubernetes", "pkg/features", "", false},
}

// extracted is a gate as a version's source has it.
type extracted struct {
	Gate
	in scope
}

// String is a gate's line in testdata, without its name.
func (e extracted) String() string {
	words := []string{e.Stage, "off"}
	if e.Default {
		words[1] = "on"
	}
	if e.Locked {
		words = append(words, "locked")
	}
	return strings.Join(append(words, string(e.in)), " ")
}

// moduleDir is where the module cache has a module of Kubernetes' version, e.g. 1.26.0.
func moduleDir(module, version string) string {
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		cache = filepath.Join(build.Default.GOPATH, "pkg", "mod")
	}
	prefix := "v0."
	if module == "kubernetes" {
		prefix = "v1."
	}
	return filepath.Join(cache, "k8s.io", module+"@"+prefix+strings.TrimPrefix(version, "1."))
}

// extract reads a version's gates out of its source. False when the module cache does not have all of it.
func extract(t *testing.T, version string) (map[string]extracted, bool) {
	t.Helper()
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	x := &extraction{t: t, minor: minor, consts: map[string]string{}, gates: map[string]extracted{}}
	for _, f := range features {
		if _, err := os.Stat(moduleDir(f.module, version)); err != nil {
			return nil, false
		}
		files, err := filepath.Glob(filepath.Join(moduleDir(f.module, version), f.dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		x.in = scopeOf(f.module, f.ccm, minor)
		x.alias = f.alias
		x.read(files)
	}
	return x.gates, true
}

// scopeOf tells who has the gates of a module. Those of k8s.io/controller-manager are registered by k8s.io/cloud-provider/options, which up to 1.26
// only the managers import, and later all do, by k8s.io/kubernetes/pkg/cluster/ports.
func scopeOf(module string, ccm bool, minor int) scope {
	switch {
	case module == "controller-manager" && minor < 27:
		return inManagers
	case ccm:
		return inAll
	default:
		return inKubernetes
	}
}

type extraction struct {
	t      *testing.T
	minor  int
	in     scope
	alias  string
	consts map[string]string // by name, and by alias.name
	gates  map[string]extracted
}

func (x *extraction) read(files []string) {
	var maps []*ast.CompositeLit
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			x.t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				x.names(n)
			case *ast.CompositeLit:
				if m, ok := n.Type.(*ast.MapType); ok && (strings.HasSuffix(dotted(m.Value), "FeatureSpec") || strings.HasSuffix(dotted(m.Value), "VersionedSpecs")) {
					maps = append(maps, n)
				}
			}
			return true
		})
	}
	for _, m := range maps {
		for _, e := range m.Elts {
			kv := e.(*ast.KeyValueExpr)
			if spec := x.current(kv.Value.(*ast.CompositeLit)); spec != nil {
				x.add(x.name(kv.Key), *spec)
			}
		}
	}
}

// names keeps the constants that are strings, plain or converted.
func (x *extraction) names(v *ast.ValueSpec) {
	for i, name := range v.Names {
		if i >= len(v.Values) {
			continue
		}
		value := v.Values[i]
		if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
			value = call.Args[0]
		}
		if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				x.t.Fatal(err)
			}
			x.consts[x.alias+"."+name.Name] = s
		}
	}
}

func (x *extraction) name(key ast.Expr) string {
	name := dotted(key)
	if !strings.Contains(name, ".") {
		name = x.alias + "." + name
	}
	if x.consts[name] == "" {
		x.t.Fatalf("the name of gate %s is not known", name)
	}
	return x.consts[name]
}

// current is the spec that holds in the minor: the last of those that begin before it.
func (x *extraction) current(lit *ast.CompositeLit) *Gate {
	specs := []*ast.CompositeLit{lit}
	if len(lit.Elts) > 0 {
		if _, ok := lit.Elts[0].(*ast.CompositeLit); ok {
			specs = nil
			for _, e := range lit.Elts {
				specs = append(specs, e.(*ast.CompositeLit))
			}
		}
	}
	var out *Gate
	for _, s := range specs {
		if gate, from := x.spec(s); from <= x.minor {
			out = &gate
		}
	}
	return out
}

func (x *extraction) spec(lit *ast.CompositeLit) (out Gate, from int) {
	out = Gate{Known: true, Stage: "GA"}
	for _, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		value := dotted(kv.Value)
		switch dotted(kv.Key) {
		case "Default":
			out.Default = value == "true" // contextualLoggingDefault is true in a special build alone
		case "LockToDefault":
			out.Locked = value == "true"
		case "PreRelease":
			out.Stage = map[string]string{
				"Alpha": "alpha", "alpha": "alpha", "Beta": "beta", "beta": "beta", "GA": "GA", "Deprecated": "deprecated",
			}[value[strings.LastIndex(value, ".")+1:]]
		case "Version":
			version := strings.Trim(kv.Value.(*ast.CallExpr).Args[0].(*ast.BasicLit).Value, `"`)
			if _, err := fmt.Sscanf(version, "1.%d", &from); err != nil {
				x.t.Fatalf("version %s: %v", version, err)
			}
		}
	}
	return out, from
}

// add puts a gate in; one that several packages have is everybody's of them.
func (x *extraction) add(name string, gate Gate) {
	in := x.in
	if old, ok := x.gates[name]; ok && old.in != in {
		in = inAll
	}
	x.gates[name] = extracted{gate, in}
}

func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return dotted(e.X) + "." + e.Sel.Name
	}
	return ""
}

// versions are those of testdata, in order.
func versions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/gates-v*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "gates-v"), ".txt"))
	}
	return out
}

const header = "# Feature gates of Kubernetes v%s: name, stage, default, locked, who knows it (k: Kubernetes' components, m: the two managers, a: all). Read from the\n" +
	"# source of k8s.io/{kubernetes,apiserver,apiextensions-apiserver,controller-manager,component-base,client-go} by extract_test.go (-update).\n"

func TestTestdataIsWhatTheSourceSays(t *testing.T) {
	for _, v := range versions(t) {
		t.Run(v, func(t *testing.T) {
			gates, ok := extract(t, v)
			if !ok {
				t.Skip("the module cache does not have it")
			}
			var b strings.Builder
			fmt.Fprintf(&b, header, v)
			for _, name := range slices.Sorted(maps.Keys(gates)) {
				fmt.Fprintln(&b, name, gates[name])
			}
			sameAsTestdata(t, "gates-v"+v+".txt", b.String())
		})
	}
}

func TestGatesAreThoseOfTestdata(t *testing.T) {
	spans := map[string][]gateSpan{}
	for _, v := range versions(t) {
		for name, gate := range readTestdata(t, v) {
			minor := minorOf(t, v)
			if list := spans[name]; len(list) > 0 && list[len(list)-1].to == minor-1 && list[len(list)-1].Gate == gate.Gate && list[len(list)-1].in == gate.in {
				list[len(list)-1].to = minor
				continue
			}
			spans[name] = append(spans[name], gateSpan{minor, minor, gate.Gate, gate.in})
		}
	}
	var b strings.Builder
	b.WriteString(
		"# Feature gates by minor, made from testdata by extract_test.go (-update): name, then spans of minors with stage, default, locked, and who knows\n" +
			"# it: k Kubernetes' components, m kube-controller-manager and cloud-controller-managers alone, a all of them.\n",
	)
	for _, name := range slices.Sorted(maps.Keys(spans)) {
		var list []string
		for _, s := range spans[name] {
			list = append(list, fmt.Sprintf("%d-%d %v", s.from, s.to, extracted{s.Gate, s.in}))
		}
		fmt.Fprintln(&b, name, strings.Join(list, " | "))
	}
	if *update {
		if err := os.WriteFile("gates.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if gatesText != b.String() {
		t.Error("gates.txt is not what testdata says: run with -update")
	}
}

func minorOf(t *testing.T, version string) int {
	t.Helper()
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

func readTestdata(t *testing.T, version string) map[string]extracted {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "gates-v"+version+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]extracted{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		out[words[0]] = extracted{
			Gate{Known: true, Stage: words[1], Default: words[2] == "on", Locked: words[3] == "locked"}, scope(words[len(words)-1]),
		}
	}
	return out
}

// sameAsTestdata compares what was read out of the sources with the file that was made of them before, or writes it.
func sameAsTestdata(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readFile(t, file) != text {
		t.Errorf("%s is not what the source says: run with -update", file)
	}
}
