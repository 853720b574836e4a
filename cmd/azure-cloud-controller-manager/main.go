// Command azure-cloud-controller-manager runs the cloud loops of a cluster on Azure. It is this project's library with
// upstream's load balancers, and with its own reading of machines and routes.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/azure"
	"github.com/transplant-dev/transplant/provider/azure/inventory"
	"github.com/transplant-dev/transplant/provider/azure/preview"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(managerprogram.Run(newCommand)) }

func newCommand() (*cobra.Command, error) {
	return managerprogram.Program{
		Name:    "azure-cloud-controller-manager",
		Version: version,
		Long: "Runs the cloud loops of a cluster on Azure. New nodes get their addresses and labels, nodes whose virtual " +
			"machine is stopped are tainted, and those whose machine is gone are deleted. Services get load balancers, " +
			"and nodes routes.",
		Cloud:       azure.NewCloud,
		Controllers: ccm.NewControllers(),
		Looks:       managerprogram.Looks{Inventory: inventory.Open, Preview: preview.Open},
	}.Command()
}
