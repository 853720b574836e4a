// Command transplant decides how an operator talks to a migration: it reads flags, calls the packages that decide, prints, and chooses the
// exit code. Also installed as kubectl-transplant.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
