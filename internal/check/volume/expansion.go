package volume

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

var expansionLost = rule.Check{
	Code:      "VOL-011",
	Reason:    "ExpansionLost",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the external resizer of the CSI driver among the images",
	DependsOn: rule.OnVolumes,
	Judge:     judgeExpansion,
}

func judgeExpansion(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "storageclasses")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	growing := growingClasses(vols)
	if len(growing) == 0 {
		return findings.Skip("no StorageClass allows expansion")
	}
	var bad findings.Problems
	n := 0
	for _, d := range drivers(f) {
		if classes := growing[d.Driver.Name]; len(classes) > 0 && d.Workload.Role == v1.RoleCSIController {
			n += len(classes)
			judgeGrowth(f, d, classes, &bad)
		}
	}
	for _, p := range f.InstancesOf(component.KCM) {
		if minor, known := f.MinorOf(p); n > 0 && known && !facts.Effective("ExpandCSIVolumes", setGates(p), minor) {
			bad.Add(p.String(), "%s has ExpandCSIVolumes off", p)
		}
	}
	if bad.Empty() {
		return findings.Pass("nothing keeps the volumes of %s from growing through CSI", findings.Plural(n, "class"))
	}
	return findings.With(
		bad.Finding(v1.Warn, "%s", bad[0].Text),
		"csi-resizer next to the driver, and ExpandCSIVolumes on",
		"/apis/apps/v1, --feature-gates",
		"kubectl get deployments -A -o custom-columns='NAME:.metadata.name,IMAGES:.spec.template.spec.containers[*].image' | grep csi",
	)
}

// growingClasses are the classes that allow expansion, by the driver that has to do it.
func growingClasses(vols *v1.Volumes) map[string][]string {
	out := map[string][]string{}
	for _, c := range vols.StorageClasses {
		driver := c.Provisioner
		if p, _, ok := cloudprovider.PluginOf(c.Provisioner); ok {
			driver = p.Driver
		}
		if c.AllowExpansion {
			out[driver] = append(out[driver], c.Name)
		}
	}
	return out
}

func judgeGrowth(f facts.Facts, d facts.Installed, classes []string, bad *findings.Problems) {
	ref := d.Workload.Ref
	if !hasSidecar(d.Workload, "csi-resizer") {
		bad.Add(
			ref,
			"%s has no csi-resizer, and volumes of %s may be expanded (%s)",
			ref,
			findings.Plural(len(classes), "class"),
			findings.Few(classes),
		)
	}
	served := slices.ContainsFunc(
		f.APIGroups,
		func(g string) bool { return strings.HasPrefix(g, "snapshot.storage.k8s.io/") },
	)
	if hasSidecar(d.Workload, "csi-snapshotter") && len(f.APIGroups) > 0 && !served {
		bad.Add(ref, "%s takes snapshots, and the API server does not serve snapshot.storage.k8s.io", ref)
	}
}
