package release

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"

	"github.com/transplant-dev/transplant/tools/images"
	"github.com/transplant-dev/transplant/tools/release/describe"
)

// describeSource is compiled into each program, so that it describes the command that the program really has. The
// product's module needs none of what it imports.
//
//go:embed describe/describe.go
var describeSource []byte

// describer is the file that is added to a program's package: it runs before main, and instead of it.
var describer = template.Must(template.New("describer").Parse(`package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
{{range .Imports}}
	"{{.}}"{{end}}
	"{{.Describe}}"
)

func init() {
	err := describe.Run(os.Args[1:], func() (*cobra.Command, error) {
	{{.Construct}}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
`))

// describedBelow is the directory of the product's module in which the overlay puts package describe.
const describedBelow = "internal/releasedescribe/describe"

// manualModules are what cobra needs for manual pages. What the product does not have is added, in the versions of this
// module.
var manualModules = []string{"github.com/cpuguy83/go-md2man/v2", "github.com/russross/blackfriday/v2", "go.yaml.in/yaml/v3"}

// describe returns completions and manual pages of a program. They are made by the program, as it is built for this
// machine.
func (b *builder) describe(ctx context.Context, program string) ([]entry, error) {
	dir := filepath.Join(b.scratch, "describe", program)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	arguments, err := b.overlay(ctx, program, dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, program)
	target := images.Target{
		Root: b.Root, Program: program, Version: b.Version, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Set: b.set(program), Arguments: arguments, Log: b.Log,
	}
	if err := target.Compile(ctx, file); err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out")
	header := describe.Header{Section: products[program].section, Version: b.Version, Date: b.at}
	run := exec.CommandContext(ctx, file, describe.Arguments(out, header)...)
	run.Stdout, run.Stderr = b.Log, b.Log
	run.Env = []string{"HOME=/nonexistent", "PATH=/nonexistent"} // nothing of this machine becomes a default
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("running it: %w", err)
	}
	return entriesOf(out)
}

// overlay writes what is compiled into a program in addition, and returns the arguments for go build.
func (b *builder) overlay(ctx context.Context, program, dir string) ([]string, error) {
	module, err := os.ReadFile(filepath.Join(b.Root, "go.mod"))
	if err != nil {
		return nil, err
	}
	parsed, err := modfile.Parse("go.mod", module, nil)
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(b.Root, "go.sum"))
	if err != nil {
		return nil, err
	}
	if err := addManualModules(ctx, parsed, &sums); err != nil {
		return nil, err
	}
	parsed.Cleanup()
	if module, err = parsed.Format(); err != nil {
		return nil, err
	}
	var added bytes.Buffer
	values := struct {
		Describe, Construct string
		Imports             []string
	}{path.Join(parsed.Module.Mod.Path, describedBelow), products[program].construct, nil}
	for _, below := range products[program].imports {
		values.Imports = append(values.Imports, path.Join(parsed.Module.Mod.Path, below))
	}
	if err := describer.Execute(&added, values); err != nil {
		return nil, err
	}
	files := map[string]string{
		filepath.Join(b.Root, "cmd", program, "describer.go"): filepath.Join(dir, "describer.go"),
		filepath.Join(b.Root, describedBelow, "describe.go"):  filepath.Join(dir, "describe.go"),
	}
	replaced, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"describer.go": added.Bytes(), "describe.go": describeSource, "overlay.json": replaced, "go.mod": module, "go.sum": sums,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return nil, err
		}
	}
	return []string{"-overlay", filepath.Join(dir, "overlay.json"), "-modfile", filepath.Join(dir, "go.mod")}, nil
}

// addManualModules adds the modules for manual pages that the product does not have, and the checksums of this module.
func addManualModules(ctx context.Context, product *modfile.File, sums *[]byte) error {
	args := append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}"}, manualModules...)
	list := exec.CommandContext(ctx, "go", args...)
	list.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	versions, err := list.Output()
	if err != nil {
		return fmt.Errorf("asking go for the modules of manual pages; run this in the directory tools: %w", err)
	}
	for line := range strings.Lines(string(versions)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.ContainsFunc(product.Require, func(r *modfile.Require) bool { return r.Mod.Path == name }) {
			product.AddNewRequire(name, version, true)
		}
	}
	where := exec.CommandContext(ctx, "go", "env", "GOMOD")
	where.Env = append(os.Environ(), "GOWORK=off")
	file, err := where.Output()
	if err != nil {
		return fmt.Errorf("asking go for its module: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimSpace(string(file))), "go.sum"))
	if err != nil {
		return err
	}
	*sums = append(append(*sums, '\n'), own...)
	return nil
}

// pageLink is a link of the README to a file of the repository, which an archive does not have.
var pageLink = regexp.MustCompile(`\]\(([A-Za-z][^):]*)\)`)

// readme returns the README with links that lead to the commit of the release.
func (b *builder) readme() ([]byte, error) {
	text, err := b.source.read("README.md")
	return pageLink.ReplaceAll(text, []byte("]("+project+"/blob/"+b.source.commit+"/$1)")), err
}
