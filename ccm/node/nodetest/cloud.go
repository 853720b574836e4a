package nodetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// Cloud is a provider. Each of its calls takes Latency and is counted. With Batch it lists instances; use Listing then.
type Cloud struct {
	cloudprovider.Interface // nil: nothing else is called

	// Instance is what the cloud says of a node.
	Instance func(node *corev1.Node) cloud.InstanceState
	// Call, if there is one, is asked first in each call; an error is that of the call. It may panic.
	Call func(ctx context.Context, nodes []*corev1.Node) error
	// Latency is how long a call takes.
	Latency time.Duration
	// Batch is for how many nodes one call serves.
	Batch int

	mu    sync.Mutex
	calls []string
}

// Calls returns the calls so far, as "list 3" or "exists n".
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// SetLatency changes how long a call takes, also while calls are made.
func (c *Cloud) SetLatency(latency time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Latency = latency
}

func (c *Cloud) recordCall(ctx context.Context, name string, nodes []*corev1.Node) error {
	c.mu.Lock()
	c.calls = append(c.calls, name)
	latency := c.Latency
	c.mu.Unlock()
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.Call != nil {
		return c.Call(ctx, nodes)
	}
	return nil
}

// ProviderName implements cloudprovider.Interface.
func (*Cloud) ProviderName() string { return "test" }

// Instances implements cloudprovider.Interface.
func (*Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// InstanceExists implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := c.recordCall(ctx, "exists "+node.Name, []*corev1.Node{node}); err != nil {
		return false, err
	}
	state := c.Instance(node)
	return state.Exists, state.Err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := c.recordCall(ctx, "shutdown "+node.Name, []*corev1.Node{node}); err != nil {
		return false, err
	}
	state := c.Instance(node)
	return state.Shutdown, state.Err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if err := c.recordCall(ctx, "metadata "+node.Name, []*corev1.Node{node}); err != nil {
		return nil, err
	}
	state := c.Instance(node)
	if state.Err == nil && !state.Exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return state.Metadata, state.Err
}

// Lister is a Cloud that lists instances.
type Lister struct{ *Cloud }

var _ cloud.InstancesLister = Lister{}

// ListInstances implements cloud.InstancesLister.
func (l Lister) ListInstances(ctx context.Context, nodes []*corev1.Node, _ cloud.Want) ([]cloud.InstanceState, error) {
	if len(nodes) > l.Batch {
		return nil, errors.New("asked for more nodes than one call serves")
	}
	if err := l.recordCall(ctx, "list "+strconv.Itoa(len(nodes)), nodes); err != nil {
		return nil, err
	}
	states := make([]cloud.InstanceState, len(nodes))
	for i, node := range nodes {
		states[i] = l.Instance(node)
	}
	return states, nil
}

// MaxInstances implements cloud.InstancesLister.
func (l Lister) MaxInstances() int { return l.Batch }
