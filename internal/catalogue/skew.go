package catalogue

import "github.com/transplant-dev/transplant/internal/component"

// KubeletSkew is how many minors a kubelet may be older than an API server of a minor. It is two, and three since API
// server 1.28 (https://kubernetes.io/releases/version-skew-policy/; KEP-3935).
func KubeletSkew(server int) int {
	if server >= 28 {
		return 3
	}
	return 2
}

// SkewOf is how many minors a component may be older than the oldest API server that it talks to; no component may be
// newer. The policy names one minor for kube-controller-manager, kube-scheduler and cloud-controller-manager, so that
// they can be upgraded after the API servers (the same page). False for what it does not name.
func SkewOf(name string, server int) (older int, ok bool) {
	switch name {
	case component.KCM, component.Scheduler, component.CCM:
		return 1, true
	case component.Kubelet, "kube-proxy":
		return KubeletSkew(server), true
	}
	return 0, false
}

// WithinSkew reports whether a component of a minor may talk to an API server of a minor.
func WithinSkew(component string, minor, server int) bool {
	older, ok := SkewOf(component, server)
	return ok && minor <= server && minor >= server-older
}
