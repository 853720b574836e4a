// Command thirdparty is the cloud-controller-manager of a provider that does at its start what real ones were seen to
// do. It writes in Initialize and starts a loop there, asserts its own type in a constructor, adds flags, equips shared
// informers in an InitFunc, records events, and has a health check.
//
// It is written for upstream's library. The tests run it as it is, and with the one import changed.
package main

import (
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// settings are the program's own flags.
type settings struct {
	region     string
	brokenWhen string
}

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("making options: %v", err)
	}
	var own settings
	sets := cliflag.NamedFlagSets{}
	flags := sets.FlagSet("third party")
	flags.StringVar(&own.region, "region", "nowhere", "Region that every node is in.")
	flags.StringVar(&own.brokenWhen, "broken-when", "", "File whose text fails the health check while it is there.")

	constructors := app.DefaultInitFuncConstructors
	constructors[controlled] = app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: controlled},
		Constructor: own.newController,
	}
	aliases := names.CCMControllerAliases()
	aliases["thirdparty"] = controlled
	newCloud := func(*config.CompletedConfig) cloudprovider.Interface {
		c, err := cloudprovider.InitCloudProvider(provider, "")
		if err != nil {
			klog.Fatalf("making the provider: %v", err)
		}
		c.(*cloud).region = own.region
		return c
	}
	cloudprovider.RegisterCloudProvider(provider, func(io.Reader) (cloudprovider.Interface, error) {
		return &cloud{}, nil
	})
	os.Exit(cli.Run(app.NewCloudControllerManagerCommand(opts, newCloud, constructors, aliases, sets, wait.NeverStop)))
}
