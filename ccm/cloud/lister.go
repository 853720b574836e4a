package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// InstancesLister is what a provider may implement beside cloudprovider.InstancesV2 (on its cloudprovider.Interface) when its API can describe
// many instances in one call. Node controllers then make one call per period instead of one or two per node. Without it, the same questions are
// asked through InstancesV2, or Instances and Zones, node by node.
type InstancesLister interface {
	// ListInstances describes the instances of nodes, in the order of nodes: one state per node. It finds an instance by spec.providerID, or
	// where that is empty by what the provider's InstancesV2 would use. An error that concerns one node alone is in its state; the returned
	// error is that of the call, and then no state is valid. It does not return cloudprovider.InstanceNotFound: such a node's state has Exists false.
	// An instance that a successful answer leaves out though it was asked for is an error of its node. Exists is false only where the cloud says of
	// this very instance that there is none. Nodes are deleted for that, and an answer may have lost a page.
	// ListInstances makes one request to the cloud, or as many as pages are needed for MaxInstances nodes.
	ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error)
	// MaxInstances is how many nodes one call may ask for, at least 1.
	MaxInstances() int
}

// Want says which fields of a state are needed, so that a provider, or the fallback, makes no calls for the others.
type Want uint8

// What can be wanted of an instance. Who wants the whole metadata wants the addresses in it, so that a provider asks want&WantMetadata != 0.
const (
	WantExists Want = 1 << iota
	WantShutdown
	// WantAddresses is metadata of which only the addresses are needed. Instances, the first interface, has them without the calls for type and zone.
	WantAddresses
	WantMetadata = WantAddresses | 1<<iota
)

// InstanceState is what the cloud says of one node's instance. Its meaning is that of cloudprovider.InstancesV2.
type InstanceState struct {
	// Exists is false only if the cloud answered and has no such instance (any more). A stopped instance exists.
	Exists bool
	// Terminated is that the cloud describes the instance still and says that it has ended for good. Exists is false then. It is proof: credentials of
	// another account, or an answer that is not complete, cannot say it. Leave it false where a cloud only says that it does not find an instance.
	Terminated bool
	// Shutdown is that the instance exists and is stopped or stopping.
	Shutdown bool
	// Metadata may be nil for an instance that the provider says nothing about, and is when it was not wanted or the instance does not exist.
	Metadata *cloudprovider.InstanceMetadata
	// ShutdownUnknown is that the provider does not implement to say whether an instance is shut down. Shutdown is false
	// then.
	ShutdownUnknown bool
	// IDAsked is that the provider ID was asked for, since the node has none and the provider is asked by it. IDNotFound
	// is that there was none.
	IDAsked, IDNotFound bool
	// Err concerns this node alone. With it, nothing else in the state is valid, except for these two.
	Err error
}
