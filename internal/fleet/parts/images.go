package parts

import "slices"

// images are the containers of a CSI driver for a span of minors of Kubernetes.
type images struct {
	// from and to are the first and the last minor.
	from, to int
	driver   string
	// registry and the tags of the sidecars in it.
	registry                                               string
	provisioner, attacher, resizer, registrar, healthProbe string
	// also is a second container of the driver's own in the controller; empty for none.
	also string
}

func (i images) sidecar(name, tag string) string { return i.registry + "/" + name + ":" + tag }

// registry has what the manifests of older releases name in k8s.gcr.io, too, which was frozen in 2023 and redirects to
// it (kubernetes.io/blog/2023/03/10/image-registry-redirect).
const (
	registry      = "registry.k8s.io/sig-storage"
	azureRegistry = "mcr.microsoft.com/oss/kubernetes-csi"
	// azureSecond has Azure's drivers and their sidecars since 1.31 of the drivers.
	azureSecond = "mcr.microsoft.com/oss/v2/kubernetes-csi"

	vsphereRegistry = "registry.k8s.io/csi-vsphere"
)

// imagesOf are the images by driver. A driver's minors are those that its makers name for the release; its sidecars
// those of the release's own manifests.
//
//   - ebs: kubernetes-sigs/aws-ebs-csi-driver, README.md and deploy/kubernetes/overlays/stable/gcr of v1.19.0 and
//     v1.31.0. v1.19.0 is for Kubernetes 1.17 and later, v1.31.0 for all minors that the project or EKS supports, which
//     began with 1.23 then. A tag's manifests name the release before it. v1.44.0 is in v1.45.0 of June 2025, when 1.33
//     was the newest minor. v1.63.1 is in v1.64.0 of August 2026, when that was 1.36.
//   - cinder: kubernetes/cloud-provider-openstack, manifests/cinder-csi-plugin of the newest tag of each minor; a
//     plugin is released for its minor.
//   - azure disk: kubernetes-sigs/azuredisk-csi-driver, README.md and deploy of v1.21.0 (1.20 and later), v1.29.2 and
//     v1.34.5 (1.21 and later). v1.34.5 was the newest of August 2026, when 1.36 was the newest minor.
//   - azure file: kubernetes-sigs/azurefile-csi-driver, README.md and deploy of v1.22.0, v1.29.0 and v1.35.7 (1.21 and
//     later). The README of v1.22.0 names v1.21.0 for 1.20. v1.35.7 was the newest of August 2026.
//   - gce pd: kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, README.md (1.25: 1.8, 1.26: 1.9, 1.27: 1.10, 1.28
//     and 1.29: 1.12). The other source is deploy/kubernetes/images/stable-master of v1.8.22, v1.10.1 and v1.12.2; each
//     of these names a published image. Before 1.25 the README names no minors; the release that was stable then is
//     taken. So it is from 1.31 on, for which the README has hardly a row: what stable-master named when the minor was
//     the newest. For 1.36 that is v1.26.0, whose node part asks the API for its node, which these objects do not let
//     it: it is left out.
//   - vsphere: kubernetes-sigs/vsphere-csi-driver, manifests/vanilla of the tags, for v3.8.0 the images of its release
//     notes; the minors are those of catalogue.DriverOf. Since 3.1 its README.md names the images in
//     registry.k8s.io/csi-vsphere.
var imagesOf = map[string][]images{
	"ebs.csi.aws.com": {
		{
			20,
			22,
			"registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.18.0",
			registry,
			"v3.4.1",
			"v4.2.0",
			"v1.7.0",
			"v2.7.0",
			"v2.9.0",
			"",
		},
		{
			23,
			30,
			"registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.30.0",
			registry,
			"v4.0.1",
			"v4.5.1",
			"v1.10.1",
			"v2.10.1",
			"v2.12.0",
			"",
		},
		{
			31,
			33,
			"registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.44.0",
			registry,
			"v5.3.0",
			"v4.9.0",
			"v1.14.0",
			"v2.14.0",
			"v2.16.0",
			"",
		},
		{
			34,
			36,
			"registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.63.1",
			registry,
			"v6.3.0",
			"v4.12.0",
			"v2.2.1",
			"v2.17.0",
			"v2.19.0",
			"",
		},
	},
	"cinder.csi.openstack.org": {
		{
			20,
			20,
			"docker.io/k8scloudprovider/cinder-csi-plugin:v1.20.0",
			registry,
			"v1.6.1",
			"v2.2.1",
			"v0.5.1",
			"v1.3.0",
			"v2.1.0",
			"",
		},
		{
			21,
			21,
			"docker.io/k8scloudprovider/cinder-csi-plugin:v1.21.0",
			registry,
			"v2.1.1",
			"v3.1.0",
			"v1.1.0",
			"v1.3.0",
			"v2.1.0",
			"",
		},
		{
			22,
			22,
			"docker.io/k8scloudprovider/cinder-csi-plugin:v1.22.0",
			registry,
			"v2.2.0",
			"v3.1.0",
			"v1.1.0",
			"v2.1.0",
			"v2.2.0",
			"",
		},
		{
			23,
			23,
			"docker.io/k8scloudprovider/cinder-csi-plugin:v1.23.0",
			registry,
			"v3.0.0",
			"v3.3.0",
			"v1.3.0",
			"v2.4.0",
			"v2.5.0",
			"",
		},
		{
			24,
			24,
			"docker.io/k8scloudprovider/cinder-csi-plugin:v1.24.6",
			registry,
			"v3.1.0",
			"v3.4.0",
			"v1.4.0",
			"v2.5.0",
			"v2.6.0",
			"",
		},
		{
			25,
			25,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.25.6",
			registry,
			"v3.1.0",
			"v3.4.0",
			"v1.4.0",
			"v2.5.1",
			"v2.7.0",
			"",
		},
		{
			26,
			26,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.26.4",
			registry,
			"v3.3.0",
			"v4.0.0",
			"v1.4.0",
			"v2.6.2",
			"v2.8.0",
			"",
		},
		{
			27,
			27,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.27.3",
			registry,
			"v3.4.1",
			"v4.2.0",
			"v1.7.0",
			"v2.6.3",
			"v2.9.0",
			"",
		},
		{
			28,
			28,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.28.3",
			registry,
			"v3.4.1",
			"v4.2.0",
			"v1.8.0",
			"v2.6.3",
			"v2.9.0",
			"",
		},
		{
			29,
			29,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.29.0",
			registry,
			"v3.6.2",
			"v4.4.2",
			"v1.9.2",
			"v2.9.2",
			"v2.11.0",
			"",
		},
		{
			30,
			30,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.30.3",
			registry,
			"v3.6.2",
			"v4.4.2",
			"v1.9.2",
			"v2.9.2",
			"v2.11.0",
			"",
		},
		{
			31,
			31,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.31.4",
			registry,
			"v3.6.2",
			"v4.4.2",
			"v1.9.2",
			"v2.9.2",
			"v2.11.0",
			"",
		},
		{
			32,
			32,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.32.1",
			registry,
			"v5.1.0",
			"v4.7.0",
			"v1.12.0",
			"v2.12.0",
			"v2.14.0",
			"",
		},
		{
			33,
			33,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.33.1",
			registry,
			"v5.1.0",
			"v4.7.0",
			"v1.12.0",
			"v2.12.0",
			"v2.14.0",
			"",
		},
		{
			34,
			34,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.34.1",
			registry,
			"v5.3.0",
			"v4.10.0",
			"v1.14.0",
			"v2.15.0",
			"v2.17.0",
			"",
		},
		{
			35,
			35,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.35.0",
			registry,
			"v5.3.0",
			"v4.10.0",
			"v1.14.0",
			"v2.15.0",
			"v2.17.0",
			"",
		},
		{
			36,
			36,
			"registry.k8s.io/provider-os/cinder-csi-plugin:v1.36.0",
			registry,
			"v5.3.0",
			"v4.10.0",
			"v1.14.0",
			"v2.15.0",
			"v2.17.0",
			"",
		},
	},
	"disk.csi.azure.com": {
		{
			20,
			20,
			azureRegistry + "/azuredisk-csi:v1.21.0",
			azureRegistry,
			"v3.2.0",
			"v3.5.0",
			"v1.5.0",
			"v2.5.1",
			"v2.7.0",
			"",
		},
		{
			21,
			30,
			azureRegistry + "/azuredisk-csi:v1.29.2",
			azureRegistry,
			"v3.5.0",
			"v4.3.0",
			"v1.8.0",
			"v2.8.0",
			"v2.10.0",
			"",
		},
		{
			31,
			36,
			azureSecond + "/azuredisk-csi:v1.34.5",
			azureSecond,
			"v6.3.0",
			"v4.12.0",
			"v2.2.0",
			"v2.17.0",
			"v2.19.0",
			"",
		},
	},
	"file.csi.azure.com": {
		{
			20,
			20,
			azureRegistry + "/azurefile-csi:v1.21.0",
			azureRegistry,
			"v3.2.0",
			"v3.5.0",
			"v1.5.0",
			"v2.5.1",
			"v2.7.0",
			"",
		},
		{
			21,
			30,
			azureRegistry + "/azurefile-csi:v1.29.0",
			azureRegistry,
			"v3.5.0",
			"v4.3.0",
			"v1.8.0",
			"v2.8.0",
			"v2.10.0",
			"",
		},
		{31, 36, azureSecond + "/azurefile-csi:v1.35.7", azureSecond, "v6.3.0", "", "v2.2.0", "v2.17.0", "v2.19.0", ""},
	},
	"pd.csi.storage.gke.io": {
		{
			20,
			22,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.3.4",
			registry,
			"v2.2.1",
			"v3.2.1",
			"v1.2.0",
			"v2.1.0",
			"v2.4.0",
			"",
		},
		{
			23,
			25,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.7.2",
			registry,
			"v3.1.0",
			"v3.4.0",
			"v1.4.0",
			"v2.5.0",
			"v2.6.0",
			"",
		},
		{
			26,
			26,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.9.2",
			registry,
			"v3.4.0",
			"v4.2.0",
			"v1.7.0",
			"v2.7.0",
			"v2.9.0",
			"",
		},
		{
			27,
			30,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.10.1",
			registry,
			"v3.4.0",
			"v4.2.0",
			"v1.7.0",
			"v2.7.0",
			"v2.9.0",
			"",
		},
		{
			31,
			32,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.15.0",
			registry,
			"v5.1.0",
			"v4.4.3",
			"v1.12.0",
			"v2.9.3",
			"",
			"",
		},
		{
			33,
			34,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.17.4",
			registry,
			"v5.2.0",
			"v4.8.1",
			"v1.13.2",
			"v2.13.0",
			"",
			"",
		},
		{
			35,
			35,
			"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.17.4",
			registry,
			"v6.0.0",
			"v4.8.1",
			"v2.0.0",
			"v2.13.0",
			"",
			"",
		},
	},
	"csi.vsphere.vmware.com": {
		{
			20,
			22,
			"gcr.io/cloud-provider-vsphere/csi/release/driver:v2.4.1",
			registry,
			"v3.0.0",
			"v3.3.0",
			"v1.3.0",
			"v2.3.0",
			"v2.4.0",
			"gcr.io/cloud-provider-vsphere/csi/release/syncer:v2.4.1",
		},
		{
			23,
			24,
			"gcr.io/cloud-provider-vsphere/csi/release/driver:v2.6.2",
			registry,
			"v3.2.1",
			"v3.4.0",
			"v1.4.0",
			"v2.5.1",
			"v2.7.0",
			"gcr.io/cloud-provider-vsphere/csi/release/syncer:v2.6.2",
		},
		{
			25,
			25,
			"gcr.io/cloud-provider-vsphere/csi/release/driver:v2.7.3",
			registry,
			"v3.3.0",
			"v3.5.0",
			"v1.6.0",
			"v2.6.2",
			"v2.8.0",
			"gcr.io/cloud-provider-vsphere/csi/release/syncer:v2.7.3",
		},
		{
			26,
			26,
			"gcr.io/cloud-provider-vsphere/csi/release/driver:v3.0.3",
			registry,
			"v3.4.0",
			"v4.2.0",
			"v1.7.0",
			"v2.7.0",
			"v2.9.0",
			"gcr.io/cloud-provider-vsphere/csi/release/syncer:v3.0.3",
		},
		{
			27,
			27,
			vsphereRegistry + "/driver:v3.2.0",
			registry,
			"v4.0.0",
			"v4.5.0",
			"v1.10.0",
			"v2.10.0",
			"v2.12.0",
			vsphereRegistry + "/syncer:v3.2.0",
		},
		{
			28,
			30,
			vsphereRegistry + "/driver:v3.3.1",
			registry,
			"v4.0.1",
			"v4.5.1",
			"v1.10.1",
			"v2.10.1",
			"v2.12.0",
			vsphereRegistry + "/syncer:v3.3.1",
		},
		{
			31,
			33,
			vsphereRegistry + "/driver:v3.5.1",
			registry,
			"v4.0.1",
			"v4.8.1",
			"v1.12.0",
			"v2.13.0",
			"v2.15.0",
			vsphereRegistry + "/syncer:v3.5.1",
		},
		{
			34,
			35,
			vsphereRegistry + "/driver:v3.7.3",
			registry,
			"v4.0.1",
			"v4.9.0",
			"v1.12.0",
			"v2.13.0",
			"v2.15.0",
			vsphereRegistry + "/syncer:v3.7.3",
		},
		{
			36,
			36,
			vsphereRegistry + "/driver:v3.8.0",
			registry,
			"v4.0.1",
			"v4.10.0",
			"v2.0.0",
			"v2.14.0",
			"v2.17.0",
			vsphereRegistry + "/syncer:v3.8.0",
		},
	},
}

// Known reports whether a release of every CSI driver of a provider, as --cloud-provider names it, is known for a minor
// of Kubernetes.
func Known(provider string, minor int) bool {
	drivers := driversOf[provider]
	for _, d := range drivers {
		if _, ok := imagesAt(d.name, minor); !ok {
			return false
		}
	}
	return len(drivers) > 0
}

func imagesAt(driver string, minor int) (images, bool) {
	i := slices.IndexFunc(imagesOf[driver], func(i images) bool { return minor >= i.from && minor <= i.to })
	if i < 0 {
		return images{}, false
	}
	return imagesOf[driver][i], true
}
