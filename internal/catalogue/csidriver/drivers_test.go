package csidriver

import (
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

func TestEveryInTreePluginHasADriver(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
		for _, v := range p.Plugins {
			d, ok := DriverOf(v.Driver)
			if !ok || len(d.Images) == 0 {
				t.Errorf("%s: driver %s is not listed with its images", v.Name, v.Driver)
			}
		}
	}
	if _, ok := DriverOf("nfs.csi.k8s.io"); ok {
		t.Error("a driver that replaces no in-tree plugin is listed")
	}
}

func TestADriverIsKnownByTheEndOfItsRepository(t *testing.T) {
	for image, driver := range map[string]string{
		"public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.28.0":                     "ebs.csi.aws.com",
		"registry.example.com:5000/mirror/aws-ebs-csi-driver@sha256:aa":                "ebs.csi.aws.com",
		"gcr.io/cloud-provider-vsphere/csi/release/driver:v2.3.0":                      "csi.vsphere.vmware.com",
		"registry.k8s.io/csi-vsphere/driver:v3.3.1":                                    "csi.vsphere.vmware.com",
		"cinder-csi-plugin:v1.25.0":                                                    "cinder.csi.openstack.org",
		"registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1": "pd.csi.storage.gke.io",
	} {
		d, _ := DriverOf(driver)
		if !d.IsImage(image) {
			t.Errorf("%s is not taken for %s", image, driver)
		}
	}
	d, _ := DriverOf("ebs.csi.aws.com")
	for _, image := range []string{"registry.k8s.io/sig-storage/csi-provisioner:v3.0.0", "example.com/not-aws-ebs-csi-driver:v1"} {
		if d.IsImage(image) {
			t.Errorf("%s is taken for the EBS driver", image)
		}
	}
}

// The first reference document: no release of the vSphere driver supported 1.22 when it was written (2.3 was the newest).
func TestVSphereDriversBefore24DoNotKnow122(t *testing.T) {
	d, _ := DriverOf("csi.vsphere.vmware.com")
	for _, r := range d.Releases {
		if covers := 22 >= r.Oldest && 22 <= r.Newest; covers != slices.Contains([]string{"2.4", "2.5", "2.6"}, r.Series) {
			t.Errorf("series %s says it covers 1.22: %t", r.Series, covers)
		}
	}
	if r, ok := d.Release("v2.3.1"); !ok || r.Newest != 21 {
		t.Errorf("got %+v, %t for v2.3.1", r, ok)
	}
	if _, ok := d.Release("latest"); ok {
		t.Error("a tag without a version has a series")
	}
	for version, want := range map[string]bool{"v2.0.1": false, "v2.1.0": true, "v3.0.0": true, "v1.0.3": false} {
		if got, known := d.Migrates(version); got != want || !known {
			t.Errorf("%s migrates: %t (known: %t)", version, got, known)
		}
	}
	if _, known := d.Migrates("devel"); known {
		t.Error("a version that cannot be compared is known")
	}
}

func TestRefusedParametersAndHandles(t *testing.T) {
	const azure, vsphere = "kubernetes.io/azure-disk", "kubernetes.io/vsphere-volume"
	for _, tc := range []struct {
		plugin, name, value string
		want                bool
	}{
		{vsphere, "diskFormat", "eagerzeroedthick", true},
		{vsphere, "diskformat", "thin", false},
		{vsphere, "hostFailuresToTolerate", "2", true},
		{vsphere, "storagePolicyName", "gold", false},
		{azure, "kind", "Dedicated", true},
		{azure, "kind", "Managed", false},
		{"kubernetes.io/aws-ebs", "type", "gp2", false},
	} {
		if _, got := RefusedParameter(tc.plugin, tc.name, tc.value); got != tc.want {
			t.Errorf("%s %s=%s is refused: %t", tc.plugin, tc.name, tc.value, got)
		}
	}
	for handle, refused := range map[string]bool{
		"[vsanDatastore] kubevols/disk-1.vmdk": false, "[cluster/datastore1] kubevols/disk-1.vmdk": true,
	} {
		if got := RefusedHandle(vsphere, handle) != ""; got != refused {
			t.Errorf("%s is refused: %t", handle, got)
		}
	}
	if RefusedHandle(azure, "https://acc.blob.core.windows.net/vhds/a.vhd") == "" || RefusedHandle(azure, "/subscriptions/x/disks/a") != "" {
		t.Error("a blob is taken, or a managed disk refused")
	}
}

func TestCredentialConfigVersionsCameWithTheirMinors(t *testing.T) {
	for minor, want := range map[int][]string{
		19: nil,
		20: {"kubelet.config.k8s.io/v1alpha1"},
		24: {"kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"},
		26: {"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"},
	} {
		if got := catalogue.CredentialConfigAt(minor).ConfigVersions; !slices.Equal(got, want) {
			t.Errorf("1.%d: got %v, want %v", minor, got, want)
		}
	}
	if got := catalogue.CredentialConfigAt(26).PluginVersions[0]; got != "credentialprovider.kubelet.k8s.io/v1" {
		t.Errorf("got %s", got)
	}
}
