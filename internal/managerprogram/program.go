// Package managerprogram decides what every cloud-controller-manager of ours does the same way when it starts: logs in
// JSON, the metrics that dashboards expect, and how a command that cannot be built ends.
package managerprogram

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // leader_election_* and rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
	"k8s.io/klog/v2"
)

// Run builds the command, runs it and ends the process.
func Run(build func() (*cobra.Command, error)) {
	command, err := build()
	if err != nil {
		klog.ErrorS(err, "The command cannot be built")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	os.Exit(cli.Run(command))
}
