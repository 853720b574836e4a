package catalogue

import "slices"

const (
	onlyVolumes  = "only volumes used it, and the CSI driver has a config of its own"
	fromTheGuest = "the external provider finds virtual machines by themselves"
)

// configKeys. In tree: the structs with gcfg and json tags of k8s.io/legacy-cloud-providers v0.20.0 to v0.30.14, which did not change in that time (a
// test compares them with the module cache). External: config.CloudConfig of k8s.io/cloud-provider-aws v1.37.0; AuthOpts, LoadBalancerOpts,
// RouterOpts, NetworkingOpts and metadata.Opts of kubernetes/cloud-provider-openstack v1.20.5 to v1.36.0; ConfigGlobal of
// kubernetes/cloud-provider-gcp providers/gce of ccm/v26.4.0 and v36.3.8; Config and AzureAuthConfig of kubernetes-sigs/cloud-provider-azure v0.7.21 to
// v1.36.5; pkg/common/config and pkg/cloudprovider/vsphere/config of kubernetes/cloud-provider-vsphere v1.30.1.
var configKeys = map[string][]ConfigKey{
	"aws": slices.Concat(
		both("Global", "Zone", "VPC", "SubnetID", "RouteTableID", "RoleARN", "KubernetesClusterTag", "KubernetesClusterID", "DisableSecurityGroupIngress", "ElbSecurityGroup"),
		inTreeOnly("Global", "the external provider does not check zones", "DisableStrictZoneCheck"),
		externalOnly("Global", "Region", "SourceARN", "NodeIPFamilies", "ClusterServiceLoadBalancerHealthProbeMode", "ClusterServiceSharedLoadBalancerHealthProbePort",
			"ClusterServiceSharedLoadBalancerHealthProbePath", "SupportedTopologyInstanceTypePattern", "NLBSecurityGroupMode"),
		both("ServiceOverride", "Service", "Region"),
		quiet(both("ServiceOverride", "URL")),
		both("ServiceOverride", "SigningRegion", "SigningName"),
		inTreeOnly("ServiceOverride", "the external provider always signs with version 4", "SigningMethod"),
	),
	"azure": slices.Concat(
		both("", "cloud"),
		quiet(both("", "tenantId", "aadClientId")),
		secret(both("", "aadClientSecret", "aadClientCertPassword")),
		both("", "aadClientCertPath", "useManagedIdentityExtension"),
		quiet(both("", "userAssignedIdentityID", "subscriptionId")),
		both("", "identitySystem"),
		quiet(both("", "resourceManagerEndpoint", "networkResourceTenantID", "networkResourceSubscriptionID")),
		both("", "resourceGroup", "location", "vnetName", "vnetResourceGroup", "subnetName", "securityGroupName", "securityGroupResourceGroup", "routeTableName",
			"routeTableResourceGroup", "primaryAvailabilitySetName", "vmType", "primaryScaleSetName", "useInstanceMetadata", "loadBalancerSku",
			"excludeMasterFromStandardLB", "disableOutboundSNAT", "maximumLoadBalancerRuleCount", "cloudConfigType", "loadBalancerName",
			"loadBalancerResourceGroup", "preConfiguredBackendPoolLoadBalancerTypes", "disableAvailabilitySetNodes", "tags"),
		inTreeOnly("", "several standard load balancers are configured with multipleStandardLoadBalancerConfigurations outside", "enableMultipleStandardLoadBalancers"),
		quiet(inTreeOnly("", "the external provider's cache is nonVmssUniformNodesCacheTTLInSeconds", "availabilitySetNodesCacheTTLInSeconds")),
		quiet(both("", "vmssCacheTTLInSeconds", "vmssVirtualMachinesCacheTTLInSeconds", "vmCacheTTLInSeconds", "loadBalancerCacheTTLInSeconds", "nsgCacheTTLInSeconds",
			"routeTableCacheTTLInSeconds", "cloudProviderBackoff", "cloudProviderBackoffRetries", "cloudProviderBackoffExponent", "cloudProviderBackoffDuration",
			"cloudProviderBackoffJitter", "cloudProviderRateLimit", "cloudProviderRateLimitQPS", "cloudProviderRateLimitBucket", "cloudProviderRateLimitQPSWrite",
			"cloudProviderRateLimitBucketWrite", "routeRateLimit", "subnetsRateLimit", "interfaceRateLimit", "routeTableRateLimit", "loadBalancerRateLimit",
			"publicIPAddressRateLimit", "securityGroupRateLimit", "virtualMachineRateLimit", "storageAccountRateLimit", "diskRateLimit", "snapshotRateLimit",
			"virtualMachineScaleSetRateLimit", "virtualMachineSizesRateLimit")),
		quiet(externalOnly("", "aadFederatedTokenFile", "useFederatedWorkloadIdentityExtension", "auxiliaryTokenProvider", "aadMSIDataPlaneIdentityPath", "userAgent",
			"privateLinkServiceResourceGroup", "plsCacheTTLInSeconds", "availabilitySetsCacheTTLInSeconds", "publicIPCacheTTLInSeconds", "vmssFlexCacheTTLInSeconds",
			"vmssFlexVMCacheTTLInSeconds", "nonVmssUniformNodesCacheTTLInSeconds", "routeUpdateWaitingInSeconds", "enableMinimumRetryAfter")),
		externalOnly("", "tagsMap", "systemTags", "enableVmssFlexNodes", "disableAzureStackCloud", "extendedLocationName", "extendedLocationType",
			"loadBalancerBackendPoolConfigurationType", "putVMSSVMBatchSize", "enableMigrateToIPBasedBackendPoolAPI", "multipleStandardLoadBalancerConfigurations",
			"disableAPICallCache", "routeUpdateIntervalInSeconds", "loadBalancerBackendPoolUpdateIntervalInSeconds", "clusterServiceLoadBalancerHealthProbeMode",
			"clusterServiceSharedLoadBalancerHealthProbePort", "clusterServiceSharedLoadBalancerHealthProbePath", "enableIPTagMutationForExistingPublicIP",
			"nodeInstanceNotFoundGracePeriodInSeconds", "serviceGatewayEnabled"),
	),
	"gce": slices.Concat(
		secret(both("Global", "token-url", "token-body")),
		both("Global", "project-id", "network-project-id", "network-name", "subnetwork-name", "secondary-range-name", "node-tags", "node-instance-prefix", "regional",
			"multizone", "api-endpoint", "container-api-endpoint", "local-zone", "alpha-features"),
		externalOnly("Global", "stack-type"),
	),
	"openstack": slices.Concat(
		both("Global", "auth-url"),
		quiet(both("Global", "username", "user-id")),
		secret(both("Global", "password")),
		quiet(both("Global", "tenant-id", "tenant-name", "trust-id", "domain-id", "domain-name")),
		both("Global", "region", "ca-file"),
		inTreeOnly("Global", "the external provider reads its credentials from its config alone", "secret-name", "secret-namespace", "kubeconfig-path"),
		quiet(externalOnly("Global", "tenant-domain-id", "tenant-domain-name", "user-domain-id", "user-domain-name", "trustee-id", "application-credential-id",
			"application-credential-name")),
		secret(externalOnly("Global", "trustee-password", "application-credential-secret")),
		externalOnly("Global", "os-endpoint-type", "cert-file", "key-file", "use-clouds", "clouds-file", "cloud", "tls-insecure"),
		both("LoadBalancer", "lb-version", "use-octavia", "subnet-id", "floating-network-id", "lb-method", "lb-provider", "create-monitor", "monitor-delay",
			"monitor-timeout", "monitor-max-retries", "manage-security-groups"),
		externalOnly("LoadBalancer", "enabled", "network-id", "member-subnet-id", "floating-subnet-id", "floating-subnet", "floating-subnet-tags", "internal-lb",
			"node-selector", "cascade-delete", "flavor-id", "availability-zone", "enable-ingress-hostname", "ingress-hostname-suffix", "max-shared-lb",
			"default-tls-container-ref", "container-store", "monitor-max-retries-down", "provider-requires-serial-api-calls"),
		externalOnly("LoadBalancerClass", "floating-network-id", "floating-subnet-id", "floating-subnet", "floating-subnet-tags", "network-id", "subnet-id",
			"member-subnet-id"),
		inTreeOnly("BlockStorage", onlyVolumes, "bs-version", "trust-device-path", "ignore-volume-az", "node-volume-attach-limit"),
		both("Route", "router-id"),
		both("Metadata", "search-order", "request-timeout"),
		externalOnly("Networking", "ipv6-support-disabled", "public-network-name", "internal-network-name", "address-sort-order"),
	),
	"vsphere": vsphereKeys,
}

var vsphereKeys = slices.Concat(
	quiet(both("Global", "user")),
	secret(both("Global", "password")),
	both("Global", "server", "port", "insecure-flag", "ca-file", "thumbprint", "datacenters", "soap-roundtrip-count", "secret-name", "secret-namespace"),
	[]ConfigKey{{Section: "Global", Key: "datacenter", InTree: true, Decides: true, Renamed: "Global.datacenters"}},
	inTreeOnly("Global", onlyVolumes, "datastore", "working-dir"),
	inTreeOnly("Global", fromTheGuest, "vm-uuid", "vm-name"),
	inTreeOnly("Global", "the external provider always follows its Secret", "secret-not-managed"),
	externalOnly("Global", "secrets-directory", "api-disable", "api-binding", "ip-family"),
	quiet(both("VirtualCenter", "user")),
	secret(both("VirtualCenter", "password")),
	both("VirtualCenter", "port", "datacenters", "soap-roundtrip-count", "thumbprint"),
	externalOnly("VirtualCenter", "server", "insecure-flag", "ca-file", "secret-name", "secret-namespace", "ip-family"),
	[]ConfigKey{{Section: "Network", Key: "public-network", InTree: true, Decides: true, Renamed: "Nodes.internal-vm-network-name"}},
	inTreeOnly("Disk", onlyVolumes, "scsicontrollertype"),
	inTreeOnly("Workspace", onlyVolumes, "server", "datacenter", "folder", "default-datastore", "resourcepool-path"),
	both("Labels", "zone", "region"),
	externalOnly("Nodes", "internal-network-subnet-cidr", "external-network-subnet-cidr", "internal-vm-network-name", "external-vm-network-name",
		"exclude-internal-network-subnet-cidr", "exclude-external-network-subnet-cidr"),
)
