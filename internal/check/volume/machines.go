package volume

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

// The driver of vSphere, and the plugin that it replaces.
const (
	vsphereDriver = "csi.vsphere.vmware.com"
	vspherePlugin = "kubernetes.io/vsphere-volume"
)

var diskUUIDs = rule.Check{
	Code:      "CSI-006",
	Reason:    "DiskUUIDDisabled",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "disk.EnableUUID under ExtraConfig, which has to be TRUE",
	DependsOn: []string{"API-001", "CLOUD-001"},
	Judge:     judgeDiskUUIDs,
}

func judgeDiskUUIDs(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("vsphere"); ok {
		return finding
	}
	if f.Cloud == nil {
		return findings.Dependent("CLOUD-001")
	}
	vols, finding, ok := storage(f, "persistentvolumes", "storageclasses", "csidrivers", "csinodes")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	inTree := slices.ContainsFunc(facts.Uses(f, vols), func(u facts.VolumeUse) bool { return u.Driver == vsphereDriver })
	if !inTree && !slices.Contains(vols.CSIDrivers, vsphereDriver) {
		return findings.Skip("no volume of vSphere is in use, and %s is not installed", vsphereDriver)
	}
	instances, migrated := facts.InstancesByNode(f), migratedNodes(vols)
	var (
		failing, warning findings.Problems
		unknown          []string
		known            int
	)
	for _, n := range nodesForPods(f) {
		machine := instances[n.Name]
		switch {
		case machine.DiskUUID == nil:
			unknown = append(unknown, n.Name)
			continue
		case *machine.DiskUUID:
		case migrated[n.Name][vspherePlugin]:
			failing.Add(n.Name, "%s (virtual machine %s) hides the UUIDs of its disks, and its volumes are left to CSI", n.Name, machine.ID)
		default:
			warning.Add(n.Name, "%s (virtual machine %s) hides the UUIDs of its disks", n.Name, machine.ID)
		}
		known++
	}
	all, outcome, bad := findings.Worst(failing, warning)
	switch {
	case known == 0:
		return findings.Skip("the inventory does not say which virtual machines show the UUIDs of their disks")
	case bad:
		return findings.With(
			all.Some(outcome, "the CSI driver mounts no volume on %d of %s", len(all), findings.Plural(known, "node")),
			"disk.enableUUID=TRUE on the virtual machine of each node",
			"config.flags.diskUuidEnabled of the virtual machine",
			"govc vm.change -vm.uuid "+shell.Quote(instances[all[0].Object].ID)+" -e disk.enableUUID=TRUE",
		)
	case len(unknown) > 0:
		return findings.Unknown("vCenter does not say whether the virtual machines of %s show the UUIDs of their disks (%s)",
			findings.Plural(len(unknown), "node"), strings.Join(unknown, ", "))
	}
	return findings.Pass("the virtual machines of all %s show the UUIDs of their disks", findings.Plural(known, "node"))
}
