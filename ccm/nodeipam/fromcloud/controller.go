// Package fromcloud decides which podCIDRs a node gets where the cloud gives ranges for pods to instances, as Google's
// does with alias ranges: --cidr-allocator-type=CloudAllocator.
//
//	node without podCIDRs -------------------------gathered--> one read for all --> one PATCH each, once
//	node whose NetworkUnavailable is not False ----'                           '--> the condition, if podCIDRs are the cloud's
//	all nodes with podCIDRs --every 10 min--> one read --not the cloud's--> event, metric
//
// Reasons of events, the condition and its text are those of the cloud allocator in kube-controller-manager. What
// differs, and why:
//   - Nodes are read together. Upstream asks for each one, at each of its changes while a node waits.
//   - A PATCH names the node's UID and the resourceVersion that its sender had read, and passes the fence. Upstream's
//     names neither. podCIDRs that a node has are never overwritten: where the cloud says others, an event says so.
//   - A range that another Node has is not given out again until that Node is gone. A kubelet that registers its Node
//     chooses the provider ID.
//   - A node waits for as long as it has to. Upstream gives up after ten attempts.
//   - With --configure-cloud-routes, the condition is the route controller's alone. Upstream's two controllers write it
//     against each other.
//
// Nothing has to be marked when a new leader begins, as with RangeAllocator. There a late request could give one node
// the block of another. Here a request that was under way can only give a node what its own instance has.
package fromcloud

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/node/reading"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

const (
	// firstRetry is the time between the first two attempts for a node; it doubles up to lastRetry.
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute
	// readTimeout bounds a call for a group of nodes; it is there for clouds whose calls nothing else bounds.
	readTimeout = 4 * time.Minute
	// stuckAfter is when health says that a piece of work is stuck.
	stuckAfter = 5 * time.Minute
)

// Config is what a controller needs.
type Config struct {
	Client kubernetes.Interface
	Cloud  cloudprovider.Interface
	Nodes  coreinformers.NodeInformer
	// ServiceCIDRs is the value of --service-cluster-ip-range, ClusterCIDR that of --cluster-cidr. Nodes get a podCIDR of
	// each family that the first has, as with upstream. Where it is empty, the second counts, and without both IPv4.
	ServiceCIDRs, ClusterCIDR string
	// HasRoutes reports whether a route controller writes the condition NetworkUnavailable.
	HasRoutes bool
	Metrics   *controllersmetrics.ControllerManagerMetrics // nil: none
	Clock     clock.WithTicker                             // nil: the real one
	// Instances is how nodes are read; nil: cloud.InstancesOf(Cloud).
	Instances cloud.Instances
}

func (config *Config) fillIn() error {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Instances == nil {
		if err := nodeipam.CheckAllocator(nodeipam.CloudAllocator, config.Cloud); err != nil {
			return err
		}
	}
	var err error
	config.Instances, err = reading.InstancesOf(config.Instances, config.Cloud)
	return err
}

// Controller gives nodes the podCIDRs of their instances.
type Controller struct {
	client       kubernetes.Interface
	nodes        corelisters.NodeLister
	synced       cache.InformerSynced
	registration cache.ResourceEventHandlerRegistration
	reader       reading.Reader
	families     []family
	hasRoutes    bool
	metrics      *controllersmetrics.ControllerManagerMetrics
	clock        clock.WithTicker
	recorder     record.EventRecorder // set by Run
	queue        workqueue.TypedRateLimitingInterface[string]
	pace         *rate.Limiter // of reads
	jobs         chan job
	waiting      *podcidr.Waiting
	holders      *holders
	isReady      atomic.Bool // before, events are for what Run will list

	mu        sync.Mutex
	blocked   map[string]bool         // nodes that wait because another Node has their range
	conflicts map[types.UID]string    // nodes whose podCIDRs are not the cloud's, and what was told of it
	written   map[types.UID]time.Time // when the condition was last written
}

// New returns a controller.
func New(config Config) (*Controller, error) {
	if err := config.fillIn(); err != nil {
		return nil, err
	}
	families, err := familiesOf(config.ServiceCIDRs, config.ClusterCIDR)
	if err != nil {
		return nil, err
	}
	podcidr.RegisterMetrics()
	c := &Controller{
		client: config.Client, nodes: config.Nodes.Lister(), synced: config.Nodes.Informer().HasSynced,
		reader:   reading.New(config.Instances, cloud.ClassNode, readTimeout, stuckAfter),
		families: families, hasRoutes: config.HasRoutes, metrics: config.Metrics, clock: config.Clock,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "cidrallocator_node", Clock: config.Clock},
		),
		pace: rate.NewLimiter(1, 5), jobs: make(chan job), waiting: podcidr.NewWaiting(), holders: newHolders(),
		blocked: map[string]bool{}, conflicts: map[types.UID]string{}, written: map[types.UID]time.Time{},
	}
	c.registration, err = config.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.added, UpdateFunc: c.updated, DeleteFunc: c.deleted,
	})
	if err != nil {
		c.queue.ShutDown()
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return c, nil
}

// Name is the controller's name in the gauge of running controllers.
func (c *Controller) Name() string { return "nodeipam" }

// HealthChecker fails while a call for nodes or a patch is stuck.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker {
	return progress.Open{UnnamedHealthChecker: c.reader.Tracker}
}

func (c *Controller) added(object any) {
	if node, ok := object.(*corev1.Node); ok {
		c.consider(node)
	}
}

// updated compares what a node's podCIDRs and condition depend on. Every node is updated several times a minute, and
// one that waits has its next attempt due already.
func (c *Controller) updated(old, updated any) {
	before, ok1 := old.(*corev1.Node)
	after, ok2 := updated.(*corev1.Node)
	if !ok1 || !ok2 {
		return
	}
	if before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID ||
		len(before.Spec.PodCIDRs) != len(after.Spec.PodCIDRs) || c.lacksNetwork(before) != c.lacksNetwork(after) {
		c.consider(after)
	}
}

// consider takes notice of a node.
func (c *Controller) consider(node *corev1.Node) {
	if !c.isReady.Load() {
		return
	}
	if len(node.Spec.PodCIDRs) > 0 {
		c.noteHeld(node)
	}
	if c.needsWork(node) {
		c.queue.AddAfter(node.Name, c.conditionDelay(node))
	}
}

// noteHeld notes that a node has podCIDRs.
func (c *Controller) noteHeld(node *corev1.Node) {
	c.holders.note(node)
	c.served(node.Name)
}

// served notes that a node does not wait.
func (c *Controller) served(name string) {
	c.waiting.Remove(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.blocked, name)
}

// needsWork reports whether the cloud has to be asked about a node. One without a provider ID is asked about when it
// has one: a name does not say which instance it is.
func (c *Controller) needsWork(node *corev1.Node) bool {
	return node.DeletionTimestamp.IsZero() && node.Spec.ProviderID != "" &&
		(len(node.Spec.PodCIDRs) == 0 || c.lacksNetwork(node))
}

// deleted forgets a node, and lets those try again that wait for its range.
func (c *Controller) deleted(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok || !c.isReady.Load() {
		return
	}
	c.served(node.Name)
	c.holders.release(node.UID)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, node.UID)
	c.dropConflict(node.UID)
	for name := range c.blocked {
		c.queue.Add(name)
	}
}

// Run works until ctx is done, and returns when the writes have ended that were being made then.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	whose := term.Config{Name: c.Name(), EventSource: podcidr.EventSource, Verbosity: 3}
	whose.Client, whose.Metrics, whose.Clock = c.client, c.metrics, c.clock
	calls, begun := term.Begin(ctx, whose)
	defer begun.End()
	c.recorder = begun.Recorder
	if !cache.WaitForCacheSync(ctx.Done(), c.synced, c.registration.HasSynced) {
		return
	}
	defer c.forgetAll()
	// Reads change nothing: they end with ctx, so that a planned stop waits only for what is being written.
	reads, cancelReads := context.WithCancel(calls)
	defer cancelReads()
	defer context.AfterFunc(ctx, cancelReads)()
	c.isReady.Store(true)
	known, err := c.nodes.List(labels.Everything())
	if err != nil {
		return
	}
	for _, node := range known { // events so far were ignored
		c.consider(node)
	}
	var work sync.WaitGroup
	work.Go(func() {
		defer close(c.jobs)
		c.gather(ctx, reads)
	})
	for range podcidr.Workers {
		work.Go(func() { c.runJobs(ctx, calls) })
	}
	work.Go(func() { c.compareUntil(ctx, reads) })
	<-ctx.Done()
	c.queue.ShutDown()
	work.Wait()
}

// forgetAll is for a manager that ends its work and goes on living: another one counts the nodes now.
func (c *Controller) forgetAll() {
	c.isReady.Store(false)
	for _, name := range c.waiting.Names() {
		c.waiting.Remove(name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.conflicts {
		c.dropConflict(uid)
	}
}
