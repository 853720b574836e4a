// Command transplant-operator migrates the user clusters of a seed: it watches Cluster objects, serves their webhooks
// and a page about them, and moves the cloud loops of those whose feature externalCloudProvider was switched on.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/mask"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(cli.Run(newCommand())) }

func newCommand() *cobra.Command {
	o := defaults()
	logging := logsapi.NewLoggingConfiguration()
	c := &cobra.Command{
		Use:   "transplant-operator",
		Short: "Migrates the user clusters of a seed to external cloud-controller-managers",
		Long: "Watches the Clusters of a seed and takes those out of tree whose feature externalCloudProvider is switched on: the cloud loops change hands " +
			"under proof, machine-controller and the CSI driver follow, and when every machine is external the in-tree provider goes.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			maskLogs()
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	o.addFlags(c.Flags())
	logsapi.AddFlags(logging, c.Flags())
	return c
}

// maskLogs has everything masked that this process and its libraries log from now on.
func maskLogs() {
	klog.SetLoggerWithOptions(mask.Logger(klog.Background()), klog.ContextualLogger(true))
}
