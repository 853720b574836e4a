package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var manifestsParse = rule.Check{
	Code:      "CP-003",
	Reason:    "ManifestUnclear",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	OnlyIf:    "the other manifest of that component runs what you want: compare the two with diff first",
	Warning:   "the kubelet stops the pod of the file that is moved; the file stays in /var/tmp",
	Mandatory: true,
	DependsOn: []string{"HOST-001"},
	Judge:     judgeManifests,
}

func judgeManifests(f facts.Facts) v1.Finding {
	var bad findings.Problems
	fix := ""
	n := 0
	for _, h := range f.Hosts {
		files := map[string][]string{}
		for _, c := range h.Components {
			n++
			files[c.Name] = append(files[c.Name], c.Manifest)
			if c.Error != "" {
				bad.Add(h.Name+":"+c.Manifest, "%s on host %s: %s", c.Manifest, h.Name, c.Error)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if len(files[name]) < 2 || name == "" {
				continue
			}
			bad.Add(
				h.Name+":"+name,
				"%s on host %s has %d manifests: %s",
				name,
				h.Name,
				len(files[name]),
				strings.Join(files[name], ", "),
			)
			if fix == "" {
				fix = fmt.Sprintf("mv --backup=numbered %s /var/tmp/   # on host %s", shell.Quote(likelyCopy(files[name])), shell.Quote(h.Name))
			}
		}
	}
	for _, name := range []string{component.KCM, component.KAS} {
		if places := placesOf(f, name); len(places) > 1 {
			bad.Add(
				name,
				"%s runs as %s: which of them is the control plane's own is not known",
				name,
				strings.Join(places, " and "),
			)
		}
	}
	switch {
	case bad.Empty() && n+len(f.Hosted) == 0:
		return findings.Unknown("no manifest, unit or Deployment of the control plane was found")
	case bad.Empty() && n == 0:
		return findings.Pass(
			"the control plane runs as %s, one for each component",
			findings.Plural(len(f.Hosted), "Deployment"),
		)
	case bad.Empty():
		return findings.Pass("all %s are Pods, one for each component of a host", findings.Plural(n, "manifest"))
	}
	return findings.With(
		bad.Finding(v1.Fail, "%s in the manifests directories cannot be relied on", findings.Plural(len(bad), "thing")),
		"one Pod for each component of a host",
		"/etc/kubernetes/manifests on each host",
		fix,
	)
}

// placesOf are the Deployments that run a component, and the hosts that run it next to them.
func placesOf(f facts.Facts, name string) []string {
	var out []string
	for _, c := range f.Hosted {
		if c.Name == name {
			out = append(out, c.Manifest)
		}
	}
	for _, h := range f.Hosts {
		isNextToOther := len(out) > 0 && f.Cluster.Seed == "" &&
			slices.ContainsFunc(h.Components, func(c v1.Component) bool { return c.Name == name })
		if isNextToOther {
			out = append(out, "host "+h.Name)
		}
	}
	return out
}

// likelyCopy is the file that looks least like the one kubeadm writes.
func likelyCopy(files []string) string {
	for _, f := range slices.Backward(files) {
		if !strings.HasSuffix(f, ".yaml") && !strings.HasSuffix(f, ".json") {
			return f
		}
	}
	return slices.MaxFunc(files, func(a, b string) int { return len(a) - len(b) })
}

var inTreeEverywhere = rule.Check{
	Code:      "CP-001",
	Reason:    "NotInTree",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "--cloud-provider, which is the in-tree provider on every host",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeInTree,
}

func judgeInTree(f facts.Facts) v1.Finding {
	bad, providers := notInTree(f)
	names := slices.Sorted(maps.Keys(providers))
	if len(names) > 1 {
		bad.Add(component.KCM, "the hosts name different providers: %s", strings.Join(names, ", "))
	}
	const expected, source = "the same in-tree --cloud-provider on every control-plane host", "manifests of " + component.KCM
	switch {
	case f.Stage() == facts.StageExternal:
		return findings.Skip("every %s is external already: nothing is left to move", component.KCM)
	case len(f.InstancesOf(component.KCM)) == 0 && bad.Empty():
		return findings.Unknown("no %s was found: not on a host, and not as a Deployment", component.KCM)
	case bad.Empty() && hasHostedManagers(f):
		return findings.Pass(
			"%s runs as %s with --cloud-provider=%s",
			component.KCM,
			findings.Plural(providers[names[0]], "Deployment"),
			names[0],
		)
	case bad.Empty():
		return findings.Pass(
			"%s runs on all %s with --cloud-provider=%s",
			component.KCM,
			findings.Plural(providers[names[0]], "control-plane host"),
			names[0],
		)
	case f.Opts.InProgress && len(names) == 1:
		return findings.With(
			bad.Finding(v1.Warn, "the unfinished migration has moved some hosts: %s", f.StateSentence()),
			expected,
			source,
			"transplant apply",
		)
	}
	return findings.With(
		bad.Finding(v1.Fail, "%s does not run with one in-tree provider everywhere", component.KCM),
		expected,
		source,
		"transplant snapshot -o yaml",
	)
}

// notInTree says which hosts run no in-tree manager, and counts the others by their provider.
func notInTree(f facts.Facts) (bad findings.Problems, providers map[string]int) {
	providers = map[string]int{}
	managed := map[string]bool{}
	for _, m := range f.InstancesOf(component.KCM) {
		managed[m.Host.Name] = true
		provider := m.Flag("cloud-provider", "")
		if m.External() {
			bad.Add(m.String(), "%s runs with --cloud-provider=%q", m, provider)
			continue
		}
		providers[provider]++
	}
	for _, h := range f.Hosts {
		if h.ControlPlane && !managed[h.Name] && !hasHostedManagers(f) {
			bad.Add(h.Name, "host %s has no %s", h.Name, component.KCM)
		}
	}
	return bad, providers
}

// hasHostedManagers reports whether kube-controller-manager runs as a Deployment.
func hasHostedManagers(f facts.Facts) bool {
	return slices.ContainsFunc(
		f.InstancesOf(component.KCM),
		func(p facts.Instance) bool { return p.RunKind() == v1.RunsDeployment },
	)
}

var leaderElection = rule.Check{
	Code:      "CP-002",
	Reason:    "LeaderElectionOff",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		for _, p := range f.AllManagers() {
			if !p.On("leader-elect", true) {
				bad.Add(p.String(), "%s has --leader-elect=%s", p, p.Flags["leader-elect"])
			}
		}
		switch {
		case len(f.AllManagers()) == 0:
			return findings.Unknown("no manager was found")
		case bad.Empty():
			return findings.Pass("leader election is on in %s", findings.Plural(len(f.AllManagers()), "manager"))
		}
		return findings.With(
			bad.Finding(v1.Fail, "leader election is off in %s", findings.Plural(len(bad), "manager")),
			"--leader-elect=true",
			bad[0].Object,
			facts.EditManifest(
				"/etc/kubernetes/manifests/"+facts.NameIn(bad[0].Object)+".yaml",
				"s/--leader-elect=false/--leader-elect=true/",
			)+"   # on each host named",
		)
	},
}

// cloudFlags are the flags of kube-controller-manager that decide what its cloud loops do.
var cloudFlags = []string{
	"allocate-node-cidrs",
	"cidr-allocator-type",
	"cloud-config",
	"cloud-provider",
	"cluster-cidr",
	"cluster-name",
	"concurrent-service-syncs",
	"configure-cloud-routes",
	"controllers",
	"enable-leader-migration",
	"feature-gates",
	"leader-elect",
	"leader-elect-lease-duration",
	"leader-elect-resource-name",
	"leader-elect-resource-namespace",
	"leader-migration-config",
	"node-cidr-mask-size",
	"route-reconciliation-period",
	"use-service-account-credentials",
}

var sameCloudFlags = rule.Check{
	Code:      "CP-004",
	Reason:    "CloudFlagsDiffer",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the setting that the finding names, or the cloud config; it has to be the same on each host",
	DependsOn: rule.OnHosts,
	Judge:     judgeSameFlags,
}

func judgeSameFlags(f facts.Facts) v1.Finding {
	var bad findings.Problems
	kcms := f.InstancesOf(component.KCM)
	if f.Opts.InProgress {
		kcms = f.InTree() // the moved ones differ on purpose
	}
	for _, name := range cloudFlags {
		if values, differ := byValue(kcms, func(p facts.Instance) string { return p.Flag(name, "(not given)") }); differ {
			bad.Add(component.KCM, "--%s: %s", name, values)
		}
	}
	flagsDiffer := !bad.Empty()
	if values, differ := byValue(kcms, configDigest); differ {
		bad.Add("cloud config", "cloud configs differ (start of their SHA-256): %s", values)
	}
	switch {
	case len(f.InstancesOf(component.KCM)) == 0:
		return findings.Unknown("no %s was found", component.KCM)
	case bad.Empty():
		return findings.Pass("the cloud flags of %s agree", findings.Plural(len(kcms), component.KCM))
	}
	look := "transplant snapshot -o yaml"
	if !flagsDiffer {
		file := kcms[0].Flag("cloud-config", "/etc/kubernetes/cloud.conf")
		look = "sha256sum " + shell.Quote(file) + "   # on each host that is named"
	}
	outcome := v1.Fail
	if f.Opts.InProgress || !flagsDiffer {
		outcome = v1.Warn // hosts may reach the cloud through endpoints of their own
	}
	return findings.With(
		bad.Finding(
			outcome,
			"%s of %s %s between the hosts",
			findings.Plural(len(bad), "setting"),
			component.KCM,
			english.Word(len(bad), "differs", "differ"),
		),
		"the same on every host",
		"manifests of "+component.KCM,
		look,
	)
}

// configDigest is short: it tells contents apart, it does not prove them equal.
func configDigest(p facts.Instance) string {
	if p.Host.CloudConfig == nil || p.External() {
		return ""
	}
	return p.Host.CloudConfig.SHA256[:min(8, len(p.Host.CloudConfig.SHA256))]
}

// byValue groups components by a value and says which hosts have which; differ is false when there is one value. Empty
// values are left out.
func byValue(in []facts.Instance, value func(facts.Instance) string) (groups string, differ bool) {
	hosts := map[string][]string{}
	for _, p := range in {
		if v := value(p); v != "" {
			hosts[v] = append(hosts[v], p.Host.Name)
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(hosts)) {
		parts = append(parts, fmt.Sprintf("%s on %s", v, strings.Join(hosts[v], ", ")))
	}
	return strings.Join(parts, " and "), len(parts) > 1 // a semicolon would begin another finding
}
