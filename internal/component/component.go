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

// MigrationLease is the lease that governs the loops which move, unless a configuration names another one. Upstream's
// default configuration and all documentation have this name.
const MigrationLease = "cloud-provider-extraction-migration"

// TaintUninitialized is the taint of a node that no cloud-controller-manager has initialised.
const TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Accounts of the managers in the API. The one of the cloud-controller-manager is that which plans make.
const (
	UserKCM = "system:" + KCM
	UserCCM = "system:serviceaccount:" + Namespace + ":" + CCM
)

// Values of --cidr-allocator-type that this project knows: which part hands out pod CIDRs.
const (
	RangeAllocator = "RangeAllocator"
	CloudAllocator = "CloudAllocator"
)

// Registry is where this project's images are.
const Registry = "ghcr.io/transplant-dev"

// Versioned are the components that get another version on the way, in the order in which their versions change.
var Versioned = []string{KAS, KCM, Scheduler}

// HasControlPlaneRole reports whether the labels of a Node are those of the control plane. NodeRestriction keeps a
// kubelet from setting them, and no other account of a worker that may patch Nodes.
func HasControlPlaneRole(labels map[string]string) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, is := labels["node-role.kubernetes.io/"+role]; is {
			return true
		}
	}
	return false
}
