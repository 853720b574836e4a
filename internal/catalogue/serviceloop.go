package catalogue

// ServiceLoop is how the service loop of a minor, in-tree or external, chooses the members of load balancers.
type ServiceLoop struct {
	// KeepsNotReady tells that a node that is not ready stays a member, and leaves it to the load balancer's health checks. Before, such a node was
	// taken out of those whose Service has externalTrafficPolicy Cluster.
	KeepsNotReady bool
	// ReadsExclusion tells that the label node.kubernetes.io/exclude-from-external-load-balancers excludes a node by its value; before, by being there.
	ReadsExclusion bool
}

// ServiceLoopAt returns the choice of a minor: k8s.io/cloud-provider controllers/service/controller.go of v0.20.0 to v0.36.3. The gate
// StableLoadBalancerNodeSet (KEP-3458) is on since 0.27; nodeIncludedPredicate parses the value since 0.34 (not yet in v0.33.0).
func ServiceLoopAt(minor int) ServiceLoop {
	return ServiceLoop{KeepsNotReady: minor >= firstStableNodeSet, ReadsExclusion: minor >= firstExclusionValue}
}

const (
	firstStableNodeSet  = 27
	firstExclusionValue = 34
)

// NamespacesAreLabelled tells whether the API server of a minor labels every namespace with kubernetes.io/metadata.name: the gate NamespaceDefaultLabelName
// is on since 1.21. Before, a webhook that passes over kube-system by this label passes over nothing.
func NamespacesAreLabelled(minor int) bool { return minor >= firstNamespaceLabel }

const firstNamespaceLabel = 21
