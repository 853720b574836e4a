package catalogue

// OnlyVolumes tells that a key steers volumes alone: the external provider has none, and the CSI driver reads a config of its own.
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
// Sources: InitializeCloudFromConfig of kubernetes-sigs/cloud-provider-azure (since 1.27) and of k8s.io/legacy-cloud-providers/azure.
func ChangedDefaults(provider string) []ChangedDefault { return changedDefaults[provider] }

var changedDefaults = map[string][]ChangedDefault{
	"azure": {
		{Key: "vmType", InTree: "standard", External: "vmss", Why: "machines of availability sets are looked for in scale sets, and load balancers take their members from there"},
		{Key: "loadBalancerSku", InTree: "basic", External: "standard", Why: "every Service gets another load balancer and another address"},
	},
}

// ReadsEnvironment is the beginning of the environment variables that the in-tree provider takes settings from and the external one does not; empty
// when there are none.
func ReadsEnvironment(provider string) string {
	if provider == "openstack" { // configFromEnv of k8s.io/legacy-cloud-providers/openstack
		return "OS_"
	}
	return ""
}
