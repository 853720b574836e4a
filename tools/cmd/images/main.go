// Command images builds the container images of the product's programs as OCI layouts, for amd64 and arm64, without a
// container daemon. The same commit gives the same digests. Next to each image lies a list of what its program was
// built from (CycloneDX).
//
//	cd tools && go run ./cmd/images --root .. --out ../out/images --version v0.1.0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/tools/images"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run() error {
	o := images.Options{Log: os.Stderr}
	flag.StringVar(&o.Root, "root", "..", "directory of the product's module")
	flag.StringVar(&o.Out, "out", "out/images", "directory for the images; what it holds of an earlier run is replaced")
	flag.StringVar(&o.Version, "version", "", "version of the programs, and the images' tag (required)")
	flag.StringVar(&o.Repository, "repository", "ghcr.io/transplant-dev", "where the images will be published")
	arch := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	only := flag.String("program", "", "the programs, separated by commas (default: all)")
	flag.Parse()
	if o.Version == "" {
		return fmt.Errorf("--version is empty: name the version of the programs, such as v0.1.0")
	}
	o.Architectures = strings.Split(*arch, ",")
	if *only != "" {
		o.Programs = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.Revision, o.Created, err = images.Commit(ctx, o); err != nil {
		return err
	}
	built, err := images.Build(ctx, o)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, b := range built {
		fmt.Fprintf(&lines, "%s@%s\n", b.Reference, b.Digest)
	}
	fmt.Fprint(os.Stdout, lines.String())
	return os.WriteFile(filepath.Join(o.Out, "digests.txt"), []byte(lines.String()), 0o644)
}
