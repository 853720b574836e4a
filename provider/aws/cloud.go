package aws

import (
	"errors"
	"fmt"
	"os"

	cloudprovider "k8s.io/cloud-provider"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"
)

// NewCloud makes the AWS provider that a manager's flags ask for, or ends the process with the reason: the library leaves no other way.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	shared := completed.ComponentConfig.KubeCloudShared
	cloud, err := newCloud(shared.CloudProvider.Name, shared.CloudProvider.CloudConfigFile, shared.AllowUntaggedCloud)
	if err != nil {
		klog.ErrorS(err, "The AWS provider cannot start")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return cloud
}

func newCloud(name, configFile string, allowUntagged bool) (cloudprovider.Interface, error) {
	if name != awsv1.ProviderName {
		return nil, fmt.Errorf("--cloud-provider=%s is not a provider of this program; it has %s", name, awsv1.ProviderName)
	}
	if configFile != "" {
		data, err := os.ReadFile(configFile)
		if err != nil {
			return nil, fmt.Errorf("reading the file of --cloud-config: %w", err)
		}
		for _, warning := range unusedOverrides(data) {
			klog.Warningf("Cloud config %q: %s", configFile, warning)
		}
	}
	cloud, err := cloudprovider.InitCloudProvider(name, configFile)
	if err != nil {
		return nil, fmt.Errorf("starting the AWS provider with cloud config %q: %w", configFile, err)
	}
	if cloud.HasClusterID() {
		return cloud, nil
	}
	if !allowUntagged {
		return nil, errors.New("no cluster ID: set KubernetesClusterID in the cloud config, or tag this instance with kubernetes.io/cluster/<ID>, " +
			"or accept with --allow-untagged-cloud that every cluster in this account shares its load balancers")
	}
	klog.Warning("The cluster has no cluster ID, and --allow-untagged-cloud accepts that: it shares its cloud objects with every other such cluster of the account")
	return cloud, nil
}
