package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// onHosts is what every check of manifests depends on.
var onHosts = []string{"HOST-001", "CP-003"}

var manifestsParse = Check{
	Code: "CP-003", Reason: "ManifestUnclear", Category: categoryControlPlane, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true,
	DependsOn: []string{"HOST-001"},
	Title:     "each manifest is a Pod, and each component has one manifest on its host",
	Explain: []string{
		"The kubelet starts a pod for every file in the manifests directory whose name does not begin with a dot. A backup such as " +
			"kube-controller-manager.yaml.bak is a second pod of the same component: it was seen to win over the edited file, so that a change took no effect at all.",
		"A file that is not YAML or not a Pod is no pod: the kubelet kills the component within 20 seconds and says so only in its own log.",
		"Move backups out of the directory. Transplant keeps its own elsewhere.",
		"A component that is a Deployment in kube-system and runs on hosts as well, or is two Deployments, is refused: delete the one that is left over. Deployments in other namespaces are those of other clusters' control planes.",
	},
	judge: judgeManifests,
}

func judgeManifests(f facts) v1.Finding {
	var bad complaints
	fix := ""
	n := 0
	for _, h := range f.Hosts {
		files := map[string][]string{}
		for _, c := range h.Components {
			n++
			files[c.Name] = append(files[c.Name], c.Manifest)
			if c.Error != "" {
				bad.add(h.Name+":"+c.Manifest, "%s on host %s: %s", c.Manifest, h.Name, c.Error)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if len(files[name]) < 2 || name == "" {
				continue
			}
			bad.add(h.Name+":"+name, "%s on host %s has %d manifests: %s", name, h.Name, len(files[name]), strings.Join(files[name], ", "))
			if fix == "" {
				fix = fmt.Sprintf("mv --backup=numbered %s /var/tmp/   # on host %s", likelyCopy(files[name]), h.Name)
			}
		}
	}
	for _, name := range []string{kcm, kas} {
		if places := f.placesOf(name); len(places) > 1 {
			bad.add(name, "%s runs as %s: which of them is the control plane's own is not known", name, strings.Join(places, " and "))
		}
	}
	switch {
	case bad.empty() && n+len(f.Hosted) == 0:
		return unknown("no manifest, unit or Deployment of the control plane was found")
	case bad.empty() && n == 0:
		return pass("the control plane runs as %s, one for each component", plural(len(f.Hosted), "Deployment"))
	case bad.empty():
		return pass("all %s are Pods, one for each component of a host", plural(n, "manifest"))
	}
	return with(bad.finding(v1.Fail, "%s in the manifests directories cannot be relied on", plural(len(bad.lines), "thing")),
		"one Pod for each component of a host", "/etc/kubernetes/manifests on each host", fix)
}

// placesOf are the Deployments that run a component, and the hosts that run it beside them.
func (f facts) placesOf(name string) []string {
	var out []string
	for _, c := range f.Hosted {
		if c.Name == name {
			out = append(out, c.Manifest)
		}
	}
	for _, h := range f.Hosts {
		isBeside := len(out) > 0 && f.Cluster.Seed == "" && slices.ContainsFunc(h.Components, func(c v1.Component) bool { return c.Name == name })
		if isBeside {
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

var inTreeEverywhere = Check{
	Code: "CP-001", Reason: "NotInTree", Category: categoryControlPlane, Level: LevelCritical, Impact: ImpactNoLoops, Mandatory: true, DependsOn: onHosts,
	Title: "kube-controller-manager runs with one in-tree provider on every control-plane host",
	Explain: []string{
		"The migration begins where every kube-controller-manager runs the cloud loops through the same in-tree provider. One without a provider runs none when it leads; " +
			"one with another provider would act on another cloud.",
		"When every kube-controller-manager is external already there is nothing left to move, and the check is skipped.",
	},
	judge: judgeInTree,
}

func judgeInTree(f facts) v1.Finding {
	bad, providers := f.notInTree()
	names := slices.Sorted(maps.Keys(providers))
	if len(names) > 1 {
		bad.add(kcm, "the hosts name different providers: %s", strings.Join(names, ", "))
	}
	const expected, source = "the same in-tree --cloud-provider on every control-plane host", "manifests of " + kcm
	switch {
	case f.stage() == stageExternal:
		return skip("every %s is external already: nothing is left to move", kcm)
	case len(f.all(kcm)) == 0 && bad.empty():
		return unknown("no %s was found: not on a host, and not as a Deployment", kcm)
	case bad.empty() && f.hostedManagers():
		return pass("%s runs as %s with --cloud-provider=%s", kcm, plural(providers[names[0]], "Deployment"), names[0])
	case bad.empty():
		return pass("%s runs on all %s with --cloud-provider=%s", kcm, plural(providers[names[0]], "control-plane host"), names[0])
	case f.opts.InProgress && len(names) == 1:
		return with(bad.finding(v1.Warn, "the unfinished migration has moved some hosts: %s", f.stateSentence()), expected, source, "transplant apply")
	}
	return with(bad.finding(v1.Fail, "%s does not run with one in-tree provider everywhere", kcm), expected, source, "transplant snapshot -o yaml")
}

// notInTree says which hosts run no in-tree manager, and counts the others by their provider.
func (f facts) notInTree() (bad complaints, providers map[string]int) {
	providers = map[string]int{}
	managed := map[string]bool{}
	for _, m := range f.all(kcm) {
		managed[m.host.Name] = true
		provider := m.flag("cloud-provider", "")
		if m.external() {
			bad.add(m.String(), "%s runs with --cloud-provider=%q", m, provider)
			continue
		}
		providers[provider]++
	}
	for _, h := range f.Hosts {
		if h.ControlPlane && !managed[h.Name] && !f.hostedManagers() {
			bad.add(h.Name, "host %s has no %s", h.Name, kcm)
		}
	}
	return bad, providers
}

// hostedManagers tells whether kube-controller-manager runs as a Deployment.
func (f facts) hostedManagers() bool {
	return slices.ContainsFunc(f.all(kcm), func(p placed) bool { return p.runs() == v1.RunsDeployment })
}

var leaderElection = Check{
	Code: "CP-002", Reason: "LeaderElectionOff", Category: categoryControlPlane, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true, DependsOn: onHosts,
	Title: "every manager takes part in leader election",
	Explain: []string{
		"With --leader-elect=false a manager runs its loops at once and for good, whoever else does. Leader migration is then off as well, silently, even with " +
			"--enable-leader-migration: no lease keeps the two managers apart.",
	},
	judge: func(f facts) v1.Finding {
		var bad complaints
		for _, p := range f.managers() {
			if !p.on("leader-elect", true) {
				bad.add(p.String(), "%s has --leader-elect=%s", p, p.Flags["leader-elect"])
			}
		}
		switch {
		case len(f.managers()) == 0:
			return unknown("no manager was found")
		case bad.empty():
			return pass("leader election is on in %s", plural(len(f.managers()), "manager"))
		}
		return with(bad.finding(v1.Fail, "leader election is off in %s", plural(len(bad.lines), "manager")), "--leader-elect=true", bad.objects[0],
			editManifest("/etc/kubernetes/manifests/"+strings.Split(bad.objects[0], "@")[0]+".yaml", "s/--leader-elect=false/--leader-elect=true/")+"   # on each host named")
	},
}

// cloudFlags are the flags of kube-controller-manager that decide what its cloud loops do.
var cloudFlags = []string{
	"allocate-node-cidrs", "cidr-allocator-type", "cloud-config", "cloud-provider", "cluster-cidr", "cluster-name", "concurrent-service-syncs",
	"configure-cloud-routes", "controllers", "enable-leader-migration", "feature-gates", "leader-elect", "leader-elect-lease-duration",
	"leader-elect-resource-name", "leader-elect-resource-namespace", "leader-migration-config", "node-cidr-mask-size", "route-reconciliation-period",
	"use-service-account-credentials",
}

var sameCloudFlags = Check{
	Code: "CP-004", Reason: "CloudFlagsDiffer", Category: categoryControlPlane, Level: LevelError, Impact: ImpactLoadBalancers, DependsOn: onHosts,
	Title: "the flags that decide what the cloud loops do are the same on every host",
	Explain: []string{
		"The cloud-controller-manager is started with the flags of the kube-controller-manager it replaces. If the hosts differ, the loops behave differently after every change " +
			"of leader; another --cluster-name orphans every load balancer, another --cluster-cidr every route.",
		"The contents of the cloud config files are compared too; a difference there is a warning, since hosts may reach the cloud through endpoints of their own.",
	},
	judge: judgeSameFlags,
}

func judgeSameFlags(f facts) v1.Finding {
	var bad complaints
	kcms := f.all(kcm)
	if f.opts.InProgress {
		kcms = f.inTree() // the moved ones differ on purpose
	}
	for _, name := range cloudFlags {
		if values, differ := byValue(kcms, func(p placed) string { return p.flag(name, "(not given)") }); differ {
			bad.add(kcm, "--%s: %s", name, values)
		}
	}
	flagsDiffer := !bad.empty()
	if values, differ := byValue(kcms, configDigest); differ {
		bad.add("cloud config", "the cloud config file differs: %s", values)
	}
	switch {
	case len(f.all(kcm)) == 0:
		return unknown("no %s was found", kcm)
	case bad.empty():
		return pass("the cloud flags of %s agree", plural(len(kcms), kcm))
	}
	outcome := v1.Fail
	if f.opts.InProgress || !flagsDiffer {
		outcome = v1.Warn // hosts may reach the cloud through endpoints of their own
	}
	return with(bad.finding(outcome, "%s of %s %s between the hosts", plural(len(bad.lines), "setting"), kcm, differs(len(bad.lines))), "the same on every host", "manifests of "+kcm,
		"transplant snapshot -o yaml")
}

// configDigest is short: it tells contents apart, it does not prove them equal.
func configDigest(p placed) string {
	if p.host.CloudConfig == nil || p.external() {
		return ""
	}
	return p.host.CloudConfig.SHA256[:min(8, len(p.host.CloudConfig.SHA256))]
}

// byValue groups components by a value and says which hosts have which; differ is false when there is one value. Empty values are left out.
func byValue(in []placed, value func(placed) string) (groups string, differ bool) {
	hosts := map[string][]string{}
	for _, p := range in {
		if v := value(p); v != "" {
			hosts[v] = append(hosts[v], p.host.Name)
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(hosts)) {
		parts = append(parts, fmt.Sprintf("%s on %s", v, strings.Join(hosts[v], ", ")))
	}
	return strings.Join(parts, " and "), len(parts) > 1 // a semicolon would begin another finding
}
