package catalogue

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// CredentialConfig renders the CredentialProviderConfig with which a kubelet of a minor asks a provider's binary for its registry's credentials: in
// the newest version that the kubelet reads. It is the file that --image-credential-provider-config names; the binary lies in the directory that
// --image-credential-provider-bin-dir names, under Binary. Up to 1.23 the kubelet needs the gate KubeletCredentialProviders with both.
func CredentialConfig(provider string, minor int) ([]byte, error) {
	p, ok := Lookup(provider)
	if !ok || p.Credentials == nil {
		return nil, fmt.Errorf("rendering the image credential provider's config: provider %q has no registry", provider)
	}
	api := CredentialConfigAt(minor)
	if len(api.ConfigVersions) == 0 {
		return nil, fmt.Errorf("rendering the image credential provider's config: kubelets of 1.%d know none: upgrade them to 1.%d first", minor, Oldest)
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

// defaultCacheDuration holds for answers that name none; those of the three binaries do. The in-tree providers cached for 12 h (ECR) and less.
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
