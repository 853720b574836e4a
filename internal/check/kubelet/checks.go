// Package kubelet decides whether kubelets may become external: their flags, their nodes, and how they pull images
// without a cloud provider.
package kubelet

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about kubelets that become external, and the images they pull.
var Checks = []rule.Check{
	kubeletUnknown,            // KUBELET-001: kubelets that were not read
	kubeletNotCurrent,         // KUBELET-002: what runs is not what the files say
	kubeletsMixed,             // KUBELET-003: nodes that register in different ways
	nameFromCloud,             // KUBELET-004: nodes that would register under another name
	nodeIPAbsent,              // KUBELET-005: nodes without address until a manager runs
	kubeletRefused,            // KUBELET-006: flags and gates with which it does not start
	kubeletDefaults,           // KUBELET-007: what kubeadm would write back
	servingCertificates,       // KUBELET-008: certificates that no controller approves
	kubeletProviderID,         // KUBELET-009: a name that belongs to another
	credentialProviderMissing, // PULL-001: images that new nodes cannot pull
	credentialProviderBroken,  // PULL-002: a kubelet that does not start, or pulls nothing
	credentialProviderVersion, // PULL-003: a configuration that a kubelet does not read
	registryNotMatched,        // PULL-004: registries without credentials
}
