package check

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// vSphereMachines is a cluster on vSphere whose virtual machines an inventory has.
func vSphereMachines() *v1.Snapshot {
	s := vsphereCluster()
	s.Volumes = vSphereCluster().Volumes
	s.Cloud, s.Volumes.CSINodes = &v1.CloudInventory{Provider: "vsphere"}, nil
	for i, n := range s.Nodes {
		yes := true
		s.Cloud.Instances = append(s.Cloud.Instances, v1.CloudInstance{Node: n.Name, ID: uuidOf(i), Found: true, DiskUUID: &yes})
		s.Volumes.CSINodes = append(s.Volumes.CSINodes, v1.CSINode{Name: n.Name, Drivers: []v1.CSINodeDriver{{Name: "csi.vsphere.vmware.com"}}})
	}
	return s
}

// hidesDisks has the virtual machine of the i-th node hide the UUIDs of its disks.
func hidesDisks(i int) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { *s.Cloud.Instances[i].DiskUUID = false }
}

var machineRules = []ruleCase{
	{name: "all machines show the UUIDs of their disks", code: "CSI-006", base: vSphereMachines, want: pass_, says: []string{"all 5 nodes"}},
	{
		name: "F13: a machine that hides them", code: "CSI-006", base: vSphereMachines, want: warn, change: hidesDisks(3),
		says: []string{"1 of 5 nodes", "worker-3 (virtual machine " + uuidOf(3) + ")", "govc vm.change -vm.uuid " + uuidOf(3) + " -e disk.enableUUID=TRUE"},
	},
	{name: "one that hides them, and volumes that are left to CSI", code: "CSI-006", base: vSphereMachines, want: fails, change: func(s *v1.Snapshot) {
		hidesDisks(3)(s)
		s.Volumes.CSINodes[3].MigratedPlugins = []string{"kubernetes.io/vsphere-volume"}
	}},
	{name: "one that hides them, which pods do not come to", code: "CSI-006", base: vSphereMachines, want: pass_, says: []string{"all 4 nodes"}, change: func(s *v1.Snapshot) {
		hidesDisks(3)(s)
		s.Nodes[3].Taints = []string{"dedicated=edge:NoSchedule"}
	}},
	{name: "one that is not said", code: "CSI-006", base: vSphereMachines, want: unknwn, says: []string{"worker-3"}, change: func(s *v1.Snapshot) {
		s.Cloud.Instances[3].DiskUUID = nil
	}},
	{name: "an inventory that says it of none", code: "CSI-006", base: vSphereMachines, want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Cloud.Instances {
			s.Cloud.Instances[i].DiskUUID = nil
		}
	}},
	{name: "the driver alone", code: "CSI-006", base: vSphereMachines, want: warn, change: func(s *v1.Snapshot) {
		hidesDisks(3)(s)
		s.Volumes.PersistentVolumes, s.Volumes.StorageClasses = nil, nil
	}},
	{name: "no volumes of vSphere", code: "CSI-006", base: vSphereMachines, want: skipped, change: func(s *v1.Snapshot) {
		hidesDisks(3)(s)
		s.Volumes.PersistentVolumes, s.Volumes.StorageClasses, s.Volumes.CSIDrivers = nil, nil, nil
	}},
	{name: "no inventory", code: "CSI-006", base: vSphereMachines, want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},
	{name: "another cloud", code: "CSI-006", want: skipped},
	{name: "nodes could not be listed", code: "CSI-006", base: vSphereMachines, want: unknwn, change: noNodes},
	{name: "volumes could not be listed", code: "CSI-006", base: vSphereMachines, want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "volumes/csidrivers") }},
}
