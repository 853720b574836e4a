// Command demo decides what a newcomer sees first: it starts a lab, migrates it with the product's own command line,
// judges the migration from the lab's own evidence, writes the report and stops everything.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Migrate a lab cluster and write the report",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Example:       "  demo --out ../out/demo\n  demo --out ../out/demo --profile kubelet --keep",
		RunE:          func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.out, "out", "out/demo", "directory for the lab and the reports")
	cmd.Flags().
		StringVar(&o.profile, "profile", "short", "delays of the kubelets: short, or kubelet for the measured ones")
	cmd.Flags().IntVar(&o.workers, "workers", 5, "worker nodes")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave the migrated cluster up until Ctrl-C, and print how to look at it")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		if ctx.Err() != nil {
			os.Exit(130)
		}
		os.Exit(1)
	}
}
