// Command transplant-operator migrates the user clusters of a seed. It watches Cluster objects, and serves their
// webhooks and a page about them. It moves the cloud loops of those whose feature externalCloudProvider was switched
// on.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/transplant-dev/transplant/internal/fleet/process"
)

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's
// version.
var version string

func main() { os.Exit(cli.Run(process.NewCommand(version))) }
