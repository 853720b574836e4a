// Command transplant is the command line of this project. It only starts: its commands are in
// internal/cli. Also installed as kubectl-transplant.
package main

import (
	"context"
	"os"

	"github.com/transplant-dev/transplant/internal/cli"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
)

// version is set by the release's linker; a build from source keeps this one.
var version = "v0.1.0-dev"

func main() {
	client.Version = version
	os.Exit(cli.Run(context.Background(), os.Args[1:], console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
