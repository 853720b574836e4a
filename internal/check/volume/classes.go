package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var deletionLeaks = rule.Check{
	Code:      "VOL-005",
	Reason:    "DeletionLeaks",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactDataLoss,
	LookFor:   "the driver or plugin of the volume, and the annotations that name who deletes its disk",
	DependsOn: rule.OnVolumes,
	Retryable: true,
	Judge:     judgeDeletion,
}

func judgeDeletion(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "persistentvolumes")
	if !ok {
		return finding
	}
	leaves := pluginsLeft(f)
	var failing, warning findings.Problems
	n := 0
	for _, pv := range vols.PersistentVolumes {
		if pv.ReclaimPolicy != "Delete" {
			continue
		}
		n++
		driver := cloudprovider.VolumePlugin{Name: pv.Plugin, Driver: pv.Driver}
		if p, _, ok := cloudprovider.PluginOf(pv.Plugin); ok {
			driver = p
		}
		_, _, foreign := cloudprovider.PluginOf(pv.ProvisionedBy)
		switch {
		case pv.Plugin == "" && foreign && pv.MigratedTo != pv.Driver:
			failing.Add(pv.Name, "%s is a volume of %s and provisioned-by is %s", pv.Name, pv.Driver, pv.ProvisionedBy)
		case leaves[pv.Plugin] && pv.ProvisionedBy != "" && pv.MigratedTo != driver.Driver:
			failing.Add(pv.Name, "%s is not marked as migrated to %s", pv.Name, driver.Driver)
		case pv.Phase == "Failed":
			warning.Add(pv.Name, "the deletion of %s failed", pv.Name)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	if n == 0 {
		return findings.Pass("no volume of a cloud takes its disk with it")
	}
	if !bad {
		return findings.Pass("the disks of all %s with reclaim policy Delete have a controller that deletes them", findings.Plural(n, "volume"))
	}
	const expected, source = "migrated-to or provisioned-by names the CSI driver", "/api/v1/persistentvolumes"
	if outcome == v1.Warn {
		return findings.With(
			all.Some(outcome, "%d of %s could not be deleted", len(all), findings.Plural(n, "volume")),
			expected,
			source,
			"kubectl describe pv "+shell.Quote(all[0].Object),
		)
	}
	return findings.With(
		all.Some(outcome, "%d of %s would leave their disks behind", len(failing), findings.Plural(n, "volume")),
		expected,
		source,
		"kubectl annotate --overwrite pv "+shell.Quote(all[0].Object)+" "+shell.Quote(markOf(vols, all[0].Object)),
	)
}

// markOf is the annotation that gives a volume to its CSI driver.
func markOf(vols *v1.Volumes, name string) string {
	i := slices.IndexFunc(vols.PersistentVolumes, func(pv v1.PersistentVolume) bool { return pv.Name == name })
	pv := vols.PersistentVolumes[i]
	if p, _, ok := cloudprovider.PluginOf(pv.Plugin); ok {
		return "pv.kubernetes.io/migrated-to=" + p.Driver
	}
	return "pv.kubernetes.io/provisioned-by=" + pv.Driver
}

// pluginsLeft are the in-tree plugins that every kube-controller-manager leaves to CSI.
func pluginsLeft(f facts.Facts) map[string]bool {
	out := map[string]bool{}
	for _, provider := range cloudprovider.Providers() {
		for _, plugin := range provider.Plugins {
			on, off, unclear := whoLeaves(f, plugin, component.KCM)
			out[plugin.Name] = len(on) > 0 && len(off) == 0 && len(unclear) == 0
		}
	}
	return out
}

const labelAdmission = "PersistentVolumeLabel"

var zoneUnknown = rule.Check{
	Code:      "VOL-006",
	Reason:    "VolumeZoneUnknown",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the admission plugin, or volumes without a zone",
	DependsOn: rule.OnVolumes,
	Judge:     judgeZones,
}

func judgeZones(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "persistentvolumes")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	var bad findings.Problems
	for _, p := range f.InstancesOf(component.KAS) {
		plugins := p.Flag("enable-admission-plugins", p.Flag("admission-control", ""))
		if slices.Contains(strings.Split(plugins, ","), labelAdmission) {
			bad.Add(p.String(), "%s has the admission plugin %s", p, labelAdmission)
		}
	}
	admissions := len(bad)
	zones := zones(f)
	zonal := 0
	for _, pv := range vols.PersistentVolumes {
		if !isZonalVolume(pv) {
			continue
		}
		zonal++
		if len(pv.Zones) == 0 && len(zones) > 1 {
			bad.Add("PersistentVolume/"+pv.Name, "volume %s has no zone", pv.Name)
		}
	}
	const expected, source = "zones in labels or node affinity, and no admission plugin " + labelAdmission, "/api/v1/persistentvolumes, --enable-admission-plugins"
	switch unlabelled := len(bad) - admissions; {
	case bad.Empty() && zonal == 0:
		return findings.Pass("no volume is bound to a zone, and no API server labels volumes")
	case bad.Empty():
		return findings.Pass(
			"%s of %s in %s, and no API server labels volumes",
			findings.Plural(zonal, "zonal disk"),
			findings.Plural(len(vols.PersistentVolumes), "volume"),
			findings.Plural(len(zones), "zone"),
		)
	case unlabelled > 0:
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s in a cluster of %s (%d of the API servers would have labelled new ones)",
				findings.HowMany(unlabelled, "1 volume has no zone", "volumes have no zone"),
				findings.Plural(
					len(zones),
					"zone",
				),
				admissions,
			),
			expected,
			source,
			"kubectl get pv -L topology.kubernetes.io/zone,failure-domain.beta.kubernetes.io/zone",
		)
	}
	return findings.With(
		bad.Some(
			v1.Warn,
			"volumes made by hand get their zone from %s and would not any more",
			findings.Plural(admissions, component.KAS),
		),
		expected,
		source,
		"grep -n admission-plugins /etc/kubernetes/manifests/kube-apiserver.yaml   # on host "+facts.HostIn(bad[0].Object),
	)
}

func isZonalVolume(pv v1.PersistentVolume) bool {
	driver := pv.Driver
	if p, _, ok := cloudprovider.PluginOf(pv.Plugin); ok {
		driver = p.Driver
	}
	d, ok := csidriver.DriverOf(driver)
	return ok && d.Zonal
}

// zones are the zones of the nodes.
func zones(f facts.Facts) map[string]bool {
	out := map[string]bool{}
	for _, n := range f.Nodes {
		if z := findings.OrElse(
			n.Labels["topology.kubernetes.io/zone"],
			n.Labels["failure-domain.beta.kubernetes.io/zone"],
		); z != "" {
			out[z] = true
		}
	}
	return out
}

var defaultClass = rule.Check{
	Code:      "VOL-007",
	Reason:    "DefaultClass",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactVolumes,
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		vols, finding, ok := storage(f, "storageclasses")
		if !ok {
			return finding
		}
		var bad findings.Problems
		var inTree []string
		for _, c := range vols.StorageClasses {
			if c.Default {
				bad.Add(c.Name, "%s is a default (provisioner %s)", c.Name, c.Provisioner)
			}
			if _, _, ok := cloudprovider.PluginOf(c.Provisioner); ok {
				inTree = append(inTree, c.Name)
			}
		}
		const expected, source = "one class with storageclass.kubernetes.io/is-default-class=true", "/apis/storage.k8s.io/v1/storageclasses"
		switch {
		case len(vols.StorageClasses) == 0:
			return findings.Skip("there is no StorageClass")
		case len(bad) == 0:
			return findings.With(
				v1.Finding{
					Outcome: v1.Warn,
					Summary: fmt.Sprintf(
						"none of %s is the default: claims that name none wait for ever",
						findings.Plural(len(vols.StorageClasses), "class"),
					),
					Found: "no default",
				},
				expected,
				source,
				"kubectl annotate --overwrite storageclass "+shell.Quote(vols.StorageClasses[0].Name)+" storageclass.kubernetes.io/is-default-class=true",
			)
		case len(bad) > 1:
			return findings.With(
				bad.Some(v1.Warn, "%s call themselves the default", findings.Plural(len(bad), "class")),
				expected,
				source,
				"kubectl annotate storageclass "+shell.Quote(bad[0].Object)+" storageclass.kubernetes.io/is-default-class-",
			)
		case len(inTree) > 0:
			return findings.Pass(
				"%s is the only default of %s; %s of an in-tree plugin, which migration translates: %s",
				bad[0].Object,
				findings.Plural(len(vols.StorageClasses), "class"),
				findings.HowMany(len(inTree), "one is", "are"),
				findings.Few(inTree),
			)
		}
		return findings.Pass(
			"%s is the only default of %s",
			bad[0].Object,
			findings.Plural(len(vols.StorageClasses), "class"),
		)
	},
}

var volumesUnsupported = rule.Check{
	Code:      "VOL-008",
	Reason:    "VolumeUnsupported",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the parameter or field of the object that the finding names",
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		vols, finding, ok := storage(f, "persistentvolumes", "storageclasses")
		if !ok {
			return finding
		}
		var failing, warning findings.Problems
		n := 0
		for _, pv := range vols.PersistentVolumes {
			if pv.Plugin == "" {
				continue
			}
			n++
			if why := csidriver.RefusedHandle(pv.Plugin, pv.Handle); why != "" {
				failing.Add("PersistentVolume/"+pv.Name, "%s %s: %s", pv.Name, why, pv.Handle)
			}
		}
		for _, c := range vols.StorageClasses {
			for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
				if p, refused := csidriver.RefusedParameter(c.Provisioner, name, c.Parameters[name]); refused {
					warning.Add("StorageClass/"+c.Name, "class %s has %s=%s: %s", c.Name, name, c.Parameters[name], p.Why)
				}
			}
		}
		const expected, source = "volumes and parameters that CSI migration translates", "/api/v1/persistentvolumes, /apis/storage.k8s.io/v1/storageclasses"
		all, outcome, bad := findings.Worst(failing, warning)
		switch {
		case bad && outcome == v1.Fail:
			return findings.With(
				all.Some(outcome, "the CSI driver does not take %s", findings.Plural(len(failing), "existing volume")),
				expected,
				source,
				"kubectl get "+shell.Quote(strings.ToLower(all[0].Object))+" -o yaml",
			)
		case bad:
			return findings.With(
				all.Some(
					outcome,
					"%s of a StorageClass would have no effect through CSI",
					findings.Plural(len(warning), "parameter"),
				),
				expected,
				source,
				"kubectl get "+shell.Quote(strings.ToLower(all[0].Object))+" -o yaml",
			)
		case n == 0 && len(facts.Uses(f, vols)) == 0:
			return findings.Skip("no in-tree cloud plugin is in use")
		}
		return findings.Pass(
			"the CSI drivers take %s and the parameters of %s",
			findings.HowMany(n, "the in-tree volume", "in-tree volumes"),
			findings.Plural(len(vols.StorageClasses), "class"),
		)
	},
}
