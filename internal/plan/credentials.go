package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// Flags by which a kubelet finds image credential providers.
const (
	flagCredentialConfig = "image-credential-provider-config"
	flagCredentialDir    = "image-credential-provider-bin-dir"
)

// wantsCredentials tells that a plan puts an image credential provider on a host: the options give a binary, and the kubelet names none.
func (b *builder) wantsCredentials(h v1.Host) bool {
	return b.opts.CredentialProvider != "" && b.provider.Credentials != nil && !b.hasCredentials(h)
}

// hasCredentials tells that a kubelet has the provider's already.
func (b *builder) hasCredentials(h v1.Host) bool {
	if h.Kubelet == nil || h.Kubelet.Credentials == nil || b.provider.Credentials == nil {
		return false
	}
	return slices.ContainsFunc(h.Kubelet.Credentials.Providers, func(p v1.CredentialProvider) bool { return p.Name == b.provider.Credentials.Binary })
}

// credentialProviders puts the binary and its config on every host whose kubelet will change, before the first one does: a kubelet without the
// in-tree credentials pulls no private image, and nothing says so until a pod is rescheduled.
func (b *builder) credentialProviders() {
	if b.opts.CredentialProvider == "" {
		return
	}
	if b.provider.Credentials == nil {
		b.refused = append(b.refused, fmt.Errorf("--credential-provider: provider %s never had image credentials in the kubelet; leave it out", b.provider.Name))
		return
	}
	local := b.fact(LocalFact(b.opts.CredentialProvider), b.opts.CredentialProviderSHA256, "")
	for _, h := range b.kubeletHosts() {
		if !b.wantsCredentials(h) {
			continue
		}
		if c := h.Kubelet.Credentials; c != nil {
			b.refused = append(b.refused, fmt.Errorf("the kubelet on host %s has image credential providers already (%s) and not %s: add it to that file by hand, put the binary into %s, and plan again",
				h.Name, c.ConfigPath, b.provider.Credentials.Binary, c.BinDir))
			continue
		}
		config, err := catalogue.CredentialConfig(b.provider.Name, b.kubeletMinor(h))
		if err != nil {
			b.refused = append(b.refused, fmt.Errorf("host %s: %w", h.Name, err))
			continue
		}
		target := CredentialDir + "/" + b.provider.Credentials.Binary
		b.add(v1.Step{
			ID: "copy/" + target + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepCopyFile, Title: "put " + b.provider.Credentials.Binary + " on " + h.Name,
			Why:  "the kubelet asks it for the credentials of the provider's registry when the in-tree ones are gone (KEP-2133)",
			Host: h.Name, Path: target, Source: b.opts.CredentialProvider, Content: b.opts.CredentialProviderSHA256, Mode: "0755",
			Requires: []string{"cluster:uid", local, b.fileFact(h, target)}, Undo: "restore what was there", EstimateSeconds: 2,
			Changes: []v1.Change{{Field: target, After: "SHA-256 " + b.opts.CredentialProviderSHA256}},
		})
		b.writeFile(h, CredentialConfig, b.ownConfig(h, string(config)), "the images that the binary has credentials for, in the newest version that this kubelet reads")
	}
}

// credentialFlags name both to the kubelet.
func (b *builder) credentialFlags(h v1.Host) []v1.Edit {
	if !b.wantsCredentials(h) || h.Kubelet.Credentials != nil {
		return nil
	}
	return []v1.Edit{{Op: "setFlag", Name: flagCredentialConfig, Value: CredentialConfig}, {Op: "setFlag", Name: flagCredentialDir, Value: CredentialDir}}
}

// ownConfig names the cloud config of this kubelet where a provider's binary reads one (Azure): the file that the in-tree credentials were read from.
func (b *builder) ownConfig(h v1.Host, config string) string {
	own := cmp.Or(h.Kubelet.Flags["azure-container-registry-config"], h.Kubelet.Flags[flagCloudConfig])
	if b.provider.Name != providerAzure || own == "" {
		return config
	}
	for _, arg := range b.provider.Credentials.Args {
		config = strings.ReplaceAll(config, arg, own)
	}
	return config
}

// credentialNote says what was not set up.
func (b *builder) credentialNote() string {
	if b.provider.Credentials == nil || b.opts.CredentialProvider != "" {
		return ""
	}
	n := 0
	for _, h := range b.kubeletHosts() {
		if !b.hasCredentials(h) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("not set up: the image credential provider %s on %d hosts; their kubelets pull from %s with the in-tree credentials, which end with Kubernetes 1.%d at the latest: give the binary with --credential-provider",
		b.provider.Credentials.Binary, n, strings.Join(b.provider.Credentials.MatchImages[:1], ""), b.provider.Credentials.LastInTree+1)
}
