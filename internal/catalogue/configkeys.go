package catalogue

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

// OnlyVolumes reports whether a key steers volumes alone: the external provider has none, and the CSI driver reads a
// config of its own.
func (k ConfigKey) OnlyVolumes() bool { return k.Why == onlyVolumes }

// ChangedDefault is a key of a cloud config that means another thing to the external provider when it is not set.
type ChangedDefault struct {
	// Section and Key as in ConfigKey.
	Section, Key string
	// InTree and External are what each takes.
	InTree, External string
	// Why says what follows, a clause.
	Why string
}

// ChangedDefaults lists the keys of a provider whose defaults differ.
//
// Sources: InitializeCloudFromConfig of kubernetes-sigs/cloud-provider-azure (since 1.27) and of
// k8s.io/legacy-cloud-providers/azure.
func ChangedDefaults(provider string) []ChangedDefault { return changedDefaults[provider] }

// NeededKey is a key of a cloud config that the external provider needs where another one has a value.
type NeededKey struct {
	Key         string
	With, Value string // the other key
	Why         string // what happens without it
}

var neededKeys = map[string][]NeededKey{
	"azure": {{
		Key:   "primaryAvailabilitySetName",
		With:  "vmType",
		Value: "standard",
		Why:   "a machine that is gone stays a member of its load balancers",
	}},
}

// NeededKeys are those of a provider.
func NeededKeys(provider string) []NeededKey { return neededKeys[provider] }

var changedDefaults = map[string][]ChangedDefault{
	"azure": {
		{
			Key:      "vmType",
			InTree:   "standard",
			External: "vmss",
			Why:      "machines of availability sets are looked for in scale sets, and load balancers take their members from there",
		},
		{
			Key:      "loadBalancerSku",
			InTree:   "basic",
			External: "standard",
			Why:      "every Service gets another load balancer and another address",
		},
	},
}

// RefusedSetting is a setting of a cloud config with which this project's manager does not start, and the official one
// does.
type RefusedSetting struct {
	// Key is Section.Key, or Key where there are no sections. Value is the one that is refused; empty for every value.
	Key, Value string
	// Unless is a key whose value switches off what Key is about. The setting is taken then. Empty for none.
	Unless string
	// Why says what to do, a sentence that begins with the key; before InTree, why it is refused.
	Why string
	// InTree says what the in-tree provider has done by it that lasts, whichever manager follows: sentences that begin
	// with the key. Empty for nothing.
	InTree string
}

// Refuses reports whether a manager does not start with a value of the key, and a value of Unless, if it is set.
func (r RefusedSetting) Refuses(value, unless string) bool {
	if r.Unless != "" && slices.ContainsFunc(off, func(s string) bool { return strings.EqualFold(s, unless) }) {
		return false
	}
	means := func(all []string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, value) })
	}
	if r.Value == isTrue && means(on) || r.Value == isFalse && means(off) {
		return true
	}
	return r.Value == "" || strings.EqualFold(value, r.Value)
}

const (
	isTrue  = "true"
	isFalse = "false"
)

// How an INI file says yes and no (gopkg.in/gcfg.v1/types). JSON has the first of each alone.
var (
	on  = []string{isTrue, "yes", "on", "1"}
	off = []string{isFalse, "no", "off", "0"}
)

// RefusedByOurs lists the settings that this project's manager for a provider refuses (provider/azure/config.go and
// provider/openstack/loadbalancer/balancers.go).
func RefusedByOurs(provider string) []RefusedSetting { return slices.Clone(refusedByOurs[provider]) }

var refusedByOurs = map[string][]RefusedSetting{
	"azure": {
		{
			Key: "multipleStandardLoadBalancerConfigurations",
			Why: "multipleStandardLoadBalancerConfigurations is set, and this manager has one load balancer of each kind",
		},
		{
			Key:   "serviceGatewayEnabled",
			Value: isTrue,
			Why:   "serviceGatewayEnabled is true, and this manager has no service gateway",
		},
		{
			Key:   "cloudConfigType",
			Value: "secret",
			Why:   "cloudConfigType is secret, and this manager reads the file alone: write all of it there, and remove the key",
		},
	},
	"openstack": {{
		Key:    "LoadBalancer.manage-security-groups",
		Value:  isTrue,
		Unless: "LoadBalancer.enabled",
		Why:    "this manager changes no security group",
		// Octavia's port is another project's: openstack_loadbalancer.go of k8s.io/legacy-cloud-providers 0.25 skips it
		InTree: "LoadBalancer.manage-security-groups is true, and in tree half of it is applied: loadBalancerSourceRanges is " +
			"not enforced, and groups lb-sg-* with rules in the nodes' group stay behind. Set it to false, and let the nodes' " +
			"group accept their node ports (30000-32767) from the load balancers' subnet. External managers enforce " +
			"loadBalancerSourceRanges: name each client there first",
	}, {
		Key:    "LoadBalancer.cascade-delete",
		Value:  isFalse,
		Unless: "LoadBalancer.enabled",
		Why: "LoadBalancer.cascade-delete is false, and this manager deletes a load balancer with all below it in one " +
			"request: remove the key",
	}},
}

// ReadsEnvironment is the prefix of the environment variables that the in-tree provider takes settings from and the
// external one does not. It is empty when there are none.
func ReadsEnvironment(provider string) string {
	if provider == "openstack" { // configFromEnv of k8s.io/legacy-cloud-providers/openstack
		return "OS_"
	}
	return ""
}

// ConfigKey is a key of a provider's cloud config.
type ConfigKey struct {
	// Section of an INI file, as its documentation spells it; empty in JSON. A section with a second name ([VirtualCenter
	// "10.0.0.1"]) stands for all.
	Section, Key string
	// InTree and External tell which of the two providers reads it.
	InTree, External bool
	// Renamed is where the external provider reads it, Section.Key, when elsewhere.
	Renamed string
	// Secret reports whether its value must be shown nowhere.
	Secret bool
	// Decides reports whether its value decides what the provider does, and can hold no secret.
	Decides bool
	// Why says what becomes of a key that the external provider does not read, a clause.
	Why string
}

// Name is Section.Key, or Key where there are no sections.
func (k ConfigKey) Name() string {
	if k.Section == "" {
		return k.Key
	}
	return k.Section + "." + k.Key
}

// ConfigKeys lists the keys of a provider's cloud config that it or its external successor reads, in the order of their
// documentation.
func ConfigKeys(provider string) []ConfigKey { return slices.Clone(configKeys[provider]) }

// ConfigKeyOf finds a key, without regard to case, as the providers do.
func ConfigKeyOf(provider, section, key string) (ConfigKey, bool) {
	i := slices.IndexFunc(configKeys[provider], func(k ConfigKey) bool {
		return strings.EqualFold(k.Section, section) && strings.EqualFold(k.Key, key)
	})
	if i < 0 {
		return ConfigKey{}, false
	}
	return configKeys[provider][i], true
}

// StrictConfigUntil is the last minor whose in-tree provider does not start with an unknown key (gcfg.ReadInto without
// FatalOnly). It is 0 if none was strict. OpenStack's passes over them since 1.25
// (https://github.com/kubernetes/kubernetes/issues/109709). No external provider is strict.
func StrictConfigUntil(provider string) int {
	switch provider {
	case "openstack":
		return 24
	case "aws", "vsphere":
		p, _ := cloudprovider.Lookup(provider)
		return p.LastInTree
	}
	return 0
}

// Ways to write a row: keys of both, of the in-tree provider alone, and of the external one alone.
func both(section string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{InTree: true, External: true, Decides: true}, keys)
}

func inTreeOnly(section, why string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{InTree: true, Decides: true, Why: why}, keys)
}

func externalOnly(section string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{External: true, Decides: true}, keys)
}

// secret marks rows as secrets; quiet as keys whose values need not be shown.
func secret(list []ConfigKey) []ConfigKey {
	for i := range list {
		list[i].Secret, list[i].Decides = true, false
	}
	return list
}

func quiet(list []ConfigKey) []ConfigKey {
	for i := range list {
		list[i].Decides = false
	}
	return list
}

func rows(section string, k ConfigKey, keys []string) []ConfigKey {
	out := make([]ConfigKey, 0, len(keys))
	for _, key := range keys {
		k.Section, k.Key = section, key
		out = append(out, k)
	}
	return out
}

const (
	onlyVolumes  = "only volumes used it, and the CSI driver has a config of its own"
	fromTheGuest = "the external provider finds virtual machines by themselves"
)

// configKeys. In tree: the structs with gcfg and json tags of k8s.io/legacy-cloud-providers v0.20.0 to v0.30.14. They
// did not change in that time (a test compares them with the module cache). External:
//
//   - config.CloudConfig of k8s.io/cloud-provider-aws v1.37.0
//   - AuthOpts, LoadBalancerOpts, RouterOpts, NetworkingOpts and metadata.Opts of kubernetes/cloud-provider-openstack
//     v1.20.5 to v1.36.0
//   - ConfigGlobal of kubernetes/cloud-provider-gcp providers/gce of ccm/v26.4.0 and v36.3.8
//   - Config and AzureAuthConfig of kubernetes-sigs/cloud-provider-azure v0.7.21 to v1.36.5
//   - pkg/common/config and pkg/cloudprovider/vsphere/config of kubernetes/cloud-provider-vsphere v1.30.1
var configKeys = map[string][]ConfigKey{
	"aws": slices.Concat(
		both(
			"Global",
			"Zone",
			"VPC",
			"SubnetID",
			"RouteTableID",
			"RoleARN",
			"KubernetesClusterTag",
			"KubernetesClusterID",
			"DisableSecurityGroupIngress",
			"ElbSecurityGroup",
		),
		inTreeOnly("Global", "the external provider does not check zones", "DisableStrictZoneCheck"),
		externalOnly(
			"Global",
			"Region",
			"SourceARN",
			"NodeIPFamilies",
			"ClusterServiceLoadBalancerHealthProbeMode",
			"ClusterServiceSharedLoadBalancerHealthProbePort",
			"ClusterServiceSharedLoadBalancerHealthProbePath",
			"SupportedTopologyInstanceTypePattern",
			"NLBSecurityGroupMode",
		),
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
		both(
			"",
			"resourceGroup",
			"location",
			"vnetName",
			"vnetResourceGroup",
			"subnetName",
			"securityGroupName",
			"securityGroupResourceGroup",
			"routeTableName",
			"routeTableResourceGroup",
			"primaryAvailabilitySetName",
			"vmType",
			"primaryScaleSetName",
			"useInstanceMetadata",
			"loadBalancerSku",
			"excludeMasterFromStandardLB",
			"disableOutboundSNAT",
			"maximumLoadBalancerRuleCount",
			"cloudConfigType",
			"loadBalancerName",
			"loadBalancerResourceGroup",
			"preConfiguredBackendPoolLoadBalancerTypes",
			"disableAvailabilitySetNodes",
			"tags",
		),
		inTreeOnly(
			"",
			"several standard load balancers are configured with multipleStandardLoadBalancerConfigurations outside",
			"enableMultipleStandardLoadBalancers",
		),
		quiet(
			inTreeOnly(
				"",
				"the external provider's cache is nonVmssUniformNodesCacheTTLInSeconds",
				"availabilitySetNodesCacheTTLInSeconds",
			),
		),
		quiet(
			both(
				"",
				"vmssCacheTTLInSeconds",
				"vmssVirtualMachinesCacheTTLInSeconds",
				"vmCacheTTLInSeconds",
				"loadBalancerCacheTTLInSeconds",
				"nsgCacheTTLInSeconds",
				"routeTableCacheTTLInSeconds",
				"cloudProviderBackoff",
				"cloudProviderBackoffRetries",
				"cloudProviderBackoffExponent",
				"cloudProviderBackoffDuration",
				"cloudProviderBackoffJitter",
				"cloudProviderRateLimit",
				"cloudProviderRateLimitQPS",
				"cloudProviderRateLimitBucket",
				"cloudProviderRateLimitQPSWrite",
				"cloudProviderRateLimitBucketWrite",
				"routeRateLimit",
				"subnetsRateLimit",
				"interfaceRateLimit",
				"routeTableRateLimit",
				"loadBalancerRateLimit",
				"publicIPAddressRateLimit",
				"securityGroupRateLimit",
				"virtualMachineRateLimit",
				"storageAccountRateLimit",
				"diskRateLimit",
				"snapshotRateLimit",
				"virtualMachineScaleSetRateLimit",
				"virtualMachineSizesRateLimit",
			),
		),
		quiet(
			externalOnly(
				"",
				"aadFederatedTokenFile",
				"useFederatedWorkloadIdentityExtension",
				"auxiliaryTokenProvider",
				"aadMSIDataPlaneIdentityPath",
				"userAgent",
				"privateLinkServiceResourceGroup",
				"plsCacheTTLInSeconds",
				"availabilitySetsCacheTTLInSeconds",
				"publicIPCacheTTLInSeconds",
				"vmssFlexCacheTTLInSeconds",
				"vmssFlexVMCacheTTLInSeconds",
				"nonVmssUniformNodesCacheTTLInSeconds",
				"routeUpdateWaitingInSeconds",
				"enableMinimumRetryAfter",
			),
		),
		externalOnly(
			"",
			"tagsMap",
			"systemTags",
			"enableVmssFlexNodes",
			"disableAzureStackCloud",
			"extendedLocationName",
			"extendedLocationType",
			"loadBalancerBackendPoolConfigurationType",
			"putVMSSVMBatchSize",
			"enableMigrateToIPBasedBackendPoolAPI",
			"multipleStandardLoadBalancerConfigurations",
			"disableAPICallCache",
			"routeUpdateIntervalInSeconds",
			"loadBalancerBackendPoolUpdateIntervalInSeconds",
			"clusterServiceLoadBalancerHealthProbeMode",
			"clusterServiceSharedLoadBalancerHealthProbePort",
			"clusterServiceSharedLoadBalancerHealthProbePath",
			"enableIPTagMutationForExistingPublicIP",
			"nodeInstanceNotFoundGracePeriodInSeconds",
			"serviceGatewayEnabled",
		),
	),
	"gce": slices.Concat(
		secret(both("Global", "token-url", "token-body")),
		both(
			"Global",
			"project-id",
			"network-project-id",
			"network-name",
			"subnetwork-name",
			"secondary-range-name",
			"node-tags",
			"node-instance-prefix",
			"regional",
			"multizone",
			"api-endpoint",
			"container-api-endpoint",
			"local-zone",
			"alpha-features",
		),
		externalOnly("Global", "stack-type"),
	),
	"openstack": slices.Concat(
		both("Global", "auth-url"),
		quiet(both("Global", "username", "user-id")),
		secret(both("Global", "password")),
		quiet(both("Global", "tenant-id", "tenant-name", "trust-id", "domain-id", "domain-name")),
		both("Global", "region", "ca-file"),
		inTreeOnly(
			"Global",
			"the external provider reads its credentials from its config alone",
			"secret-name",
			"secret-namespace",
			"kubeconfig-path",
		),
		quiet(
			externalOnly(
				"Global",
				"tenant-domain-id",
				"tenant-domain-name",
				"user-domain-id",
				"user-domain-name",
				"trustee-id",
				"application-credential-id",
				"application-credential-name",
			),
		),
		secret(externalOnly("Global", "trustee-password", "application-credential-secret")),
		externalOnly(
			"Global",
			"os-endpoint-type",
			"cert-file",
			"key-file",
			"use-clouds",
			"clouds-file",
			"cloud",
			"tls-insecure",
		),
		both(
			"LoadBalancer",
			"lb-version",
			"use-octavia",
			"subnet-id",
			"floating-network-id",
			"lb-method",
			"lb-provider",
			"create-monitor",
			"monitor-delay",
			"monitor-timeout",
			"monitor-max-retries",
			"manage-security-groups",
		),
		externalOnly(
			"LoadBalancer",
			"enabled",
			"network-id",
			"member-subnet-id",
			"floating-subnet-id",
			"floating-subnet",
			"floating-subnet-tags",
			"internal-lb",
			"node-selector",
			"cascade-delete",
			"flavor-id",
			"availability-zone",
			"enable-ingress-hostname",
			"ingress-hostname-suffix",
			"max-shared-lb",
			"default-tls-container-ref",
			"container-store",
			"monitor-max-retries-down",
			"provider-requires-serial-api-calls",
		),
		externalOnly("LoadBalancer", "former-cluster-name", "share-across-namespaces"), // of our provider alone
		externalOnly(
			"LoadBalancerClass",
			"floating-network-id",
			"floating-subnet-id",
			"floating-subnet",
			"floating-subnet-tags",
			"network-id",
			"subnet-id",
			"member-subnet-id",
		),
		inTreeOnly(
			"BlockStorage",
			onlyVolumes,
			"bs-version",
			"trust-device-path",
			"ignore-volume-az",
			"node-volume-attach-limit",
		),
		both("Route", "router-id"),
		both("Metadata", "search-order", "request-timeout"),
		externalOnly(
			"Networking",
			"ipv6-support-disabled",
			"public-network-name",
			"internal-network-name",
			"address-sort-order",
		),
	),
	"vsphere": vsphereKeys,
}

var vsphereKeys = slices.Concat(
	quiet(both("Global", "user")),
	secret(both("Global", "password")),
	both(
		"Global",
		"server",
		"port",
		"insecure-flag",
		"ca-file",
		"thumbprint",
		"datacenters",
		"soap-roundtrip-count",
		"secret-name",
		"secret-namespace",
	),
	[]ConfigKey{{Section: "Global", Key: "datacenter", InTree: true, Decides: true, Renamed: "Global.datacenters"}},
	inTreeOnly("Global", onlyVolumes, "datastore", "working-dir"),
	inTreeOnly("Global", fromTheGuest, "vm-uuid", "vm-name"),
	inTreeOnly("Global", "the external provider always follows its Secret", "secret-not-managed"),
	externalOnly("Global", "secrets-directory", "api-disable", "api-binding", "ip-family"),
	quiet(both("VirtualCenter", "user")),
	secret(both("VirtualCenter", "password")),
	both("VirtualCenter", "port", "datacenters", "soap-roundtrip-count", "thumbprint"),
	externalOnly("VirtualCenter", "server", "insecure-flag", "ca-file", "secret-name", "secret-namespace", "ip-family"),
	[]ConfigKey{
		{Section: "Network", Key: "public-network", InTree: true, Decides: true, Renamed: "Nodes.internal-vm-network-name"},
	},
	inTreeOnly("Disk", onlyVolumes, "scsicontrollertype"),
	inTreeOnly("Workspace", onlyVolumes, "server", "datacenter", "folder", "default-datastore", "resourcepool-path"),
	both("Labels", "zone", "region"),
	externalOnly(
		"Nodes",
		"internal-network-subnet-cidr",
		"external-network-subnet-cidr",
		"internal-vm-network-name",
		"external-vm-network-name",
		"exclude-internal-network-subnet-cidr",
		"exclude-external-network-subnet-cidr",
	),
)
