package check

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

const external = catalogue.External

var onVolumes = append([]string{"API-001"}, onHosts...)

var volumesLeftBehind = Check{
	Code: "VOL-001", Reason: "VolumesLeftBehind", Category: categoryVolumes, Level: LevelCritical, Impact: ImpactVolumes, DependsOn: onVolumes,
	Title: "in-tree volumes have somebody who attaches and deletes them once kube-controller-manager is external",
	Explain: []string{
		"kube-controller-manager attaches, detaches, provisions and deletes the volumes of in-tree plugins with the provider's code. With --cloud-provider=external it has no provider, and every such " +
			"volume fails to attach when its pod moves (\"Failed to get AWS Cloud Provider. GetCloudProvider returned <nil>\"); pods that run already go on, so that the fault shows only later. " +
			"See https://github.com/kubernetes/kubernetes/issues/94234.",
		"Two things prevent that: CSI migration (KEP-625), by which kube-controller-manager leaves the plugin's volumes to a CSI driver, or --external-cloud-volume-plugin=<provider> together with --cloud-config, " +
			"which keeps the provider for volumes alone. The second ends with the version that drops the plugin, and a plan keeps it only until the last kubelet is done.",
		"A volume on a node whose kubelet does not migrate is attached by the in-tree plugin even when kube-controller-manager migrates, so such nodes need the second one too.",
	},
	judge: judgeLeftBehind,
}

func judgeLeftBehind(f facts) v1.Finding {
	vols, finding, ok := f.allStorage()
	if !ok {
		return finding
	}
	uses := f.uses(vols)
	if len(vols.PersistentVolumes)+len(vols.StorageClasses)+len(uses) == 0 {
		return pass("there is no volume and no class of a cloud")
	}
	if len(uses) == 0 {
		return pass("none of %s and %s is of an in-tree cloud plugin", plural(len(vols.PersistentVolumes), "volume"), plural(len(vols.StorageClasses), "class"))
	}
	kcms := f.all(kcm)
	if len(kcms) == 0 {
		return unknown("no %s is known, so who attaches %s is not", kcm, describeUses(uses))
	}
	var failing, warning complaints
	var unclear []string
	migrated := migratedNodes(vols)
	for _, u := range uses {
		for _, p := range kcms {
			f.judgeAttacher(p, u, f.notMigrated(u, migrated), &failing, &warning, &unclear)
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	switch {
	case bad && outcome == v1.Fail:
		return with(all.finding(outcome, "in-tree volumes cannot be attached or deleted: %s", failing.lines[0]), "CSI migration, or --external-cloud-volume-plugin with --cloud-config",
			"flags of "+kcm, "kubectl get csinodes -o custom-columns='NODE:.metadata.name,MIGRATED:.metadata.annotations.storage\\.alpha\\.kubernetes\\.io/migrated-plugins'")
	case len(unclear) > 0:
		return unknown("%s", strings.Join(unclear, "; "))
	case bad:
		return with(all.finding(outcome, "%s would not be attached any more without --external-cloud-volume-plugin=%s", describeUses(uses), uses[0].provider.Name),
			"CSI migration everywhere before the plugin leaves Kubernetes", "flags of "+kcm, "transplant plan --out plan.yaml")
	}
	return pass("%s and every kubelet leave %s to CSI drivers", plural(len(kcms), kcm), describeUses(uses))
}

func describeUses(uses []use) string {
	parts := make([]string, 0, len(uses))
	for _, u := range uses {
		parts = append(parts, u.String())
	}
	return strings.Join(parts, ", ")
}

// notMigrated are the nodes that do not leave the plugin to CSI and have volumes of it in use.
func (f facts) notMigrated(u use, migrated map[string]map[string]bool) []string {
	var out []string
	for _, n := range f.Nodes {
		if !migrated[n.Name][u.Name] && mountsOf(n)[u.Name] > 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

func (f facts) judgeAttacher(p placed, u use, inTreeNodes []string, failing, warning *complaints, unclear *[]string) {
	leaves, known := f.leaves(p, u.VolumePlugin)
	keeps := p.flag("external-cloud-volume-plugin", "") == u.provider.Name
	switch {
	case !known:
		*unclear = append(*unclear, p.unversioned()+"; nor is whether it leaves "+u.Name+" to CSI")
	case p.external() && !keeps && !leaves:
		failing.add(p.String(), "%s is external, has %s off and no --external-cloud-volume-plugin=%s", p, u.MigrationGate, u.provider.Name)
	case p.external() && !keeps && len(inTreeNodes) > 0:
		failing.add(p.String(), "%s is external and cannot detach the volumes of %s on %s", p, u.Name, few(inTreeNodes))
	case !p.external() && !leaves:
		warning.add(p.String(), "%s has %s off", p, u.MigrationGate)
	case !p.external() && len(inTreeNodes) > 0:
		warning.add(p.String(), "%s attaches volumes of %s for %s", p, u.Name, few(inTreeNodes))
	}
}

var migrationOrder = Check{
	Code: "VOL-002", Reason: "MigrationGatesOrder", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: onVolumes,
	Title: "no kubelet leaves volumes to CSI before every kube-controller-manager and scheduler does",
	Explain: []string{
		"CSI migration of a plugin goes on in kube-controller-manager and kube-scheduler first, and in each kubelet, after a drain, last; it goes off in the reverse order (KEP-625, upgrade and downgrade). A kubelet " +
			"that leaves a volume to CSI while kube-controller-manager attaches it in-tree waits for a VolumeAttachment that nobody makes: its pods stay in ContainerCreating.",
		"Managers of different settings change who attaches with every change of leader. A scheduler that is behind counts the in-tree attach limit instead of the driver's.",
		"What is set in flags counts, else the default of the component's version. For kubelets the annotation storage.alpha.kubernetes.io/migrated-plugins of the CSINode counts: it is what attach/detach believes.",
	},
	judge: judgeMigrationOrder,
}

func judgeMigrationOrder(f facts) v1.Finding {
	vols, finding, ok := f.storage("csinodes", "persistentvolumes", "storageclasses")
	if !ok {
		return finding
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	var failing, warning complaints
	var unclear, passed []string
	migrated := migratedNodes(vols)
	uses := f.uses(vols)
	for _, u := range uses {
		state, unknowns := f.judgeOrder(u, migrated, &failing, &warning)
		passed, unclear = append(passed, state), append(unclear, unknowns...)
	}
	all, outcome, bad := worst(&failing, &warning)
	switch {
	case len(uses) == 0:
		return pass("no volume of an in-tree cloud plugin is in use")
	case bad && outcome == v1.Fail:
		return with(all.finding(outcome, "%s: pods there would wait for volumes that nobody attaches", failing.lines[0]), "on in every "+kcm+" and "+scheduler+" before any kubelet",
			"--feature-gates, CSINode annotations", "kubectl get csinodes -o yaml | grep -B2 migrated-plugins")
	case len(unclear) > 0:
		return unknown("%s", strings.Join(unclear, "; "))
	case bad:
		return with(all.finding(outcome, "a scheduler counts the attach limits of in-tree plugins: %s", warning.lines[0]), "the same in "+kcm+" and "+scheduler, "--feature-gates", "transplant plan --out plan.yaml")
	}
	return pass("%s", strings.Join(passed, "; "))
}

// judgeOrder judges who leaves a plugin to CSI before whom, and returns how many do.
func (f facts) judgeOrder(u use, migrated map[string]map[string]bool, failing, warning *complaints) (state string, unclear []string) {
	on, off, unclear := f.whoLeaves(u.VolumePlugin, kcm)
	schedulersOn, schedulersOff, _ := f.whoLeaves(u.VolumePlugin, scheduler)
	var nodes []string
	for _, n := range f.Nodes {
		if migrated[n.Name][u.Name] {
			nodes = append(nodes, n.Name)
		}
	}
	for _, p := range off {
		switch {
		case len(nodes) > 0:
			failing.add(p.String(), "%s is off in %s and on in the %s %s", u.MigrationGate, p, howMany(len(nodes), "kubelet of", "kubelets of"), few(nodes))
		case len(on) > 0:
			failing.add(p.String(), "%s is off in %s and on in %s", u.MigrationGate, p, on[0])
		}
	}
	for _, p := range schedulersOff {
		if len(off) == 0 && len(on) > 0 && len(nodes) > 0 {
			warning.add(p.String(), "%s is off in %s and on in %s", u.MigrationGate, p, on[0])
		}
	}
	return fmt.Sprintf("%s is on in %d of %s, %d of %s and %d of %s", u.MigrationGate, len(on), plural(len(on)+len(off), kcm), len(schedulersOn),
		plural(len(schedulersOn)+len(schedulersOff), scheduler), len(nodes), plural(len(f.Nodes), "kubelet")), unclear
}

// howMany is one of two phrases: the first for one thing, the second with the number before it for any other.
func howMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// whoLeaves tells which components of a name leave a plugin to CSI and which do not, and of which it is not known.
func (f facts) whoLeaves(plugin catalogue.VolumePlugin, name string) (on, off []placed, unclear []string) {
	for _, p := range f.all(name) {
		switch leaves, known := f.leaves(p, plugin); {
		case !known:
			unclear = append(unclear, p.unversioned())
		case leaves:
			on = append(on, p)
		default:
			off = append(off, p)
		}
	}
	return on, off, unclear
}

var unregisteredTooEarly = Check{
	Code: "VOL-004", Reason: "UnregisteredTooEarly", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: onVolumes,
	Title: "no component drops an in-tree volume plugin before everything has left it",
	Explain: []string{
		"The gates InTreePlugin<Name>Unregister (CSIMigration<Name>Complete in 1.20) take the plugin out of a component altogether. They come last in KEP-625: as long as one kubelet, scheduler or kube-controller-manager has the plugin's migration off, or " +
			"one node has a volume mounted in-tree, the component that dropped it can neither attach nor unmount that volume.",
	},
	judge: judgeUnregistered,
}

func judgeUnregistered(f facts) v1.Finding {
	vols, finding, ok := f.storage("csinodes")
	if !ok {
		return finding
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	if _, missing := f.missing(kubeletFacts...); missing {
		return dependent("KUBELET-001")
	}
	var bad complaints
	n := 0
	migrated := migratedNodes(vols)
	for _, provider := range catalogue.Providers() {
		for _, plugin := range provider.Plugins {
			by := f.unregisteredBy(plugin)
			if len(by) == 0 {
				continue
			}
			n++
			if left := f.behind(plugin, migrated); len(left) > 0 {
				for _, who := range by {
					bad.add(who, "%s has %s on while %s still %s the plugin %s", who, plugin.UnregisterGate, few(left), need(len(left)), plugin.Name)
				}
			}
		}
	}
	switch {
	case !bad.empty():
		return with(bad.some(v1.Fail, "%s an in-tree volume plugin that is still needed", drops(len(bad.lines))), "InTreePlugin…Unregister only after the last kubelet migrates", "--feature-gates",
			"kubectl get csinodes -o yaml | grep -B2 migrated-plugins")
	case n == 0:
		return pass("no component unregisters an in-tree volume plugin")
	}
	return pass("%s unregistered, and nothing uses %s any more", plural(n, "plugin"), howMany(n, "it", "of them"))
}

func need(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}

func drops(n int) string {
	if n == 1 {
		return "1 component drops"
	}
	return fmt.Sprintf("%d components drop", n)
}

// unregisteredBy are the components and kubelets that have a plugin's Unregister gate set to true.
func (f facts) unregisteredBy(plugin catalogue.VolumePlugin) []string {
	var out []string
	for _, name := range []string{kas, kcm, scheduler} {
		for _, p := range f.all(name) {
			if set := p.setGates(); set[plugin.UnregisterGate] || set[plugin.CompleteGate] {
				out = append(out, p.String())
			}
		}
	}
	for _, k := range f.kubelets() {
		if set := k.gates(); set[plugin.UnregisterGate] || set[plugin.CompleteGate] {
			out = append(out, k.String())
		}
	}
	return out
}

// behind are the components and nodes that do not leave a plugin to CSI, or have volumes of it mounted.
func (f facts) behind(plugin catalogue.VolumePlugin, migrated map[string]map[string]bool) []string {
	var out []string
	for _, name := range []string{kcm, scheduler} {
		_, off, _ := f.whoLeaves(plugin, name)
		for _, p := range off {
			out = append(out, p.String())
		}
	}
	for _, n := range f.Nodes {
		if !migrated[n.Name][plugin.Name] || mountsOf(n)[plugin.Name] > 0 {
			out = append(out, "node "+n.Name)
		}
	}
	return out
}
