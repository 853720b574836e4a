package catalogue

import "github.com/transplant-dev/transplant/internal/component"

// ShowsLoops reports whether a manager (kube-controller-manager; a cloud-controller-manager by its library's minor) of
// a minor says on /metrics which loops it runs, as running_managed_controllers. Of an earlier one only its leases can
// be seen, and what runs under them has to be taken from its flags.
//
// Source: controllersmetrics.Register in cmd/kube-controller-manager/app/controllermanager.go of k8s.io/kubernetes and
// app/controllermanager.go of k8s.io/cloud-provider, both since 1.26. 1.25 sets the series and registers it nowhere,
// which was seen of kube-controller-manager v1.25.0.
func ShowsLoops(name string, minor int) bool {
	switch name {
	case component.KCM, component.CCM:
		return minor >= 26
	}
	return false
}

// WaitsForAddresses is about a kubelet of a minor with an external provider and no --node-ip. It reports whether it
// leaves its new Node without any address until the cloud-controller-manager writes some. Before, it wrote the address
// of its default route (kubernetes/kubernetes #121028).
func WaitsForAddresses(minor int) bool { return minor >= 29 }

// lastLockMinor is the last minor whose client-go makes a kind of election lock other than leases
// (tools/leaderelection/resourcelock/interface.go).
var lastLockMinor = map[string]int{"endpoints": 23, "configmaps": 23, "endpointsleases": 27, "configmapsleases": 27}

// LockKnown reports whether managers of a minor start with this --leader-elect-resource-lock.
func LockKnown(kind string, minor int) bool {
	last, ok := lastLockMinor[kind]
	return kind == "leases" || ok && minor <= last
}

// ProviderIDRequired is the first minor of k8s.io/cloud-provider that requires a providerID. Its node controller leaves
// a node uninitialised while neither the node nor the provider knows one (controllers/node/node_controller.go;
// https://github.com/kubernetes/kubernetes/pull/123713).
const ProviderIDRequired = 30

// ServiceLoop is how the service loop of a minor, in-tree or external, chooses the members of load balancers.
type ServiceLoop struct {
	// KeepsNotReady reports whether a node that is not ready stays a member, and leaves it to the load balancer's health
	// checks. Before, such a node was removed from those whose Service has externalTrafficPolicy Cluster.
	KeepsNotReady bool
	// ReadsExclusion reports whether the label node.kubernetes.io/exclude-from-external-load-balancers excludes a node by
	// its value; before, by being there.
	ReadsExclusion bool
}

// ServiceLoopAt returns the choice of a minor: k8s.io/cloud-provider controllers/service/controller.go of v0.20.0 to
// v0.36.3. The gate StableLoadBalancerNodeSet (KEP-3458) is on since 0.27; nodeIncludedPredicate parses the value since
// 0.34 (not yet in v0.33.0).
func ServiceLoopAt(minor int) ServiceLoop {
	return ServiceLoop{KeepsNotReady: minor >= firstStableNodeSet, ReadsExclusion: minor >= firstExclusionValue}
}

const (
	firstStableNodeSet  = 27
	firstExclusionValue = 34
)

// NamespacesAreLabelled reports whether the API server of a minor labels every namespace with
// kubernetes.io/metadata.name: the gate NamespaceDefaultLabelName is on since 1.21. Before, a webhook that passes over
// kube-system by this label passes over nothing.
func NamespacesAreLabelled(minor int) bool { return minor >= firstNamespaceLabel }

const firstNamespaceLabel = 21
