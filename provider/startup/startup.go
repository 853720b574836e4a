// Package startup decides how a program's flags become its provider. It holds which provider is the program's own, when
// a cloud config is read, and what ends the process.
package startup

import (
	"fmt"
	"os"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"
)

// Program is a cloud-controller-manager of one provider.
type Program struct {
	// Provider is what --cloud-provider has to be, such as "aws".
	Provider string
	// Cloud is the cloud's name in messages, such as "AWS".
	Cloud string
	// NeedsConfig says what the cloud config has that the provider cannot do without; empty when it can.
	NeedsConfig string
	// Open makes the provider of the flags and of the text of the cloud config, which is empty without --cloud-config.
	Open func(flags settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error)
}

// NewCloud makes the provider that the flags ask for, or ends the process with the reason: the library's constructor
// of clouds returns no error.
func (p Program) NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	made, err := p.Make(completed.ComponentConfig.KubeCloudShared)
	if err != nil {
		klog.ErrorS(err, "The "+p.Cloud+" provider cannot start")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return made
}

// Make makes the provider that the flags ask for. The error names the flag, and the file where there is one.
func (p Program) Make(flags settings.KubeCloudSharedConfiguration) (cloudprovider.Interface, error) {
	name, file := flags.CloudProvider.Name, flags.CloudProvider.CloudConfigFile
	if name != p.Provider {
		return nil, fmt.Errorf("--cloud-provider=%s is not a provider of this program; it has %s", name, p.Provider)
	}
	var text []byte
	switch {
	case file != "":
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("reading the file of --cloud-config: %w", err)
		}
	case p.NeedsConfig != "":
		return nil, fmt.Errorf("--cloud-config is missing: %s", p.NeedsConfig)
	}
	made, err := p.Open(flags, text)
	if err != nil {
		return nil, fmt.Errorf("starting the %s provider with cloud config %q: %w", p.Cloud, file, err)
	}
	return made, nil
}
