package version

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

// withProvider is what checks depend on that judge versions of the in-tree provider.
var withProvider = append(append([]string{"API-001"}, rule.OnHosts...), "VER-002")

var inScope = rule.Check{
	Code:      "VER-004",
	Reason:    "VersionOutOfScope",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the versions that can be reached from the one of today",
	Mandatory: true,
	DependsOn: rule.OnAPI,
	Judge:     judgeScope,
}

func judgeScope(f facts.Facts) v1.Finding {
	minor, ok := facts.VersionMinor(f.Cluster.Version)
	oldest := fmt.Sprintf("1.%d or later", component.Oldest)
	if !ok {
		return findings.With(
			findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version),
			oldest,
			"/version",
			"kubectl version",
		)
	}
	if minor < component.Oldest {
		return findings.With(v1.Finding{
			Outcome: v1.Fail,
			Summary: fmt.Sprintf("the API server (%s) is older than what Transplant knows", f.Cluster.Version),
			Objects: []string{component.KAS},
			Found:   f.Cluster.Version,
		}, oldest, "/version", fmt.Sprintf("kubeadm upgrade plan v1.%d.0", component.Oldest))
	}
	if f.Strategy() == facts.StrategyLeaderMigration && !f.HasLeaderMigration() {
		return findings.With(v1.Finding{
			Outcome: v1.Fail,
			Summary: fmt.Sprintf("kube-controller-manager of %s has no leader migration", f.Cluster.Version),
			Objects: []string{component.KCM},
			Found:   f.Cluster.Version,
		}, "a version with --enable-leader-migration, or --strategy=downtime", "/version", "transplant plan --strategy=downtime")
	}
	return findings.Pass(
		"Kubernetes %s is one of the versions that Transplant knows, 1.%d to 1.%d",
		f.Cluster.Version,
		component.Oldest,
		component.Newest,
	)
}

var providersDisabled = rule.Check{
	Code:      "VER-005",
	Reason:    "CloudProvidersDisabled",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the feature gate that the finding names, and its value on each host",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeDisabled,
}

func judgeDisabled(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var unclear []string
	n := 0
	for _, name := range []string{component.KCM, component.KAS} {
		for _, p := range f.InstancesOf(name) {
			minor, ok := f.MinorOf(p)
			if !ok {
				unclear = append(unclear, p.Unversioned())
				continue
			}
			n++
			for _, complaint := range disabledComplaints(p, minor) {
				bad.Add(p.String(), "%s (1.%d) %s", p, minor, complaint)
			}
		}
	}
	const expected = "--feature-gates=DisableCloudProviders=false,DisableKubeletCloudCredentialProviders=false with an in-tree provider; neither with external"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "%s", bad[0].Text),
			expected,
			"manifests of "+component.KAS+" and "+component.KCM,
			"grep -n feature-gates /etc/kubernetes/manifests/*.yaml   # on each host",
		)
	case len(unclear) > 0:
		return findings.With(findings.Unknown("%s", strings.Join(unclear, "; ")), expected, "images in the manifests", "")
	case n == 0:
		return findings.Unknown("no manifest of %s or %s could be read", component.KAS, component.KCM)
	}
	return findings.Pass("the gates of %s agree with --cloud-provider", findings.Plural(n, "component"))
}

// disabledComplaints says what a component does because of the gates. kube-apiserver looks at them since they are beta
// (1.29, pkg/kubeapiserver/options/cloudprovider.go); kube-controller-manager always did, at one of them and next to an
// in-tree provider alone.
func disabledComplaints(p facts.Instance, minor int) []string {
	provider := p.Flag("cloud-provider", "")
	if provider == "" {
		return nil
	}
	var out []string
	for _, gate := range []string{catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders} {
		if !readsGate(p, gate, minor) {
			continue
		}
		end := "it does not start"
		if p.Name == component.KCM {
			end = "it exits as soon as it leads"
		}
		switch on := p.Gate(gate, minor); {
		case on && provider != "external":
			out = append(
				out,
				fmt.Sprintf("names the in-tree provider %s while %s is on (%s): %s", provider, gate, p.GivenOrDefault(gate), end),
			)
		case !on && provider == "external":
			out = append(out, fmt.Sprintf("is external while %s is off (%s): %s", gate, p.GivenOrDefault(gate), end))
		}
	}
	return out
}

// readsGate reports whether a component looks at a gate.
func readsGate(p facts.Instance, gate string, minor int) bool {
	state := catalogue.GateFor(p.Name, gate, minor)
	if p.Name == component.KCM {
		return state.Known && gate == catalogue.DisableCloudProviders && !p.External()
	}
	return state.Known && state.Stage != "alpha"
}

var kubeletSkew = rule.Check{
	Code:      "VER-006",
	Reason:    "KubeletSkew",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "a kubelet that is newer than the API server, or too many minor versions older",
	DependsOn: rule.OnAPI,
	Judge:     judgeKubeletSkew,
}

func judgeKubeletSkew(f facts.Facts) v1.Finding {
	server, ok := facts.VersionMinor(f.Cluster.Version)
	if !ok {
		return findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	version, _ := f.Target()
	later, ok := facts.VersionMinor(version)
	if !ok {
		return findings.Unknown("target version %q is not one that can be compared", version)
	}
	behind := catalogue.KubeletSkew(later)
	versions := map[string]int{}
	var unclear []string
	bad, finding, ok := f.EachNode(func(n v1.Node) string {
		versions[n.KubeletVersion]++
		switch minor, ok := facts.VersionMinor(n.KubeletVersion); {
		case !ok:
			unclear = append(unclear, n.Name)
		case minor > server:
			return fmt.Sprintf("kubelet %s is newer than the API server (%s)", n.KubeletVersion, f.Cluster.Version)
		case minor < later-behind:
			return fmt.Sprintf(
				"kubelet %s is %d minor versions older than the API server (%s)",
				n.KubeletVersion,
				later-minor,
				serverName(f),
			)
		}
		return ""
	})
	expected := fmt.Sprintf("1.%d to 1.%d", later-behind, server)
	switch {
	case !ok:
		return finding
	case !bad.Empty():
		return findings.With(
			bad.Some(
				v1.Fail,
				"the kubelets of %d of %s are outside the version skew policy",
				len(bad),
				findings.Plural(len(f.Nodes), "node"),
			),
			expected,
			"/api/v1/nodes",
			"kubectl get nodes -o custom-columns=NAME:.metadata.name,KUBELET:.status.nodeInfo.kubeletVersion",
		)
	case len(unclear) > 0:
		return findings.With(
			findings.Unknown(
				"the kubelet version of %s is not known: %s",
				findings.Plural(len(unclear), "node"),
				findings.Few(unclear),
			),
			expected,
			"/api/v1/nodes",
			"kubectl get nodes",
		)
	}
	return findings.Pass(
		"the kubelets of all %s fit API server %s (%s)",
		findings.Plural(len(f.Nodes), "node"),
		serverName(f),
		strings.Join(slices.Sorted(maps.Keys(versions)), ", "),
	)
}
