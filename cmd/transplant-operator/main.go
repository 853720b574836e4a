// Command transplant-operator migrates the user clusters of a seed. It watches Cluster objects, and serves their
// webhooks and a page about them. It moves the cloud loops of those whose feature externalCloudProvider was switched
// on.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/transplant-dev/transplant/internal/mask/logging"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(cli.Run(newCommand())) }

func newCommand() *cobra.Command {
	o := defaults()
	logs := logsapi.NewLoggingConfiguration()
	c := &cobra.Command{
		Use:   "transplant-operator",
		Short: "Migrates the user clusters of a seed to external cloud-controller-managers",
		Long: "Watches the Clusters of a seed and migrates those whose feature externalCloudProvider is on to the external cloud provider. The cloud loops are handed over " +
			"under proof; machine-controller and the CSI driver follow. When every machine is external, the in-tree provider is removed.",
		Args:         cobra.NoArgs,
		Version:      toolVersion(),
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := logging.Apply(logs, nil); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	o.addFlags(c.Flags())
	logsapi.AddFlags(logs, c.Flags())
	return c
}
