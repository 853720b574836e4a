// Command release writes a release: archives of programs, charts and manifests, krew's manifest and checksums.
// The same commit, Go and version give the same bytes.
//
//	cd tools && go run ./cmd/release --root .. --out ../out/release --images ../out/images --version v0.1.0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/tools/release"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	o := release.Options{Log: os.Stderr}
	flag.StringVar(&o.Root, "root", "..", "directory of the product's module, a checkout of git")
	flag.StringVar(&o.Out, "out", "../out/release", "directory for the release; an earlier release in it is replaced")
	flag.StringVar(&o.Images, "images", "../out/images", "directory that make images wrote, for the digests")
	flag.StringVar(&o.Version, "version", "", "version of the release, such as v0.1.0 (required)")
	flag.BoolVar(&o.Development, "development", false,
		"not for publishing: take a tree with changes, manifests that name another version, and no images")
	platforms := flag.String("platform", "", "the platforms, separated by commas, such as linux/amd64 (default: all)")
	programs := flag.String("program", "", "the programs, separated by commas (default: all)")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is no flag: see --help", flag.Arg(0))
	}
	o.Platforms, o.Programs = list(*platforms), list(*programs)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names, err := release.Build(ctx, o)
	for _, name := range names {
		fmt.Fprintln(os.Stdout, name)
	}
	return err
}

func list(flag string) []string {
	if flag == "" {
		return nil
	}
	return strings.Split(flag, ",")
}
