// Package csidriver holds what is known of the CSI drivers that take volumes over from in-tree plugins: their
// releases, parameters and credentials.
package csidriver

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// attaching are the sidecars of a driver whose volumes are attached to nodes: kubernetes-csi/external-provisioner and
// external-attacher.
var attaching = []string{"csi-provisioner", "csi-attacher"}

// drivers: names and flags from each driver's own repository (kubernetes-sigs/aws-ebs-csi-driver,
// kubernetes-sigs/azuredisk-csi-driver, kubernetes-sigs/azurefile-csi-driver,
// kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, kubernetes/cloud-provider-openstack,
// kubernetes-sigs/vsphere-csi-driver). The minors are those that the README or the release notes of a series name.
// vSphere's is the only driver that names an upper end, and it has none for 1.22 before 2.4.
//
// vSphere: the release notes of v3.0.0 name 1.27 as the newest, those of v3.8.0 the range 1.34 to 1.36.
// vsphere-tmm/helm-charts #106 quotes the ranges of 3.5 to 3.7. The notes of 3.2, 3.3 and 3.4 name the newest minor
// only (1.29, 1.30, 1.32). The oldest is two before it, as in each named range. 3.1 names none.
var drivers = []Driver{
	{
		Name:        "cinder.csi.openstack.org",
		Images:      []string{"cinder-csi-plugin"},
		ClusterFlag: "cluster",
		Zonal:       true,
		Sidecars:    attaching,
	},
	{
		Name:          "csi.vsphere.vmware.com",
		Images:        []string{"csi/release/driver", "csi-vsphere/driver", "vsphere-csi-driver"},
		MigratesSince: "2.1",
		ClusterSecret: "vmware-system-csi/vsphere-config-secret",
		Sidecars:      attaching,
		Releases: []DriverRelease{
			{
				"1.0",
				14,
				16,
			},
			{"2.0", 16, 18},
			{"2.1", 17, 19},
			{"2.2", 18, 20},
			{"2.3", 19, 21},
			{"2.4", 20, 22},
			{"2.5", 21, 23},
			{"2.6", 22, 24},
			{"2.7", 23, 25},
			{
				"3.0",
				24,
				27,
			},
			{"3.2", 27, 29},
			{"3.3", 28, 30},
			{"3.4", 30, 32},
			{"3.5", 31, 33},
			{"3.6", 32, 34},
			{"3.7", 33, 35},
			{"3.8", 34, 36},
		},
	},
	{
		Name: "disk.csi.azure.com", Images: []string{"azuredisk-csi"}, Sidecars: attaching,
		Releases: []DriverRelease{
			{
				"1.4",
				18,
				0,
			},
			{"1.5", 18, 0},
			{"1.6", 18, 0},
			{"1.19", 20, 0},
			{"1.20", 20, 0},
			{"1.21", 20, 0},
			{"1.24", 21, 0},
			{"1.25", 21, 0},
			{"1.26", 21, 0},
			{
				"1.27",
				21,
				0,
			},
			{"1.28", 21, 0},
			{"1.29", 21, 0},
			{"1.30", 21, 0},
			{"1.31", 21, 0},
			{"1.32", 21, 0},
			{"1.33", 21, 0},
			{"1.34", 21, 0},
		},
	},
	{
		Name:        "ebs.csi.aws.com",
		Images:      []string{"aws-ebs-csi-driver"},
		ClusterFlag: "k8s-tag-cluster-id",
		Zonal:       true,
		Sidecars:    attaching,
	},
	{Name: "file.csi.azure.com", Images: []string{"azurefile-csi"}, Sidecars: []string{"csi-provisioner"}},
	{
		Name:     "pd.csi.storage.gke.io",
		Images:   []string{"gcp-compute-persistent-disk-csi-driver"},
		Zonal:    true,
		Sidecars: attaching,
	},
}

const rawVSAN = "the driver takes storage policies and no vSAN parameters: existing volumes go on, new ones are not provisioned"

// refusedParameters: k8s.io/csi-translation-lib plugins/{vsphere_volume,azure_disk}.go, and the driver's page on
// migration.
var refusedParameters = map[string][]ClassParameter{
	"kubernetes.io/azure-disk": {
		{
			Name:   "kind",
			Values: []string{"shared", "dedicated"},
			Why:    "blobs in a storage account are not translated: neither existing volumes nor new ones work with the driver",
		},
	},
	"kubernetes.io/vsphere-volume": {
		{Name: "cachereservation", Why: rawVSAN},
		{
			Name:   "diskformat",
			Values: []string{"eagerzeroedthick", "zeroedthick"},
			Why:    "the driver makes thick disks by a vSAN storage policy only: new volumes are not provisioned",
		},
		{Name: "diskstripes", Why: rawVSAN},
		{Name: "forceprovisioning", Why: rawVSAN},
		{Name: "hostfailurestotolerate", Why: rawVSAN},
		{Name: "iopslimit", Why: rawVSAN},
		{Name: "objectspacereservation", Why: rawVSAN},
	},
}

// refusedHandles: k8s.io/csi-translation-lib plugins/azure_disk.go refuses a disk that is not managed, which is a URI
// of a blob. The vSphere driver registers a disk by [datastore] path.vmdk. It finds neither a datastore cluster nor a
// folder in the brackets.
var refusedHandles = map[string][]refusedHandle{
	"kubernetes.io/azure-disk": {
		{regexp.MustCompile(`^(?i)https?://`), "is a blob in a storage account, which the driver does not take"},
	},
	"kubernetes.io/vsphere-volume": {
		{regexp.MustCompile(`^\[[^\]]*/[^\]]*\]`), "names its datastore by a path, which the driver does not find"},
	},
}

// Driver is a CSI driver that takes the place of an in-tree volume plugin.
type Driver struct {
	// Name is the driver's, e.g. ebs.csi.aws.com.
	Name string
	// Images are ends of the repositories that hold it, e.g. aws-ebs-csi-driver; registries differ between installers.
	Images []string
	// MigratesSince is the first release, e.g. 2.1, that takes over volumes of the in-tree plugin; empty when every
	// release in use does.
	MigratesSince string
	// Releases tell which minors of Kubernetes its makers name for a series, sorted; a series that is not listed is not
	// judged.
	Releases []DriverRelease
	// ClusterFlag is the flag by which it marks disks as this cluster's; empty when it has none. ClusterSecret is where
	// the mark is kept instead, namespace/name.
	ClusterFlag, ClusterSecret string
	// Zonal reports whether a disk can be attached in one zone only.
	Zonal bool
	// Sidecars are the ends of the repositories of the containers that its controller needs next to the driver.
	Sidecars []string
}

// DriverRelease is what the makers of a driver say of a series.
type DriverRelease struct {
	// Series is 2.4 for 2.4.1.
	Series string
	// Oldest and Newest minor of Kubernetes; 0 for Newest means that none is named.
	Oldest, Newest int
}

// Supports reports whether a release is meant for a minor of Kubernetes.
func (r DriverRelease) Supports(minor int) bool {
	return minor >= r.Oldest && (r.Newest == 0 || minor <= r.Newest)
}

// DriverOf returns a CSI driver by its name.
func DriverOf(name string) (Driver, bool) {
	i := slices.IndexFunc(drivers, func(d Driver) bool { return d.Name == name })
	if i < 0 {
		return Driver{}, false
	}
	return drivers[i], true
}

// IsImage reports whether an image is the driver's.
func (d Driver) IsImage(image string) bool {
	repository := repositoryOf(image)
	return slices.ContainsFunc(
		d.Images,
		func(end string) bool { return repository == end || strings.HasSuffix(repository, "/"+end) },
	)
}

func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// Release returns what is known of the series of a version such as v2.4.1.
func (d Driver) Release(version string) (DriverRelease, bool) {
	major, minor, ok := series(version)
	if !ok {
		return DriverRelease{}, false
	}
	want := strconv.Itoa(major) + "." + strconv.Itoa(minor)
	i := slices.IndexFunc(d.Releases, func(r DriverRelease) bool { return r.Series == want })
	if i < 0 {
		return DriverRelease{}, false
	}
	return d.Releases[i], true
}

// Migrates reports whether a version such as v2.0.1 takes over volumes of the in-tree plugin. The second result is
// false when the version cannot be compared.
func (d Driver) Migrates(version string) (migrates, known bool) {
	major, minor, ok := series(version)
	if !ok {
		return false, false
	}
	sinceMajor, sinceMinor, bound := series(d.MigratesSince)
	return !bound || major > sinceMajor || major == sinceMajor && minor >= sinceMinor, true
}

// series are the first two numbers of v2.4.1.
func series(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}

// ClassParameter is a StorageClass parameter of an in-tree plugin that its CSI driver does not take.
type ClassParameter struct {
	// Name in lower case; the plugins do not look at the case.
	Name string
	// Values that are refused, in lower case; nil means every one.
	Values []string
	// Why is a clause that says what becomes of it.
	Why string
}

// RefusedParameter returns why the driver of an in-tree plugin does not take a StorageClass parameter; false when it
// does.
func RefusedParameter(plugin, name, value string) (ClassParameter, bool) {
	for _, p := range refusedParameters[plugin] {
		if p.Name == strings.ToLower(name) && (p.Values == nil || slices.Contains(p.Values, strings.ToLower(value))) {
			return p, true
		}
	}
	return ClassParameter{}, false
}

// RefusedHandle returns why the driver of an in-tree plugin cannot take over a disk of this name; empty when it can.
func RefusedHandle(plugin, handle string) string {
	for _, r := range refusedHandles[plugin] {
		if r.pattern.MatchString(handle) {
			return r.why
		}
	}
	return ""
}

type refusedHandle struct {
	pattern *regexp.Regexp
	why     string
}
