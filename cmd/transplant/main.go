// Command transplant is the command line of this project. It only starts: its commands are in
// internal/cli. Also installed as kubectl-transplant.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/transplant-dev/transplant/internal/cli"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
)

// version and hostImage are set by the release's linker.
var version, hostImage string

func main() {
	info, _ := debug.ReadBuildInfo()
	client.Version = versionOf(version, info, client.Version)
	client.PublishedHostImage = hostImage
	os.Exit(cli.Run(context.Background(), os.Args[1:], console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// versionOf returns what the linker set, else the version of the module that go install has downloaded. A build of a
// checkout has neither. The version is also the tag of the image of --host-access=pod, unless --host-image names one.
func versionOf(set string, info *debug.BuildInfo, otherwise string) string {
	switch {
	case set != "":
		return set
	case info != nil && info.Main.Sum != "":
		return info.Main.Version
	}
	return otherwise
}
