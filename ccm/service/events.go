package service

// component is the source of the events. Users and alerts filter by it, so it is upstream's.
const component = "service-controller"

// The reasons of events are upstream's, and so is the text that follows them where people search for it.
const (
	reasonEnsuring     = "EnsuringLoadBalancer"     // a load balancer is about to be made or changed
	reasonEnsured      = "EnsuredLoadBalancer"      // it has been
	reasonSyncFailed   = "SyncLoadBalancerFailed"   // ensuring, deleting, or writing the status failed; it is tried again
	reasonUpdated      = "UpdatedLoadBalancer"      // it has new members
	reasonUpdateFailed = "UpdateLoadBalancerFailed" // its members could not be changed; it is ensured instead
	reasonUnavailable  = "UnAvailableLoadBalancer"  // it has no members
	reasonDeleting     = "DeletingLoadBalancer"     // it is about to be deleted
	reasonDeleted      = "DeletedLoadBalancer"      // it is deleted, and the finalizer gone
	reasonDeleteFailed = "DeleteLoadBalancerFailed" // it could not be deleted and its Service is gone already; it is tried again
	// Ours: upstream does not look.
	reasonNotFound = "LoadBalancerNotFound" // the provider's GetLoadBalancer never finds it; it is not ensured for that any more
)
