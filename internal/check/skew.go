package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// withProvider is what checks depend on that judge versions of the in-tree provider.
var withProvider = append(append([]string{"API-001"}, onHosts...), "VER-002")

var inScope = Check{
	Code: "VER-004", Reason: "VersionOutOfScope", Category: categoryVersions, Level: LevelCritical, Impact: ImpactNoLoops, Mandatory: true, DependsOn: onAPI,
	Title: "Transplant knows this version of Kubernetes, and the strategy exists in it",
	Explain: []string{
		fmt.Sprintf("What flags and feature gates mean is known to Transplant from Kubernetes 1.%d on. Older control planes have other defaults for elections and other names for flags; a plan for one would be a guess.", catalogue.Oldest),
		"Leader migration came with 1.21 (KEP-2436, https://github.com/kubernetes/enhancements/issues/2436). With 1.20 only --strategy=downtime is possible, or an upgrade to 1.21 first: every provider that Transplant moves is in tree there too.",
	},
	judge: judgeScope,
}

func judgeScope(f facts) v1.Finding {
	minor, ok := versionMinor(f.Cluster.Version)
	oldest := fmt.Sprintf("1.%d or later", catalogue.Oldest)
	if !ok {
		return with(unknown("version %q of the API server is not one that can be compared", f.Cluster.Version), oldest, "/version", "kubectl version")
	}
	if minor < catalogue.Oldest {
		return with(v1.Finding{
			Outcome: v1.Fail, Summary: fmt.Sprintf("the API server (%s) is older than what Transplant knows", f.Cluster.Version), Objects: []string{kas}, Found: f.Cluster.Version,
		}, oldest, "/version", fmt.Sprintf("kubeadm upgrade plan v1.%d.0", catalogue.Oldest))
	}
	if f.strategy() == strategyLeaderMigration && !f.hasLeaderMigration() {
		return with(v1.Finding{
			Outcome: v1.Fail, Summary: fmt.Sprintf("kube-controller-manager of %s has no leader migration", f.Cluster.Version), Objects: []string{kcm}, Found: f.Cluster.Version,
		}, "a version with --enable-leader-migration, or --strategy=downtime", "/version", "transplant plan --strategy=downtime")
	}
	return pass("Kubernetes %s is within what Transplant knows, 1.%d to 1.%d", f.Cluster.Version, catalogue.Oldest, catalogue.Newest)
}

// strategy is the plan's, leader migration when nothing is said.
func (f facts) strategy() string { return orElse(f.opts.Strategy, strategyLeaderMigration) }

// Gates that switch the in-tree providers off.
const (
	gateDisableProviders   = "DisableCloudProviders"
	gateDisableCredentials = "DisableKubeletCloudCredentialProviders"
)

var providersDisabled = Check{
	Code: "VER-005", Reason: "CloudProvidersDisabled", Category: categoryVersions, Level: LevelCritical, Impact: ImpactNoLoops, Mandatory: true, DependsOn: onHosts,
	Title: "the gates that disable in-tree cloud providers agree with --cloud-provider in every component",
	Explain: []string{
		"DisableCloudProviders is off by default up to 1.28 and on from 1.29 (KEP-2395). With it on, a kube-controller-manager that names an in-tree provider is ready and healthy as a standby, and exits with " +
			"\"built-in cloud providers are disabled\" when it becomes leader: the cluster has no cloud loops from the first change of leader on, see https://github.com/kubernetes/kubernetes/issues/120411.",
		"A kube-apiserver of 1.29 or 1.30 refuses to start unless this gate and DisableKubeletCloudCredentialProviders both agree with its --cloud-provider: false beside an in-tree provider, true beside external. " +
			"So an in-tree cluster upgraded to 1.29 has both switched off in its manifests, and the lines have to go in the same edit that makes the component external.",
		"From 1.31 on both gates are locked on, and no in-tree provider is left.",
	},
	judge: judgeDisabled,
}

func judgeDisabled(f facts) v1.Finding {
	var bad complaints
	var unclear []string
	n := 0
	for _, name := range []string{kcm, kas} {
		for _, p := range f.all(name) {
			minor, ok := f.minorOf(p)
			if !ok {
				unclear = append(unclear, p.unversioned())
				continue
			}
			n++
			for _, complaint := range disabledComplaints(p, minor) {
				bad.add(p.String(), "%s (1.%d) %s", p, minor, complaint)
			}
		}
	}
	const expected = "--feature-gates=DisableCloudProviders=false,DisableKubeletCloudCredentialProviders=false beside an in-tree provider; neither line beside external"
	switch {
	case !bad.empty():
		return with(bad.finding(v1.Fail, "%s", bad.lines[0]), expected, "manifests of "+kas+" and "+kcm, "grep -n feature-gates /etc/kubernetes/manifests/*.yaml   # on each host")
	case len(unclear) > 0:
		return with(unknown("%s", strings.Join(unclear, "; ")), expected, "images in the manifests", "")
	case n == 0:
		return unknown("no manifest of %s or %s could be read", kas, kcm)
	}
	return pass("the gates of %s agree with --cloud-provider", plural(n, "component"))
}

// disabledComplaints says what a component does because of the gates. kube-apiserver looks at them since they are beta (1.29,
// pkg/kubeapiserver/options/cloudprovider.go); kube-controller-manager always did, at one of them and beside an in-tree provider alone.
func disabledComplaints(p placed, minor int) []string {
	provider := p.flag("cloud-provider", "")
	if provider == "" {
		return nil
	}
	var out []string
	for _, gate := range []string{gateDisableProviders, gateDisableCredentials} {
		if !p.minds(gate, minor) {
			continue
		}
		end := "it does not start"
		if p.Name == kcm {
			end = "it exits as soon as it leads"
		}
		switch on := p.gate(gate, minor); {
		case on && provider != "external":
			out = append(out, fmt.Sprintf("names the in-tree provider %s while %s is on (%s): %s", provider, gate, p.givenOrDefault(gate), end))
		case !on && provider == "external":
			out = append(out, fmt.Sprintf("is external while %s is off (%s): %s", gate, p.givenOrDefault(gate), end))
		}
	}
	return out
}

// minds tells whether a component looks at a gate.
func (p placed) minds(gate string, minor int) bool {
	state := catalogue.GateFor(p.Name, gate, minor)
	if p.Name == kcm {
		return state.Known && gate == gateDisableProviders && !p.external()
	}
	return state.Known && state.Stage != "alpha"
}

func (p placed) givenOrDefault(gate string) string {
	if v, given := p.gates()[gate]; given {
		return "given as " + v
	}
	return "by default"
}

var kubeletSkew = Check{
	Code: "VER-006", Reason: "KubeletSkew", Category: categoryVersions, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onAPI,
	Title: "no kubelet is newer than the API server, nor older than the version skew policy allows",
	Explain: []string{
		"A kubelet may be two minor versions older than the API servers, three from 1.28 on, and never newer (https://kubernetes.io/releases/version-skew-policy/). Kubelets outside of that are an upgrade that was left half-way.",
		"It matters more than usual here: a kubelet of a version that has no in-tree provider any more exits when its flags still name one, and what a kubelet does without one (image credentials, CSI migration) depends on its own version, not on the control plane's.",
	},
	judge: judgeKubeletSkew,
}

func judgeKubeletSkew(f facts) v1.Finding {
	server, ok := versionMinor(f.Cluster.Version)
	if !ok {
		return unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	version, _ := f.target()
	later, ok := versionMinor(version)
	if !ok {
		return unknown("target version %q is not one that can be compared", version)
	}
	behind := catalogue.KubeletSkew(later)
	versions := map[string]int{}
	var unclear []string
	bad, finding, ok := f.eachNode(func(n v1.Node) string {
		versions[n.KubeletVersion]++
		switch minor, ok := versionMinor(n.KubeletVersion); {
		case !ok:
			unclear = append(unclear, n.Name)
		case minor > server:
			return fmt.Sprintf("kubelet %s is newer than the API server (%s)", n.KubeletVersion, f.Cluster.Version)
		case minor < later-behind:
			return fmt.Sprintf("kubelet %s is %d minor versions older than the API server (%s)", n.KubeletVersion, later-minor, f.serverName())
		}
		return ""
	})
	expected := fmt.Sprintf("1.%d to 1.%d", later-behind, server)
	switch {
	case !ok:
		return finding
	case !bad.empty():
		return with(bad.some(v1.Fail, "the kubelets of %d of %s are outside the version skew policy", len(bad.objects), plural(len(f.Nodes), "node")), expected, "/api/v1/nodes",
			"kubectl get nodes -o custom-columns=NAME:.metadata.name,KUBELET:.status.nodeInfo.kubeletVersion")
	case len(unclear) > 0:
		return with(unknown("the kubelet version of %s is not known: %s", plural(len(unclear), "node"), few(unclear)), expected, "/api/v1/nodes", "kubectl get nodes")
	}
	return pass("the kubelets of all %s fit API server %s (%s)", plural(len(f.Nodes), "node"), f.serverName(), strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
}
