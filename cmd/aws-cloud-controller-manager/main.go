// Command aws-cloud-controller-manager runs the cloud loops of a cluster on AWS: this project's library with the
// upstream AWS provider on fenced clients.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/aws"
	"github.com/transplant-dev/transplant/provider/aws/inventory"
	"github.com/transplant-dev/transplant/provider/aws/preview"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(managerprogram.Run(newCommand)) }

func newCommand() (*cobra.Command, error) {
	return managerprogram.Program{
		Name:    "aws-cloud-controller-manager",
		Version: version,
		Long: "Runs the cloud loops of a cluster on AWS. New nodes get their addresses and labels, and nodes whose " +
			"instance is gone are deleted. Services of type LoadBalancer get their load balancers, and pod networks " +
			"their routes.",
		Cloud:       aws.NewCloud,
		Controllers: aws.NewControllers(),
		Looks:       managerprogram.Looks{Inventory: inventory.Open, Preview: preview.Open},
	}.Command()
}
