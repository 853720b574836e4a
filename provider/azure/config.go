package azure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/configloader"
	"sigs.k8s.io/cloud-provider-azure/pkg/consts"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/provider/azure/client"
)

// readConfig reads the text of an azure.json. Its values are not logged: secrets are among them.
func readConfig(text []byte) (*upstreamconfig.Config, error) {
	conf, err := upstreamconfig.ParseConfig(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	if err := validate(conf); err != nil {
		return nil, fmt.Errorf("the cloud config cannot be used: %w", err)
	}
	// What upstream would keep between calls is kept for one call, by client.Bind. It would repeat requests within a call.
	conf.DisableAPICallCache, conf.CloudProviderBackoff, conf.UseInstanceMetadata = true, false, false
	if conf.CloudConfigType == configloader.CloudConfigTypeMerge {
		klog.InfoS("The Secret that cloudConfigType=merge names is not read; the file has to have all of the cloud config")
	}
	conf.CloudConfigType = configloader.CloudConfigTypeFile
	if conf.UserAgent == "" {
		conf.UserAgent = "transplant-azure-cloud-controller-manager"
	}
	return conf, nil
}

// validate returns an error for a config with which something else would be done than the cluster has now.
func validate(conf *upstreamconfig.Config) error {
	var problems []error
	for _, needed := range []struct{ name, value, without string }{
		{"subscriptionId", conf.SubscriptionID, "no machine can be found"},
		{"resourceGroup", conf.ResourceGroup, "no machine can be found"},
		{"location", conf.Location, "no load balancer can be made"},
		{
			"vmType", conf.VMType,
			"in-tree providers take standard, and newer ones vmss: set it to the one that the cluster has",
		},
		{
			"loadBalancerSku", conf.LoadBalancerSKU,
			"in-tree providers take basic, and newer ones standard: set it to the one that the cluster has",
		},
	} {
		if needed.value == "" {
			problems = append(problems, fmt.Errorf("%s is missing; without it, %s", needed.name, needed.without))
		}
	}
	isOneOf := func(name, value string, known ...string) {
		for _, k := range known {
			if strings.EqualFold(k, value) || value == "" {
				return
			}
		}
		problems = append(problems, fmt.Errorf("%s is %q; there are %s", name, value, strings.Join(known, ", ")))
	}
	isOneOf("vmType", conf.VMType, consts.VMTypeStandard, consts.VMTypeVMSS, consts.VMTypeVmssFlex)
	isOneOf("loadBalancerSku", conf.LoadBalancerSKU, consts.LoadBalancerSKUBasic, consts.LoadBalancerSKUStandard)
	isOneOf("loadBalancerBackendPoolConfigurationType", conf.LoadBalancerBackendPoolConfigurationType,
		consts.LoadBalancerBackendPoolConfigurationTypeNodeIPConfiguration,
		consts.LoadBalancerBackendPoolConfigurationTypeNodeIP)
	if len(conf.MultipleStandardLoadBalancerConfigurations) > 0 {
		problems = append(problems, errors.New("multipleStandardLoadBalancerConfigurations is set, and this manager has one "+
			"load balancer and one internal one: use upstream's manager"))
	}
	if conf.ServiceGatewayEnabled {
		problems = append(problems, errors.New("serviceGatewayEnabled is set, and this manager has no service gateway: "+
			"use upstream's manager"))
	}
	if conf.CloudConfigType == configloader.CloudConfigTypeSecret {
		problems = append(problems, errors.New("cloudConfigType is secret: put the cloud config of the Secret "+
			"in the file of --cloud-config, and leave cloudConfigType out"))
	}
	return errors.Join(problems...)
}

// credentials are those that the config asks for, and the addresses of its cloud. With a resourceManagerEndpoint, that
// is asked for them. On a machine that is none of the cluster's, they are those of Azure's own tools, unless the config
// has a secret or a certificate.
func credentials(
	conf *upstreamconfig.Config,
	fromOutside bool,
) (machines, network azcore.TokenCredential, at cloud.Configuration, err error) {
	tokens := client.Tokens(0)
	hasOwn := conf.GetAADClientSecret() != "" || conf.AADClientCertPath != ""
	if fromOutside && !hasOwn {
		options, _, err := azclient.GetAzCoreClientOption(&conf.ARMClientConfig)
		if err != nil {
			return nil, nil, at, fmt.Errorf("reading the addresses of the cloud: %w", err)
		}
		options.Transport = tokens
		tools, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
			ClientOptions: *options, TenantID: conf.TenantID,
		})
		if err != nil {
			return nil, nil, at, fmt.Errorf("opening the credentials of Azure's tools: %w", err)
		}
		return tools, tools, options.Cloud, nil
	}
	auth, err := azclient.NewAuthProvider(&conf.ARMClientConfig, &conf.AzureAuthConfig,
		azclient.WithClientOptionsMutFn(func(o *policy.ClientOptions) { o.Transport = tokens }))
	switch {
	case err != nil:
		return nil, nil, at, fmt.Errorf("opening the credentials of the cloud config: %w", err)
	case auth.GetAzIdentity() == nil:
		return nil, nil, at, errors.New("the cloud config has no credentials: set useManagedIdentityExtension, " +
			"useFederatedWorkloadIdentityExtension, or aadClientId with aadClientSecret or aadClientCertPath")
	}
	return auth.GetAzIdentity(), auth.GetNetworkAzIdentity(), auth.CloudConfig, nil
}

// networkSubscription has the load balancers and route tables.
func networkSubscription(conf *upstreamconfig.Config) string {
	return cmp.Or(conf.NetworkResourceSubscriptionID, conf.SubscriptionID)
}
