package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// ProductModule is the module path of the product.
const ProductModule = "github.com/transplant-dev/transplant"

// ImageRegistry is where the images of the product's commands are, each in a repository of its command's name.
const ImageRegistry = "ghcr.io/transplant-dev/"

// CCMImage is the repository of the product's AWS cloud-controller-manager; every tag of it runs the one that was
// built.
const CCMImage = "ghcr.io/transplant-dev/aws-cloud-controller-manager"

// UpstreamCCMImage is the repository of the upstream AWS cloud-controller-manager; every tag of it runs the one of the
// version that the product's go.mod names, so that the tag of a manifest has to be UpstreamCCMVersion.
const UpstreamCCMImage = "registry.k8s.io/provider-aws/cloud-controller-manager"

// UpstreamCCMVersion is the version of the upstream AWS cloud-controller-manager. A test holds it to the product's
// go.mod.
const UpstreamCCMVersion = "v1.37.0"

const (
	cliName         = "transplant"
	ccmName         = "aws-cloud-controller-manager"
	upstreamModule  = "k8s.io/cloud-provider-aws"
	upstreamPackage = upstreamModule + "/cmd/" + ccmName
)

// Product holds the programs of the product, built from a checkout.
type Product struct {
	CLI string // the transplant command
	CCM string // aws-cloud-controller-manager
}

// BuildProduct compiles the product's commands from the checkout at root into out. Go's own build cache decides what
// has to be compiled; the settings of the user (GOFLAGS, go env) apply, as they do to any build in the checkout. The
// tags are build tags.
func BuildProduct(ctx context.Context, root, out string, tags ...string) (Product, error) {
	dir, err := filepath.Abs(out)
	if err != nil {
		return Product{}, fmt.Errorf("resolving output directory %q: %w", out, err)
	}
	args := []string{
		"-tags",
		strings.Join(tags, ","),
		"-o",
		dir + string(filepath.Separator),
		"./cmd/" + cliName,
		"./cmd/" + ccmName,
	}
	if err := goBuild(ctx, root, dir, args...); err != nil {
		return Product{}, fmt.Errorf("building the product in %q: %w", root, err)
	}
	return Product{CLI: filepath.Join(dir, cliName), CCM: filepath.Join(dir, ccmName)}, nil
}

// BuildCommand compiles one more of the product's commands from the checkout at root into out, and returns the program.
func BuildCommand(ctx context.Context, root, out, name string) (string, error) {
	dir, err := filepath.Abs(out)
	if err != nil {
		return "", fmt.Errorf("resolving output directory %q: %w", out, err)
	}
	file := filepath.Join(dir, name)
	if err := goBuild(ctx, root, dir, "-o", file, "./cmd/"+name); err != nil {
		return "", fmt.Errorf("building %s in %q: %w", name, root, err)
	}
	return file, nil
}

// UpstreamCCM is where BuildUpstreamCCM puts the program.
func UpstreamCCM(out string) string { return filepath.Join(out, "upstream", ccmName) }

// BuildUpstreamCCM compiles the upstream AWS cloud-controller-manager into UpstreamCCM(out). It is built as a package
// of the product's module graph: nearly all of it has been compiled for the product's own one, so that it costs little
// more than linking.
func BuildUpstreamCCM(ctx context.Context, root, out string) error {
	file, err := filepath.Abs(UpstreamCCM(out))
	if err != nil {
		return fmt.Errorf("resolving output directory %q: %w", out, err)
	}
	if err := goBuild(ctx, root, filepath.Dir(file), "-o", file, upstreamPackage); err != nil {
		return fmt.Errorf("building %s in %q: %w", upstreamPackage, root, err)
	}
	return nil
}

// goBuild runs go build at root; dir, which is made, is where the result goes.
func goBuild(ctx context.Context, root, dir string, args ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating output directory: %w", err)
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	runtime.LockOSThread() // the parent-death signal follows the thread, which must outlive the command
	defer runtime.UnlockOSThread()
	switch err := cmd.Run(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return explain(&commandError{command: "go build", err: err, output: strings.TrimSpace(output.String())}, dir)
	}
}

// FindRoot returns the product's checkout: the nearest directory at or above the working directory whose go.mod is the
// product's.
func FindRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && declares(data, ProductModule) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("looking for the product's checkout: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no checkout of %s at or above %q: run the command inside the checkout", ProductModule, start)
		}
	}
}

func declares(goMod []byte, module string) bool {
	for line := range strings.Lines(string(goMod)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.TrimSpace(rest) == module
		}
	}
	return false
}
