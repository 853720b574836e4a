package cloudprovider

// PlatformFor names what of the cloud itself must be new enough before a minor hands volumes of an in-tree plugin to
// their CSI driver. It is empty if nothing is known to be too old.
func PlatformFor(plugin string, minor int) string {
	out := ""
	for _, p := range platforms[plugin] {
		if minor >= p.since {
			out = p.platform
		}
	}
	return out
}

// platforms: MinvCenterVersion and the hardware version of k8s.io/legacy-cloud-providers vsphere/vclib, which warns
// about less and does not stop.
var platforms = map[string][]struct {
	since    int
	platform string
}{
	"kubernetes.io/vsphere-volume": {
		{20, "vCenter and ESXi 6.7 Update 3 or later, virtual hardware 15 or later"},
		{24, "vCenter and ESXi 7.0 Update 2 or later, virtual hardware 15 or later"},
	},
}
