// Package managerprogram decides what every cloud-controller-manager of ours does the same way when it starts. That is
// logs in JSON, the metrics that dashboards expect, the command with its controllers, and how a command that cannot be
// built ends.
package managerprogram

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // leader_election_* and rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm"
)

// Program is a cloud-controller-manager.
type Program struct {
	// Name is the file name of the program.
	Name string
	// Version is what the build has set; empty for none.
	Version string
	// Long is what --help begins with.
	Long string
	// Cloud makes the provider.
	Cloud ccm.InitCloudFunc
	// Controllers are what it runs: those of ccm.NewControllers, or of a provider that has more.
	Controllers ccm.Controllers
	// Looks are what it answers to transplant, without a manager running.
	Looks Looks
}

// Command returns the program's command.
func (p Program) Command() (*cobra.Command, error) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	command := ccm.NewCloudControllerManagerCommand(
		opts,
		p.Cloud,
		p.Controllers.Constructors,
		p.Controllers.Aliases,
		p.Controllers.Flags,
		wait.NeverStop,
	)
	command.Use, command.Long = p.Name, p.Long
	command.Annotations = map[string]string{ccm.VersionAnnotation: p.Version}
	if looks := p.Looks.Commands(p.Version); len(looks) > 0 {
		command.AddCommand(looks...)
		command.CompletionOptions.DisableDefaultCmd = true // a program of manifests, not of terminals
	}
	return command, nil
}

// Run builds the command and runs it. It returns the exit code of the process.
func Run(build func() (*cobra.Command, error)) int {
	command, err := build()
	if err != nil {
		klog.ErrorS(err, "The command cannot be built")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return cli.Run(command)
}
