package catalogue

import "slices"

// Provider is a cloud provider that was in tree once.
type Provider struct {
	// Name is the value of --cloud-provider.
	Name string
	// Title is how people call it.
	Title string
	// LastInTree is the last minor whose kube-controller-manager, kubelet and kube-apiserver have it.
	LastInTree int
	// Unsupported says why a cluster on it cannot be migrated with this tool; empty when it can.
	Unsupported string
	// Routes and LoadBalancers tell which loops beside the node lifecycle loop the in-tree provider has.
	Routes, LoadBalancers bool
	// Allocators are the values of --cidr-allocator-type whose node IPAM asks this cloud.
	Allocators []string
	// Plugins are its in-tree volume plugins.
	Plugins []VolumePlugin
	// Credentials is its image credential provider; nil when the in-tree kubelet had none.
	Credentials *CredentialProvider
	// NodeName says which name the external manager wants a node to have, a clause.
	NodeName string
	// Metadata says what of the in-tree provider asks the machine's metadata service, a clause; empty when nothing does.
	Metadata string
	// NodeManager names the manager that has to run on every node beside the cloud-controller-manager, and what for; empty when none has to.
	NodeManager string
	// BalancerName says how load balancers get their names, a clause.
	BalancerName string
	// ClusterMark says by which tag, label or name objects of the cloud belong to a cluster, a clause.
	ClusterMark string
	// NeedsClusterID tells that the kube-controller-manager refuses to start when the provider finds no cluster, unless --allow-untagged-cloud is set.
	NeedsClusterID bool
	// ConfigFormat of the cloud config, in tree and outside: ini, json or yaml.
	ConfigFormat, ExternalFormat string
	// ConfigOptional reports whether the in-tree and the external manager both run without --cloud-config.
	ConfigOptional bool
	// WithoutConfig says what the managers do without --cloud-config, a clause.
	WithoutConfig string
}

// VolumePlugin is an in-tree volume plugin and what takes its place.
type VolumePlugin struct {
	// Name is the plugin, e.g. kubernetes.io/aws-ebs, which is also the provisioner of its storage classes; Driver the CSI driver, e.g.
	// ebs.csi.aws.com.
	Name, Driver string
	// MigrationGate and UnregisterGate are the feature gates of KEP-625. CompleteGate is the one that 1.20 had in place of the latter (vSphere: 1.21
	// too).
	MigrationGate, UnregisterGate, CompleteGate string
	// LastInTree is the last minor that has the plugin's code; later ones hand everything to the driver.
	LastInTree int
	// LimitResource is the node's attach limit under the in-tree plugin, which a node shows in its allocatable resources; empty when it has none.
	LimitResource string
}

// CredentialProvider is the kubelet's way to the provider's registry when the in-tree one is gone (KEP-2133).
type CredentialProvider struct {
	// Binary is the base name of the plugin, which is its name in the config.
	Binary string
	// MatchImages are the patterns of images it has credentials for.
	MatchImages []string
	// Args are its arguments in the config.
	Args []string
	// LastInTree is the last minor whose kubelet has its own.
	LastInTree int
	// Source is where official binaries come from.
	Source string
}

// Providers are all former in-tree providers, sorted by name.
func Providers() []Provider { return slices.Clone(providers) }

// Lookup returns a provider by the value of --cloud-provider.
func Lookup(name string) (Provider, bool) {
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return providers[i], true
}

// PluginOf returns the in-tree volume plugin of a name, e.g. kubernetes.io/aws-ebs.
func PluginOf(name string) (VolumePlugin, Provider, bool) {
	for _, p := range providers {
		for _, v := range p.Plugins {
			if v.Name == name {
				return v, p, true
			}
		}
	}
	return VolumePlugin{}, Provider{}, false
}
