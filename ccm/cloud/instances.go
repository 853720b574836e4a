package cloud

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// cache has the states that were read of late.
type cache struct {
	states  map[nodeKey]remembered
	longest time.Duration // the highest age that a caller has accepted of late
	noted   time.Time     // when a caller last accepted one
	swept   time.Time
}

// forgetLongest is after how many of its own lengths an age counts no longer that no caller has accepted since. Else a
// single retry would have the states of all nodes kept for good.
const forgetLongest = 10

// remembered is what is known of a node: with its metadata, and without it, which is asked for more often. A younger
// answer of the one kind does not make the other kind's useless.
type remembered [2]struct {
	state InstanceState
	have  Want
	begun time.Time // when the call began: the state is at least as young
}

func kind(want Want) int {
	if want&WantMetadata != 0 {
		return 1
	}
	return 0
}

// noteMaxAge notes which age a caller accepts. As long as everybody wants the truth, nothing is kept.
func (c *cache) noteMaxAge(maxAge time.Duration, now time.Time) {
	if maxAge > 0 {
		c.longest, c.noted = max(c.longest, maxAge), now
	}
}

func (c *cache) get(key nodeKey, want Want, now time.Time, maxAge time.Duration) (InstanceState, bool) {
	if maxAge <= 0 {
		return InstanceState{}, false
	}
	for _, r := range c.states[key] {
		if r.have != 0 && r.have&want == want && now.Sub(r.begun) <= maxAge {
			return copyForCaller(r.state, want), true
		}
	}
	return InstanceState{}, false
}

// putState keeps a state. Errors are not kept: the next caller tries again.
func (c *cache) putState(key nodeKey, state InstanceState, have Want, begun, now time.Time) {
	if c.longest > 0 && now.Sub(c.noted) > forgetLongest*c.longest {
		c.longest, c.states = 0, map[nodeKey]remembered{}
	}
	if c.longest <= 0 || state.Err != nil {
		return
	}
	c.dropExpired(now)
	r := c.states[key]
	if slot := &r[kind(have)]; !begun.Before(slot.begun) {
		slot.state, slot.have, slot.begun = state, have, begun
	}
	c.states[key] = r
}

// dropExpired drops what no caller would accept any more, so that nodes that are gone do not stay.
func (c *cache) dropExpired(now time.Time) {
	if now.Sub(c.swept) < c.longest {
		return
	}
	c.swept = now
	for key, r := range c.states {
		if now.Sub(r[0].begun) > c.longest && now.Sub(r[1].begun) > c.longest {
			delete(c.states, key)
		}
	}
}

// instancesV2 is cloudprovider.InstancesV2. retries is set for the guard's own reader.
type instancesV2 struct {
	caller   *caller
	provider cloudprovider.InstancesV2
	retries  bool
}

func ask[T any](
	ctx context.Context,
	i instancesV2,
	operation string,
	node *corev1.Node,
	fallback Class,
	f func(context.Context, *corev1.Node) (T, error),
) (T, error) {
	c := i.caller.read(ctx, operation, nodeNamed(node.Name), fallback, node)
	c.retries = i.retries
	return do(ctx, i.caller, c, func(ctx context.Context) (T, error) { return f(ctx, node) })
}

// InstanceExists implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return ask(ctx, i, "InstanceExists", node, ClassLifecycle, i.provider.InstanceExists)
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return ask(ctx, i, "InstanceShutdown", node, ClassLifecycle, i.provider.InstanceShutdown)
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return ask(ctx, i, "InstanceMetadata", node, ClassNode, i.provider.InstanceMetadata)
}

// instancesV1 is cloudprovider.Instances.
type instancesV1 struct {
	caller   *caller
	fence    *election.Fence
	provider cloudprovider.Instances
	retries  bool
}

func askV1[N ~string, T any](
	ctx context.Context,
	i instancesV1,
	operation string,
	o object,
	fallback Class,
	f func(context.Context, N) (T, error),
) (T, error) {
	c := i.caller.read(ctx, operation, o, fallback)
	c.retries = i.retries
	return do(ctx, i.caller, c, func(ctx context.Context) (T, error) { return f(ctx, N(o.name)) })
}

// NodeAddresses implements cloudprovider.Instances.
func (i instancesV1) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return askV1(ctx, i, "NodeAddresses", nodeNamed(string(name)), ClassNode, i.provider.NodeAddresses)
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (i instancesV1) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	return askV1(ctx, i, "NodeAddressesByProviderID", instance(id), ClassNode, i.provider.NodeAddressesByProviderID)
}

// InstanceID implements cloudprovider.Instances.
func (i instancesV1) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return askV1(ctx, i, "InstanceID", nodeNamed(string(name)), ClassNode, i.provider.InstanceID)
}

// InstanceType implements cloudprovider.Instances.
func (i instancesV1) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return askV1(ctx, i, "InstanceType", nodeNamed(string(name)), ClassNode, i.provider.InstanceType)
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	return askV1(ctx, i, "InstanceTypeByProviderID", instance(id), ClassNode, i.provider.InstanceTypeByProviderID)
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances.
func (i instancesV1) AddSSHKeyToAllInstances(ctx context.Context, user string, keyData []byte) error {
	c := i.caller.write(ctx, "AddSSHKeyToAllInstances", object{"the SSH key of user", user}, ClassOther, i.fence)
	_, err := do(
		ctx,
		i.caller,
		c,
		errorOnly(func(ctx context.Context) error { return i.provider.AddSSHKeyToAllInstances(ctx, user, keyData) }),
	)
	return err
}

// CurrentNodeName implements cloudprovider.Instances.
func (i instancesV1) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	return askV1(ctx, i, "CurrentNodeName", object{"the host", hostname}, ClassOther, i.provider.CurrentNodeName)
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	return askV1(ctx, i, "InstanceExistsByProviderID", instance(id), ClassLifecycle, i.provider.InstanceExistsByProviderID)
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	return askV1(
		ctx,
		i,
		"InstanceShutdownByProviderID",
		instance(id),
		ClassLifecycle,
		i.provider.InstanceShutdownByProviderID,
	)
}

// InstancesLister is what a provider may implement next to cloudprovider.InstancesV2 (on its cloudprovider.Interface)
// when its API can describe many instances in one call. Node controllers then make one call per period instead of one
// or two per node. Without it, the same questions are asked through InstancesV2, or Instances and Zones, node by node.
type InstancesLister interface {
	// ListInstances describes the instances of nodes, in the order of nodes: one state per node. It finds an instance by
	// spec.providerID, or where that is empty by what the provider's InstancesV2 would use. An error that concerns one
	// node alone is in its state; the returned error is that of the call, and then no state is valid. It does not return
	// cloudprovider.InstanceNotFound: such a node's state has Exists false. An instance that a successful answer leaves
	// out though it was asked for is an error of its node. Exists is false only where the cloud says of this very instance
	// that there is none. Nodes are deleted for that, and an answer may have lost a page. ListInstances makes one request
	// to the cloud, or as many as pages are needed for MaxInstances nodes.
	ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error)
	// MaxInstances is how many nodes one call may ask for, at least 1.
	MaxInstances() int
}

// PodCIDRLister is an InstancesLister of a cloud that gives ranges for pods to instances. Node IPAM takes them with
// --cidr-allocator-type=CloudAllocator.
type PodCIDRLister interface {
	InstancesLister
	// ListsPodCIDRs reports whether ListInstances answers WantPodCIDRs.
	ListsPodCIDRs() bool
}

// CanListPodCIDRs reports whether a provider, or the one below a guard, says which pod CIDRs an instance has.
func CanListPodCIDRs(c cloudprovider.Interface) bool {
	if c == nil {
		return false
	}
	lister, ok := Unwrap(c).(PodCIDRLister)
	return ok && lister.ListsPodCIDRs()
}

// Want says which fields of a state are needed, so that a provider, or the fallback, makes no calls for the others.
type Want uint8

// What can be wanted of an instance. Who wants the whole metadata wants the addresses in it, so that a provider asks
// want&WantMetadata != 0.
const (
	WantExists Want = 1 << iota
	WantShutdown
	// WantAddresses is metadata of which only the addresses are needed. Instances, the first interface, has them without
	// the calls for type and zone.
	WantAddresses
	WantMetadata = WantAddresses | 1<<iota
	// WantPodCIDRs is asked only of a provider that lists them: see PodCIDRLister.
	WantPodCIDRs Want = 1 << iota
)

// InstanceState is what the cloud says of one node's instance. Its meaning is that of cloudprovider.InstancesV2.
type InstanceState struct {
	// Exists is false only if the cloud answered and has no such instance (any more). A stopped instance exists.
	Exists bool
	// Terminated is that the cloud describes the instance still and says that it has ended for good. Exists is false then.
	// It is proof: credentials of another account, or an answer that is not complete, cannot say it. Leave it false where
	// a cloud only says that it does not find an instance.
	Terminated bool
	// Shutdown is that the instance exists and is stopped or stopping.
	Shutdown bool
	// Metadata may be nil for an instance that the provider says nothing about. It is nil when it was not requested or the
	// instance does not exist.
	Metadata *cloudprovider.InstanceMetadata
	// PodCIDRs are the ranges for pods that the cloud sends to the instance, in the cloud's order and spelling. They are
	// nil when they were not requested.
	PodCIDRs []string
	// ShutdownUnknown is that the provider does not implement to say whether an instance is shut down. Shutdown is false
	// then.
	ShutdownUnknown bool
	// IDAsked is that the provider ID was asked for, since the node has none and the provider is asked by it. IDNotFound
	// is that there was none.
	IDAsked, IDNotFound bool
	// Err concerns this node alone. With it, nothing else in the state is valid, except for these two.
	Err error
}

// ListedInstances is cloudprovider.InstancesV2 of a provider that lists instances: each question is a list for one
// node. A provider embeds it.
type ListedInstances struct{ Lister InstancesLister }

func (l ListedInstances) instanceOf(ctx context.Context, node *corev1.Node, want Want) (InstanceState, error) {
	states, err := l.Lister.ListInstances(ctx, []*corev1.Node{node}, want)
	if err != nil {
		return InstanceState{}, err
	}
	return states[0], states[0].Err
}

// InstanceExists implements cloudprovider.InstancesV2.
func (l ListedInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	state, err := l.instanceOf(ctx, node, WantExists)
	return state.Exists, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (l ListedInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	state, err := l.instanceOf(ctx, node, WantShutdown)
	if err == nil && !state.Exists {
		err = cloudprovider.InstanceNotFound
	}
	return state.Shutdown, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (l ListedInstances) InstanceMetadata(
	ctx context.Context,
	node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	state, err := l.instanceOf(ctx, node, WantMetadata)
	switch {
	case err != nil:
		return nil, err
	case !state.Exists:
		return nil, cloudprovider.InstanceNotFound
	case state.Metadata == nil:
		return nil, fmt.Errorf("the cloud knows no addresses of node %q now: its instance may be shut down", node.Name)
	}
	return state.Metadata, nil
}
