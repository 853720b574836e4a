package csi

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// migratedPlugins is where a CSINode names the plugins whose volumes its kubelet leaves to CSI drivers.
const migratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"

// plugins are those whose volumes kubelets leave to CSI, with their gates: the minor in which each went on by default,
// and the one from which on it is locked or gone (kubernetes/kubernetes, pkg/features/kube_features.go).
var plugins = []struct {
	name, gate     string
	onSince, fixed uint
}{
	{"kubernetes.io/aws-ebs", "CSIMigrationAWS", 23, 25},
	{"kubernetes.io/azure-disk", "CSIMigrationAzureDisk", 23, 25},
	{"kubernetes.io/azure-file", "CSIMigrationAzureFile", 24, 27},
	{"kubernetes.io/cinder", "CSIMigrationOpenStack", 21, 24},
	{"kubernetes.io/gce-pd", "CSIMigrationGCE", 23, 25},
	{"kubernetes.io/vsphere-volume", "CSIMigrationvSphere", 25, 26},
}

// migratedOf are the plugins whose volumes a kubelet of a version leaves to CSI under its gates. A kubelet of an
// unknown version leaves all of them.
func migratedOf(kubelet string, gates map[string]string) string {
	v, err := version.ParseGeneric(kubelet)
	if err != nil {
		return MigratedPlugins
	}
	var out []string
	for _, p := range plugins {
		on := v.Minor() >= p.onSince
		if given, err := strconv.ParseBool(gates[p.gate]); err == nil && v.Minor() < p.fixed {
			on = given
		}
		if all, err := strconv.ParseBool(gates["CSIMigration"]); err == nil && v.Minor() < p.fixed {
			on = on && all
		}
		if on {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, ",")
}
