package check

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var halfMigrated = Check{
	Code: "CP-007", Reason: "HalfMigrated", Category: categoryControlPlane, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true, DependsOn: onHosts,
	Title: "the cluster is at one end of a migration, or a journal says how it got between",
	Explain: []string{
		"Some managers are in-tree and some external, or a cloud-controller-manager runs beside in-tree managers. If a migration of Transplant was interrupted, its journal in the " +
			"cluster says so, and apply continues or rollback undoes it. If there is no journal, somebody began by hand, and a plan that assumes a beginning would be wrong.",
		"The finding says which stage the manifests are at and the shortest way to an end: with a cloud-controller-manager beside in-tree managers that is to take it away; with some managers external, to give them their provider back; with all managers external and no cloud-controller-manager nobody runs the " +
			"cloud loops at all, and the provider has to come back at once. From there, transplant plan starts clean.",
		"A cloud-controller-manager that runs as a Deployment or DaemonSet has no manifest on a host. Its lease gives it away: somebody renews it.",
	},
	judge: judgeHalfMigrated,
}

func judgeHalfMigrated(f facts) v1.Finding {
	if finding, ok := f.foreignCCM(); ok {
		return finding
	}
	switch f.stage() {
	case stageInTree:
		if n := migratingIn(f.all(kcm)); n > 0 {
			return pass("no loop has moved: %s; leader migration is on in %d of them", f.stateSentence(), n)
		}
		return pass("no migration has begun: %s", f.stateSentence())
	case stageExternal:
		return pass("the loops have left %s: %s", kcm, f.stateSentence())
	case stageUnknown:
		return unknown("no %s manifest could be read", kcm)
	case stageMixed:
	}
	var bad complaints
	for _, p := range f.managers() {
		bad.add(p.String(), "%s runs with --cloud-provider=%q", p, p.flag("cloud-provider", ""))
	}
	if f.opts.InProgress {
		return with(bad.finding(v1.Warn, "a migration is under way: %s", f.stateSentence()), "one end of the migration", "manifests", "transplant apply")
	}
	stage, next := f.handStage()
	return with(bad.finding(v1.Fail, "a migration was begun and there is no journal of it: %s; %s", f.stateSentence(), stage),
		"every "+kcm+" in-tree and no "+ccm+", or the other way round", "manifests, ConfigMap kube-system/transplant-journal", next)
}

// handStage says where a migration that was begun by hand stands, and the command that leads back to its beginning.
func (f facts) handStage() (stage, next string) {
	var external []placed
	for _, p := range f.all(kcm) {
		if p.external() {
			external = append(external, p)
		}
	}
	in, ccms := f.inTree(), f.all(ccm)
	back := f.giveBack(external)
	switch {
	case len(in) == 0:
		return "all managers are external and nothing runs the cloud loops: give the managers their provider back, or start a cloud-controller-manager now", back
	case len(external) == 0 && migratingIn(in) == len(in) && migratingIn(ccms) == len(ccms):
		return "both managers contend for the migration lease, which is the middle of KEP-2436: take the cloud-controller-manager away to begin anew", remove(ccms)
	case len(external) == 0:
		return "a cloud-controller-manager was started beside in-tree managers that do not all respect the migration lease: take it away", remove(ccms)
	case len(ccms) == 0:
		return "managers are external on " + names(external) + ", and when one of them leads nobody runs the cloud loops: give them their provider back", back
	}
	return "managers are external on " + names(external) + " beside a cloud-controller-manager: give them their provider back, and then take the cloud-controller-manager away", back
}

// giveBack is the command that gives the first of these managers its provider and its cloud config back, on every host where the same command does it.
func (f facts) giveBack(external []placed) string {
	if len(external) == 0 {
		return ""
	}
	p := external[0]
	script, config := f.providerScript(p)
	if p.runs() != v1.RunsStaticPod {
		return editCommand(p, script)
	}
	same := slices.DeleteFunc(slices.Clone(external), func(o placed) bool {
		other, _ := f.providerScript(o)
		return o.Manifest != p.Manifest || o.runs() != p.runs() || other != script
	})
	fix := editManifest(p.Manifest, script) + "   # on host " + names(same)
	if config != "" && len(p.HostPaths) > 0 && !mounted(p, config) {
		fix += "; the pod has to mount " + config + " again, too"
	}
	return fix
}

// editCommand changes the flags of a manager that is no static pod.
func editCommand(p placed, script string) string {
	if parts := strings.SplitN(p.Manifest, "/", 3); p.runs() == v1.RunsDeployment && len(parts) == 3 {
		return fmt.Sprintf("kubectl -n %s get %s %s -o yaml | sed '%s' | kubectl replace -f -", parts[1], strings.ToLower(parts[0]), parts[2], script)
	}
	return fmt.Sprintf("systemctl edit --full %s   # on host %s", p.Unit, p.host.Name)
}

// providerScript is what sed does to a manifest: the provider instead of external, and a line with the cloud config where there is none; config is the
// path in that line, and empty where none is added.
func (f facts) providerScript(p placed) (script, config string) {
	script = "s|--cloud-provider=external|--cloud-provider=" + orElse(f.providerBefore(), "<provider>") + "|"
	if _, kept := p.Flags["cloud-config"]; !kept {
		config = f.cloudConfigBefore(p)
	}
	if config == "" {
		return script, ""
	}
	return `s|^\( *- .\?\)--cloud-provider=external\(.*\)|&\n\1--cloud-config=` + config + `\2|; ` + script, config
}

// providerBefore is the in-tree provider that the managers name, else one that an API server still does.
func (f facts) providerBefore() string {
	if name := f.provider(); name != "" {
		return name
	}
	for _, server := range f.all(kas) {
		if !server.external() {
			return server.flag("cloud-provider", "")
		}
	}
	return ""
}

// plainPath is a path that means itself to sed and to a shell.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)

// cloudConfigBefore is the --cloud-config that a manager had before it became external, as far as others show it: managers that are in-tree still, else
// the API server of its host, else those of other hosts, else its host's kubelet. Empty where nobody shows one.
func (f facts) cloudConfigBefore(p placed) string {
	if in := f.inTree(); len(in) > 0 {
		return plainPath.FindString(in[0].flag("cloud-config", ""))
	}
	found := ""
	for _, server := range f.all(kas) {
		config := plainPath.FindString(server.flag("cloud-config", ""))
		if config != "" && (found == "" || server.host.Name == p.host.Name) {
			found = config
		}
	}
	if k := p.host.Kubelet; found == "" && k != nil {
		found = plainPath.FindString(k.Flags["cloud-config"])
	}
	return found
}

// mounted tells whether a pod sees a file of its host.
func mounted(p placed, file string) bool {
	for at := range p.HostPaths {
		if file == at || strings.HasPrefix(file, strings.TrimSuffix(at, "/")+"/") {
			return true
		}
	}
	return false
}

// migratingIn counts the components in which leader migration is in effect.
func migratingIn(all []placed) int {
	n := 0
	for _, p := range all {
		if p.migrates() {
			n++
		}
	}
	return n
}

// names joins the hosts of components.
func names(all []placed) string {
	var out []string
	for _, p := range all {
		out = append(out, p.host.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// remove is the command that ends a cloud-controller-manager for good.
func remove(ccms []placed) string {
	if len(ccms) == 0 {
		return ""
	}
	p := ccms[0]
	switch p.runs() {
	case v1.RunsDeployment:
		return deleteCommand(p.Manifest)
	case v1.RunsSystemd:
		return fmt.Sprintf("systemctl disable --now %s   # on host %s", p.Unit, names(ccms))
	}
	return fmt.Sprintf("mv --backup=numbered %s /var/tmp/   # on host %s", p.Manifest, names(ccms))
}

// foreignCCM finds a cloud-controller-manager that is not a static pod of these hosts: its main lease is renewed, and no manifest names it.
func (f facts) foreignCCM() (v1.Finding, bool) {
	lease, ok := f.lease(ccm)
	if !ok || lease.Holder == "" || expired(lease, f.now()) || len(f.all(ccm)) > 0 {
		return v1.Finding{}, false
	}
	var bad complaints
	bad.add("Lease/kube-system/"+ccm, "%s renewed the lease %s at %s", lease.Holder, ccm, lease.RenewTime.Format(time.RFC3339))
	return with(bad.finding(v1.Fail, "a %s runs (%s) that is no static pod of these hosts", ccm, lease.Holder), "no other "+ccm,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+ccm, "kubectl -n kube-system get deployments,daemonsets,pods -o wide"), true
}

// editManifest is the command that edits a static pod's manifest. sed makes its new file beside the old one, and the kubelet starts a pod for every file of
// that directory: it works in the directory above. The file of before is kept.
func editManifest(manifest, script string) string {
	aside := path.Join(path.Dir(path.Dir(manifest)), path.Base(manifest)+".new")
	return fmt.Sprintf("cp -p --backup=numbered %[1]s /var/tmp/ && cp -p %[1]s %[2]s && sed -i '%[3]s' %[2]s && mv %[2]s %[1]s", manifest, aside, script)
}
