// Package observe decides whether the rules and dashboards of deploy/monitoring say what is the case. A real Prometheus
// scrapes real managers with them, and their queries are run against it. What they return is kept as JSON, and drawn as
// a picture: by this package and not by Grafana, of which Debian has no package.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// debianPackage is where the program is from unless the machine has one.
	debianPackage = "prometheus"
	programName   = "prometheus"
)

// Program returns a Prometheus: the machine's own, or that of Debian's package. The package is unpacked into the user's
// cache and not installed, since it would start a service.
func Program(ctx context.Context, progress io.Writer) (string, error) {
	if path, err := exec.LookPath(programName); err == nil {
		return path, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache for Prometheus: %w", err)
	}
	cache := filepath.Join(user, "transplant-lab", "debian")
	root := filepath.Join(cache, debianPackage)
	path := filepath.Join(root, "usr", "bin", programName)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintf(progress, "downloading Debian's package %s into %s\n", debianPackage, cache)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache for Prometheus: %w", err)
	}
	work, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return "", fmt.Errorf("creating the cache for Prometheus: %w", err)
	}
	defer os.RemoveAll(work)
	if err := unpack(ctx, work); err != nil {
		return "", fmt.Errorf(
			"this machine has no Prometheus, and Debian's could not be had: %w; put a program %q into the PATH",
			err,
			programName,
		)
	}
	// Another run may have been first.
	if err := os.Rename(filepath.Join(work, "root"), root); err != nil && !errors.Is(err, os.ErrExist) {
		if _, missing := os.Stat(path); missing != nil {
			return "", fmt.Errorf("moving Prometheus to its place: %w", err)
		}
	}
	return path, nil
}

// unpack downloads the package into a directory and unpacks it below root there.
func unpack(ctx context.Context, dir string) error {
	if err := run(ctx, dir, "apt-get", "download", debianPackage); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, debianPackage+"_*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get has left %d files of package %s: %w", len(files), debianPackage, err)
	}
	return run(ctx, dir, "dpkg", "-x", files[0], filepath.Join(dir, "root"))
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, args, err, out)
	}
	return nil
}
