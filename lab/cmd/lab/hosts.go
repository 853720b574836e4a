package main

import (
	"errors"
	"fmt"
	"os/exec"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/lab/hosts"
)

func hostsCommand() *cobra.Command {
	var o hosts.Options
	cmd := &cobra.Command{
		Use:   "hosts",
		Short: "Run real kubeadm clusters on this machine: namespaces with real kubelets (needs root)",
	}
	cmd.PersistentFlags().StringVar(&o.Name, "name", "lab", "name of the cluster: at most 6 lower-case letters and digits")
	cmd.PersistentFlags().
		StringVar(&o.Dir, "dir", "", "directory of the cluster (default: hosts/NAME below transplant-lab in the user's cache directory)")
	cmd.AddCommand(
		hostsUp(&o),
		hostsDown(&o),
		hostsStatus(&o),
		hostsExec(&o),
		hostsLoad(&o),
		hostsPower(&o, "reboot"),
		hostsPower(&o, "poweroff"),
		hostsPower(&o, "poweron"),
	)
	return cmd
}

func hostsUp(o *hosts.Options) *cobra.Command {
	workload := false
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make a cluster and leave it running; an earlier one of the name is removed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = cmd.ErrOrStderr()
			c, err := hosts.Up(cmd.Context(), *o)
			if err != nil {
				return err
			}
			if workload {
				if err := c.Workload(cmd.Context()); err != nil {
					return err
				}
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "export KUBECONFIG=%s\n", c.Kubeconfig())
			fmt.Fprintf(out, "%s get nodes -o wide\n", c.Kubectl())
			fmt.Fprintf(
				out,
				"# simulated AWS: %s, controls %s/_sim/state, audit log %s\n",
				c.CloudEndpoint(),
				c.AdminEndpoint(),
				c.AuditFile(),
			)
			fmt.Fprintf(out, "# the product as its image has it: %s\n", c.CLI())
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Subnet, "subnet", "10.77.0.0/24", "IPv4 /24 of the cluster's own")
	cmd.Flags().IntVar(&o.ControlPlanes, "control-planes", 3, "number of control-plane hosts: 1 to 3")
	cmd.Flags().IntVar(&o.Workers, "workers", 0, "number of workers: at most 3")
	cmd.Flags().StringVar(&o.CLITag, "cli-tag", hosts.DefaultTag, "tag of the image of the product's command")
	cmd.Flags().
		StringSliceVar(&o.CCMTags, "ccm-tag", nil, "tags of the image of the product's manager (default: the one that plans name, and "+hosts.DefaultTag+")")
	cmd.Flags().
		StringSliceVar(&o.Versions, "with-version", nil, "further versions of Kubernetes whose images the hosts get, for example v1.27.4")
	cmd.Flags().StringSliceVar(&o.Tags, "build-tag", nil, "build tags of the product, for example faults")
	cmd.Flags().BoolVar(&o.NoProduct, "no-product", false, "leave out the product's images")
	cmd.Flags().
		BoolVar(&workload, "workload", false, "create Services with load balancers, and a Deployment where there are workers")
	return cmd
}

func hostsDown(o *hosts.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove a cluster, or what is left of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := hosts.New(*o)
			if err != nil {
				return err
			}
			return c.Down(cmd.Context())
		},
	}
}

func hostsStatus(o *hosts.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the hosts of a cluster and whether they run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := hosts.Open(*o)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "HOST\tNODE\tADDRESS\tZONE\tPOWER")
			for _, h := range c.Hosts() {
				power := "off"
				if h.Running() {
					power = "on"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Name, h.NodeName, h.Address, h.Zone, power)
			}
			return w.Flush()
		},
	}
}

func hostsExec(o *hosts.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec HOST COMMAND [ARG]...",
		Short: "Run a command on a host as root",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := hosts.Open(*o)
			if err != nil {
				return err
			}
			h, err := c.Host(args[0])
			if err != nil {
				return err
			}
			err = h.Exec(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[1:]...)
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				return fmt.Errorf("%s on %s: %w", args[1], h.Name, failed)
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the host is the command's own
	return cmd
}

func hostsLoad(o *hosts.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "load",
		Short: "Build the product of this checkout again and give its images to the hosts",
		Long: "Build the product of this checkout again and give its images to the hosts that run.\n" +
			"Pods that start afterwards run the new programs, under the same tags.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := hosts.Open(*o)
			if err != nil {
				return err
			}
			return c.Load(cmd.Context())
		},
	}
}

// hostsPower is one of the commands that work on the power of a host.
func hostsPower(o *hosts.Options, verb string) *cobra.Command {
	short := map[string]string{
		"reboot":   "Cut a host's power and start it again with its disk",
		"poweroff": "Cut a host's power",
		"poweron":  "Start a host with its disk",
	}
	return &cobra.Command{
		Use:   verb + " HOST",
		Short: short[verb],
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := hosts.Open(*o)
			if err != nil {
				return err
			}
			h, err := c.Host(args[0])
			if err != nil {
				return err
			}
			switch verb {
			case "poweroff":
				return h.Down(cmd.Context())
			case "poweron":
				return h.Up(cmd.Context())
			default:
				return h.Reboot(cmd.Context())
			}
		},
	}
}
