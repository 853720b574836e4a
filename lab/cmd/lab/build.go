package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/lab/build"
)

func buildCommand() *cobra.Command {
	var o build.Options
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build etcd and the Kubernetes components into the cache and list them",
		Long: "Build etcd and the Kubernetes components from their Go modules at pinned versions into the cache.\n" +
			"What the cache has already is not built again.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = cmd.ErrOrStderr()
			bins, err := build.Ensure(cmd.Context(), o)
			if err != nil {
				return err
			}
			for _, ref := range bins.Images() {
				file, _ := bins.Image(ref)
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", ref, file)
			}
			return nil
		},
	}
	cmd.Flags().
		StringVar(&o.CacheDir, "cache-dir", "", "directory of the built programs (default: transplant-lab in the user's cache directory)")
	cmd.Flags().StringSliceVar(&o.Sets, "set", nil, "set of programs to build (default: what the lab needs)")
	return cmd
}
