package parts

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// driver is a CSI driver as it is installed here.
type driver struct {
	// name is the driver's, short the beginning of the names of its objects.
	name, short string
	spec        storagev1.CSIDriverSpec
	// topology reports whether its volumes belong to zones.
	topology         bool
	controller, node program
	// oldNode is the node part before the minor oldNodeUntil, whose releases needed the cloud's credentials on every node.
	oldNode          *program
	oldNodeUntil     int
	controllerRights []rbacv1.PolicyRule
	nodeRights       []rbacv1.PolicyRule
	// localRights are what both parts may do in their own namespace alone.
	localRights []rbacv1.PolicyRule
	// elections are the leases of the driver's own programs, next to those of the sidecars.
	elections         []string
	class             class
	noAttach, noProbe bool
	// also is a second container of the controller; its image is images.also.
	also *program
	// settings are a ConfigMap that the driver reads; nil for none.
	settings *settings
}

// program is a container of the driver's own.
type program struct {
	name string
	// args may hold $(NAME) of env; %CLUSTER% stands for the name by which disks are marked as the cluster's.
	args []string
	env  []corev1.EnvVar
	// socket is the directory of the driver's socket in the container.
	socket string
	// secrets are the keys of the credentials Secret that are mounted as files in directory, and those that become
	// environment variables of the same name.
	directory string
	files     []string
	variables []string
	// paths of the host that it needs, next to the kubelet's directory.
	paths []string
	// hostNetwork of its pods, and the port of the health probe.
	hostNetwork bool
	port        int32
}

// class is a StorageClass.
type class struct {
	name       string
	parameters map[string]string
}

type settings struct {
	name string
	data map[string]string
}

func pointer[T any](v T) *T { return &v }

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{
		Name:      name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}},
	}
}

func value(name, v string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: v} }

// restrictToNames narrows a rule to objects of these names.
func restrictToNames(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

func rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// driversOf are the CSI drivers of a provider. They are started as in their makers' manifests (images.go says where
// those are), without the parts for snapshots, Windows and metrics.
var driversOf = map[string][]driver{
	"aws":       {ebs},
	"azure":     {azureDisk, azureFile},
	"gce":       {gcePD},
	"openstack": {cinder},
	"vsphere":   {vsphere},
}

var ebs = driver{
	name:     "ebs.csi.aws.com",
	short:    "ebs-csi",
	topology: true,
	spec:     storagev1.CSIDriverSpec{AttachRequired: pointer(true), PodInfoOnMount: pointer(false)},
	controller: program{
		name:      "ebs-plugin",
		args:      []string{"controller", "--endpoint=$(CSI_ENDPOINT)", "--k8s-tag-cluster-id=%CLUSTER%", "--v=2"},
		env:       []corev1.EnvVar{value("CSI_ENDPOINT", "unix:///csi/csi.sock"), field("CSI_NODE_NAME", "spec.nodeName")},
		variables: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
		socket:    "/csi",
		port:      9808,
	},
	node: program{
		name: "ebs-plugin", args: []string{"node", "--endpoint=$(CSI_ENDPOINT)", "--v=2"},
		env:    []corev1.EnvVar{value("CSI_ENDPOINT", "unix:///csi/csi.sock"), field("CSI_NODE_NAME", "spec.nodeName")},
		socket: "/csi", paths: []string{"/dev"}, port: 9808,
	},
	// Its makers grant patch on nodes as well, to take away a taint of theirs that is not set here. With it, root on one
	// worker could label any Node, its own as a control plane.
	nodeRights: []rbacv1.PolicyRule{
		rule("", []string{"nodes"}, []string{"get", "list", "watch"}),
		rule("storage.k8s.io", []string{"volumeattachments", "csinodes"}, []string{"get", "list", "watch"}),
	},
	class: class{"ebs-sc", map[string]string{"type": "gp3"}},
}

var cinder = driver{
	name:     "cinder.csi.openstack.org",
	short:    "csi-cinder",
	topology: true,
	spec: storagev1.CSIDriverSpec{
		AttachRequired: pointer(true),
		PodInfoOnMount: pointer(true),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
			storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral,
		},
	},
	controller: program{
		name: "cinder-csi-plugin",
		args: []string{
			"/bin/cinder-csi-plugin",
			"--endpoint=$(CSI_ENDPOINT)",
			"--cloud-config=/etc/config/cloud.conf",
			"--cluster=%CLUSTER%",
		},
		env:       []corev1.EnvVar{value("CSI_ENDPOINT", "unix://csi/csi.sock")},
		directory: "/etc/config",
		files:     []string{"cloud.conf"},
		socket:    "/csi",
		port:      9808,
	},
	node: program{
		name:        "cinder-csi-plugin",
		args:        []string{"/bin/cinder-csi-plugin", "--endpoint=$(CSI_ENDPOINT)", "--provide-controller-service=false"},
		env:         []corev1.EnvVar{value("CSI_ENDPOINT", "unix://csi/csi.sock")},
		socket:      "/csi",
		paths:       []string{"/dev"},
		hostNetwork: true,
		port:        9808,
	},
	// Since v1.32 the node part asks the metadata of its server alone (cmd/cinder-csi-plugin/main.go of
	// kubernetes/cloud-provider-openstack).
	oldNodeUntil: 32,
	oldNode: &program{
		name: "cinder-csi-plugin",
		args: []string{
			"/bin/cinder-csi-plugin",
			"--endpoint=$(CSI_ENDPOINT)",
			"--cloud-config=/etc/config/cloud.conf",
		},
		env:         []corev1.EnvVar{value("CSI_ENDPOINT", "unix://csi/csi.sock")},
		directory:   "/etc/config",
		files:       []string{"cloud.conf"},
		socket:      "/csi",
		paths:       []string{"/dev"},
		hostNetwork: true,
		port:        9808,
	},
	nodeRights: []rbacv1.PolicyRule{rule("", []string{"nodes"}, []string{"get", "list", "watch"})},
	class:      class{"cinder-csi", nil},
}

var azureDisk = driver{
	name:     "disk.csi.azure.com",
	short:    "csi-azuredisk",
	topology: true,
	spec: storagev1.CSIDriverSpec{
		AttachRequired: pointer(true),
		PodInfoOnMount: pointer(false),
		FSGroupPolicy:  pointer(storagev1.FileFSGroupPolicy),
	},
	controller: program{
		name: "azuredisk",
		args: []string{
			"--v=2",
			"--endpoint=$(CSI_ENDPOINT)",
			"--metrics-address=127.0.0.1:29604",
			"--disable-avset-nodes=false",
		},
		env: []corev1.EnvVar{
			value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
			value("AZURE_CREDENTIAL_FILE", "/etc/cloud/azure.json"),
		},
		directory: "/etc/cloud",
		files:     []string{"azure.json"},
		socket:    "/csi",
		port:      29602,
	},
	node: program{
		name: "azuredisk",
		args: []string{
			"--v=2",
			"--endpoint=$(CSI_ENDPOINT)",
			"--nodeid=$(KUBE_NODE_NAME)",
			"--metrics-address=127.0.0.1:29605",
			// without the cloud's credentials: zone and size are labels of the Node
			"--allow-empty-cloud-config=true",
			"--get-node-info-from-labels=true",
		},
		env: []corev1.EnvVar{
			value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
			field("KUBE_NODE_NAME", "spec.nodeName"),
		},
		socket:      "/csi",
		paths:       []string{"/dev", "/sys/bus/scsi/devices", "/sys/class"},
		hostNetwork: true,
		port:        29603,
	},
	// Its makers grant the controller every Secret, for a cloud config that is one. Here it is a file.
	nodeRights: []rbacv1.PolicyRule{rule("", []string{"nodes"}, []string{"get"})},
	class:      class{"azure-disk-csi", map[string]string{"skuName": "StandardSSD_LRS"}},
}

var azureFile = driver{
	name:     "file.csi.azure.com",
	short:    "csi-azurefile",
	noAttach: true,
	spec: storagev1.CSIDriverSpec{
		AttachRequired: pointer(false),
		PodInfoOnMount: pointer(true),
		FSGroupPolicy:  pointer(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
			storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral,
		},
	},
	controller: program{
		name: "azurefile",
		args: []string{"--v=2", "--endpoint=$(CSI_ENDPOINT)", "--metrics-address=127.0.0.1:29614"},
		env: []corev1.EnvVar{
			value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
			value("AZURE_CREDENTIAL_FILE", "/etc/cloud/azure.json"),
		},
		directory: "/etc/cloud",
		files:     []string{"azure.json"},
		socket:    "/csi",
		port:      29612,
	},
	node: program{
		name: "azurefile",
		args: []string{
			"--v=2",
			"--endpoint=$(CSI_ENDPOINT)",
			"--nodeid=$(KUBE_NODE_NAME)",
			"--metrics-address=127.0.0.1:29615",
			"--allow-empty-cloud-config=true",
		},
		env: []corev1.EnvVar{
			value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
			field("KUBE_NODE_NAME", "spec.nodeName"),
		},
		socket:      "/csi",
		paths:       []string{"/dev"},
		hostNetwork: true,
		port:        29613,
	},
	// The keys of storage accounts are Secrets in the namespaces of claims, as they were in tree. The node part reads the
	// key of the share that it mounts. RBAC has no rule for the Secrets of the claims of one node.
	controllerRights: []rbacv1.PolicyRule{rule("", []string{"secrets"}, []string{"get", "create"})},
	nodeRights:       []rbacv1.PolicyRule{rule("", []string{"secrets"}, []string{"get"})},
}

var gcePD = driver{
	name: "pd.csi.storage.gke.io", short: "csi-gce-pd", topology: true, noProbe: true,
	spec: storagev1.CSIDriverSpec{AttachRequired: pointer(true), PodInfoOnMount: pointer(false)},
	controller: program{
		name: "gce-pd-driver", args: []string{"--v=2", "--endpoint=unix:/csi/csi.sock"},
		env:       []corev1.EnvVar{value("GOOGLE_APPLICATION_CREDENTIALS", "/etc/cloud-sa/cloud-sa.json")},
		directory: "/etc/cloud-sa", files: []string{"cloud-sa.json"}, socket: "/csi",
	},
	node: program{
		name: "gce-pd-driver", args: []string{"--v=2", "--endpoint=unix:/csi/csi.sock", "--run-controller-service=false"},
		socket: "/csi", paths: []string{"/dev", "/etc/udev", "/lib/udev", "/run/udev", "/sys"}, hostNetwork: true,
	},
	class: class{"csi-gce-pd", map[string]string{"type": "pd-ssd"}},
}

var vsphere = driver{
	name: "csi.vsphere.vmware.com", short: "vsphere-csi",
	spec: storagev1.CSIDriverSpec{AttachRequired: pointer(true), PodInfoOnMount: pointer(false)},
	controller: program{
		name: "vsphere-csi-controller",
		args: []string{"--fss-name=internal-feature-states.csi.vsphere.vmware.com", "--fss-namespace=$(CSI_NAMESPACE)"},
		env: []corev1.EnvVar{
			value(
				"CSI_ENDPOINT",
				"unix:///csi/csi.sock",
			),
			value("X_CSI_MODE", "controller"),
			value("X_CSI_SPEC_DISABLE_LEN_CHECK", "true"),
			value("X_CSI_SERIAL_VOL_ACCESS_TIMEOUT", "3m"),
			value(
				"VSPHERE_CSI_CONFIG",
				"/etc/cloud/csi-vsphere.conf",
			),
			value("LOGGER_LEVEL", "PRODUCTION"),
			field("CSI_NAMESPACE", "metadata.namespace"),
		},
		directory: "/etc/cloud",
		files:     []string{"csi-vsphere.conf"},
		socket:    "/csi",
		port:      9808,
	},
	also: &program{
		name: "vsphere-syncer",
		args: []string{
			"--leader-election",
			"--fss-name=internal-feature-states.csi.vsphere.vmware.com",
			"--fss-namespace=$(CSI_NAMESPACE)",
		},
		env: []corev1.EnvVar{
			value(
				"FULL_SYNC_INTERVAL_MINUTES",
				"30",
			),
			value("VSPHERE_CSI_CONFIG", "/etc/cloud/csi-vsphere.conf"),
			value("LOGGER_LEVEL", "PRODUCTION"),
			field("CSI_NAMESPACE", "metadata.namespace"),
		},
		directory: "/etc/cloud",
		files:     []string{"csi-vsphere.conf"},
	},
	node: program{
		name: "vsphere-csi-node",
		args: []string{"--fss-name=internal-feature-states.csi.vsphere.vmware.com", "--fss-namespace=$(CSI_NAMESPACE)"},
		env: []corev1.EnvVar{
			field(
				"NODE_NAME",
				"spec.nodeName",
			),
			value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
			value("MAX_VOLUMES_PER_NODE", "59"),
			value("X_CSI_MODE", "node"),
			value(
				"X_CSI_SPEC_REQ_VALIDATION",
				"false",
			),
			value("X_CSI_SPEC_DISABLE_LEN_CHECK", "true"),
			value("LOGGER_LEVEL", "PRODUCTION"),
			field("CSI_NAMESPACE", "metadata.namespace"),
		},
		socket:      "/csi",
		paths:       []string{"/dev", "/sys/block", "/sys/devices"},
		hostNetwork: true,
		port:        9808,
	},
	controllerRights: []rbacv1.PolicyRule{
		rule(
			"cns.vmware.com",
			[]string{
				"triggercsifullsyncs",
				"cnsvspherevolumemigrations",
				"cnsvolumeinfoes",
				"cnsvolumeoperationrequests",
				"csinodetopologies",
			},
			[]string{"create", "get", "list", "watch", "update", "delete"},
		),
		rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, []string{"create"}),
		restrictToNames(rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, []string{"get", "update"}),
			"triggercsifullsyncs.cns.vmware.com", "cnsvspherevolumemigrations.cns.vmware.com", "cnsvolumeinfoes.cns.vmware.com",
			"cnsvolumeoperationrequests.cns.vmware.com", "csinodetopologies.cns.vmware.com"),
	},
	nodeRights: []rbacv1.PolicyRule{
		rule(
			"cns.vmware.com",
			[]string{"csinodetopologies"},
			[]string{"create", "watch", "get", "patch"},
		),
		rule("", []string{"nodes"}, []string{"get"}),
	},
	// The ConfigMap of feature states. The driver would make one of its own for its cluster-id; the config here has one.
	localRights: []rbacv1.PolicyRule{rule("", []string{"configmaps"}, see)},
	elections:   []string{"vsphere-syncer"},
	// csi-migration without the validating webhook of the makers. The webhook refuses parameters of StorageClasses that
	// the driver does not take, and check reports those before the migration. Half of it would refuse every StorageClass.
	settings: &settings{
		"internal-feature-states.csi.vsphere.vmware.com",
		map[string]string{
			"csi-migration":                     "true",
			"csi-auth-check":                    "true",
			"online-volume-extend":              "true",
			"trigger-csi-fullsync":              "false",
			"async-query-volume":                "true",
			"improved-csi-idempotency":          "true",
			"improved-volume-topology":          "true",
			"block-volume-snapshot":             "false",
			"csi-windows-support":               "false",
			"use-csinode-id":                    "true",
			"list-volumes":                      "false",
			"pv-to-backingdiskobjectid-mapping": "false",
			"cnsmgr-suspend-create-volume":      "true",
			"topology-preferential-datastores":  "true",
			"max-pvscsi-targets-per-vm":         "true",
		},
	},
	class: class{"vsphere-csi", nil},
}
