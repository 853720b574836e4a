// Package mains decides whether "change one import" holds for the main programs of other projects. It takes each from
// its module, changes the one import and nothing else, and builds it with this checkout.
//
//	module cache --> copy of the main package --> one import changed --> go build with the checkout as the product
//
// No file of another project is kept here. What a program needs beyond the lab's own modules is an embedded go.mod and
// go.sum, so that every module is verified.
package mains

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/build"
)

const (
	// UpstreamImport is the import that is changed.
	UpstreamImport = "k8s.io/cloud-provider/app"
	// OurImport is what it is changed to.
	OurImport = build.ProductModule + "/ccm"
)

// files are the requirements of programs (modules/NAME) and what is added to them (testdata/NAME).
//
//go:embed modules testdata
var files embed.FS

// Program is a main program that is built as its authors wrote it.
type Program struct {
	Name         string // file name of the program
	Module       string // the module that it is in; one that its requirements name
	Package      string // its directory in the module
	Added        string // directory of testdata with a file that its package gets: a provider, for programs that have none
	Requirements string // directory of modules with its go.mod and go.sum. Default: the lab's own
	Tool         string // directory of testdata with a further program of the same module: a simulated cloud
}

// The programs that are tried. Versions are those of the requirements.
var (
	Sample     = Program{Name: "sample", Module: "k8s.io/cloud-provider", Package: "sample", Added: "fakecloud"}
	AWS        = Program{Name: "aws", Module: "k8s.io/cloud-provider-aws", Package: "cmd/aws-cloud-controller-manager"}
	Kubernetes = Program{
		Name:         "kubernetes",
		Module:       "k8s.io/kubernetes",
		Package:      "cmd/cloud-controller-manager",
		Added:        "fakecloud",
		Requirements: "kubernetes",
	}
	VSphere = Program{
		Name:         "vsphere",
		Module:       "k8s.io/cloud-provider-vsphere",
		Package:      "cmd/vsphere-cloud-controller-manager",
		Requirements: "vsphere",
		Tool:         "vcsim",
	}
	// ThirdParty is a program of the lab: what it does at its start is what real providers were seen to do.
	ThirdParty = Program{Name: "thirdparty", Module: build.ProductModule + "/lab", Package: "mains/cmd/thirdparty"}
)

// Options say how a program is built.
type Options struct {
	Root string // the checkout
	Dir  string // where modules and programs are put. It must exist
	// Import takes the place of UpstreamImport. Default: nothing is changed.
	Import string
	// Update makes the requirements again as the checkout needs them, into the checkout.
	Update bool
}

// Built are a program, and its tool if it has one.
type Built struct{ Program, Tool string }

// Build builds a program.
func Build(ctx context.Context, p Program, o Options) (Built, error) {
	name := p.Name
	if o.Import == "" {
		name += "-unchanged"
	}
	b := builder{Program: p, Options: o, work: filepath.Join(o.Dir, name+"-module")}
	out := Built{Program: filepath.Join(o.Dir, name)}
	if p.Tool != "" {
		out.Tool = filepath.Join(o.Dir, p.Tool)
	}
	if err := b.run(ctx, out); err != nil {
		return Built{}, fmt.Errorf("building %s of %s: %w", p.Package, p.Module, err)
	}
	return out, nil
}

type builder struct {
	Program
	Options
	work string // the module that is built
}

func (b builder) run(ctx context.Context, out Built) error {
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return fmt.Errorf("creating module directory: %w", err)
	}
	if err := b.writeRequirements(ctx); err != nil {
		return err
	}
	source, err := b.source(ctx)
	if err != nil {
		return err
	}
	if err := b.copyMain(source); err != nil {
		return err
	}
	if err := b.addFiles(); err != nil {
		return err
	}
	if b.Update {
		if err := b.update(ctx); err != nil {
			return err
		}
	}
	if err := b.compile(ctx, out.Program, "."); err != nil || b.Tool == "" {
		return err
	}
	return b.compile(ctx, out.Tool, "./"+b.Tool)
}

// compile builds a package of the module. Symbols would double the time that linking takes.
func (b builder) compile(ctx context.Context, out, pkg string) error {
	_, err := b.goCommand(ctx, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	if err == nil {
		return nil
	}
	for _, outdated := range []string{"updates to go.mod needed", "missing go.sum entry"} {
		if strings.Contains(err.Error(), outdated) {
			return fmt.Errorf("the product requires other modules (in lab: go test ./mains -run Mains -mains.update): %w", err)
		}
	}
	return err
}

// writeRequirements writes go.mod and go.sum, with the checkout in the place of the product's module.
func (b builder) writeRequirements(ctx context.Context) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		var data []byte
		var err error
		if b.Requirements == "" {
			data, err = os.ReadFile(filepath.Join(b.Root, "lab", name))
		} else {
			data, err = files.ReadFile(path.Join("modules", b.Requirements, name+".txt"))
		}
		if err != nil {
			return fmt.Errorf("reading requirements: %w", err)
		}
		if err := os.WriteFile(filepath.Join(b.work, name), data, 0o644); err != nil {
			return fmt.Errorf("writing requirements: %w", err)
		}
	}
	_, err := b.goCommand(ctx, "mod", "edit", "-module=mains.invalid/"+b.Name, "-replace="+build.ProductModule+"="+b.Root)
	return err
}

// source returns the directory of the program as its authors wrote it, which is downloaded if it is not there.
func (b builder) source(ctx context.Context) (string, error) {
	if b.Module == build.ProductModule+"/lab" {
		return filepath.Join(b.Root, "lab", b.Package), nil
	}
	out, err := b.goCommand(ctx, "mod", "download", "-json", b.Module)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("reading what go mod download says: %w", err)
	}
	if module.Dir == "" {
		return "", errors.New("go mod download does not say where the module is")
	}
	return filepath.Join(module.Dir, b.Package), nil
}

// copyMain copies the main package, its tests left out, and changes the import.
func (b builder) copyMain(from string) error {
	sources, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return fmt.Errorf("listing %q: %w", from, err)
	}
	changed := 0
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading main package: %w", err)
		}
		if b.Import != "" {
			var found bool
			if data, found, err = changeImport(filepath.Base(file), data, b.Import); err != nil {
				return err
			}
			if found {
				changed++
			}
		}
		if err := os.WriteFile(filepath.Join(b.work, filepath.Base(file)), data, 0o644); err != nil {
			return fmt.Errorf("copying main package: %w", err)
		}
	}
	if b.Import != "" && changed == 0 {
		return fmt.Errorf("no file of %q imports %s: there is nothing to change", from, UpstreamImport)
	}
	return nil
}

// addFiles puts what is ours into the module: a provider for the main package, and the tool.
func (b builder) addFiles() error {
	for from, to := range map[string]string{b.Added: b.work, b.Tool: filepath.Join(b.work, b.Tool)} {
		if from == "" {
			continue
		}
		sub, err := fs.Sub(files, path.Join("testdata", from))
		if err == nil {
			err = os.CopyFS(to, sub)
		}
		if err != nil {
			return fmt.Errorf("adding %q: %w", from, err)
		}
	}
	return nil
}

// update writes the requirements that the program has now into the checkout.
func (b builder) update(ctx context.Context) error {
	if b.Requirements == "" {
		return nil
	}
	if _, err := b.goCommand(ctx, "list", "-mod=mod", "-deps", "./..."); err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(b.work, name))
		if err != nil {
			return fmt.Errorf("reading new requirements: %w", err)
		}
		data = bytes.ReplaceAll(data, []byte("\nreplace "+build.ProductModule+" => "+b.Root+"\n"), nil)
		file := filepath.Join(b.Root, "lab/mains/modules", b.Requirements, name+".txt")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return fmt.Errorf("writing new requirements: %w", err)
		}
	}
	return nil
}

// goCommand runs the go command in the module, and returns what it printed. It ends with this process.
func (b builder) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.work
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	runtime.LockOSThread() // the parent-death signal follows the thread, which must outlive the command
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		const most = 4000 // of a compiler's errors, the first ones say the most
		text := complaints.String() + out.String()
		return nil, fmt.Errorf("go %s: %w:\n%s", args[0], err, text[:min(len(text), most)])
	}
	return out.Bytes(), nil
}
