package volume

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

var volumesLeftBehind = rule.Check{
	Code:      "VOL-001",
	Reason:    "VolumesLeftBehind",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactVolumes,
	LookFor:   "nodes where MIGRATED does not list the plugin that the finding names",
	DependsOn: rule.OnVolumes,
	Judge:     judgeLeftBehind,
}

// showMigrated shows for each Node which plugins its kubelet leaves to CSI drivers.
const showMigrated = "kubectl get csinodes -o custom-columns='NODE:.metadata.name,MIGRATED:.metadata.annotations.storage\\.alpha\\.kubernetes\\.io/migrated-plugins'"

func judgeLeftBehind(f facts.Facts) v1.Finding {
	vols, finding, ok := allStorage(f)
	if !ok {
		return finding
	}
	uses := facts.Uses(f, vols)
	if len(vols.PersistentVolumes)+len(vols.StorageClasses)+len(uses) == 0 {
		return findings.Pass("there is no volume and no class of a cloud")
	}
	if len(uses) == 0 {
		return findings.Pass(
			"none of %s and %s is of an in-tree cloud plugin",
			findings.Plural(len(vols.PersistentVolumes), "volume"),
			findings.Plural(len(vols.StorageClasses), "class"),
		)
	}
	kcms := f.InstancesOf(component.KCM)
	if len(kcms) == 0 {
		return findings.Unknown("no %s is known, so who attaches %s is not", component.KCM, describeUses(uses))
	}
	var failing, warning findings.Problems
	var unclear []string
	migrated := migratedNodes(vols)
	for _, u := range uses {
		for _, p := range kcms {
			judgeAttacher(f, p, u, notMigrated(f, u, migrated), &failing, &warning, &unclear)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	switch {
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Finding(outcome, "in-tree volumes cannot be attached or deleted: %s", failing[0].Text),
			"CSI migration, or --external-cloud-volume-plugin with --cloud-config",
			"flags of "+component.KCM,
			showMigrated,
		)
	case len(unclear) > 0:
		return findings.Unknown("%s", strings.Join(unclear, "; "))
	case bad:
		return findings.With(
			all.Finding(
				outcome,
				"%s would not be attached any more without --external-cloud-volume-plugin=%s",
				describeUses(uses),
				uses[0].Provider.Name,
			),
			"CSI migration everywhere before the plugin leaves Kubernetes",
			"flags of "+component.KCM,
			showMigrated,
		)
	}
	return findings.Pass(
		"%s and every kubelet leave %s to CSI drivers",
		findings.Plural(len(kcms), component.KCM),
		describeUses(uses),
	)
}

func describeUses(uses []facts.VolumeUse) string {
	parts := make([]string, 0, len(uses))
	for _, u := range uses {
		parts = append(parts, u.String())
	}
	return strings.Join(parts, ", ")
}

// notMigrated are the nodes that do not leave the plugin to CSI and have volumes of it in use.
func notMigrated(f facts.Facts, u facts.VolumeUse, migrated map[string]map[string]bool) []string {
	var out []string
	for _, n := range f.Nodes {
		if !migrated[n.Name][u.Name] && MountsOf(n)[u.Name] > 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

func judgeAttacher(
	f facts.Facts,
	p facts.Instance,
	u facts.VolumeUse,
	inTreeNodes []string,
	failing, warning *findings.Problems,
	unclear *[]string,
) {
	leaves, known := leaves(f, p, u.VolumePlugin)
	keeps := p.Flag("external-cloud-volume-plugin", "") == u.Provider.Name
	switch {
	case !known:
		*unclear = append(*unclear, p.Unversioned()+"; nor is whether it leaves "+u.Name+" to CSI")
	case p.External() && !keeps && !leaves:
		failing.Add(
			p.String(),
			"%s is external, has %s off and no --external-cloud-volume-plugin=%s",
			p,
			u.MigrationGate,
			u.Provider.Name,
		)
	case p.External() && !keeps && len(inTreeNodes) > 0:
		failing.Add(
			p.String(),
			"%s is external and cannot detach the volumes of %s on %s",
			p,
			u.Name,
			findings.Few(inTreeNodes),
		)
	case !p.External() && !leaves:
		warning.Add(p.String(), "%s has %s off", p, u.MigrationGate)
	case !p.External() && len(inTreeNodes) > 0:
		warning.Add(p.String(), "%s attaches volumes of %s for %s", p, u.Name, findings.Few(inTreeNodes))
	}
}

var migrationOrder = rule.Check{
	Code:      "VOL-002",
	Reason:    "MigrationGatesOrder",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "nodes whose list has the plugin that the finding names, while a manager still attaches its volumes",
	DependsOn: rule.OnVolumes,
	Judge:     judgeMigrationOrder,
}

func judgeMigrationOrder(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "csinodes", "persistentvolumes", "storageclasses")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	var failing, warning findings.Problems
	var unclear, passed []string
	migrated := migratedNodes(vols)
	uses := facts.Uses(f, vols)
	for _, u := range uses {
		state, unknowns := judgeOrder(f, u, migrated, &failing, &warning)
		passed, unclear = append(passed, state), append(unclear, unknowns...)
	}
	all, outcome, bad := findings.Worst(failing, warning)
	switch {
	case len(uses) == 0:
		return findings.Pass("no volume of an in-tree cloud plugin is in use")
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Finding(outcome, "%s: pods there would wait for volumes that no controller attaches", failing[0].Text),
			"on in every "+component.KCM+" and "+component.Scheduler+" before any kubelet",
			"--feature-gates, CSINode annotations",
			"kubectl get csinodes -o yaml | grep -B2 migrated-plugins",
		)
	case len(unclear) > 0:
		return findings.Unknown("%s", strings.Join(unclear, "; "))
	case bad:
		return findings.With(
			all.Finding(outcome, "a scheduler counts the attach limits of in-tree plugins: %s", warning[0].Text),
			"the same in "+component.KCM+" and "+component.Scheduler,
			"--feature-gates",
			"transplant plan --out plan.yaml",
		)
	}
	return findings.Pass("%s", strings.Join(passed, "; "))
}

// judgeOrder judges who leaves a plugin to CSI before whom, and returns how many do.
func judgeOrder(
	f facts.Facts,
	u facts.VolumeUse,
	migrated map[string]map[string]bool,
	failing, warning *findings.Problems,
) (state string, unclear []string) {
	on, off, unclear := whoLeaves(f, u.VolumePlugin, component.KCM)
	schedulersOn, schedulersOff, _ := whoLeaves(f, u.VolumePlugin, component.Scheduler)
	var nodes []string
	for _, n := range f.Nodes {
		if migrated[n.Name][u.Name] {
			nodes = append(nodes, n.Name)
		}
	}
	for _, p := range off {
		switch {
		case len(nodes) > 0:
			failing.Add(
				p.String(),
				"%s is off in %s and on in the %s %s",
				u.MigrationGate,
				p,
				findings.HowMany(len(nodes), "kubelet of", "kubelets of"),
				findings.Few(nodes),
			)
		case len(on) > 0:
			failing.Add(p.String(), "%s is off in %s and on in %s", u.MigrationGate, p, on[0])
		}
	}
	for _, p := range schedulersOff {
		if len(off) == 0 && len(on) > 0 && len(nodes) > 0 {
			warning.Add(p.String(), "%s is off in %s and on in %s", u.MigrationGate, p, on[0])
		}
	}
	return fmt.Sprintf(
		"%s is on in %d of %s, %d of %s and %d of %s",
		u.MigrationGate,
		len(on),
		findings.Plural(len(on)+len(off), component.KCM),
		len(schedulersOn),
		findings.Plural(
			len(schedulersOn)+len(schedulersOff),
			component.Scheduler,
		),
		len(nodes),
		findings.Plural(len(f.Nodes), component.Kubelet),
	), unclear
}

// whoLeaves returns which components of a name leave a plugin to CSI and which do not, and of which it is not known.
func whoLeaves(
	f facts.Facts,
	plugin cloudprovider.VolumePlugin,
	name string,
) (on, off []facts.Instance, unclear []string) {
	for _, p := range f.InstancesOf(name) {
		switch leaves, known := leaves(f, p, plugin); {
		case !known:
			unclear = append(unclear, p.Unversioned())
		case leaves:
			on = append(on, p)
		default:
			off = append(off, p)
		}
	}
	return on, off, unclear
}

var unregisteredTooEarly = rule.Check{
	Code:      "VOL-004",
	Reason:    "UnregisteredTooEarly",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "nodes whose list lacks the plugin that the finding names",
	DependsOn: rule.OnVolumes,
	Judge:     judgeUnregistered,
}

func judgeUnregistered(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "csinodes")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	if _, missing := f.Missing(facts.KubeletFacts...); missing {
		return findings.Dependent("KUBELET-001")
	}
	var bad findings.Problems
	n := 0
	migrated := migratedNodes(vols)
	for _, provider := range cloudprovider.Providers() {
		for _, plugin := range provider.Plugins {
			by := unregisteredBy(f, plugin)
			if len(by) == 0 {
				continue
			}
			n++
			if left := behind(f, plugin, migrated); len(left) > 0 {
				for _, who := range by {
					bad.Add(
						who,
						"%s has %s on while %s still %s the plugin %s",
						who,
						plugin.UnregisterGate,
						findings.Few(left),
						english.Word(len(left), "needs", "need"),
						plugin.Name,
					)
				}
			}
		}
	}
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(
				v1.Fail,
				"%s an in-tree volume plugin that is still needed",
				findings.Counting(len(bad), "component", "drops", "drop"),
			),
			"InTreePlugin…Unregister only after the last kubelet migrates",
			"--feature-gates",
			"kubectl get csinodes -o yaml | grep -B2 migrated-plugins",
		)
	case n == 0:
		return findings.Pass("no component unregisters an in-tree volume plugin")
	}
	return findings.Pass(
		"%s unregistered, and nothing uses %s any more",
		findings.Plural(n, "plugin"),
		findings.HowMany(n, "it", "of them"),
	)
}

// unregisteredBy are the components and kubelets that have a plugin's Unregister gate set to true.
func unregisteredBy(f facts.Facts, plugin cloudprovider.VolumePlugin) []string {
	var out []string
	for _, name := range []string{component.KAS, component.KCM, component.Scheduler} {
		for _, p := range f.InstancesOf(name) {
			if set := setGates(p); set[plugin.UnregisterGate] || set[plugin.CompleteGate] {
				out = append(out, p.String())
			}
		}
	}
	for _, k := range f.Kubelets() {
		if set := k.Gates(); set[plugin.UnregisterGate] || set[plugin.CompleteGate] {
			out = append(out, k.String())
		}
	}
	return out
}

// behind are the components and nodes that do not leave a plugin to CSI, or have volumes of it mounted.
func behind(f facts.Facts, plugin cloudprovider.VolumePlugin, migrated map[string]map[string]bool) []string {
	var out []string
	for _, name := range []string{component.KCM, component.Scheduler} {
		_, off, _ := whoLeaves(f, plugin, name)
		for _, p := range off {
			out = append(out, p.String())
		}
	}
	for _, n := range f.Nodes {
		if !migrated[n.Name][plugin.Name] || MountsOf(n)[plugin.Name] > 0 {
			out = append(out, "node "+n.Name)
		}
	}
	return out
}
