package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// instancesV2 is cloudprovider.InstancesV2. retries is set for the shell's own reader.
type instancesV2 struct {
	caller   *caller
	provider cloudprovider.InstancesV2
	retries  bool
}

func ask[T any](
	ctx context.Context, i instancesV2, operation string, node *corev1.Node, fallback Class, f func(context.Context, *corev1.Node) (T, error),
) (T, error) {
	c := i.caller.read(ctx, operation, nodeNamed(node.Name), fallback)
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

func askV1[N ~string, T any](ctx context.Context, i instancesV1, operation string, o object, fallback Class, f func(context.Context, N) (T, error)) (T, error) {
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
	_, err := do(ctx, i.caller, c, errorOnly(func(ctx context.Context) error { return i.provider.AddSSHKeyToAllInstances(ctx, user, keyData) }))
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
	return askV1(ctx, i, "InstanceShutdownByProviderID", instance(id), ClassLifecycle, i.provider.InstanceShutdownByProviderID)
}
