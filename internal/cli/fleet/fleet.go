// Package fleet has the commands about all clusters of a seed.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/rollout"
)

// NewCommand returns the command fleet with those below it.
func NewCommand(c *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Migrate the clusters of a seed: show how far they are, plan their waves, start them",
		Example: "  transplant fleet status\n" +
			"  transplant fleet plan --waves 1,10%,50%,100%\n" +
			"  transplant fleet apply --waves 1,10%,50%,100% --soak 30m",
		Long: "Fleet is about the Cluster objects of a seed (a management cluster), whose user clusters transplant-operator migrates. It reads the seed's kubeconfig, and\n" +
			"everything that status and apply need to know is in those objects.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStatus(c), newPlan(c), newApply(c), newRights(c))
	return cmd
}

func addSelectionFlags(s *rollout.Selection, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.Selector, "selector", "l", "", "only Clusters with these labels, e.g. env=staging")
	cmd.Flags().StringSliceVar(&s.Providers, "provider", nil, "only clusters of these providers, e.g. aws,openstack")
}
