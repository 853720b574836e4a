package kubelet

import (
	"cmp"
	"fmt"
	"path"
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
func hasCredentials(d *draft.Draft, h v1.Host) bool { return ownCredentials(d, h) != nil }

// ownCredentials is the provider's entry in the kubelet's configuration; nil when it has none.
func ownCredentials(d *draft.Draft, h v1.Host) *v1.CredentialProvider {
	if h.Kubelet == nil || h.Kubelet.Credentials == nil || d.Provider.Credentials == nil {
		return nil
	}
	for i, p := range h.Kubelet.Credentials.Providers {
		if d.Provider.Credentials.Is(p.Name) {
			return &h.Kubelet.Credentials.Providers[i]
		}
	}
	return nil
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
	for _, h := range inTreeHosts(d) {
		if own := ownCredentials(d, h); own != nil {
			if err := conflict(d, h, *own); err != nil {
				d.Refusals = append(d.Refusals, err)
			}
			continue
		}
		config, err := catalogue.CredentialConfig(d.Provider.Name, d.KubeletMinor(h))
		if err == nil {
			err = mergeable(d, h)
		}
		binary, found := planstep.ProviderFileFor(d.Options, archOf(d, h))
		if err == nil && !found {
			err = fmt.Errorf(
				"its node is of architecture %q, and there is no image credential provider for it: put it to --credential-provider=%s",
				archOf(d, h), d.Options.CredentialProvider,
			)
		}
		if err != nil {
			d.Refusals = append(d.Refusals, fmt.Errorf("host %s: %w", h.Name, err))
			continue
		}
		dir := layout.CredentialDir
		if c := h.Kubelet.Credentials; c != nil {
			dir = c.BinDir
		}
		target := dir + "/" + d.Provider.Credentials.Binary
		d.Add(v1.Step{
			ID:      "copy/" + target + "@" + h.Name,
			Phase:   planstep.PhasePrepare,
			Kind:    v1.StepCopyFile,
			Title:   "put " + d.Provider.Credentials.Binary + " on " + h.Name,
			Why:     "the kubelet asks it for the credentials of the provider's registry when the in-tree ones are gone (KEP-2133)",
			Host:    h.Name,
			Path:    target,
			Source:  binary.Path,
			Content: binary.SHA256,
			Mode:    "0755",
			Requires: []string{
				"cluster:uid",
				d.AddFact(planstep.LocalFact(binary.Path), binary.SHA256, ""),
				d.AddFileFact(h, target),
			},
			Undo:            "restore what was there",
			EstimateSeconds: 2,
			Changes:         []v1.Change{{Field: target, After: "SHA-256 " + binary.SHA256}},
		})
		text := withCloudConfig(d, h, string(config))
		if h.Kubelet.Credentials != nil {
			mergeConfig(d, h, text)
			continue
		}
		d.WriteFile(
			h,
			layout.CredentialConfig,
			text,
			"the images that the binary has credentials for, in the newest version that this kubelet reads",
		)
	}
}

// archOf is the architecture of a host, as its node shows it; empty where it is not known.
func archOf(d *draft.Draft, h v1.Host) string {
	n := d.FindNode(h.NodeName)
	if n == nil {
		return ""
	}
	return n.Labels[planstep.ArchLabel]
}

// mergeConfig adds the provider to the configuration that the kubelet has, on the host. Arguments and environment
// variables of other providers may be secret, so that no plan holds that file.
func mergeConfig(d *draft.Draft, h v1.Host, text string) {
	c := h.Kubelet.Credentials
	var others []string
	for _, p := range c.Providers {
		others = append(others, p.Name)
	}
	d.Add(v1.Step{
		ID:              "write/" + c.ConfigPath + "@" + h.Name,
		Phase:           planstep.PhasePrepare,
		Kind:            v1.StepWriteFile,
		Title:           "add " + d.Provider.Credentials.Binary + " to " + c.ConfigPath + " on " + h.Name,
		Why:             "the kubelet has image credential providers there already, which stay as they are and come first",
		Host:            h.Name,
		Path:            c.ConfigPath,
		Source:          c.ConfigPath,
		Derive:          layout.DeriveCredentialConfig,
		Content:         text,
		Mode:            layout.CredentialConfigMode,
		Requires:        []string{"cluster:uid", d.AddFileFact(h, c.ConfigPath)},
		Undo:            "restore what was there",
		EstimateSeconds: 0.1,
		Changes: []v1.Change{{
			Field:  c.ConfigPath,
			Before: "providers " + strings.Join(others, ", "),
			After:  "after them " + d.Provider.Credentials.Binary + ", for " + strings.Join(d.Provider.Credentials.MatchImages, ", "),
		}},
	})
}

// mergeable returns why the provider cannot be added to the configuration that a kubelet has. It is nil where the
// kubelet has none.
func mergeable(d *draft.Draft, h v1.Host) error {
	c := h.Kubelet.Credentials
	if c == nil {
		return nil
	}
	read := catalogue.CredentialConfigAt(d.KubeletMinor(h)).ConfigVersions
	switch {
	case c.Error != "" || len(c.Providers) == 0:
		return fmt.Errorf(
			"its kubelet names image credential providers in %s, to which %s cannot be added: %s; repair that file, and plan again",
			cmp.Or(c.ConfigPath, "no file"), d.Provider.Credentials.Binary, cmp.Or(c.Error, "it names none"),
		)
	case !slices.Contains(read, c.APIVersion):
		return fmt.Errorf(
			"%s has apiVersion %s, which its kubelet does not read (%s): repair that file, and plan again",
			c.ConfigPath, c.APIVersion, strings.Join(read, ", "),
		)
	}
	for _, at := range []string{c.ConfigPath, c.BinDir} {
		if !path.IsAbs(at) || path.Clean(at) != at {
			return fmt.Errorf(
				"its kubelet finds image credential providers by %q, which is no absolute path without detours: "+
					"give it one with --%s or --%s, and plan again",
				at, flagvalue.FlagCredentialConfig, flagvalue.FlagCredentialDir,
			)
		}
		if layout.IsGuarded(at) {
			return fmt.Errorf(
				"its kubelet finds image credential providers by %s, where a migration writes nothing: "+
					"give it another directory with --%s or --%s, or add %s there by hand, and plan again",
				at, flagvalue.FlagCredentialConfig, flagvalue.FlagCredentialDir, d.Provider.Credentials.Binary,
			)
		}
	}
	return nil
}

// conflict returns why the provider's entry in the configuration of a kubelet cannot stay as it is. Names are unique,
// so that no second entry helps.
func conflict(d *draft.Draft, h v1.Host, own v1.CredentialProvider) error {
	c := h.Kubelet.Credentials
	var missing []string
	for _, pattern := range d.Provider.Credentials.MatchImages {
		if !slices.Contains(own.MatchImages, pattern) {
			missing = append(missing, pattern)
		}
	}
	switch {
	case !own.Present:
		return fmt.Errorf(
			"host %s: %s names %s already, and its kubelet cannot run it (%s): put the binary into %s by hand, and plan again",
			h.Name, c.ConfigPath, own.Name, cmp.Or(own.Error, "its binary was not found"), c.BinDir,
		)
	case len(missing) == len(d.Provider.Credentials.MatchImages):
		return fmt.Errorf(
			"host %s: %s has another provider with the name %s, which is for %s and for none of %s: "+
				"make matchImages of that entry the ones that are wanted, or rename it and its binary, and plan again",
			h.Name, c.ConfigPath, own.Name, cmp.Or(strings.Join(own.MatchImages, ", "), "no images"), strings.Join(missing, ", "),
		)
	case len(missing) > 0:
		d.Note(fmt.Sprintf(
			"%s on host %s stays as %s has it, which is not for %s: images from there are pulled without credentials",
			own.Name, h.Name, c.ConfigPath, strings.Join(missing, ", "),
		))
	}
	return nil
}

// credentialFlags name both to the kubelet.
func credentialFlags(d *draft.Draft, h v1.Host) []v1.Edit {
	if !wantsCredentials(d, h) || h.Kubelet.Credentials != nil { // it has the flags
		return nil
	}
	return []v1.Edit{
		{Op: v1.EditSetFlag, Name: flagvalue.FlagCredentialConfig, Value: layout.CredentialConfig},
		{Op: v1.EditSetFlag, Name: flagvalue.FlagCredentialDir, Value: layout.CredentialDir},
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
		"not installed: the image credential provider %s on %d hosts; their kubelets pull from %s with in-tree credentials, which Kubernetes 1.%d removes: give the binary with --credential-provider",
		d.Provider.Credentials.Binary,
		n,
		strings.Join(d.Provider.Credentials.MatchImages[:1], ""),
		d.Provider.Credentials.LastInTree+1,
	)
}
