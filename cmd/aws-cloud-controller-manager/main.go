// Command aws-cloud-controller-manager runs the cloud loops of a cluster on AWS: the upstream library and the upstream AWS provider, with a
// leader migration config that does what it says.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // leader_election_* and rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/migrationconfig/upstream"
	"github.com/transplant-dev/transplant/provider/aws"
)

func main() {
	command, err := newCommand()
	if err != nil {
		klog.ErrorS(err, "The command cannot be built")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	os.Exit(cli.Run(command))
}

func newCommand() (*cobra.Command, error) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	controllers := aws.NewControllers()
	command := upstream.NewCommand(opts, aws.NewCloud, controllers.Constructors, controllers.Aliases, controllers.Flags, wait.NeverStop)
	command.Use = name
	command.Long = "Runs the cloud loops of a cluster on AWS: new nodes get their addresses and labels, nodes whose instance is gone are deleted, " +
		"Services of type LoadBalancer get their load balancers, and pod networks their routes."
	reportOwnVersion(command)
	return command, nil
}
