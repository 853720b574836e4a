package images

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Programs are the names of all programs of the product, which are also their directories below cmd.
func Programs() []string { return slices.Sorted(maps.Keys(products)) }

// Target is one program that is compiled for one platform.
type Target struct {
	// Root is the directory of the product's module.
	Root    string
	Program string
	// Package is what is compiled, as the go command takes it; empty for the program's directory below cmd.
	Package  string
	Version  string
	OS, Arch string
	// Set are variables besides the version, by name, and what the linker sets them to. One that is named without a
	// package is of package main.
	Set map[string]string
	// Arguments are further ones of go build.
	Arguments []string
	// Log is what the go command complains to.
	Log io.Writer
}

// Compile writes the program to a file. Neither the directory nor the machine shows in it.
func (t Target) Compile(ctx context.Context, file string) error {
	out, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	flags := "-s -w -buildid= -X main.version=" + t.Version
	for _, name := range slices.Sorted(maps.Keys(t.Set)) {
		of := ""
		if !strings.Contains(name, ".") {
			of = "main."
		}
		flags += " -X " + of + name + "=" + t.Set[name]
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out}, t.Arguments...)
	cmd := t.command(ctx, append(args, t.compiled())...)
	cmd.Stdout = t.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling for %s: %w", t.Arch, err)
	}
	return nil
}

// List asks go list about each package that the program is built from, and returns the lines that are not empty.
func (t Target) List(ctx context.Context, format string) ([]string, error) {
	out, err := t.command(ctx, "list", "-deps", "-f", format, t.compiled()).Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s is built from: %w", t.Program, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// compiled is the package of the program.
func (t Target) compiled() string {
	if t.Package != "" {
		return t.Package
	}
	return "./cmd/" + t.Program
}

// command is one of the go command for the platform, that takes no setting of this machine.
func (t Target) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = t.Root, t.Log
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch, "GOFLAGS=", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	return cmd
}
