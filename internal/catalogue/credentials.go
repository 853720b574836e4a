package catalogue

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
)

// CredentialConfig renders the CredentialProviderConfig with which a kubelet of a minor asks a provider's binary for
// its registry's credentials. It uses the newest version that the kubelet reads. It is the file that
// --image-credential-provider-config names; the binary lies in the directory that --image-credential-provider-bin-dir
// names, under Binary. Up to 1.23 the kubelet needs the gate KubeletCredentialProviders with both.
func CredentialConfig(provider string, minor int) ([]byte, error) {
	p, ok := cloudprovider.Lookup(provider)
	if !ok || p.Credentials == nil {
		return nil, fmt.Errorf("rendering the image credential provider's config: provider %q has no registry", provider)
	}
	api := CredentialConfigAt(minor)
	if len(api.ConfigVersions) == 0 {
		return nil, fmt.Errorf(
			"rendering the image credential provider's config: kubelets of 1.%d know none: upgrade them to 1.%d first",
			minor,
			component.Oldest,
		)
	}
	return yaml.Marshal(credentialConfig{
		APIVersion: api.ConfigVersions[0],
		Kind:       "CredentialProviderConfig",
		Providers: []credentialProvider{{
			APIVersion:           api.PluginVersions[0],
			Args:                 p.Credentials.Args,
			DefaultCacheDuration: defaultCacheDuration,
			MatchImages:          p.Credentials.MatchImages,
			Name:                 p.Credentials.Binary,
		}},
	})
}

// defaultCacheDuration holds for answers that name none; those of the three binaries do. The in-tree providers cached
// for 12 h (ECR) and less.
const defaultCacheDuration = "12h"

// credentialConfig has the fields of CredentialProviderConfig that all its versions have.
type credentialConfig struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Providers  []credentialProvider `json:"providers"`
}

type credentialProvider struct {
	APIVersion           string   `json:"apiVersion"`
	Args                 []string `json:"args,omitempty"`
	DefaultCacheDuration string   `json:"defaultCacheDuration"`
	MatchImages          []string `json:"matchImages"`
	Name                 string   `json:"name"`
}

// credentialVersions: k8s.io/kubelet config and pkg/apis/credentialprovider of each minor; no version was removed up to
// 1.36. The newest first.
var credentialVersions = []struct {
	version string
	since   int
}{
	{"v1", 26},
	{"v1beta1", 24},
	{"v1alpha1", 20},
}

// CredentialAPI is what a kubelet of a minor knows about image credential providers.
type CredentialAPI struct {
	// ConfigVersions are the versions of kubelet.config.k8s.io in which it reads a CredentialProviderConfig, the newest
	// first.
	ConfigVersions []string
	// PluginVersions are the versions of credentialprovider.kubelet.k8s.io that it speaks with the binaries, the newest
	// first.
	PluginVersions []string
}

// CredentialConfigAt returns what kubelets of a minor know about image credential providers; nothing before 1.20.
func CredentialConfigAt(minor int) CredentialAPI {
	var c CredentialAPI
	for _, v := range credentialVersions {
		if minor >= v.since {
			c.ConfigVersions = append(c.ConfigVersions, "kubelet.config.k8s.io/"+v.version)
			c.PluginVersions = append(c.PluginVersions, "credentialprovider.kubelet.k8s.io/"+v.version)
		}
	}
	return c
}
