package flagvalue

import "strings"

// Flags of the API server that name admission plugins.
const (
	FlagEnablePlugins  = "enable-admission-plugins"
	FlagDisablePlugins = "disable-admission-plugins"
	FlagControllers    = "controllers"
)

// MergeFlags returns the flags of both maps; those of the second one win.
func MergeFlags(flags, more map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{flags, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// HasVariable reports whether a list of environment variables has a name, in any case.
func HasVariable(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// Flags by which a kubelet finds image credential providers.
const (
	FlagCredentialConfig = "image-credential-provider-config"
	FlagCredentialDir    = "image-credential-provider-bin-dir"
)

// PluginPVLabels is the admission plugin that asks an in-tree provider for the labels of volumes; without one it
// refuses volumes or leaves them unlabelled.
const PluginPVLabels = "PersistentVolumeLabel"

// FlagFeatureGates is the flag of feature gates.
const FlagFeatureGates = "feature-gates"

// FlagHostname is the flag that names a kubelet.
const FlagHostname = "hostname-override"

// Flags of the in-tree provider and its volume plugins.
const (
	FlagVolumePlugin = "external-cloud-volume-plugin"
	FlagCloudConfig  = "cloud-config"
)
