// Command openstack-cloud-controller-manager runs the cloud loops of a cluster on OpenStack: this project's library
// with its own provider on Nova, Neutron and Octavia.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/inventory"
	"github.com/transplant-dev/transplant/provider/openstack/orphan"
	"github.com/transplant-dev/transplant/provider/openstack/preview"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(managerprogram.Run(newCommand)) }

func newCommand() (*cobra.Command, error) {
	return managerprogram.Program{
		Name:    "openstack-cloud-controller-manager",
		Version: version,
		Long: "Runs the cloud loops of a cluster on OpenStack. New nodes get their addresses and labels, and nodes whose " +
			"server is gone are deleted. Pod networks get their routes. Services of type LoadBalancer get load " +
			"balancers of Octavia.",
		Cloud:       openstack.NewCloud,
		Controllers: ccm.NewControllers(),
		Looks: managerprogram.Looks{
			Inventory: inventory.Open, Preview: preview.Open, Orphans: orphan.Answer,
		},
	}.Command()
}
