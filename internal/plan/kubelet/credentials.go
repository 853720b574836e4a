package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// wantsCredentials reports whether a plan puts an image credential provider on a host: the options give a binary, and
// the kubelet names none.
func wantsCredentials(d *draft.Draft, h v1.Host) bool {
	return d.Options.CredentialProvider != "" && d.Provider.Credentials != nil && !hasCredentials(d, h)
}

// hasCredentials reports whether a kubelet has the provider's already.
func hasCredentials(d *draft.Draft, h v1.Host) bool {
	if h.Kubelet == nil || h.Kubelet.Credentials == nil || d.Provider.Credentials == nil {
		return false
	}
	return slices.ContainsFunc(
		h.Kubelet.Credentials.Providers,
		func(p v1.CredentialProvider) bool { return p.Name == d.Provider.Credentials.Binary },
	)
}

// InstallCredentialProviders puts the binary and its config on every host whose kubelet will change, before the first
// one does. A kubelet without the in-tree credentials pulls no private image, and nothing says so until a pod is
// rescheduled.
func InstallCredentialProviders(d *draft.Draft) {
	if d.Options.CredentialProvider == "" {
		return
	}
	if d.Provider.Credentials == nil {
		d.Refusals = append(
			d.Refusals,
			fmt.Errorf(
				"--credential-provider: provider %s never had image credentials in the kubelet; leave it out",
				d.Provider.Name,
			),
		)
		return
	}
	local := d.AddFact(planstep.LocalFact(d.Options.CredentialProvider), d.Options.CredentialProviderSHA256, "")
	for _, h := range inTreeHosts(d) {
		if !wantsCredentials(d, h) {
			continue
		}
		if c := h.Kubelet.Credentials; c != nil {
			d.Refusals = append(
				d.Refusals,
				fmt.Errorf(
					"the kubelet on host %s has image credential providers already (%s) and not %s; add it to that file by hand, put the binary into %s, and plan again",
					h.Name,
					c.ConfigPath,
					d.Provider.Credentials.Binary,
					c.BinDir,
				),
			)
			continue
		}
		config, err := catalogue.CredentialConfig(d.Provider.Name, d.KubeletMinor(h))
		if err != nil {
			d.Refusals = append(d.Refusals, fmt.Errorf("host %s: %w", h.Name, err))
			continue
		}
		target := layout.CredentialDir + "/" + d.Provider.Credentials.Binary
		d.Add(v1.Step{
			ID:      "copy/" + target + "@" + h.Name,
			Phase:   planstep.PhasePrepare,
			Kind:    v1.StepCopyFile,
			Title:   "put " + d.Provider.Credentials.Binary + " on " + h.Name,
			Why:     "the kubelet asks it for the credentials of the provider's registry when the in-tree ones are gone (KEP-2133)",
			Host:    h.Name,
			Path:    target,
			Source:  d.Options.CredentialProvider,
			Content: d.Options.CredentialProviderSHA256,
			Mode:    "0755",
			Requires: []string{
				"cluster:uid",
				local,
				d.AddFileFact(h, target),
			},
			Undo:            "restore what was there",
			EstimateSeconds: 2,
			Changes:         []v1.Change{{Field: target, After: "SHA-256 " + d.Options.CredentialProviderSHA256}},
		})
		d.WriteFile(
			h,
			layout.CredentialConfig,
			withCloudConfig(d, h, string(config)),
			"the images that the binary has credentials for, in the newest version that this kubelet reads",
		)
	}
}

// credentialFlags name both to the kubelet.
func credentialFlags(d *draft.Draft, h v1.Host) []v1.Edit {
	if !wantsCredentials(d, h) || h.Kubelet.Credentials != nil {
		return nil
	}
	return []v1.Edit{
		{Op: "setFlag", Name: flagvalue.FlagCredentialConfig, Value: layout.CredentialConfig},
		{Op: "setFlag", Name: flagvalue.FlagCredentialDir, Value: layout.CredentialDir},
	}
}

// withCloudConfig names the cloud config of this kubelet where a provider's binary reads one: the file that the
// in-tree credentials were read from.
func withCloudConfig(d *draft.Draft, h v1.Host, config string) string {
	own := cmp.Or(h.Kubelet.Flags["azure-container-registry-config"], h.Kubelet.Flags[flagvalue.FlagCloudConfig])
	if !d.Provider.Credentials.TakesConfig || own == "" {
		return config
	}
	for _, arg := range d.Provider.Credentials.Args {
		config = strings.ReplaceAll(config, arg, own)
	}
	return config
}

// DescribeCredentials says what was not set up.
func DescribeCredentials(d *draft.Draft) string {
	if d.Provider.Credentials == nil || d.Options.CredentialProvider != "" {
		return ""
	}
	n := 0
	for _, h := range inTreeHosts(d) {
		if !hasCredentials(d, h) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(
		"not set up: the image credential provider %s on %d hosts; their kubelets pull from %s with the in-tree credentials, which end with Kubernetes 1.%d at the latest: give the binary with --credential-provider",
		d.Provider.Credentials.Binary,
		n,
		strings.Join(d.Provider.Credentials.MatchImages[:1], ""),
		d.Provider.Credentials.LastInTree+1,
	)
}
