// Package component names the components of a Kubernetes control plane as their programs, flags, leases and manifests
// do.
package component

// Namespace is that of the control plane's pods, leases and accounts.
const Namespace = "kube-system"

// NodeLeaseNamespace is the namespace of the Leases that kubelets renew.
const NodeLeaseNamespace = "kube-node-lease"

// Components of a control plane.
const (
	KCM = "kube-controller-manager"
	CCM = "cloud-controller-manager"
	KAS = "kube-apiserver"
	// Scheduler is changed only where volumes move to CSI.
	Scheduler = "kube-scheduler"
	Kubelet   = "kubelet"
	Etcd      = "etcd"
)

// Versioned are the components that get another version on the way, in the order in which their versions change.
var Versioned = []string{KAS, KCM, Scheduler}
