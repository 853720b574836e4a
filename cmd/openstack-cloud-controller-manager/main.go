// Command openstack-cloud-controller-manager runs the cloud loops of a cluster on OpenStack: this project's library
// with its own provider on Nova, Neutron and Octavia.
package main

import (
	"maps"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/openstack"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(managerprogram.Run(newCommand)) }

func newCommand() (*cobra.Command, error) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	constructors := maps.Clone(ccm.DefaultInitFuncConstructors)
	constructors[ccm.NodeIPAMController] = ccm.NodeIPAMConstructor()
	aliases := names.CCMControllerAliases()
	aliases[ccm.NodeIPAMAlias] = ccm.NodeIPAMController
	command := ccm.NewCloudControllerManagerCommand(
		opts,
		openstack.NewCloud,
		constructors,
		aliases,
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
	command.Use = "openstack-cloud-controller-manager"
	command.Annotations = map[string]string{ccm.VersionAnnotation: version}
	command.Long = "Runs the cloud loops of a cluster on OpenStack: new nodes get their addresses and labels, nodes whose server is gone are deleted, " +
		"pod networks get their routes, and Services of type LoadBalancer get load balancers of Octavia."
	return command, nil
}
