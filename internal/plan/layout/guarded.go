package layout

import (
	"path"
	"slices"
	"strings"
)

// IsGuarded reports whether a file of a host is one that no pod of a migration sees, and no step writes, whatever names
// it. Those are keys of the control plane, and credentials of others.
func IsGuarded(at string) bool { return IsGuardedPlace(at) || isCredential(at) }

// IsGuardedPlace reports whether a file is in a place that no cloud config can name for a manager.
func IsGuardedPlace(at string) bool {
	for _, dir := range []string{
		"/proc", "/sys", "/dev", "/root", "/home", "/boot", "/var/lib/kubelet", "/var/lib/etcd", "/etc/ssh",
		"/etc/kubernetes/manifests", Dir + "/backup", "/var/run", "/run",
	} {
		if at == dir || strings.HasPrefix(at, dir+"/") {
			return true
		}
	}
	base := path.Base(at)
	switch path.Dir(at) {
	case "/etc":
		return slices.Contains([]string{"shadow", "gshadow", "sudoers", "passwd"}, base)
	case "/etc/kubernetes":
		return strings.HasSuffix(base, ".conf") &&
			slices.Contains(
				[]string{
					"admin.conf",
					"super-admin.conf",
					"controller-manager.conf",
					"scheduler.conf",
					"kubelet.conf",
					"bootstrap-kubelet.conf",
				},
				base,
			)
	}
	return strings.HasPrefix(at, "/etc/kubernetes/pki/") && strings.HasSuffix(base, ".key") || path.Clean(at) != at ||
		!path.IsAbs(at) ||
		at == "/" ||
		at == "/etc" ||
		at == "/etc/kubernetes" ||
		at == "/etc/kubernetes/pki"
}

// isCredential reports whether a file holds, by its name, keys, tokens or passwords of a control plane, wherever its
// installer puts them.
func isCredential(at string) bool {
	base := strings.ToLower(path.Base(at))
	for _, dir := range []string{
		"/etc/ssl/private", "/etc/pki/tls/private", "/etc/kubernetes/ssl", "/etc/kubernetes/tokens",
		"/etc/kubernetes/users", "/etc/ssl/etcd",
	} {
		if at == dir || strings.HasPrefix(at, dir+"/") && !isCertificate(base) {
			return true
		}
	}
	switch {
	case strings.HasSuffix(base, ".key"), strings.HasSuffix(base, "-key.pem"), base == "key.pem":
		return true
	case !strings.HasPrefix(at, "/etc/kubernetes/"), isCertificate(base):
		return false
	case strings.HasSuffix(base, ".csv"): // of static tokens or passwords
		return true
	}
	for _, word := range []string{"encryption", "token-auth", "token_auth", "basic-auth", "basic_auth"} {
		if strings.Contains(base, word) {
			return true
		}
	}
	return false
}

func isCertificate(base string) bool {
	return strings.HasSuffix(base, ".crt") || strings.HasSuffix(base, ".pem") && !strings.HasSuffix(base, "key.pem")
}
