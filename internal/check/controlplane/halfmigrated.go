package controlplane

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var halfMigrated = rule.Check{
	Code:      "CP-007",
	Reason:    "HalfMigrated",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the workload or pod that holds the lease named in the finding",
	OnlyIf:    "the in-tree managers are ready on every host, and no other tool would start the cloud-controller-manager again",
	Warning:   "the cloud-controller-manager stops, and the cloud loops have no owner until an in-tree manager takes its lease",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeHalfMigrated,
}

func judgeHalfMigrated(f facts.Facts) v1.Finding {
	if finding, ok := foreignCCM(f); ok {
		return finding
	}
	switch f.Stage() {
	case facts.StageInTree:
		if n := migratingIn(f.InstancesOf(component.KCM)); n > 0 {
			return findings.Pass("no loop has moved: %s; leader migration is on in %d of them", f.StateSentence(), n)
		}
		return findings.Pass("no migration has begun: %s", f.StateSentence())
	case facts.StageExternal:
		return findings.Pass("the loops have left %s: %s", component.KCM, f.StateSentence())
	case facts.StageUnknown:
		return findings.Unknown("no %s manifest could be read", component.KCM)
	case facts.StageMixed:
	}
	var bad findings.Problems
	for _, p := range f.AllManagers() {
		bad.Add(p.String(), "%s runs with --cloud-provider=%q", p, p.Flag("cloud-provider", ""))
	}
	if f.Opts.InProgress {
		return findings.With(
			bad.Finding(v1.Warn, "a migration is under way: %s", f.StateSentence()),
			"one end of the migration",
			"manifests",
			"transplant apply",
		)
	}
	stage, next := handStage(f)
	return findings.With(
		bad.Finding(v1.Fail, "a migration was begun and there is no journal of it: %s; %s", f.StateSentence(), stage),
		"every "+component.KCM+" in-tree and no "+component.CCM+", or the other way round",
		"manifests, ConfigMap kube-system/transplant-journal",
		next,
	)
}

// handStage says where a migration that was begun by hand stands, and the command that leads back to its beginning.
func handStage(f facts.Facts) (stage, next string) {
	var external []facts.Instance
	for _, p := range f.InstancesOf(component.KCM) {
		if p.External() {
			external = append(external, p)
		}
	}
	in, ccms := f.InTree(), f.InstancesOf(component.CCM)
	back := giveBack(f, external)
	switch {
	case len(in) == 0:
		return "all managers are external and nothing runs the cloud loops: give the managers their provider back, or start a cloud-controller-manager now", back
	case len(external) == 0 && migratingIn(in) == len(in) && migratingIn(ccms) == len(ccms):
		return "both managers contend for the migration lease, which is the middle of KEP-2436: remove the cloud-controller-manager to start again", facts.Remove(
			ccms,
		)
	case len(external) == 0:
		return "a cloud-controller-manager was started next to in-tree managers that do not all respect the migration lease: remove it", facts.Remove(
			ccms,
		)
	case len(ccms) == 0:
		return "managers are external on " + facts.Names(
			external,
		) + ", and no cloud loop runs while one of them leads: give them their provider back", back
	}
	return "managers are external on " + facts.Names(
		external,
	) + " next to a cloud-controller-manager: give them their provider back, and then remove the cloud-controller-manager", back
}

// giveBack is the command that restores the provider and the cloud config of the first of these managers. It is for
// every host where the same command does it.
func giveBack(f facts.Facts, external []facts.Instance) string {
	if len(external) == 0 {
		return ""
	}
	p := external[0]
	script, config := providerScript(f, p)
	if p.RunKind() != v1.RunsStaticPod {
		return editCommand(p, script)
	}
	same := slices.DeleteFunc(slices.Clone(external), func(o facts.Instance) bool {
		other, _ := providerScript(f, o)
		return o.Manifest != p.Manifest || o.RunKind() != p.RunKind() || other != script
	})
	fix := facts.EditManifest(p.Manifest, script) + "   # on host " + facts.QuotedNames(same)
	if config != "" && len(p.HostPaths) > 0 && !mountsFile(p, config) {
		fix += "; the pod has to mount " + config + " again, too"
	}
	return fix
}

// editCommand changes the flags of a manager that is no static pod.
func editCommand(p facts.Instance, script string) string {
	if parts := strings.SplitN(p.Manifest, "/", 3); p.RunKind() == v1.RunsDeployment && len(parts) == 3 {
		return fmt.Sprintf(
			"kubectl -n %s get %s %s -o yaml | sed %s | kubectl replace -f -",
			shell.Quote(parts[1]),
			shell.Quote(strings.ToLower(parts[0])),
			shell.Quote(parts[2]),
			shell.InQuotes(script),
		)
	}
	return fmt.Sprintf("systemctl edit --full %s   # on host %s", shell.Quote(p.Unit), shell.Quote(p.Host.Name))
}

// providerScript is what sed does to a manifest. It puts the provider instead of external, and adds a line with the
// cloud config if there is none. config is the path in that line, and empty if none is added.
func providerScript(f facts.Facts, p facts.Instance) (script, config string) {
	script = "s|--cloud-provider=external|--cloud-provider=" + findings.OrElse(plainProvider.FindString(providerBefore(f)), "<provider>") + "|"
	if _, kept := p.Flags["cloud-config"]; !kept {
		config = cloudConfigBefore(f, p)
	}
	if config == "" {
		return script, ""
	}
	return `s|^\( *- .\?\)--cloud-provider=external\(.*\)|&\n\1--cloud-config=` + config + `\2|; ` + script, config
}

// providerBefore is the in-tree provider that the managers name, else one that an API server still does.
func providerBefore(f facts.Facts) string {
	if name := f.Provider(); name != "" {
		return name
	}
	for _, server := range f.InstancesOf(component.KAS) {
		if !server.External() {
			return server.Flag("cloud-provider", "")
		}
	}
	return ""
}

// plainProvider is a provider that means itself to sed, which runs commands when a script says so.
var plainProvider = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// plainPath is a path that means itself to sed and to a shell.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)

// cloudConfigBefore is the --cloud-config that a manager had before it became external, as far as others show it. The
// sources are managers that are still in-tree, else the API server of its host, else those of other hosts, else its
// host's kubelet. It is empty if none shows one.
func cloudConfigBefore(f facts.Facts, p facts.Instance) string {
	if in := f.InTree(); len(in) > 0 {
		return plainPath.FindString(in[0].Flag("cloud-config", ""))
	}
	found := ""
	for _, server := range f.InstancesOf(component.KAS) {
		config := plainPath.FindString(server.Flag("cloud-config", ""))
		if config != "" && (found == "" || server.Host.Name == p.Host.Name) {
			found = config
		}
	}
	if k := p.Host.Kubelet; found == "" && k != nil {
		found = plainPath.FindString(k.Flags["cloud-config"])
	}
	return found
}

// mountsFile reports whether a pod sees a file of its host.
func mountsFile(p facts.Instance, file string) bool {
	for at := range p.HostPaths {
		if file == at || strings.HasPrefix(file, strings.TrimSuffix(at, "/")+"/") {
			return true
		}
	}
	return false
}

// migratingIn counts the components in which leader migration is in effect.
func migratingIn(all []facts.Instance) int {
	n := 0
	for _, p := range all {
		if p.Migrates() {
			n++
		}
	}
	return n
}

// foreignCCM finds a cloud-controller-manager that is not a static pod of these hosts: its main lease is renewed, and
// no manifest names it.
func foreignCCM(f facts.Facts) (v1.Finding, bool) {
	lease, ok := f.Lease(component.CCM)
	if !ok || lease.Holder == "" || facts.Expired(lease, f.Now()) || len(f.InstancesOf(component.CCM)) > 0 {
		return v1.Finding{}, false
	}
	var bad findings.Problems
	bad.Add(
		"Lease/kube-system/"+component.CCM,
		"%s renewed the lease %s at %s",
		lease.Holder,
		component.CCM,
		lease.RenewTime.Format(time.RFC3339),
	)
	return findings.With(
		bad.Finding(v1.Fail, "a %s runs (%s) that is no static pod of these hosts", component.CCM, lease.Holder),
		"no other "+component.CCM,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+component.CCM,
		"kubectl -n kube-system get deployments,daemonsets,pods -o wide",
	), true
}
