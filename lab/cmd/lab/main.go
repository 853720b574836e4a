// Command lab builds and runs a real Kubernetes control plane on this machine's loopback addresses, in front of a
// simulated AWS, to look at and to try things on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/lab/seed/component"
)

func main() {
	component.Run() // a seed starts its simulated parts from this program

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Run a real Kubernetes control plane on loopback, in front of a simulated AWS",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), upCommand(), hostsCommand(), seedCommand())
	return root
}
