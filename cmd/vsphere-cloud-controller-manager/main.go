// Command vsphere-cloud-controller-manager runs the cloud loops of a cluster on vSphere: this project's library with
// its own provider on vCenter.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/inventory"
	"github.com/transplant-dev/transplant/provider/vsphere/preview"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(managerprogram.Run(newCommand)) }

func newCommand() (*cobra.Command, error) {
	return managerprogram.Program{
		Name:    "vsphere-cloud-controller-manager",
		Version: version,
		Long: "Runs the cloud loops of a cluster on vSphere. New nodes get their addresses and labels, nodes whose " +
			"virtual machine is powered off are tainted, and those whose virtual machine is gone are deleted. vSphere " +
			"has no load balancers and no routes, and neither has this program.",
		Cloud:       vsphere.NewCloud,
		Controllers: vsphere.NewControllers(),
		Looks:       managerprogram.Looks{Inventory: inventory.Open, Preview: preview.Open},
	}.Command()
}
