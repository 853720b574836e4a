package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/lab/simcloud/provider"
)

// implementations are the managers that this program can be, by the value of --implementation. One process is one of
// them: constructing both would register every metric twice.
var implementations = map[string]func(*options.CloudControllerManagerOptions) *cobra.Command{
	"upstream": upstream,
	"ours":     ours,
}

const implementationFlag = "implementation"

// newCommand returns the command of the implementation that the arguments name.
func newCommand(args []string) (*cobra.Command, error) {
	name := implementation(args)
	build, ok := implementations[name]
	if !ok {
		return nil, fmt.Errorf(
			"--%s=%s is none of %s",
			implementationFlag,
			name,
			strings.Join(slices.Sorted(maps.Keys(implementations)), ", "),
		)
	}
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	command := build(opts)
	command.Use = "sim-cloud-controller-manager"
	command.Flags().String(implementationFlag, "ours", "Whose controllers run: upstream or ours.")
	return command, nil
}

// implementation reads one flag before there is a command that could.
func implementation(args []string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+implementationFlag+"="); ok {
			return value
		}
		if arg == "--"+implementationFlag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return "ours"
}

func upstream(opts *options.CloudControllerManagerOptions) *cobra.Command {
	return app.NewCloudControllerManagerCommand(
		opts,
		newCloud,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
}

func ours(opts *options.CloudControllerManagerOptions) *cobra.Command {
	return ccm.NewCloudControllerManagerCommand(
		opts,
		newCloud,
		ccm.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
}

// newCloud makes the provider that --cloud-config describes, or ends the process: the library leaves no other way.
func newCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	c, err := provider.ReadConfigFile(completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile)
	if err == nil {
		var cloud cloudprovider.Interface
		if cloud, err = provider.New(c); err == nil {
			return cloud
		}
	}
	klog.ErrorS(err, "The provider of the simulated cloud cannot start")
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	return nil
}
