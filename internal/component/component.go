// Package component names the components of a Kubernetes control plane as their programs, flags, leases and manifests
// do.
package component

// NodeLeaseNamespace is the namespace of the Leases that kubelets renew.
const NodeLeaseNamespace = "kube-node-lease"

const (
	Namespace = "kube-system"
	KCM       = "kube-controller-manager"
	CCM       = "cloud-controller-manager"
	KAS       = "kube-apiserver"
)

// Scheduler is the kube-scheduler.
const Scheduler = "kube-scheduler"
