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
)

// Programs are the names of all programs of the product, which are also their directories below cmd.
func Programs() []string { return slices.Sorted(maps.Keys(products)) }

// Target is one program that is compiled for one platform.
type Target struct {
	// Root is the directory of the product's module.
	Root     string
	Program  string
	Version  string
	OS, Arch string
	// Set are variables of package main besides the version, by name, and what the linker sets them to.
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
		flags += " -X main." + name + "=" + t.Set[name]
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out}, t.Arguments...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+t.Program)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.Root, t.Log, t.Log
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch, "GOFLAGS=", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling for %s: %w", t.Arch, err)
	}
	return nil
}
