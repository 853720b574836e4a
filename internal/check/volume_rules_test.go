package check

import (
	"fmt"
	"maps"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

const (
	ebs      = "kubernetes.io/aws-ebs"
	ebsCSI   = "ebs.csi.aws.com"
	ebsImage = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.28.0"
)

// withVolumes gives the healthy cluster three in-tree volumes that migrated, one of CSI, and a driver that runs everywhere.
func withVolumes(s *v1.Snapshot) {
	s.Volumes = &v1.Volumes{
		StorageClasses: []v1.StorageClass{{Name: "gp2", Provisioner: ebs}, {Name: "gp3", Provisioner: ebsCSI, Default: true, AllowExpansion: true}},
		CSIDrivers:     []string{ebsCSI},
	}
	for i := 1; i <= 3; i++ {
		s.Volumes.PersistentVolumes = append(s.Volumes.PersistentVolumes, v1.PersistentVolume{
			Name: fmt.Sprintf("pv-%d", i), Plugin: ebs, Handle: fmt.Sprintf("aws://us-east-1a/vol-%d", i), StorageClass: "gp2", ProvisionedBy: ebs, MigratedTo: ebsCSI,
			ReclaimPolicy: "Delete", Phase: "Bound", Zones: []string{"topology.kubernetes.io/zone=us-east-1a"},
		})
	}
	s.Volumes.PersistentVolumes = append(s.Volumes.PersistentVolumes, v1.PersistentVolume{
		Name: "pv-4", Driver: ebsCSI, Handle: "vol-4", StorageClass: "gp3", ProvisionedBy: ebsCSI, ReclaimPolicy: "Delete", Phase: "Bound",
		Zones: []string{"topology.ebs.csi.aws.com/zone=us-east-1a"},
	})
	limit := int32(25)
	for _, n := range s.Nodes {
		s.Volumes.CSINodes = append(
			s.Volumes.CSINodes,
			v1.CSINode{Name: n.Name, MigratedPlugins: []string{ebs}, Drivers: []v1.CSINodeDriver{{Name: ebsCSI, Limit: &limit}}},
		)
		s.Volumes.Attachments = append(
			s.Volumes.Attachments,
			v1.VolumeAttachment{Name: "csi-" + n.Name, Attacher: ebsCSI, Node: n.Name, Volume: "pv-1", Attached: true, Created: taken.Add(-time.Hour)},
		)
	}
	s.Workloads = append(s.Workloads,
		v1.Workload{
			Ref: "DaemonSet/kube-system/ebs-csi-node", Role: v1.RoleCSINode, Replicas: 5, Ready: 5, HostNetwork: true, Tolerations: []string{"*"},
			Containers: []v1.Container{{Name: "ebs-plugin", Image: ebsImage}},
		},
		v1.Workload{
			Ref: "Deployment/kube-system/ebs-csi-controller", Role: v1.RoleCSIController, Replicas: 2, Ready: 2,
			Containers: []v1.Container{
				{Name: "ebs-plugin", Image: ebsImage, Flags: map[string]string{"k8s-tag-cluster-id": "lab"}},
				{Name: "csi-provisioner", Image: "registry.k8s.io/sig-storage/csi-provisioner:v3.6.0"},
				{Name: "csi-attacher", Image: "registry.k8s.io/sig-storage/csi-attacher:v4.4.0"},
				{Name: "csi-resizer", Image: "registry.k8s.io/sig-storage/csi-resizer:v1.9.0"},
			},
		})
}

// of1_22 is the healthy cluster in a version in which migration of EBS volumes is off unless it is switched on.
func of1_22() *v1.Snapshot {
	s := healthy()
	asOf1_22(s)
	return s
}

// asOf1_22 makes a cluster one of 1.22 that has not begun to migrate its volumes.
func asOf1_22(s *v1.Snapshot) {
	s.Cluster.Version = "v1.22.0"
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			c := &s.Hosts[i].Components[j]
			c.Image = "registry.k8s.io/" + c.Name + ":v1.22.0"
		}
	}
	for i := range s.Volumes.CSINodes {
		s.Volumes.CSINodes[i].MigratedPlugins = nil
	}
}

// noInTreeVolumes is the healthy cluster with CSI volumes only.
func noInTreeVolumes() *v1.Snapshot {
	s := healthy()
	s.Volumes.PersistentVolumes = s.Volumes.PersistentVolumes[3:]
	s.Volumes.StorageClasses = s.Volumes.StorageClasses[1:]
	return s
}

// vSphereCluster puts a volume and a driver of vSphere into the healthy cluster in place of those of AWS.
func vSphereCluster() *v1.Snapshot {
	s := healthy()
	const plugin, driver = "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"
	s.Volumes.CSIDrivers = []string{driver}
	s.Volumes.StorageClasses = []v1.StorageClass{{Name: "thin", Provisioner: plugin, Default: true, Parameters: map[string]string{"diskformat": "thin"}}}
	s.Volumes.PersistentVolumes = []v1.PersistentVolume{{Name: "pv-1", Plugin: plugin, Handle: "[vsanDatastore] kubevols/disk-1.vmdk", Phase: "Bound"}}
	for i := range s.Workloads {
		for j := range s.Workloads[i].Containers {
			if c := &s.Workloads[i].Containers[j]; c.Image == ebsImage {
				c.Image, c.Flags = "gcr.io/cloud-provider-vsphere/csi/release/driver:v3.0.2", nil
			}
		}
	}
	return s
}

// gate sets a feature gate in a component of the i-th host, which gets the component when it has none.
func gate(s *v1.Snapshot, i int, name, gates string) {
	for j := range s.Hosts[i].Components {
		if s.Hosts[i].Components[j].Name == name {
			maps.Copy(s.Hosts[i].Components[j].Flags, map[string]string{"feature-gates": gates})
			return
		}
	}
	version := s.Cluster.Version
	s.Hosts[i].Components = append(s.Hosts[i].Components, newComponent(name, "registry.k8s.io/"+name+":"+version, map[string]string{"feature-gates": gates}))
}

func gateEverywhere(s *v1.Snapshot, name, gates string) {
	for i := range s.Hosts {
		gate(s, i, name, gates)
	}
}

func migrateNode(s *v1.Snapshot, i int) { s.Volumes.CSINodes[i].MigratedPlugins = []string{ebs} }

func mountInTree(s *v1.Snapshot, i int) {
	s.Nodes[i].VolumesInUse = []string{ebs + "/aws://us-east-1a/vol-1", "kubernetes.io/csi/ebs.csi.aws.com^vol-4"}
}

var volumeRules = []ruleCase{
	{
		name: "F60: every component leaves the volumes to CSI",
		code: "VOL-001",
		want: pass_,
		says: []string{"3 kube-controller-managers", "kubernetes.io/aws-ebs (3 volumes, 1 class)"},
	},
	{name: "no in-tree volume", code: "VOL-001", base: noInTreeVolumes, want: pass_, says: []string{"none of 1 volume and 1 class"}},
	{
		name: "F60: migration is off and the managers are in-tree",
		code: "VOL-001",
		base: of1_22,
		want: warn,
		says: []string{"--external-cloud-volume-plugin=aws", "CSIMigrationAWS off"},
	},
	{
		name: "F60: the managers are external without migration",
		code: "VOL-001",
		base: of1_22,
		want: fails,
		says: []string{"kube-controller-manager@cp-2 is external", "no --external-cloud-volume-plugin=aws"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"})
		},
	},
	{name: "the managers are external and keep the volume plugin", code: "VOL-001", base: of1_22, want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "external", "external-cloud-volume-plugin": "aws"})
		}
	}},
	{
		name: "F60: a kubelet mounts in-tree while the managers are external",
		code: "VOL-001",
		base: migrated,
		want: fails,
		says: []string{"ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) {
			s.Volumes.CSINodes[3].MigratedPlugins = nil
			mountInTree(s, 3)
		},
	},
	{name: "the version is not known", code: "VOL-001", want: unknwn, says: []string{"kube-controller-manager@cp-1"}, change: func(s *v1.Snapshot) {
		s.Cluster.Version = "v1"
		manager(s, 0, component.KCM).Image = "localhost/kcm"
	}},
	{name: "volumes could not be listed", code: "VOL-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "volumes/persistentvolumes") }},
	{
		name:   "no storage object was gathered",
		code:   "VOL-001",
		want:   unknwn,
		says:   []string{"transplant snapshot"},
		change: func(s *v1.Snapshot) { s.Volumes = nil },
	},

	{
		name: "F61: on everywhere by the version",
		code: "VOL-002",
		want: pass_,
		says: []string{"CSIMigrationAWS is on in 3 of 3 kube-controller-managers", "5 of 5 kubelets"},
	},
	{
		name:   "F61: a kubelet before the managers",
		code:   "VOL-002",
		base:   of1_22,
		want:   fails,
		says:   []string{"CSIMigrationAWS is off in kube-controller-manager@cp-1", "ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) { migrateNode(s, 3) },
	},
	{name: "F61: a kubelet before the managers of an older version", code: "VOL-002", want: fails, change: func(s *v1.Snapshot) {
		asOf1_22(s)
		migrateNode(s, 3)
	}},
	{
		name:   "F61: one manager before the others",
		code:   "VOL-002",
		base:   of1_22,
		want:   fails,
		says:   []string{"on in kube-controller-manager@cp-1"},
		change: func(s *v1.Snapshot) { gate(s, 0, component.KCM, "CSIMigrationAWS=true") },
	},
	{
		name:   "the managers before the kubelets",
		code:   "VOL-002",
		base:   of1_22,
		want:   pass_,
		change: func(s *v1.Snapshot) { gateEverywhere(s, component.KCM, "CSIMigrationAWS=true") },
	},
	{name: "a scheduler that is behind", code: "VOL-002", base: of1_22, want: warn, says: []string{"kube-scheduler@cp-1"}, change: func(s *v1.Snapshot) {
		gateEverywhere(s, component.KCM, "CSIMigrationAWS=true")
		gateEverywhere(s, component.Scheduler, "CSIMigrationAWS=false")
		migrateNode(s, 3)
	}},
	{name: "the gate of all plugins is off", code: "VOL-002", base: of1_22, want: fails, change: func(s *v1.Snapshot) {
		gateEverywhere(s, component.KCM, "CSIMigration=false,CSIMigrationAWS=true")
		migrateNode(s, 3)
	}},
	{
		name:   "CSINodes could not be listed",
		code:   "VOL-002",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/csinodes") },
	},

	{name: "nodes could not be listed", code: "VOL-002", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},
	{name: "F62: nothing is mounted in-tree", code: "VOL-003", want: pass_, says: []string{"5 nodes"}},
	{
		name:   "F62: a node to be drained",
		code:   "VOL-003",
		base:   of1_22,
		want:   warn,
		says:   []string{"kubectl drain", "1 volume is mounted", "ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) { mountInTree(s, 3) },
	},
	{
		name:   "F62: a kubelet that was switched without a drain",
		code:   "VOL-003",
		want:   fails,
		says:   []string{"ip-10-0-1-11.ec2.internal has 1 volume of kubernetes.io/aws-ebs"},
		change: func(s *v1.Snapshot) { mountInTree(s, 3) },
	},
	{
		name:   "F62: an attachment by the in-tree plugin",
		code:   "VOL-003",
		want:   fails,
		says:   []string{"csi-ip-10-0-0-11.ec2.internal"},
		change: func(s *v1.Snapshot) { s.Volumes.Attachments[0].Attacher = ebs },
	},
	{name: "nodes could not be listed", code: "VOL-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "F65: nothing is unregistered", code: "VOL-004", want: pass_},
	{
		name:   "F65: unregistered, and all nodes are done",
		code:   "VOL-004",
		want:   pass_,
		says:   []string{"1 plugin unregistered"},
		change: func(s *v1.Snapshot) { gateEverywhere(s, component.KCM, "InTreePluginAWSUnregister=true") },
	},
	{
		name: "F65: unregistered before the last node",
		code: "VOL-004",
		base: of1_22,
		want: fails,
		says: []string{"kube-controller-manager@cp-1 has InTreePluginAWSUnregister on", "node ip-10-0-0-11.ec2.internal"},
		change: func(s *v1.Snapshot) {
			gate(s, 0, component.KCM, "InTreePluginAWSUnregister=true")
		},
	},
	{name: "F65: unregistered in an older version", code: "VOL-004", want: fails, change: func(s *v1.Snapshot) {
		asOf1_22(s)
		gateEverywhere(s, component.KCM, "CSIMigrationAWS=true,InTreePluginAWSUnregister=true")
	}},
	{name: "a kubelet unregisters too early", code: "VOL-004", base: of1_22, want: fails, says: []string{"kubelet@cp-1"}, change: func(s *v1.Snapshot) {
		s.Hosts[0].Kubelet = &v1.Kubelet{
			Source: "/var/lib/kubelet/kubeadm-flags.env",
			Config: &v1.KubeletConfig{FeatureGates: map[string]bool{"InTreePluginAWSUnregister": true}},
		}
	}},
	{name: "CSINodes could not be listed", code: "VOL-004", want: skipped, says: []string{"VOL-001"}, change: func(s *v1.Snapshot) { cannotGather(s, "volumes") }},

	{name: "nodes could not be listed", code: "VOL-004", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},
	{
		name:   "a kubelet's gates could not be read",
		code:   "VOL-004",
		want:   skipped,
		says:   []string{"KUBELET-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet-config") },
	},

	{name: "F63: every volume is marked", code: "VOL-005", want: pass_, says: []string{"4 volumes"}},
	{
		name: "F63: a CSI volume of the old name",
		code: "VOL-005",
		want: fails,
		says: []string{"pv-4 is a volume of ebs.csi.aws.com", "kubectl annotate --overwrite pv pv-4 pv.kubernetes.io/provisioned-by=ebs.csi.aws.com"},
		change: func(s *v1.Snapshot) {
			s.Volumes.PersistentVolumes[3].ProvisionedBy = ebs
		},
	},
	{
		name:   "F63: a migrated volume without its mark",
		code:   "VOL-005",
		want:   fails,
		says:   []string{"pv-2 is not marked as migrated"},
		change: func(s *v1.Snapshot) { s.Volumes.PersistentVolumes[1].MigratedTo = "" },
	},
	{
		name:   "without migration no mark is wanted",
		code:   "VOL-005",
		base:   of1_22,
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Volumes.PersistentVolumes[1].MigratedTo = "" },
	},
	{
		name:   "a deletion that failed",
		code:   "VOL-005",
		want:   warn,
		says:   []string{"pv-1"},
		change: func(s *v1.Snapshot) { s.Volumes.PersistentVolumes[0].Phase = "Failed" },
	},
	{
		name: "ten thousand volumes are counted and a few named",
		code: "VOL-005",
		want: fails,
		says: []string{"10000 of 10004 volumes", "and 9995 more"},
		change: func(s *v1.Snapshot) {
			for i := range 10000 {
				s.Volumes.PersistentVolumes = append(
					s.Volumes.PersistentVolumes,
					v1.PersistentVolume{Name: fmt.Sprintf("many-%05d", i), Driver: ebsCSI, ProvisionedBy: ebs, ReclaimPolicy: "Delete"},
				)
			}
		},
	},
	{
		name:   "volumes could not be listed",
		code:   "VOL-005",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/persistentvolumes") },
	},

	{name: "F64: every volume has its zone", code: "VOL-006", want: pass_, says: []string{"4 zonal disks of 4 volumes"}},
	{
		name: "F64: the API server labels volumes",
		code: "VOL-006",
		want: warn,
		says: []string{"kube-apiserver@cp-1 has the admission plugin PersistentVolumeLabel"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 0, component.KAS, map[string]string{"enable-admission-plugins": "NodeRestriction,PersistentVolumeLabel"})
		},
	},
	{
		name: "F64: a volume without a zone among zones",
		code: "VOL-006",
		want: warn,
		says: []string{"volume pv-1 has no zone", "2 zones"},
		change: func(s *v1.Snapshot) {
			s.Volumes.PersistentVolumes[0].Zones = nil
			s.Nodes[0].Labels = map[string]string{"topology.kubernetes.io/zone": "us-east-1a"}
			s.Nodes[1].Labels = map[string]string{"topology.kubernetes.io/zone": "us-east-1b"}
		},
	},
	{
		name:   "volumes could not be listed",
		code:   "VOL-006",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/persistentvolumes") },
	},

	{name: "nodes could not be listed", code: "VOL-006", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "F67: one default", code: "VOL-007", want: pass_, says: []string{"gp3 is the only default of 2 classes", "gp2"}},
	{
		name:   "F67: two defaults",
		code:   "VOL-007",
		want:   warn,
		says:   []string{"gp2 is a default", "kubectl annotate storageclass gp2"},
		change: func(s *v1.Snapshot) { s.Volumes.StorageClasses[0].Default = true },
	},
	{
		name: "F67: the driver's class calls itself the default too",
		code: "VOL-007",
		want: warn,
		says: []string{"gp3 is a default", "new-csi"},
		change: func(s *v1.Snapshot) {
			s.Volumes.StorageClasses = append(s.Volumes.StorageClasses, v1.StorageClass{Name: "new-csi", Provisioner: ebsCSI, Default: true})
		},
	},
	{
		name:   "F67: no default",
		code:   "VOL-007",
		want:   warn,
		says:   []string{"none of 2 classes", "kubectl annotate --overwrite storageclass"},
		change: func(s *v1.Snapshot) { s.Volumes.StorageClasses[1].Default = false },
	},
	{name: "no class", code: "VOL-007", want: skipped, change: func(s *v1.Snapshot) { s.Volumes.StorageClasses = nil }},
	{
		name:   "classes could not be listed",
		code:   "VOL-007",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/storageclasses") },
	},

	{name: "the driver takes every volume", code: "VOL-008", want: pass_, says: []string{"3 in-tree volumes"}},
	{name: "F66: thin disks on vSphere", code: "VOL-008", base: vSphereCluster, want: pass_},
	{
		name: "F66: thick disks on vSphere",
		code: "VOL-008",
		base: vSphereCluster,
		want: warn,
		says: []string{"diskformat=eagerzeroedthick", "StorageClass/thin"},
		change: func(s *v1.Snapshot) {
			s.Volumes.StorageClasses[0].Parameters["diskformat"] = "eagerzeroedthick"
		},
	},
	{
		name: "F66: raw vSAN parameters",
		code: "VOL-008",
		base: vSphereCluster,
		want: warn,
		says: []string{"hostFailuresToTolerate=1"},
		change: func(s *v1.Snapshot) {
			s.Volumes.StorageClasses[0].Parameters["hostFailuresToTolerate"] = "1"
		},
	},
	{
		name: "F66: a disk under a datastore cluster",
		code: "VOL-008",
		base: vSphereCluster,
		want: fails,
		says: []string{"[cluster/store-1] kubevols/disk-1.vmdk"},
		change: func(s *v1.Snapshot) {
			s.Volumes.PersistentVolumes[0].Handle = "[cluster/store-1] kubevols/disk-1.vmdk"
		},
	},
	{name: "F66: a blob on Azure", code: "VOL-008", want: fails, says: []string{"blob in a storage account"}, change: func(s *v1.Snapshot) {
		s.Volumes.PersistentVolumes[0].Plugin, s.Volumes.PersistentVolumes[0].Handle = "kubernetes.io/azure-disk", "https://acc.blob.core.windows.net/vhds/a.vhd"
	}},
	{name: "no in-tree volume", code: "VOL-008", base: noInTreeVolumes, want: skipped},
	{
		name:   "volumes could not be listed",
		code:   "VOL-008",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/persistentvolumes") },
	},

	{name: "F68: nothing hangs", code: "VOL-009", want: pass_, says: []string{"5 VolumeAttachments"}},
	{
		name:   "F68: the node is gone",
		code:   "VOL-009",
		want:   fails,
		says:   []string{"for node gone, which does not exist"},
		change: func(s *v1.Snapshot) { s.Volumes.Attachments[0].Node = "gone" },
	},
	{name: "F68: detaching fails", code: "VOL-009", want: fails, says: []string{"cannot be detached", "timed out"}, change: func(s *v1.Snapshot) {
		s.Volumes.Attachments[0].Deleting, s.Volumes.Attachments[0].Error = true, "timed out"
	}},
	{
		name:   "attaching takes an hour",
		code:   "VOL-009",
		want:   warn,
		says:   []string{"after 1h0m0s"},
		change: func(s *v1.Snapshot) { s.Volumes.Attachments[0].Attached = false },
	},
	{name: "attaching has just begun", code: "VOL-009", want: pass_, change: func(s *v1.Snapshot) {
		s.Volumes.Attachments[0].Attached, s.Volumes.Attachments[0].Created = false, taken.Add(-time.Minute)
	}},
	{name: "attachments could not be listed", code: "VOL-009", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "volumes/attachments") }},

	{name: "F69: no lower limit", code: "VOL-010", want: pass_, says: []string{"5 nodes"}},
	{
		name:   "F69: a lower limit",
		code:   "VOL-010",
		want:   warn,
		says:   []string{"25 instead of 39"},
		change: func(s *v1.Snapshot) { s.Nodes[0].Attachable = map[string]string{"attachable-volumes-aws-ebs": "39"} },
	},
	{
		name: "F69: more volumes than the limit",
		code: "VOL-010",
		want: fails,
		says: []string{"holds 26 volumes, and ebs.csi.aws.com attaches 25"},
		change: func(s *v1.Snapshot) {
			for i := range 26 {
				s.Nodes[0].VolumesInUse = append(s.Nodes[0].VolumesInUse, fmt.Sprintf("kubernetes.io/csi/ebs.csi.aws.com^vol-%d", i))
			}
		},
	},
	{name: "F69: the driver says no limit", code: "VOL-010", want: warn, says: []string{"says no limit"}, change: func(s *v1.Snapshot) {
		s.Nodes[0].Attachable = map[string]string{"attachable-volumes-aws-ebs": "39"}
		s.Volumes.CSINodes[0].Drivers[0].Limit = nil
	}},
	{name: "no in-tree volume", code: "VOL-010", base: noInTreeVolumes, want: skipped},
	{
		name:   "CSINodes could not be listed",
		code:   "VOL-010",
		want:   skipped,
		says:   []string{"VOL-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "volumes/csinodes") },
	},

	{name: "nodes could not be listed", code: "VOL-010", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "F70: the driver expands volumes", code: "VOL-011", want: pass_, says: []string{"1 class"}},
	{name: "F70: the controller has no resizer", code: "VOL-011", want: warn, says: []string{"no csi-resizer", "gp3"}, change: func(s *v1.Snapshot) {
		w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
		w.Containers = w.Containers[:3]
	}},
	{
		name: "F70: a class of the in-tree plugin grows, and its driver has no resizer",
		code: "VOL-011",
		want: warn,
		says: []string{"no csi-resizer"},
		change: func(s *v1.Snapshot) {
			s.Volumes.StorageClasses[0].AllowExpansion = true
			w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
			w.Containers = w.Containers[:3]
		},
	},
	{
		name:   "F70: the gate is off",
		code:   "VOL-011",
		base:   of1_22,
		want:   warn,
		says:   []string{"ExpandCSIVolumes off"},
		change: func(s *v1.Snapshot) { gate(s, 1, component.KCM, "ExpandCSIVolumes=false") },
	},
	{name: "F70: snapshots without their API", code: "VOL-011", want: warn, says: []string{"snapshot.storage.k8s.io"}, change: func(s *v1.Snapshot) {
		w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
		w.Containers = append(w.Containers, v1.Container{Name: "csi-snapshotter", Image: "registry.k8s.io/sig-storage/csi-snapshotter:v6.3.0"})
		s.APIGroups = []string{"apps/v1", "storage.k8s.io/v1"}
	}},
	{name: "no class grows", code: "VOL-011", want: skipped, change: func(s *v1.Snapshot) { s.Volumes.StorageClasses[1].AllowExpansion = false }},
	{name: "workloads could not be listed", code: "VOL-011", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},

	{name: "the driver is installed", code: "CSI-001", want: pass_},
	{
		name:   "F66 F60: the driver is not installed",
		code:   "CSI-001",
		want:   fails,
		says:   []string{"CSIDriver/ebs.csi.aws.com", "3 volumes"},
		change: func(s *v1.Snapshot) { s.Volumes.CSIDrivers = nil },
	},
	{
		name:   "F60: the driver is not installed and nothing migrates",
		code:   "CSI-001",
		base:   of1_22,
		want:   warn,
		says:   []string{"stays with the in-tree plugin"},
		change: func(s *v1.Snapshot) { s.Volumes.CSIDrivers = nil },
	},
	{name: "nothing needs a driver", code: "CSI-001", base: noInTreeVolumes, want: pass_},
	{name: "drivers could not be listed", code: "CSI-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "volumes/csidrivers") }},

	{name: "the driver is on every node", code: "CSI-002", want: pass_, says: []string{"5 nodes"}},
	{
		name:   "F61: a node without the driver",
		code:   "CSI-002",
		want:   fails,
		says:   []string{"ip-10-0-1-12.ec2.internal has no ebs.csi.aws.com"},
		change: func(s *v1.Snapshot) { s.Volumes.CSINodes[4].Drivers = nil },
	},
	{
		name:   "a node without the driver that does not migrate yet",
		code:   "CSI-002",
		base:   of1_22,
		want:   warn,
		says:   []string{"ip-10-0-1-12.ec2.internal has no ebs.csi.aws.com yet"},
		change: func(s *v1.Snapshot) { s.Volumes.CSINodes[4].Drivers = nil },
	},
	{name: "a tainted node without the driver", code: "CSI-002", want: pass_, says: []string{"4 nodes"}, change: func(s *v1.Snapshot) {
		s.Volumes.CSINodes[0].Drivers, s.Nodes[0].Taints = nil, []string{"node-role.kubernetes.io/control-plane=:NoSchedule"}
	}},
	{name: "a node that is not ready for a moment", code: "CSI-002", want: fails, says: []string{"1 of 5 nodes"}, change: func(s *v1.Snapshot) {
		s.Volumes.CSINodes[3].Drivers, s.Nodes[3].Taints = nil, []string{"node.kubernetes.io/not-ready=:NoSchedule"}
	}},
	{name: "no node is for ordinary pods", code: "CSI-002", want: fails, says: []string{"1 of 5 nodes"}, change: func(s *v1.Snapshot) {
		s.Volumes.CSINodes[3].Drivers = nil
		for i := range s.Nodes {
			s.Nodes[i].Taints = []string{"node-role.kubernetes.io/control-plane=:NoSchedule"}
		}
	}},
	{name: "a tainted node that has volumes mounted in-tree", code: "CSI-002", want: fails, change: func(s *v1.Snapshot) {
		s.Volumes.CSINodes[0].Drivers, s.Nodes[0].Taints = nil, []string{"dedicated=db:NoSchedule"}
		mountInTree(s, 0)
	}},
	{name: "the driver is not installed", code: "CSI-002", want: skipped, says: []string{"CSI-001"}, change: func(s *v1.Snapshot) { s.Volumes.CSIDrivers = nil }},
	{name: "nodes could not be listed", code: "CSI-002", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "a release that nothing speaks against", code: "CSI-003", want: pass_, says: []string{"ebs.csi.aws.com v1.28.0", "1.26"}},
	{name: "F66: a vSphere release that fits", code: "CSI-003", base: vSphereCluster, want: pass_},
	{
		name: "F66: the vSphere driver of 1.21 and Kubernetes 1.22",
		code: "CSI-003",
		base: vSphereCluster,
		want: warn,
		says: []string{"csi.vsphere.vmware.com v2.3.0 is meant for Kubernetes up to 1.21"},
		change: func(s *v1.Snapshot) {
			s.Cluster.Version = "v1.22.0"
			driverImage(s, "gcr.io/cloud-provider-vsphere/csi/release/driver:v2.3.0")
		},
	},
	{
		name: "F66: a vSphere release that does not migrate",
		code: "CSI-003",
		base: vSphereCluster,
		want: fails,
		says: []string{"v2.0.1 does not take over in-tree volumes; 2.1 does"},
		change: func(s *v1.Snapshot) {
			driverImage(s, "gcr.io/cloud-provider-vsphere/csi/release/driver:v2.0.1")
		},
	},
	{name: "no driver", code: "CSI-003", want: skipped, change: func(s *v1.Snapshot) { s.Workloads = nil }},
	{name: "workloads could not be listed", code: "CSI-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads/deployments") }},

	{name: "the driver runs", code: "CSI-004", want: pass_},
	{
		name: "the controller is not ready",
		code: "CSI-004",
		want: fails,
		says: []string{"Deployment/kube-system/ebs-csi-controller", "no pod that is ready"},
		change: func(s *v1.Snapshot) {
			theWorkload(s, "Deployment/kube-system/ebs-csi-controller").Ready = 0
		},
	},
	{name: "the controller has no attacher", code: "CSI-004", want: fails, says: []string{"has no container csi-attacher"}, change: func(s *v1.Snapshot) {
		w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
		w.Containers = w.Containers[:2]
	}},
	{name: "sidecars of a mirror", code: "CSI-004", want: pass_, change: func(s *v1.Snapshot) {
		w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
		w.Containers[1] = v1.Container{Name: "provisioner", Image: "public.ecr.aws/eks-distro/kubernetes-csi/external-provisioner:v3.3.0"}
	}},
	{
		name:   "a node pod is not ready",
		code:   "CSI-004",
		want:   warn,
		says:   []string{"4 of 5 pods ready"},
		change: func(s *v1.Snapshot) { theWorkload(s, "DaemonSet/kube-system/ebs-csi-node").Ready = 4 },
	},
	{name: "the controller runs elsewhere", code: "CSI-004", want: warn, says: []string{"no controller of ebs.csi.aws.com"}, change: func(s *v1.Snapshot) {
		theWorkload(s, "Deployment/kube-system/ebs-csi-controller").Role = v1.RoleDNS
	}},
	{name: "no in-tree volume", code: "CSI-004", base: noInTreeVolumes, want: skipped},
	{name: "workloads could not be listed", code: "CSI-004", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},

	{name: "F71: the driver marks disks for the cluster", code: "CSI-005", want: pass_, says: []string{"ebs.csi.aws.com marks disks for lab"}},
	{
		name: "F71: the instances are tagged for another",
		code: "CSI-005",
		want: warn,
		says: []string{"--k8s-tag-cluster-id=other", "tagged for lab"},
		change: func(s *v1.Snapshot) {
			theWorkload(s, "Deployment/kube-system/ebs-csi-controller").Containers[0].Flags["k8s-tag-cluster-id"] = "other"
			s.Cloud.Instances[0].ClusterTags = []string{"lab=owned"}
		},
	},
	{name: "F71: two drivers of two IDs", code: "CSI-005", want: warn, says: []string{"elsewhere other"}, change: func(s *v1.Snapshot) {
		theWorkload(s, "DaemonSet/kube-system/ebs-csi-node").Containers[0].Flags = map[string]string{"k8s-tag-cluster-id": "other"}
	}},
	{
		name: "F71: vSphere keeps it in a Secret",
		code: "CSI-005",
		base: vSphereCluster,
		want: skipped,
		says: []string{"vmware-system-csi/vsphere-config-secret", "grep cluster-id"},
	},
	{name: "workloads could not be listed", code: "CSI-005", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},
}

// theWorkload returns a workload of the snapshot, to be changed.
func theWorkload(s *v1.Snapshot, ref string) *v1.Workload {
	for i := range s.Workloads {
		if s.Workloads[i].Ref == ref {
			return &s.Workloads[i]
		}
	}
	panic("there is no " + ref)
}

// driverImage changes the first container of every CSI workload.
func driverImage(s *v1.Snapshot, image string) {
	for i := range s.Workloads {
		if s.Workloads[i].Role == v1.RoleCSIController || s.Workloads[i].Role == v1.RoleCSINode {
			s.Workloads[i].Containers[0].Image = image
		}
	}
}
