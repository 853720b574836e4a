package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/seed"
)

// seedOptions are the flags of lab seed up.
type seedOptions struct {
	dir      string
	clusters []string
	machines int
	verbose  bool
}

func seedCommand() *cobra.Command {
	var o seedOptions
	up := &cobra.Command{
		Use:   "up",
		Short: "Start a seed that hosts user clusters, print how to look at it, and run it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return seedUp(cmd, o) },
	}
	up.Flags().
		StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "transplant-seed"), "directory of the lab; what a seed has left there is removed")
	up.Flags().
		StringSliceVar(&o.clusters, "cluster", []string{"plain", "wrapped"}, "names of user clusters; the second one is started by http-prober, with two replicas")
	up.Flags().IntVar(&o.machines, "machines", 2, "machines of each user cluster")
	up.Flags().BoolVar(&o.verbose, "verbose", false, "log what the lab does")
	cmd := &cobra.Command{Use: "seed", Short: "Run a management cluster that hosts the control planes of user clusters"}
	cmd.AddCommand(up)
	return cmd
}

// seedMark is a file by which the directory of an earlier seed is known.
const seedMark = ".transplant-seed"

// takeSeedDir empties the directory of an earlier seed; one with other content is refused.
func takeSeedDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading directory %q: %w", dir, err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, seedMark)); err != nil {
			return fmt.Errorf("directory %q has content that no seed has left: choose another one", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying directory %q: %w", dir, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating directory %q: %w", dir, err)
	}
	return os.WriteFile(filepath.Join(dir, seedMark), nil, 0o600)
}

func seedUp(cmd *cobra.Command, o seedOptions) (err error) {
	ctx, out, progress := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := takeSeedDir(o.dir); err != nil {
		return err
	}
	bins, err := build.Ensure(ctx, build.Options{Progress: progress})
	if err != nil {
		return err
	}
	options := seed.Options{Dir: o.dir, Binaries: bins}
	if options.Programs, err = seed.BuildPrograms(ctx, filepath.Join(o.dir, "bin")); err != nil {
		return err
	}
	if o.verbose {
		options.Log = slog.New(slog.NewTextHandler(progress, nil))
	}
	begin := time.Now()
	fmt.Fprintf(progress, "starting a seed with %d user clusters\n", len(o.clusters))
	s, err := seed.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(progress, "stopping the seed")
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, s.Stop(stopCtx))
	}()
	clusters := make([]*seed.Cluster, len(o.clusters))
	g, both := errgroup.WithContext(ctx)
	for i, name := range o.clusters {
		g.Go(func() error {
			c, err := s.AddCluster(both, seed.ClusterOptions{Name: name, Wrapped: i == 1, Managers: int32(1 + i%2)}) //nolint:gosec // 1 or 2
			if err != nil {
				return err
			}
			clusters[i] = c
			return c.AddMachines(both, "pool", o.machines)
		})
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil { // Ctrl-C is an order and no error
			return nil
		}
		return err
	}
	fmt.Fprintf(progress, "ready after %s\n", time.Since(begin).Round(100*time.Millisecond))
	kubeconfig, err := s.Kubeconfig()
	if err != nil {
		return err
	}
	kubectl, err := bins.Path("kubectl", seed.Version)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\n%s get deployments,pods -A -o wide\n", kubeconfig, kubectl)
	for _, c := range clusters {
		fmt.Fprintf(
			out,
			"%s -n %s get secret admin-kubeconfig -o jsonpath='{.data.kubeconfig}' | base64 -d > %s.conf  # %s\n",
			kubectl,
			c.Namespace,
			c.Name,
			c.Server(),
		)
	}
	fmt.Fprintln(out, "# Ctrl-C stops the seed")
	<-ctx.Done()
	return nil
}
