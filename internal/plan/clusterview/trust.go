package clusterview

import (
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// TrustDirs are the directories with certificates of authorities on the distributions that kubeadm knows. They are
// links into each other, so that all that the kube-controller-manager has are mounted.
var TrustDirs = []string{
	"/etc/ssl/certs",
	"/etc/ca-certificates",
	"/etc/pki",
	"/usr/local/share/ca-certificates",
	"/usr/share/ca-certificates",
}

// TrustMounts are the mounts by which the kube-controller-manager trusts a private authority of the cloud's endpoints.
func TrustMounts(m *v1.Component) []controlplane.HostPath {
	var out []controlplane.HostPath
	if m.Runs == v1.RunsSystemd { // a unit sees the host's own: those of Debian's and of Red Hat's family
		return []controlplane.HostPath{
			{Path: "/etc/ssl/certs", Type: "DirectoryOrCreate"},
			{Path: "/etc/pki", Type: "DirectoryOrCreate"},
		}
	}
	for _, dir := range TrustDirs {
		if m.HostPaths[dir] == dir {
			out = append(out, controlplane.HostPath{Path: dir, Type: "DirectoryOrCreate"})
		}
	}
	return out
}

// ConfigFileMounts are the files that a host's cloud config names, e.g. the authority of the cloud's endpoints or a
// client certificate. Without one of them the manager does not start. What lies in a directory that is mounted anyway
// is left out.
func ConfigFileMounts(h v1.Host, m *v1.Component) []controlplane.HostPath {
	if h.CloudConfig == nil {
		return nil
	}
	var out []controlplane.HostPath
	for _, key := range slices.Sorted(maps.Keys(h.CloudConfig.Settings)) {
		value := h.CloudConfig.Settings[key]
		name := strings.ToLower(key[strings.LastIndex(key, ".")+1:])
		if !path.IsAbs(value) || path.Clean(value) != value ||
			!strings.HasSuffix(name, "file") && !strings.HasSuffix(name, "certpath") {
			continue
		}
		if !slices.ContainsFunc(
			TrustMounts(m),
			func(d controlplane.HostPath) bool { return strings.HasPrefix(value, d.Path+"/") },
		) {
			out = append(out, controlplane.HostPath{Path: value, Type: "File"})
		}
	}
	return out
}

// ProxyVariables are the environment variables by which a manager reaches the cloud, and whom it trusts on the way.
var ProxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
