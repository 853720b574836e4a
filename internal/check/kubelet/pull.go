package kubelet

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

const gateNoInTreeCredentials = catalogue.DisableKubeletCloudCredentialProviders

var credentialProviderMissing = rule.Check{
	Code:      "PULL-001",
	Reason:    "CredentialProviderMissing",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactImagePulls,
	LookFor:   "the steps that set up the image credential provider, or the effect that says why there are none",
	DependsOn: rule.OnVolumes,
	Judge:     judgeCredentialProviderMissing,
}

func judgeCredentialProviderMissing(f facts.Facts) v1.Finding {
	provider, ok := cloudprovider.Lookup(f.CloudName())
	switch {
	case !ok:
		return findings.Skip("the cloud provider is not known (CP-001)")
	case provider.Credentials == nil:
		return findings.Skip("not for %s: its in-tree kubelet had no image credentials", provider.Name)
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	if _, missing := f.Missing(facts.KubeletFacts...); missing {
		return findings.Dependent("KUBELET-001")
	}
	kubelets := make(map[string]facts.Kubelet, len(f.Hosts))
	for _, k := range f.Kubelets() {
		kubelets[k.Host.NodeName] = k
	}
	var failing, warning findings.Problems
	pulling := 0
	for _, n := range f.Nodes {
		if len(n.Registries) == 0 {
			continue
		}
		pulling++
		k, read := kubelets[n.Name]
		judgePuller(n, k, read, provider.Credentials.LastInTree, &failing, &warning)
	}
	binary := provider.Credentials.Binary
	all, outcome, bad := findings.Worst(failing, warning)
	switch {
	case pulling == 0:
		return findings.Pass(
			"no image on %s comes from a registry that needs the cloud's credentials",
			findings.Plural(len(f.Nodes), "node"),
		)
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Some(
				outcome,
				"%s images of the cloud's registry on new pods",
				findings.HowMany(len(failing), "1 node cannot pull", "nodes cannot pull"),
			),
			binary+" and a CredentialProviderConfig on every node",
			"status.images of the Nodes, the kubelets' flags",
			"transplant plan --out plan.yaml",
		)
	case bad:
		return findings.With(
			all.Some(
				outcome,
				"%s on the built-in image credentials",
				findings.HowMany(len(warning), "1 node may depend", "nodes may depend"),
			),
			binary+" and a CredentialProviderConfig on every node before its kubelet changes",
			"status.images of the Nodes, the kubelets' flags",
			"transplant plan --out plan.yaml",
		)
	}
	return findings.Pass(
		"%s with images of the cloud's registry, and an image credential provider on each",
		findings.Plural(pulling, "node"),
	)
}

// judgePuller judges a node with images of the cloud's registry; last is the last minor whose kubelets have credentials
// of their own.
func judgePuller(n v1.Node, k facts.Kubelet, read bool, last int, failing, warning *findings.Problems) {
	minor, known := facts.VersionMinor(n.KubeletVersion)
	switch {
	case read && (k.Credentials != nil || k.Flags["image-credential-provider-config"] != ""):
	case known && minor > last:
		failing.Add(
			n.Name,
			"%s pulls from %s, and kubelet 1.%d has no built-in credentials",
			n.Name,
			findings.Few(n.Registries),
			minor,
		)
	case read && known && facts.Effective(gateNoInTreeCredentials, k.Gates(), minor):
		failing.Add(
			n.Name,
			"%s pulls from %s, and %s is on in its kubelet",
			n.Name,
			findings.Few(n.Registries),
			gateNoInTreeCredentials,
		)
	case read:
		warning.Add(n.Name, "%s pulls from %s", n.Name, findings.Few(n.Registries))
	default:
		warning.Add(n.Name, "%s pulls from %s, and its kubelet was not read", n.Name, findings.Few(n.Registries))
	}
}

// withCredentials are the kubelets that name image credential providers, and the finding where none does.
func withCredentials(f facts.Facts) ([]facts.Kubelet, v1.Finding, bool) {
	if finding, none := f.NoKubelets(); none {
		return nil, finding, false
	}
	if finding, ok := f.Missing("hosts/*/credential-providers"); ok {
		return nil, finding, false
	}
	out := slices.DeleteFunc(f.Kubelets(), func(k facts.Kubelet) bool { return k.Credentials == nil })
	if len(out) == 0 {
		return nil, findings.Skip("no kubelet names an image credential provider"), false
	}
	return out, v1.Finding{}, true
}

var credentialProviderBroken = rule.Check{
	Code:      "PULL-002",
	Reason:    "CredentialProviderBroken",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "an answer with credentials; an error or no executable says what is missing. It prints a password: do not share it",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		kubelets, finding, ok := withCredentials(f)
		if !ok {
			return finding
		}
		var failing, warning findings.Problems
		asked, n := 0, 0
		for _, k := range kubelets {
			c := k.Credentials
			if c.Error != "" {
				failing.Add(k.String(), "%s: %s", k.Host.Name+":"+c.ConfigPath, c.Error)
			}
			for _, p := range c.Providers {
				n++
				switch {
				case !p.Present:
					failing.Add(k.String(), "%s has no executable %s/%s", k.Host.Name, c.BinDir, p.Name)
				case p.Asked == "":
				case !p.Answered:
					failing.Add(
						k.String(),
						"%s on %s does not answer for %s: %s",
						p.Name,
						k.Host.Name,
						p.Asked,
						findings.OrElse(p.Error, "no credentials of the API version "+p.APIVersion),
					)
				default:
					asked++
				}
			}
			if c.Error == "" && len(c.Providers) == 0 {
				warning.Add(k.String(), "%s names no provider", k.Host.Name+":"+c.ConfigPath)
			}
		}
		all, outcome, bad := findings.Worst(failing, warning)
		if !bad {
			return findings.Pass(
				"%s of %s there, and %d of them answered",
				findings.Plural(n, "image credential provider"),
				findings.Plural(len(kubelets), component.Kubelet)+" "+english.Word(n, "is", "are"),
				asked,
			)
		}
		return findings.With(
			all.Some(outcome, "%s", all[0].Text),
			"a configuration that can be read, and executable binaries that answer",
			"the kubelets' hosts",
			askProvider(kubelets, all[0].Object)+"   # on host "+facts.HostIn(all[0].Object),
		)
	},
}

// askProvider is the command that shows what is wrong with a kubelet's providers. It is the request itself if one was
// asked and did not answer, else a listing of the binaries.
func askProvider(kubelets []facts.Kubelet, name string) string {
	i := slices.IndexFunc(kubelets, func(k facts.Kubelet) bool { return k.String() == name })
	c := kubelets[i].Credentials
	for _, p := range c.Providers {
		if p.Present && p.Asked != "" && !p.Answered {
			request := fmt.Sprintf(`{"apiVersion":%q,"kind":"CredentialProviderRequest","image":%q}`, p.APIVersion, p.Asked)
			return "echo " + shell.Quote(request) + " | " + shell.Quote(c.BinDir+"/"+p.Name)
		}
	}
	return "ls -l " + shell.Quote(findings.OrElse(c.BinDir, c.ConfigPath))
}

var credentialProviderVersion = rule.Check{
	Code:      "PULL-003",
	Reason:    "CredentialProviderVersion",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the apiVersion, which the kubelet's version has to know",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		kubelets, finding, ok := withCredentials(f)
		if !ok {
			return finding
		}
		var failing, warning findings.Problems
		var unclear []string
		for _, k := range kubelets {
			minor, known := k.Minor()
			if !known {
				unclear = append(unclear, k.String())
				continue
			}
			judgeCredentialVersions(k, minor, &failing, &warning)
		}
		all, outcome, bad := findings.Worst(failing, warning)
		switch {
		case !bad && len(unclear) > 0:
			return findings.Unknown("the version of %s is not known", findings.Few(unclear))
		case !bad:
			return findings.Pass(
				"%s the version of its image credential configuration",
				findings.HowMany(len(kubelets), "the kubelet knows", "kubelets know"),
			)
		}
		return findings.With(
			all.Some(outcome, "%s", all[0].Text),
			"a version that the kubelet knows",
			"--image-credential-provider-config",
			"head -3 "+shell.Quote(configOf(kubelets, all[0].Object))+"   # on host "+facts.HostIn(all[0].Object),
		)
	},
}

func configOf(kubelets []facts.Kubelet, name string) string {
	for _, k := range kubelets {
		if k.String() == name {
			return k.Credentials.ConfigPath
		}
	}
	return ""
}

func judgeCredentialVersions(k facts.Kubelet, minor int, failing, warning *findings.Problems) {
	api := catalogue.CredentialConfigAt(minor)
	c := k.Credentials
	switch {
	case c.APIVersion == "":
	case !slices.Contains(api.ConfigVersions, c.APIVersion):
		failing.Add(k.String(), "kubelet 1.%d of %s does not read %s of %s", minor, k.Host.Name, c.ConfigPath, c.APIVersion)
	case strings.HasSuffix(c.APIVersion, "alpha1") && api.ConfigVersions[0] != c.APIVersion:
		warning.Add(
			k.String(),
			"%s:%s is %s, and kubelet 1.%d reads %s",
			k.Host.Name,
			c.ConfigPath,
			c.APIVersion,
			minor,
			api.ConfigVersions[0],
		)
	}
	for _, p := range c.Providers {
		if p.APIVersion != "" && !slices.Contains(api.PluginVersions, p.APIVersion) {
			failing.Add(k.String(), "kubelet 1.%d of %s does not speak %s with %s", minor, k.Host.Name, p.APIVersion, p.Name)
		}
	}
	if !facts.Effective("KubeletCredentialProviders", k.Gates(), minor) {
		failing.Add(
			k.String(),
			"KubeletCredentialProviders is off in kubelet 1.%d of %s, which ignores its configuration",
			minor,
			k.Host.Name,
		)
	}
}

var registryNotMatched = rule.Check{
	Code:      "PULL-004",
	Reason:    "RegistryNotMatched",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactImagePulls,
	LookFor:   "the registries in matchImages, and the one that the finding names",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		kubelets, finding, ok := withCredentials(f)
		if !ok {
			return finding
		}
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		var bad findings.Problems
		n := 0
		for _, k := range kubelets {
			for _, registry := range k.Node.Registries {
				n++
				if !matches(k, registry) && !isAdded(f, k, registry) {
					bad.Add(k.String(), "no provider of %s matches %s", k.Host.Name, registry)
				}
			}
		}
		if bad.Empty() {
			return findings.Pass(
				"%s matched by the image credential providers of %s",
				findings.HowMany(n, "1 registry is", "registries are"),
				findings.Plural(len(kubelets), component.Kubelet),
			)
		}
		return findings.With(
			bad.Some(v1.Fail, "%s: its images would be pulled without credentials", bad[0].Text),
			"a pattern in matchImages for each registry, or the cloud's provider with plan --credential-provider",
			"CredentialProviderConfig, status.images of the Nodes",
			"grep -n -A8 matchImages "+shell.Quote(configOf(kubelets, bad[0].Object))+"   # on host "+facts.HostIn(bad[0].Object),
		)
	},
}

// isAdded reports whether the plan adds a provider to a kubelet that matches a registry. An entry that the kubelet has
// for that provider stays as it is.
func isAdded(f facts.Facts, k facts.Kubelet, registry string) bool {
	cloud, ok := cloudprovider.Lookup(f.CloudName())
	if !f.Opts.CredentialProvider || !ok || cloud.Credentials == nil || k.Provider() != cloud.Name {
		return false
	}
	isOwn := func(p v1.CredentialProvider) bool { return cloud.Credentials.Is(p.Name) }
	return !slices.ContainsFunc(k.Credentials.Providers, isOwn) && cloud.Credentials.CoversRegistry(registry)
}

func matches(k facts.Kubelet, registry string) bool {
	for _, p := range k.Credentials.Providers {
		if cloudprovider.MatchesAnyImage(p.MatchImages, registry) {
			return true
		}
	}
	return false
}
