package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

const (
	// workers assign podCIDRs at the same time.
	workers = podcidr.Workers
	// sweepPeriod is how often holders are looked for that are gone without an event having said so, and nodes that wait
	// are told of again.
	sweepPeriod = podcidr.SweepPeriod
	// stuckAfter is when health says that an assignment is stuck.
	stuckAfter = 2 * time.Minute
)

// Config is what a controller of RangeAllocator needs.
type Config struct {
	Client kubernetes.Interface
	Nodes  coreinformers.NodeInformer
	// ClusterCIDR is the value of --cluster-cidr, AllocatorType that of --cidr-allocator-type.
	ClusterCIDR, AllocatorType string
	Metrics                    *controllersmetrics.ControllerManagerMetrics // nil: none
	Options                    Options
	Clock                      clock.WithTicker // nil: the real one
}

// Controller gives podCIDRs of --cluster-cidr to nodes.
type Controller struct {
	client       kubernetes.Interface
	nodes        corelisters.NodeLister
	synced       cache.InformerSynced
	registration cache.ResourceEventHandlerRegistration
	metrics      *controllersmetrics.ControllerManagerMetrics
	clock        clock.WithTicker
	recorder     record.EventRecorder // set by Run
	queue        workqueue.TypedRateLimitingInterface[string]
	tracker      *progress.Tracker
	ledger       *ledger
	waiting      *podcidr.Waiting // nodes for which there is no block

	mu      sync.Mutex
	ready   bool                 // the ledger is complete; before, events are for what Run will list
	missing map[types.UID]string // holders that the cache did not have at the last sweep
}

// New returns a controller.
func New(config Config) (*Controller, error) {
	if config.AllocatorType != "" && config.AllocatorType != RangeAllocator {
		return nil, fmt.Errorf(
			"--cidr-allocator-type is %q, but these podCIDRs are those of %s",
			config.AllocatorType,
			RangeAllocator,
		)
	}
	if errs := config.Options.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	registerMetrics()
	pools, err := config.Options.pools(config.ClusterCIDR)
	if err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c := &Controller{
		client:  config.Client,
		nodes:   config.Nodes.Lister(),
		synced:  config.Nodes.Informer().HasSynced,
		metrics: config.Metrics,
		clock:   config.Clock,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "cidrallocator_node", Clock: config.Clock},
		),
		tracker: progress.New(
			stuckAfter,
		),
		ledger:  newLedger(pools),
		waiting: podcidr.NewWaiting(),
		missing: map[types.UID]string{},
	}
	c.registration, err = config.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.seen,
		UpdateFunc: c.updated,
		DeleteFunc: c.nodeDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return c, nil
}

// Name is the controller's name in the gauge of running controllers.
func (c *Controller) Name() string { return "nodeipam" }

// HealthChecker fails while an assignment, or the look at the nodes at the start, is stuck.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker {
	return progress.Open{UnnamedHealthChecker: c.tracker}
}

// updated takes notice of a node that has changed. A heartbeat is no reason for a write while the next one waits for
// its back-off. Otherwise a node whose writes are refused would be written at each of its changes.
func (c *Controller) updated(old, updated any) {
	before, ok1 := old.(*corev1.Node)
	after, ok2 := updated.(*corev1.Node)
	if ok1 && ok2 && before.UID == after.UID && len(after.Spec.PodCIDRs) == 0 && c.queue.NumRequeues(after.Name) > 0 {
		return
	}
	c.seen(updated)
}

// seen takes notice of a node. Nodes are updated several times a minute, so it does no more than a look at a map for
// those that have podCIDRs.
func (c *Controller) seen(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || !c.isReady() {
		return
	}
	if len(node.Spec.PodCIDRs) == 0 {
		if node.DeletionTimestamp.IsZero() {
			c.queue.Add(node.Name)
		}
		return
	}
	c.hold(node)
}

func (c *Controller) hold(node *corev1.Node) {
	complaints, freed := c.ledger.hold(node.UID, node.Name, node.Spec.PodCIDRs)
	for _, complaint := range complaints {
		c.recorder.Event(podcidr.Reference(node), corev1.EventTypeWarning, complaint.reason, complaint.message)
	}
	if freed {
		c.serveWaiting()
	}
}

// nodeDeleted frees the blocks of a node that was deleted.
func (c *Controller) nodeDeleted(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok || !c.isReady() {
		return
	}
	c.waiting.Remove(node.Name)
	if c.ledger.releaseNode(node.UID) {
		c.serveWaiting()
	}
}

func (c *Controller) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// serveWaiting lets the nodes try again for which there was no block.
func (c *Controller) serveWaiting() {
	for _, name := range c.waiting.Names() {
		c.queue.Add(name)
	}
}

// Run works until ctx is done, and returns when the assignments have ended that were being made then.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	calls, begun := term.Begin(
		ctx,
		term.Config{
			Name:        c.Name(),
			EventSource: podcidr.EventSource,
			Verbosity:   3,
			Client:      c.client,
			Metrics:     c.metrics,
			Clock:       c.clock,
		},
	)
	defer begun.End()
	c.recorder = begun.Recorder
	if !cache.WaitForCacheSync(ctx.Done(), c.synced, c.registration.HasSynced) || !c.takeOver(ctx, calls) {
		return
	}
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for c.processNext(ctx, calls) {
			}
		})
	}
	work.Go(func() { c.sweepUntil(ctx, calls) })
	<-ctx.Done()
	c.queue.ShutDown()
	work.Wait()
}

func (c *Controller) processNext(ctx, calls context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	if ctx.Err() != nil || calls.Err() != nil {
		return false
	}
	defer c.tracker.Start("giving podCIDRs to node " + name)()
	switch err := c.sync(calls, name); {
	case err == nil:
		c.queue.Forget(name)
	case term.IsFinal(calls, err):
		return false
	default:
		klog.FromContext(ctx).Error(err, "Giving podCIDRs to a node, will be retried", "node", name)
		c.queue.AddRateLimited(name)
	}
	return true
}
