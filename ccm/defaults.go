package ccm

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/cloud-provider/options"
)

// Our defaults where they differ from upstream's. All of them say how much may go on at once. What the cloud and the API server can take is not known
// here and is not guessed: the call budget adapts to a cloud that throttles, and the API server protects itself with priority and fairness.
const (
	// defaultQPS is for each controller, and upstream's 20 make 5,000 nodes that join together wait for more than 8 minutes: they are 10,000 patches.
	defaultQPS   = 1000
	defaultBurst = 2000
	// defaultNodeSyncs workers write nodes that were read in batches: they wait for the API server only.
	defaultNodeSyncs = 50
	// defaultLifecycleSyncs workers delete and taint nodes; without InstancesLister they also ask the cloud, node by node.
	defaultLifecycleSyncs = 10
	// defaultServiceSyncs load balancers are worked on together. One takes 10 to 20 requests, and on some clouds minutes.
	defaultServiceSyncs = 20
)

// raise puts our default in place of upstream's. A value that is not upstream's is the author's own, and stays.
func raise[T comparable](value *T, upstream, ours T) {
	if *value == upstream {
		*value = ours
	}
}

// setDefaults puts our defaults in place of upstream's. It is called before flags are parsed, so that what a flag says is obeyed.
func setDefaults(o *options.CloudControllerManagerOptions) error {
	upstream, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("reading upstream's defaults: %w", err)
	}
	// Both or none: an author who sets one of the two has chosen the other as well, also where it is upstream's number.
	if client, theirs := &o.Generic.ClientConnection, upstream.Generic.ClientConnection; client.QPS == theirs.QPS && client.Burst == theirs.Burst {
		client.QPS, client.Burst = defaultQPS, defaultBurst
	}
	if o.NodeController != nil {
		raise(&o.NodeController.ConcurrentNodeSyncs, upstream.NodeController.ConcurrentNodeSyncs, defaultNodeSyncs)
	}
	if o.NodeLifecycleController != nil {
		raise(&o.NodeLifecycleController.ConcurrentNodeLifecycleSyncs, upstream.NodeLifecycleController.ConcurrentNodeLifecycleSyncs, defaultLifecycleSyncs)
	}
	if o.ServiceController != nil {
		raise(&o.ServiceController.ConcurrentServiceSyncs, upstream.ServiceController.ConcurrentServiceSyncs, defaultServiceSyncs)
	}
	return nil
}

// upstreamRoutePeriod is upstream's default of --route-reconciliation-period.
const upstreamRoutePeriod = 10 * time.Second

// validate returns what upstream's own validation lets pass and no controller can work with.
func validate(o *options.CloudControllerManagerOptions) error {
	var errs []error
	atLeastOne := func(flag string, value int32) {
		if value < 1 {
			errs = append(errs, fmt.Errorf("--%s is %d, but must be at least 1", flag, value))
		}
	}
	positive := func(flag string, value time.Duration) {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s is %s, but must be longer than 0", flag, value))
		}
	}
	if o.NodeController != nil {
		atLeastOne("concurrent-node-syncs", o.NodeController.ConcurrentNodeSyncs)
		if updates := o.NodeController.ConcurrentNodeStatusUpdates; updates < 0 {
			errs = append(errs, fmt.Errorf("--concurrent-node-status-updates is %d, but must not be negative", updates))
		}
	}
	if o.NodeLifecycleController != nil {
		atLeastOne("concurrent-node-lifecycle-syncs", o.NodeLifecycleController.ConcurrentNodeLifecycleSyncs)
		positive("node-monitor-period", o.NodeLifecycleController.NodeMonitorPeriod.Duration)
	}
	if o.ServiceController != nil {
		atLeastOne("concurrent-service-syncs", o.ServiceController.ConcurrentServiceSyncs)
	}
	positive("node-status-update-frequency", o.NodeStatusUpdateFrequency.Duration)
	positive("route-reconciliation-period", o.KubeCloudShared.RouteReconciliationPeriod.Duration)
	return errors.Join(errs...)
}
