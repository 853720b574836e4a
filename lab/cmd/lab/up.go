package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/trial"
)

const (
	readyTimeout = 4 * time.Minute
	stopTimeout  = 10 * time.Second
)

// upOptions are the flags of lab up.
type upOptions struct {
	dir      string
	workers  int
	profile  string
	workload bool
	product  bool
	verbose  bool
}

func upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab, print how to look at it, and run it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return up(cmd, o) },
	}
	cmd.Flags().
		StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "transplant-lab"), "directory of the lab; an earlier lab there is removed")
	cmd.Flags().IntVar(&o.workers, "workers", 5, "number of worker nodes")
	cmd.Flags().
		StringVar(&o.profile, "profile", "short", "delays of the kubelets: short, or kubelet (as measured on a real one)")
	cmd.Flags().BoolVar(&o.workload, "workload", true, "create four Services with load balancers")
	cmd.Flags().
		BoolVar(&o.product, "product", true, "build the product of this checkout: the CLI to try, and the manager that it migrates to")
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "log what the lab does")
	return cmd
}

// up starts the lab, waits for the end of ctx, and stops the lab whatever happened.
func up(cmd *cobra.Command, o upOptions) (err error) {
	profile, err := kubelet.ProfileByName(o.profile)
	if err != nil {
		return err
	}
	ctx, out, progress := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	bins, err := build.Ensure(ctx, build.Options{Progress: progress})
	if err != nil {
		return err
	}
	options := cluster.Options{Dir: o.dir, Binaries: bins, Workers: o.workers, Profile: profile}
	var product build.Product
	if o.product {
		fmt.Fprintln(progress, "building the product")
		if product, err = buildProduct(ctx); err != nil {
			return err
		}
		options.Programs = map[string]string{build.CCMImage: product.CCM}
	}
	if o.verbose {
		options.Log = slog.New(slog.NewTextHandler(progress, nil))
	}
	begin := time.Now()
	fmt.Fprintf(progress, "starting 3 control-plane hosts and %d workers\n", o.workers)
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(progress, "stopping the lab")
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, c.Stop(stopCtx))
	}()
	if err := settle(ctx, c, o.workload); err != nil {
		if ctx.Err() != nil { // Ctrl-C is an order and no error
			return nil
		}
		return err
	}
	fmt.Fprintf(progress, "ready after %s\n", time.Since(begin).Round(100*time.Millisecond))
	if err := describe(out, c, bins, product); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// buildProduct builds the product into out/bin of the checkout that the command runs in, such that it runs the programs
// of the lab's hosts.
func buildProduct(ctx context.Context) (build.Product, error) {
	root, err := build.FindRoot()
	if err != nil {
		return build.Product{}, err
	}
	return build.BuildProduct(ctx, root, filepath.Join(root, "out", "bin"), "faults")
}

// settle waits until everything is up, and creates the workload.
func settle(ctx context.Context, c *cluster.Cluster, workload bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	if !workload {
		return nil
	}
	return c.Workload(ctx)
}

// describe prints how to look at the lab.
func describe(out io.Writer, c *cluster.Cluster, bins build.Binaries, product build.Product) error {
	kubectl, err := bins.Path("kubectl", cluster.Version)
	if err != nil {
		return err
	}
	hosts := filepath.Join(c.Dir(), "hosts")
	for _, v := range c.ShellEnv() {
		fmt.Fprintf(out, "export %s\n", v)
	}
	fmt.Fprintf(out, "%s get nodes -o wide\n", kubectl)
	fmt.Fprintf(out, "%s -n kube-system get pods,leases -o wide\n", kubectl)
	fmt.Fprintf(out, "%s get services -A\n", kubectl)
	if product.CLI != "" {
		if err := trial.PutCredentials(c); err != nil {
			return err
		}
		flags := strings.Join(trial.MigrationFlags(), " ")
		for _, command := range []string{"check", "apply"} {
			fmt.Fprintf(out, "%s %s --host-access=local:%s --cloud=aws %s\n", product.CLI, command, hosts, flags)
		}
	}
	fmt.Fprintf(out, "# hosts:           %s\n", hosts)
	fmt.Fprintf(out, "# simulated AWS:   %s, audit log %s\n", c.CloudEndpoint(), c.AuditFile())
	fmt.Fprintf(out, "# Ctrl-C stops the lab\n")
	return nil
}
