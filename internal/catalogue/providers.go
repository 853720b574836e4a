package catalogue

import "slices"

// Provider is a cloud provider that was in tree once.
type Provider struct {
	// Name is the value of --cloud-provider.
	Name string
	// Title is how people call it.
	Title string
	// LastInTree is the last minor whose kube-controller-manager has it.
	LastInTree int
	// Unsupported says why a cluster on it cannot be migrated with this tool; empty when it can.
	Unsupported string
	// Routes and LoadBalancers tell which loops beside the node lifecycle loop the in-tree provider has.
	Routes, LoadBalancers bool
	// Plugins are its in-tree volume plugins.
	Plugins []VolumePlugin
	// Credentials is its image credential provider; nil when the in-tree kubelet had none.
	Credentials *CredentialProvider
}

// VolumePlugin is an in-tree volume plugin and what takes its place.
type VolumePlugin struct {
	// Name is the plugin, e.g. kubernetes.io/aws-ebs; Driver the CSI driver, e.g. ebs.csi.aws.com.
	Name, Driver string
	// MigrationGate and UnregisterGate are the feature gates of KEP-625.
	MigrationGate, UnregisterGate string
}

// CredentialProvider is the kubelet's way to the provider's registry when the in-tree one is gone (KEP-2133).
type CredentialProvider struct {
	// Binary is the base name of the plugin, which is its name in the config.
	Binary string
	// MatchImages are the patterns of images it has credentials for.
	MatchImages []string
	// Args are its arguments in the config.
	Args []string
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
