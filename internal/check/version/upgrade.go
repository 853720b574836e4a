package version

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

var upgradeUnderway = rule.Check{
	Code:      "VER-007",
	Reason:    "UpgradeUnderway",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactAPI,
	LookFor:   "components of two versions: the upgrade that has to be finished first",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Retryable: true,
	Judge:     judgeUpgrade,
}

func judgeUpgrade(f facts.Facts) v1.Finding {
	minors, patches, unclear, n := mixedVersions(f)
	if f.Kubeadm != nil && f.Kubeadm.KubernetesVersion != "" &&
		hasDifferentMinors([]string{f.Kubeadm.KubernetesVersion, f.Cluster.Version}) {
		minors.Add(
			"ConfigMap/kube-system/kubeadm-config",
			"kubeadm-config says %s and the API server is %s",
			f.Kubeadm.KubernetesVersion,
			f.Cluster.Version,
		)
	}
	const expected, source, fix = "one version of each component", "images in the manifests, ConfigMap kube-system/kubeadm-config", "kubeadm upgrade plan"
	switch {
	case !minors.Empty() && (f.Opts.ReplaceHosts || f.Opts.InProgress):
		return findings.With(
			minors.Finding(v1.Warn, "the control plane has two minor versions: %s", minors[0].Text),
			expected,
			source,
			"transplant status",
		)
	case !minors.Empty():
		return findings.With(
			minors.Finding(v1.Fail, "an upgrade of the control plane is under way: %s", minors[0].Text),
			expected,
			source,
			fix,
		)
	case len(unclear) > 0:
		return findings.With(findings.Unknown("%s", strings.Join(unclear, "; ")), expected, source, "")
	case !patches.Empty():
		return findings.With(patches.Finding(v1.Warn, "%s", patches[0].Text), expected, source, fix)
	}
	if finding, ok := f.Missing("kubeadm"); ok {
		return finding
	}
	return findings.Pass(
		"no upgrade is under way: %s of the control plane, each kind in one version",
		findings.Plural(n, "component"),
	)
}

// mixedVersions says which components have several minor versions, and which several patch versions of one minor.
func mixedVersions(f facts.Facts) (minors, patches findings.Problems, unclear []string, n int) {
	for _, name := range []string{component.KAS, component.KCM, component.Scheduler} {
		versions := map[string][]string{}
		for _, p := range f.InstancesOf(name) {
			n++
			version, ok := p.ProgramVersion()
			if !ok {
				unclear = append(unclear, p.Unversioned())
				continue
			}
			versions[version] = append(versions[version], p.Host.Name)
		}
		if len(versions) < 2 {
			continue
		}
		to := &patches
		if hasDifferentMinors(slices.Collect(maps.Keys(versions))) {
			to = &minors
		}
		var parts []string
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			parts = append(parts, v+" on "+findings.Few(versions[v]))
		}
		to.Add(name, "%s is %s", name, strings.Join(parts, ", "))
	}
	return minors, patches, unclear, n
}

func hasDifferentMinors(versions []string) bool {
	seen := map[int]bool{}
	for _, v := range versions {
		if m, ok := facts.VersionMinor(v); ok {
			seen[m] = true
		}
	}
	return len(seen) > 1
}

var providerEnds = rule.Check{
	Code:      "VER-010",
	Reason:    "ProviderEnds",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the version that has the in-tree provider for the last time, and what is newer already",
	DependsOn: withProvider,
	Judge:     judgeProviderEnds,
}

func judgeProviderEnds(f facts.Facts) v1.Finding {
	if len(f.InTree()) == 0 {
		return findings.Skip("no in-tree manager is left")
	}
	provider, ok := cloudprovider.Lookup(f.Provider())
	if !ok {
		return findings.Unknown("the managers name no one provider")
	}
	cluster, ok := facts.VersionMinor(f.Cluster.Version)
	if !ok {
		return findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	var bad findings.Problems
	past := func(object, version string) {
		if m, ok := facts.VersionMinor(version); ok && m > provider.LastInTree {
			bad.Add(object, "%s is %s", object, version)
		}
	}
	for _, n := range f.Nodes {
		past(n.Name, n.KubeletVersion)
	}
	if f.Kubeadm != nil {
		past("ConfigMap/kube-system/kubeadm-config", f.Kubeadm.KubernetesVersion)
	}
	expected := fmt.Sprintf("1.%d at most, until the migration is finished", provider.LastInTree)
	const source = "/version, /api/v1/nodes, ConfigMap kube-system/kubeadm-config"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(
				v1.Fail,
				"%s %s past 1.%d, the last version with the in-tree provider %s",
				findings.Plural(len(bad), "thing"),
				english.Word(len(bad), "is", "are"),
				provider.LastInTree,
				provider.Name,
			),
			expected,
			source,
			"kubectl get nodes -o wide",
		)
	case len(f.UnknownReasons("nodes")) > 0:
		finding, _ := f.Missing("nodes")
		return finding
	case cluster == provider.LastInTree:
		return findings.Pass(
			"1.%d is the last version with the in-tree provider %s: migrate before the next upgrade",
			cluster,
			provider.Name,
		)
	}
	return findings.Pass(
		"the in-tree provider %s ends after 1.%d; the cluster (%s) may be upgraded up to it before the migration, and not past it",
		provider.Name,
		provider.LastInTree,
		f.Cluster.Version,
	)
}
