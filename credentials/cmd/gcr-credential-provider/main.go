// Command gcr-credential-provider gives a kubelet the credentials for images of Google's registries. The kubelet starts
// it for each image that its CredentialProviderConfig names, and speaks credentialprovider.kubelet.k8s.io with it over
// standard input and output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/transplant-dev/transplant/credentials/gcr"
)

// version is set by the build.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := gcr.Run(ctx, gcr.Process{
		Version: version, Arguments: os.Args[1:], In: os.Stdin, Out: os.Stdout, Log: os.Stderr,
	})
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "gcr-credential-provider:", err)
		os.Exit(1)
	}
}
