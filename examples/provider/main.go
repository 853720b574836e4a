// Command provider is the cloud-controller-manager of a cloud in memory. It shows how little a provider needs to run
// and to pass provider/conformance. docs/how-to/write-a-provider.md goes through it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("reading the defaults of flags: %v", err)
	}
	os.Exit(cli.Run(ccm.NewCloudControllerManagerCommand(opts, newCloud, ccm.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)))
}

// newCloud reads the servers from --cloud-config: {"NODE": {"address": "10.0.0.1"}}.
func newCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	servers, err := readServers(completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile)
	if err != nil {
		klog.Fatal(err)
	}
	return newMemory(servers)
}

func readServers(path string) (servers map[string]server, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &servers)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the servers of --cloud-config=%s: %w", path, err)
	}
	return servers, nil
}
