// Command sim-cloud-controller-manager runs the cloud loops of a cluster on the simulated cloud, by upstream's
// controllers or by ours (--implementation). Nothing else differs between the two.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // leader_election_* and rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
	"k8s.io/klog/v2"
)

func main() {
	command, err := newCommand(os.Args[1:])
	if err != nil {
		klog.ErrorS(err, "The command cannot be built")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	os.Exit(cli.Run(command))
}
