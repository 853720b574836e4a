package check

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

var expansionLost = Check{
	Code: "VOL-011", Reason: "ExpansionLost", Category: categoryVolumes, Level: LevelWarning, Impact: ImpactVolumes, DependsOn: onVolumes,
	Title: "volumes can be expanded through CSI where they could be expanded in-tree",
	Explain: []string{
		"Classes that allow expansion rely on the plugin now and on the driver after migration: on the container csi-resizer beside its controller, and on the gate ExpandCSIVolumes while the version has it. Snapshots " +
			"taken through the driver need the snapshot controller's API besides.",
		"Without them a claim that is made larger waits with nobody to say why.",
	},
	judge: judgeExpansion,
}

func judgeExpansion(f facts) v1.Finding {
	vols, finding, ok := f.storage("storageclasses")
	if !ok {
		return finding
	}
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	growing := growingClasses(vols)
	if len(growing) == 0 {
		return skip("no StorageClass allows expansion")
	}
	var bad complaints
	n := 0
	for _, d := range f.drivers() {
		if classes := growing[d.driver.Name]; len(classes) > 0 && d.workload.Role == v1.RoleCSIController {
			n += len(classes)
			f.judgeGrowth(d, classes, &bad)
		}
	}
	for _, p := range f.all(kcm) {
		if minor, known := f.minorOf(p); n > 0 && known && !effective("ExpandCSIVolumes", p.setGates(), minor) {
			bad.add(p.String(), "%s has ExpandCSIVolumes off", p)
		}
	}
	if bad.empty() {
		return pass("nothing keeps the volumes of %s from growing through CSI", plural(n, "class"))
	}
	return with(bad.finding(v1.Warn, "%s", bad.lines[0]), "csi-resizer beside the driver, and ExpandCSIVolumes on", "/apis/apps/v1, --feature-gates",
		"kubectl get deployments -A -o custom-columns='NAME:.metadata.name,IMAGES:.spec.template.spec.containers[*].image' | grep csi")
}

// growingClasses are the classes that allow expansion, by the driver that has to do it.
func growingClasses(vols *v1.Volumes) map[string][]string {
	out := map[string][]string{}
	for _, c := range vols.StorageClasses {
		driver := c.Provisioner
		if p, _, ok := catalogue.PluginOf(c.Provisioner); ok {
			driver = p.Driver
		}
		if c.AllowExpansion {
			out[driver] = append(out[driver], c.Name)
		}
	}
	return out
}

func (f facts) judgeGrowth(d installed, classes []string, bad *complaints) {
	ref := d.workload.Ref
	if !hasSidecar(d.workload, "csi-resizer") {
		bad.add(ref, "%s has no csi-resizer, and volumes of %s may be expanded (%s)", ref, plural(len(classes), "class"), few(classes))
	}
	served := slices.ContainsFunc(f.APIGroups, func(g string) bool { return strings.HasPrefix(g, "snapshot.storage.k8s.io/") })
	if hasSidecar(d.workload, "csi-snapshotter") && len(f.APIGroups) > 0 && !served {
		bad.add(ref, "%s takes snapshots, and the API server does not serve snapshot.storage.k8s.io", ref)
	}
}
