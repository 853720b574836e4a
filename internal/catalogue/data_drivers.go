package catalogue

import "regexp"

// attaching are the sidecars of a driver whose volumes are attached to nodes: kubernetes-csi/external-provisioner and external-attacher.
var attaching = []string{"csi-provisioner", "csi-attacher"}

// drivers: names and flags from each driver's own repository (kubernetes-sigs/aws-ebs-csi-driver, kubernetes-sigs/azuredisk-csi-driver,
// kubernetes-sigs/azurefile-csi-driver, kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, kubernetes/cloud-provider-openstack,
// kubernetes-sigs/vsphere-csi-driver). The minors are those that the README or the release notes of a series name; vSphere's is the only driver
// that names an upper end, and it has none for 1.22 before 2.4.
//
// vSphere: the release notes of v3.0.0 name 1.27 as the newest, those of v3.8.0 the range 1.34 to 1.36; vsphere-tmm/helm-charts #106 quotes the ranges of 3.5
// to 3.7. The notes of 3.2, 3.3 and 3.4 name the newest minor only (1.29, 1.30, 1.32): the oldest is two before it, as in each range that is named.
// 3.1 names none.
var drivers = []Driver{
	{Name: "cinder.csi.openstack.org", Images: []string{"cinder-csi-plugin"}, ClusterFlag: "cluster", Zonal: true, Sidecars: attaching},
	{
		Name: "csi.vsphere.vmware.com", Images: []string{"csi/release/driver", "csi-vsphere/driver", "vsphere-csi-driver"}, MigratesSince: "2.1",
		ClusterSecret: "vmware-system-csi/vsphere-config-secret", Sidecars: attaching,
		Releases: []DriverRelease{
			{"1.0", 14, 16}, {"2.0", 16, 18}, {"2.1", 17, 19}, {"2.2", 18, 20}, {"2.3", 19, 21}, {"2.4", 20, 22}, {"2.5", 21, 23}, {"2.6", 22, 24}, {"2.7", 23, 25},
			{"3.0", 24, 27}, {"3.2", 27, 29}, {"3.3", 28, 30}, {"3.4", 30, 32}, {"3.5", 31, 33}, {"3.6", 32, 34}, {"3.7", 33, 35}, {"3.8", 34, 36},
		},
	},
	{
		Name: "disk.csi.azure.com", Images: []string{"azuredisk-csi"}, Sidecars: attaching,
		Releases: []DriverRelease{
			{"1.4", 18, 0}, {"1.5", 18, 0}, {"1.6", 18, 0}, {"1.19", 20, 0}, {"1.20", 20, 0}, {"1.21", 20, 0}, {"1.24", 21, 0}, {"1.25", 21, 0}, {"1.26", 21, 0},
			{"1.27", 21, 0}, {"1.28", 21, 0}, {"1.29", 21, 0}, {"1.30", 21, 0}, {"1.31", 21, 0}, {"1.32", 21, 0}, {"1.33", 21, 0}, {"1.34", 21, 0},
		},
	},
	{Name: "ebs.csi.aws.com", Images: []string{"aws-ebs-csi-driver"}, ClusterFlag: "k8s-tag-cluster-id", Zonal: true, Sidecars: attaching},
	{Name: "file.csi.azure.com", Images: []string{"azurefile-csi"}, Sidecars: []string{"csi-provisioner"}},
	{Name: "pd.csi.storage.gke.io", Images: []string{"gcp-compute-persistent-disk-csi-driver"}, Zonal: true, Sidecars: attaching},
}

const rawVSAN = "the driver takes storage policies and no vSAN parameters: existing volumes go on, new ones are not provisioned"

// refusedParameters: k8s.io/csi-translation-lib plugins/{vsphere_volume,azure_disk}.go, and the driver's page on migration.
var refusedParameters = map[string][]ClassParameter{
	"kubernetes.io/azure-disk": {
		{Name: "kind", Values: []string{"shared", "dedicated"}, Why: "blobs in a storage account are not translated: neither existing volumes nor new ones work with the driver"},
	},
	"kubernetes.io/vsphere-volume": {
		{Name: "cachereservation", Why: rawVSAN},
		{Name: "diskformat", Values: []string{"eagerzeroedthick", "zeroedthick"}, Why: "the driver makes thick disks by a vSAN storage policy only: new volumes are not provisioned"},
		{Name: "diskstripes", Why: rawVSAN},
		{Name: "forceprovisioning", Why: rawVSAN},
		{Name: "hostfailurestotolerate", Why: rawVSAN},
		{Name: "iopslimit", Why: rawVSAN},
		{Name: "objectspacereservation", Why: rawVSAN},
	},
}

// refusedHandles: k8s.io/csi-translation-lib plugins/azure_disk.go refuses a disk that is not managed, which is a URI of a blob; the vSphere driver
// registers a disk by [datastore] path.vmdk and finds neither a datastore cluster nor a folder in the brackets.
var refusedHandles = map[string][]refusedHandle{
	"kubernetes.io/azure-disk":     {{regexp.MustCompile(`^(?i)https?://`), "is a blob in a storage account, which the driver does not take"}},
	"kubernetes.io/vsphere-volume": {{regexp.MustCompile(`^\[[^\]]*/[^\]]*\]`), "names its datastore by a path, which the driver does not find"}},
}

// credentialVersions: k8s.io/kubelet config and pkg/apis/credentialprovider of each minor; no version was removed up to 1.36. The newest first.
var credentialVersions = []struct {
	version string
	since   int
}{
	{"v1", 26},
	{"v1beta1", 24},
	{"v1alpha1", 20},
}
