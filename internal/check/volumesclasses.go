package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

var deletionLeaks = Check{
	Code: "VOL-005", Reason: "DeletionLeaks", Category: categoryVolumes, Level: LevelWarning, Impact: ImpactDataLoss, DependsOn: onVolumes, Retryable: true,
	Title: "the disk of every volume that is to be deleted with it has somebody who deletes it",
	Explain: []string{
		"Who deletes a disk is decided by annotations of the PersistentVolume: pv.kubernetes.io/provisioned-by names who made it, and pv.kubernetes.io/migrated-to, which kube-controller-manager sets when migration " +
			"of the plugin is on, names the CSI driver that takes over. A CSI volume whose provisioned-by still names the in-tree plugin belongs to nobody: the PersistentVolume goes, the disk stays and is paid for. " +
			"The OpenStack guide to the external provider has it rewritten on all volumes for that.",
		"Volumes whose deletion has failed already are named too: after the migration another component would have to finish it.",
	},
	judge: judgeDeletion,
}

func judgeDeletion(f facts) v1.Finding {
	vols, finding, ok := f.storage("persistentvolumes")
	if !ok {
		return finding
	}
	leaves := f.pluginsLeft()
	var failing, warning complaints
	n := 0
	for _, pv := range vols.PersistentVolumes {
		if pv.ReclaimPolicy != "Delete" {
			continue
		}
		n++
		driver := catalogue.VolumePlugin{Name: pv.Plugin, Driver: pv.Driver}
		if p, _, ok := catalogue.PluginOf(pv.Plugin); ok {
			driver = p
		}
		_, _, foreign := catalogue.PluginOf(pv.ProvisionedBy)
		switch {
		case pv.Plugin == "" && foreign && pv.MigratedTo != pv.Driver:
			failing.add(pv.Name, "%s is a volume of %s and provisioned-by is %s", pv.Name, pv.Driver, pv.ProvisionedBy)
		case leaves[pv.Plugin] && pv.ProvisionedBy != "" && pv.MigratedTo != driver.Driver:
			failing.add(pv.Name, "%s is not marked as migrated to %s", pv.Name, driver.Driver)
		case pv.Phase == "Failed":
			warning.add(pv.Name, "the deletion of %s failed", pv.Name)
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	if n == 0 {
		return pass("no volume of a cloud takes its disk with it")
	}
	if !bad {
		return pass("all %s that go with their disks have somebody who deletes them", plural(n, "volume"))
	}
	const expected, source = "migrated-to or provisioned-by names the CSI driver", "/api/v1/persistentvolumes"
	if outcome == v1.Warn {
		return with(all.some(outcome, "%d of %s could not be deleted", len(all.lines), plural(n, "volume")), expected, source, "kubectl describe pv "+all.objects[0])
	}
	return with(all.some(outcome, "%d of %s would leave their disks behind", len(failing.lines), plural(n, "volume")), expected, source, "kubectl annotate --overwrite pv "+all.objects[0]+" "+markOf(vols, all.objects[0]))
}

// markOf is the annotation that gives a volume to its CSI driver.
func markOf(vols *v1.Volumes, name string) string {
	i := slices.IndexFunc(vols.PersistentVolumes, func(pv v1.PersistentVolume) bool { return pv.Name == name })
	pv := vols.PersistentVolumes[i]
	if p, _, ok := catalogue.PluginOf(pv.Plugin); ok {
		return "pv.kubernetes.io/migrated-to=" + p.Driver
	}
	return "pv.kubernetes.io/provisioned-by=" + pv.Driver
}

// pluginsLeft are the in-tree plugins that every kube-controller-manager leaves to CSI.
func (f facts) pluginsLeft() map[string]bool {
	out := map[string]bool{}
	for _, provider := range catalogue.Providers() {
		for _, plugin := range provider.Plugins {
			on, off, unclear := f.whoLeaves(plugin, kcm)
			out[plugin.Name] = len(on) > 0 && len(off) == 0 && len(unclear) == 0
		}
	}
	return out
}

const labelAdmission = "PersistentVolumeLabel"

var zoneUnknown = Check{
	Code: "VOL-006", Reason: "VolumeZoneUnknown", Category: categoryVolumes, Level: LevelWarning, Impact: ImpactVolumes, DependsOn: onVolumes,
	Title: "volumes know their zone without the API server's cloud provider",
	Explain: []string{
		"Disks live in a zone. Volumes that were made by hand got their zone from the admission plugin " + labelAdmission + " of kube-apiserver, which asks the cloud by the in-tree provider and --cloud-config. Without " +
			"provider it labels nothing or refuses the volume (https://github.com/kubernetes/kubernetes/issues/119129, https://github.com/kubernetes/kubernetes/issues/124504), and the plugin itself is gone from later versions. " +
			"The cloud-controller-manager does not label volumes; a mutating webhook may, or whoever writes the volume.",
		"A volume of a zonal disk without zone in its labels and node affinity is scheduled anywhere and attached nowhere in a cluster of several zones.",
	},
	judge: judgeZones,
}

func judgeZones(f facts) v1.Finding {
	vols, finding, ok := f.storage("persistentvolumes")
	if !ok {
		return finding
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	var bad complaints
	for _, p := range f.all(kas) {
		plugins := p.flag("enable-admission-plugins", p.flag("admission-control", ""))
		if slices.Contains(strings.Split(plugins, ","), labelAdmission) {
			bad.add(p.String(), "%s has the admission plugin %s", p, labelAdmission)
		}
	}
	admissions := len(bad.lines)
	zones := f.zones()
	zonal := 0
	for _, pv := range vols.PersistentVolumes {
		if !zonalVolume(pv) {
			continue
		}
		zonal++
		if len(pv.Zones) == 0 && len(zones) > 1 {
			bad.add("PersistentVolume/"+pv.Name, "volume %s has no zone", pv.Name)
		}
	}
	const expected, source = "zones in labels or node affinity, and no admission plugin " + labelAdmission, "/api/v1/persistentvolumes, --enable-admission-plugins"
	switch unlabelled := len(bad.lines) - admissions; {
	case bad.empty() && zonal == 0:
		return pass("no volume is bound to a zone, and no API server labels volumes")
	case bad.empty():
		return pass("%s of %s in %s, and no API server labels volumes", plural(zonal, "zonal disk"), plural(len(vols.PersistentVolumes), "volume"), plural(len(zones), "zone"))
	case unlabelled > 0:
		return with(bad.some(v1.Warn, "%s in a cluster of %s (%d of the API servers would have labelled new ones)", howMany(unlabelled, "1 volume has no zone", "volumes have no zone"),
			plural(len(zones), "zone"), admissions), expected, source, "kubectl get pv -L topology.kubernetes.io/zone,failure-domain.beta.kubernetes.io/zone")
	}
	return with(bad.some(v1.Warn, "volumes made by hand get their zone from %s and would not any more", plural(admissions, kas)), expected, source,
		"grep -n admission-plugins /etc/kubernetes/manifests/kube-apiserver.yaml   # on host "+hostIn(bad.objects[0]))
}

func zonalVolume(pv v1.PersistentVolume) bool {
	driver := pv.Driver
	if p, _, ok := catalogue.PluginOf(pv.Plugin); ok {
		driver = p.Driver
	}
	d, ok := catalogue.DriverOf(driver)
	return ok && d.Zonal
}

// zones are the zones of the nodes.
func (f facts) zones() map[string]bool {
	out := map[string]bool{}
	for _, n := range f.Nodes {
		if z := orElse(n.Labels["topology.kubernetes.io/zone"], n.Labels["failure-domain.beta.kubernetes.io/zone"]); z != "" {
			out[z] = true
		}
	}
	return out
}

var defaultClass = Check{
	Code: "VOL-007", Reason: "DefaultClass", Category: categoryVolumes, Level: LevelWarning, Impact: ImpactVolumes, DependsOn: []string{"API-001"},
	Title: "there is exactly one default StorageClass",
	Explain: []string{
		"Installing a CSI driver often brings a class that calls itself the default beside the in-tree one. With two, Kubernetes before 1.26 refuses every claim that names no class, and later versions take the newest: " +
			"claims quietly get other disks than before. With none, such claims wait for ever.",
		"A class whose provisioner is the in-tree plugin goes on working after migration, as its parameters are translated for the driver. It need not be replaced, and cannot be changed, only made again.",
	},
	judge: func(f facts) v1.Finding {
		vols, finding, ok := f.storage("storageclasses")
		if !ok {
			return finding
		}
		var bad complaints
		var inTree []string
		for _, c := range vols.StorageClasses {
			if c.Default {
				bad.add(c.Name, "%s is a default (provisioner %s)", c.Name, c.Provisioner)
			}
			if _, _, ok := catalogue.PluginOf(c.Provisioner); ok {
				inTree = append(inTree, c.Name)
			}
		}
		const expected, source = "one class with storageclass.kubernetes.io/is-default-class=true", "/apis/storage.k8s.io/v1/storageclasses"
		switch {
		case len(vols.StorageClasses) == 0:
			return skip("there is no StorageClass")
		case len(bad.lines) == 0:
			return with(v1.Finding{Outcome: v1.Warn, Summary: fmt.Sprintf("none of %s is the default: claims that name none wait for ever", plural(len(vols.StorageClasses), "class")), Found: "no default"},
				expected, source, "kubectl annotate --overwrite storageclass "+vols.StorageClasses[0].Name+" storageclass.kubernetes.io/is-default-class=true")
		case len(bad.lines) > 1:
			return with(bad.some(v1.Warn, "%s call themselves the default", plural(len(bad.lines), "class")), expected, source,
				"kubectl annotate storageclass "+bad.objects[0]+" storageclass.kubernetes.io/is-default-class-")
		case len(inTree) > 0:
			return pass("%s is the only default of %s; %s of an in-tree plugin, which migration translates: %s", bad.objects[0], plural(len(vols.StorageClasses), "class"),
				howMany(len(inTree), "one is", "are"), few(inTree))
		}
		return pass("%s is the only default of %s", bad.objects[0], plural(len(vols.StorageClasses), "class"))
	},
}

var volumesUnsupported = Check{
	Code: "VOL-008", Reason: "VolumeUnsupported", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: []string{"API-001"},
	Title: "the CSI drivers take every existing volume and class of the in-tree plugins",
	Explain: []string{
		"CSI migration translates volumes and classes in memory, and some have no translation. On Azure these are disks that are blobs in a storage account (kind Shared or Dedicated): after migration they do not attach. " +
			"On vSphere these are disks under a datastore cluster's path, which the driver cannot register, and the parameters of classes for thick disks and raw vSAN settings: existing volumes go on, new ones fail. " +
			"See https://github.com/kubernetes-sigs/vsphere-csi-driver/issues/628.",
		"Copy such data to volumes that the driver takes, and replace the class, before migration goes on. What is refused is a table of this tool's catalogue, by plugin.",
	},
	judge: func(f facts) v1.Finding {
		vols, finding, ok := f.storage("persistentvolumes", "storageclasses")
		if !ok {
			return finding
		}
		var failing, warning complaints
		n := 0
		for _, pv := range vols.PersistentVolumes {
			if pv.Plugin == "" {
				continue
			}
			n++
			if why := catalogue.RefusedHandle(pv.Plugin, pv.Handle); why != "" {
				failing.add("PersistentVolume/"+pv.Name, "%s %s: %s", pv.Name, why, pv.Handle)
			}
		}
		for _, c := range vols.StorageClasses {
			for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
				if p, refused := catalogue.RefusedParameter(c.Provisioner, name, c.Parameters[name]); refused {
					warning.add("StorageClass/"+c.Name, "class %s has %s=%s: %s", c.Name, name, c.Parameters[name], p.Why)
				}
			}
		}
		const expected, source = "volumes and parameters that CSI migration translates", "/api/v1/persistentvolumes, /apis/storage.k8s.io/v1/storageclasses"
		all, outcome, bad := worst(&failing, &warning)
		switch {
		case bad && outcome == v1.Fail:
			return with(all.some(outcome, "the CSI driver does not take %s", plural(len(failing.lines), "existing volume")), expected, source, "kubectl get "+strings.ToLower(all.objects[0])+" -o yaml")
		case bad:
			return with(all.some(outcome, "%s of a StorageClass would have no effect through CSI", plural(len(warning.lines), "parameter")), expected, source, "kubectl get "+strings.ToLower(all.objects[0])+" -o yaml")
		case n == 0 && len(f.uses(vols)) == 0:
			return skip("no in-tree cloud plugin is in use")
		}
		return pass("the CSI drivers take %s and the parameters of %s", howMany(n, "the in-tree volume", "in-tree volumes"), plural(len(vols.StorageClasses), "class"))
	},
}
