package process

import (
	"runtime/debug"

	"github.com/spf13/cobra"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/transplant-dev/transplant/internal/mask/logging"
)

// NewCommand returns the command transplant-operator. Its version is the one that the build has set, or else the one
// that go install has recorded.
func NewCommand(version string) *cobra.Command {
	o := defaults()
	o.version = versionOf(version)
	logs := logsapi.NewLoggingConfiguration()
	c := &cobra.Command{
		Use:   "transplant-operator",
		Short: "Migrates the user clusters of a seed to external cloud-controller-managers",
		Long: "Watches the Clusters of a seed and migrates those whose feature externalCloudProvider is on to the external cloud provider. The cloud loops are handed over " +
			"under proof; machine-controller and the CSI driver follow. When every machine is external, the in-tree provider is removed.",
		Args:         cobra.NoArgs,
		Version:      o.version,
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

func versionOf(set string) string {
	if set != "" {
		return set
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
