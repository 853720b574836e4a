// Package managerprogram decides what every cloud-controller-manager of ours does the same way when it starts: logs in
// JSON, the metrics that dashboards expect, and how a command that cannot be built ends.
package managerprogram

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // leader_election_* and rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
	"k8s.io/klog/v2"
)

// Run builds the command and runs it. It returns the exit code of the process.
func Run(build func() (*cobra.Command, error)) int {
	command, err := build()
	if err != nil {
		klog.ErrorS(err, "The command cannot be built")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return cli.Run(command)
}
