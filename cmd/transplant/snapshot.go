package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

func newSnapshot(c *connection) *cobra.Command {
	var out string
	var output *format
	options := v1.Options{LeaseName: planlayout.DefaultLease}
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Save every fact that check and plan look at, without secrets", Args: cobra.NoArgs,
		Example: "  transplant snapshot --out snapshot.yaml\n  transplant check --from-snapshot snapshot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFromSnapshot(cmd, "", c.proof.asked); err != nil {
				return err
			}
			s, err := c.snapshotFrom(cmd.Context(), "", options)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			write := func() error { return snapshot.Save(&b, s) }
			if output.String() == "json" {
				write = func() error { return output.print(&b, s, nil) }
			}
			if err := write(); err != nil {
				return err
			}
			if len(s.Errors) > 0 {
				c.narrate("%d facts could not be gathered; they are listed under errors", len(s.Errors))
			}
			if out == "" {
				_, err = c.out.Write(b.Bytes())
				return err
			}
			if err := wholefile.Write(out, b.Bytes(), 0o644); err != nil {
				return err
			}
			c.narrate("saved %s", out)
			return nil
		},
	}
	c.proof.flags(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file (default: standard output)")
	cmd.Flags().StringArrayVar(&options.Env, "ccm-env", nil, "also look for the file that this environment of the cloud-controller-manager names, NAME=FILE; {host} stands for the host's name")
	output = formatFlag(cmd, "yaml", "json")
	return cmd
}

// snapshotFrom reads a snapshot from a file, or gathers one from the live cluster, with the proofs that were asked for. The options are those of the plan
// that the proofs are about.
func (c *connection) snapshotFrom(ctx context.Context, path string, options v1.Options) (*v1.Snapshot, error) {
	if path != "" {
		return readSnapshot(path)
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	snap := c.gather(ctx, options)
	if c.proof.asked {
		c.prove(ctx, snap, options)
	}
	return snap, nil
}
