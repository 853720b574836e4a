package catalogue

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commonFlags are the files that give every component its flags of logs, metrics, version and help. A pattern that matches nothing in a version is no
// error: files came and went.
var commonFlags = []string{
	"component-base/logs/*.go", "component-base/logs/api/v1/options.go", "component-base/metrics/options.go", "component-base/version/verflag/*.go",
	"component-base/featuregate/feature_gate.go", "component-base/zpages/flagz/*.go",
}

// emulationFlags are those of KEP-4330, which no cloud-controller-manager of the library has.
var emulationFlags = []string{"component-base/compatibility/registry.go", "component-base/featuregate/registry.go"}

var servingFlags = []string{
	"apiserver/pkg/server/options/serving.go", "apiserver/pkg/server/options/authentication.go", "apiserver/pkg/server/options/authorization.go",
}

var managerFlags = slices.Concat(servingFlags, []string{
	"component-base/config/options/*.go", "controller-manager/options/*.go",
	"controller-manager/pkg/leadermigration/options/*.go", "apiserver/pkg/server/options/deprecated_insecure_serving.go",
	"cloud-provider/options/cloudprovider.go", "cloud-provider/options/kubecloudshared.go", "cloud-provider/options/servicecontroller.go",
})

// flagFiles are the files whose flags a component has.
var flagFiles = map[string][]string{
	"kube-apiserver": slices.Concat(commonFlags, emulationFlags, []string{
		"apiserver/pkg/server/options/*.go", "kubernetes/cmd/kube-apiserver/app/options/*.go", "kubernetes/pkg/kubeapiserver/options/*.go",
		"kubernetes/pkg/controlplane/apiserver/options/*.go", "kubernetes/plugin/pkg/admission/defaulttolerationseconds/*.go",
	}),
	"kube-controller-manager": slices.Concat(commonFlags, managerFlags, emulationFlags, []string{"kubernetes/cmd/kube-controller-manager/app/options/*.go"}),
	"cloud-controller-manager": slices.Concat(managerFlags, []string{ // it has no flags of metrics
		"component-base/logs/*.go", "component-base/logs/api/v1/options.go", "component-base/version/verflag/*.go", "cloud-provider/options/*.go",
		"component-base/featuregate/feature_gate.go",
	}),
	"kube-scheduler": slices.Concat(commonFlags, servingFlags, emulationFlags, []string{
		"component-base/config/options/*.go", "kubernetes/cmd/kube-scheduler/app/options/*.go",
		"apiserver/pkg/server/options/deprecated_insecure_serving.go",
	}),
	"kubelet": slices.Concat(commonFlags, []string{"kubernetes/cmd/kubelet/app/options/*.go", "kubernetes/pkg/kubelet/config/flags.go"}),
}

// helpAndLog are flags of pflag and klog, which no list of the source names.
var helpAndLog = []string{"help", "v", "vmodule", "version"}

// oldLog are klog's flags that components had up to 1.25 (KEP-2845).
var oldLog = []string{
	"add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size", "logtostderr", "one-output", "skip-headers",
	"skip-log-headers", "stderrthreshold",
}

var binds = regexp.MustCompile(
	`^(String|Bool|Int|Int32|Int64|Int32Slice|Uint|Uint16|Uint32|Float32|Float64|Duration|StringSlice|StringArray|IntSlice|IP|IPNet|IPSlice|StringToString|)VarP?$`,
)

// binding are the functions that return the variable instead.
var binding = regexp.MustCompile(`^(String|Bool|Int|Int64|Duration)$`)

// flagExtraction collects the flags of a component in a version: true when deprecated.
type flagExtraction struct {
	flags  map[string]bool
	consts map[string]string
}

func extractFlags(t *testing.T, component, version string) (map[string]bool, bool) {
	t.Helper()
	x := &flagExtraction{flags: map[string]bool{}, consts: map[string]string{}}
	var parsed []*ast.File
	for _, pattern := range flagFiles[component] {
		module, rest, _ := strings.Cut(pattern, "/")
		if _, err := os.Stat(moduleDir(module, version)); err != nil {
			return nil, false
		}
		files, err := filepath.Glob(filepath.Join(moduleDir(module, version), rest))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "_windows.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
	}
	for _, file := range parsed {
		ast.Inspect(file, x.constant)
	}
	for _, file := range parsed {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && !otherComponents(component, minorOf(t, version), f) {
				ast.Inspect(f.Body, x.call)
			}
			if g, ok := d.(*ast.GenDecl); ok {
				ast.Inspect(g, x.call)
			}
		}
	}
	for _, name := range helpAndLog {
		x.flags[name] = false
	}
	if component == "cloud-controller-manager" {
		maps.DeleteFunc(x.flags, func(name string, _ bool) bool { return unloggedFlag(name, minorOf(t, version)) })
	}
	if component == "kube-apiserver" && minorOf(t, version) <= 23 { // bound in a loop: they have no effect
		x.add([]string{"insecure-bind-address", "address", "insecure-port", "port"}, true)
	}
	if minorOf(t, version) <= 25 {
		for _, name := range oldLog {
			x.flags[name] = minorOf(t, version) >= 23
		}
	}
	return x.flags, true
}

// unloggedFlag reports whether a flag of the logs is not one of cloud-controller-managers: the library binds those of the format since 0.27, and JSON's only
// where the binary links the format.
func unloggedFlag(name string, minor int) bool {
	return strings.HasPrefix(name, "log-json-") ||
		minor < 27 && (name == "logging-format" || name == "experimental-logging-sanitization" || strings.HasPrefix(name, "log-text-"))
}

// otherComponents reports whether a function of a shared file binds flags for other components than this.
func otherComponents(component string, minor int, f *ast.FuncDecl) bool {
	receiver := ""
	if f.Recv != nil && len(f.Recv.List) > 0 {
		e := f.Recv.List[0].Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		receiver = dotted(e)
	}
	switch receiver {
	case "CoreAPIOptions": // of extension API servers
		return true
	case "DelegatingAuthenticationOptions", "DelegatingAuthorizationOptions":
		return component == "kube-apiserver"
	case "DeprecatedInsecureServingOptions": // the last minor that asks for --address and --port
		last := map[string]int{"kube-controller-manager": 21, "cloud-controller-manager": 23}[component]
		return f.Name.Name != "AddUnqualifiedFlags" || minor > last
	}
	return false
}

func (x *flagExtraction) constant(n ast.Node) bool {
	if v, ok := n.(*ast.ValueSpec); ok {
		for i, name := range v.Names {
			if i < len(v.Values) {
				if s, ok := x.text(v.Values[i]); ok {
					x.consts[name.Name] = s
				}
			}
		}
	}
	return true
}

// text is the value of a string: a literal, a constant, or several put together.
func (x *flagExtraction) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		s, ok := x.consts[e.Name]
		return s, ok
	case *ast.SelectorExpr:
		s, ok := x.consts[e.Sel.Name]
		return s, ok
	case *ast.BinaryExpr:
		a, okA := x.text(e.X)
		b, okB := x.text(e.Y)
		return a + b, okA && okB
	}
	return "", false
}

func (x *flagExtraction) call(n ast.Node) bool {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	name := dotted(c.Fun)
	method := name[strings.LastIndex(name, ".")+1:]
	at := func(i int) []string {
		if i >= len(c.Args) {
			return nil
		}
		return x.flagNames(c.Args[i])
	}
	switch {
	case binds.MatchString(method) && len(c.Args) >= 3:
		x.add(at(1), false)
	case binding.MatchString(method) && len(c.Args) == 3:
		x.add(at(0), false)
	case name == "register":
		x.add(at(2), false)
	case name == "globalflag.Register":
		x.add(at(1), false)
	case name == "registerDeprecated":
		x.add(at(2), true)
	case method == "MarkDeprecated":
		x.add(at(0), true)
	}
	return true
}

// flagNames are the names that an argument stands for. The API server's audit backends have theirs from one format (fmt.Sprintf("audit-%s-mode", …)).
func (x *flagExtraction) flagNames(e ast.Expr) []string {
	if c, ok := e.(*ast.CallExpr); ok && dotted(c.Fun) == "fmt.Sprintf" {
		format, _ := x.text(c.Args[0])
		if !strings.HasPrefix(format, "audit-%s-") {
			return nil
		}
		return []string{strings.Replace(format, "%s", "log", 1), strings.Replace(format, "%s", "webhook", 1)}
	}
	s, _ := x.text(e)
	return []string{strings.ReplaceAll(s, "_", "-")}
}

func (x *flagExtraction) add(names []string, deprecated bool) {
	for _, name := range names {
		if name != "" && !strings.ContainsAny(name, " %.") {
			x.flags[name] = x.flags[name] || deprecated
		}
	}
}

const flagsHeader = "# Flags of Kubernetes v%s by component; a word more where one is deprecated. Read from the source of k8s.io/{kubernetes,apiserver,component-base,\n" +
	"# controller-manager,cloud-provider} by extractflags_test.go (-update).\n"

func TestFlagTestdataIsWhatTheSourceSays(t *testing.T) {
	for _, v := range versions(t) {
		t.Run(v, func(t *testing.T) {
			var b strings.Builder
			fmt.Fprintf(&b, flagsHeader, v)
			for _, component := range slices.Sorted(maps.Keys(flagFiles)) {
				flags, ok := extractFlags(t, component, v)
				if !ok {
					t.Skip("the module cache does not have it")
				}
				for _, name := range slices.Sorted(maps.Keys(flags)) {
					fmt.Fprint(&b, component, " ", name)
					if flags[name] {
						fmt.Fprint(&b, " deprecated")
					}
					fmt.Fprintln(&b)
				}
			}
			sameAsTestdata(t, "flags-v"+v+".txt", b.String())
		})
	}
}

func TestFlagsAreThoseOfTestdata(t *testing.T) {
	spans := map[string][]flagSpan{}
	for _, v := range versions(t) {
		for line := range strings.Lines(readFile(t, "testdata/flags-v"+v+".txt")) {
			words := strings.Fields(line)
			if words[0] == "#" {
				continue
			}
			name, deprecated, minor := words[0]+" "+words[1], len(words) == 3, minorOf(t, v)
			if list := spans[name]; len(list) > 0 && list[len(list)-1].to == minor-1 && list[len(list)-1].deprecated == deprecated {
				list[len(list)-1].to = minor
				continue
			}
			spans[name] = append(spans[name], flagSpan{minor, minor, deprecated})
		}
	}
	var b strings.Builder
	b.WriteString(
		"# Flags by component and minor, made from testdata by extractflags_test.go (-update): component, flag, then spans of minors, and a word where it\n" +
			"# is deprecated.\n",
	)
	for _, name := range slices.Sorted(maps.Keys(spans)) {
		var list []string
		for _, s := range spans[name] {
			word := fmt.Sprintf("%d-%d", s.from, s.to)
			if s.deprecated {
				word += " deprecated"
			}
			list = append(list, word)
		}
		fmt.Fprintln(&b, name, strings.Join(list, " | "))
	}
	if *update {
		if err := os.WriteFile("flags.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if flagsText != b.String() {
		t.Error("flags.txt is not what testdata says: run with -update")
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
