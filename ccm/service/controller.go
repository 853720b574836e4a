// Package service decides which load balancer each Service of type LoadBalancer has in the cloud, and makes it so.
//
// It stands in for upstream's service-lb-controller: finalizer and status are the same. Two things differ for users: a
// node becomes a member once it is initialised, and there is one more event (LoadBalancerNotFound). It is also
// level-triggered. What a load balancer should be (spec and annotations, members) is compared with what this process
// last made it. So a change that is reverted, or that changes nothing the cloud knows of, costs no call.
//
//	Service event ─────────────┐                     ┌─> ensure, resync            EnsureLoadBalancer, status
//	node events ──batch──node─>├─> queue ─> decide ─>├─> update                    UpdateLoadBalancer: members only
//	drift check, resync ───────┤   "service"         ├─> status                    no call: others changed it
//	retry, back-off ───────────┘                     ├─> check                     GetLoadBalancer: is it there?
//	                                                 ├─> cleanup, delete, replace  EnsureLoadBalancerDeleted
//	                                                 └─> orphan                    no call: it stays in the cloud
//
// What is in line is also kept in a ConfigMap, as fingerprints, so that the next leader does not ensure everything
// again. An entry is removed before the call that makes it untrue. A leader believes the entries only if none but
// managers of this kind have led since they were written.
package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/internal/mask/events"
)

const (
	// A Service that failed is tried again after this, twice as long each time.
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 300 * time.Second
	// maxDeleteDelay is the longest for one that is being deleted. A user waits for its namespace or pays for its load
	// balancer when the cloud is back. Upstream's informer resync has the same effect.
	maxDeleteDelay = 30 * time.Second
	// slowAfter is how long a Service may keep others from its worker's place. See Config.Workers.
	slowAfter = 10 * time.Second
	// slowPerWorker is how many Services for each worker may take longer than that at once, and minSlow the least of
	// all together. Without a bound one user's slow Services would be thousands of calls at once.
	slowPerWorker = 10
	minSlow       = 50
	// stuckMargin is by how much a call may take longer than its limit, at which a guard gives it up.
	stuckMargin = time.Minute
	// nodesKey is the one key of the queue "node".
	nodesKey = "nodes"
)

// Config is what a controller is made of.
type Config struct {
	Client   kubernetes.Interface
	Cloud    cloudprovider.Interface
	Services coreinformers.ServiceInformer
	Nodes    coreinformers.NodeInformer
	// ClusterName is given to the provider, which names load balancers by it.
	ClusterName string
	// Workers is how many Services are worked on at once (--concurrent-service-syncs). With more than one worker, a
	// Service slower than 10 s moves to a second pool of 10 x Workers places (at least 50). So load balancers that hang
	// do not keep others waiting, until that pool is full. With one worker nothing runs in parallel: its provider may
	// not be able to do two things at once.
	Workers int
	// Environment is what else decides how the provider makes load balancers: the content of the cloud config. When it
	// changes, or the program does, a new leader ensures everything, as users expect of a restart. Secrets in it do not
	// count.
	Environment string
	Metrics     *controllersmetrics.ControllerManagerMetrics // may be nil
	Options     Options
	Clock       clock.WithTicker     // nil for the real one
	Recorder    record.EventRecorder // nil for one that writes to the API server
}

// Controller keeps load balancers as their Services ask for them.
type Controller struct {
	config   Config
	cloud    cloudClient
	services corelisters.ServiceLister
	nodes    *nodeViews
	store    *store
	state    *state
	batcher  *batcher
	tracker  *progress.Tracker
	clock    clock.WithTicker
	recorder record.EventRecorder

	queue       serviceQueue // Services to look at
	retries     retries
	nodeQueue   workqueue.TypedRateLimitingInterface[string] // batches of changed nodes
	workerSlots chan struct{}                                // one for each worker
	slowSlots   chan struct{}                                // one for each Service that takes long
	running     atomic.Bool
	batches     atomic.Uint64 // given so far
	rounds      rounds
	synced      []cache.InformerSynced
	removals    []func() error // of the informers' handlers
}

// New returns a controller. It refuses settings with which nothing would ever be done.
func New(config Config) (*Controller, error) {
	errs := config.Options.Validate()
	if config.Workers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-service-syncs must be at least 1, it is %d", config.Workers))
	}
	if config.Cloud == nil {
		errs = append(errs, errors.New("there is no cloud provider: Services of type LoadBalancer need one"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	balancer, ok := config.Cloud.LoadBalancer()
	if !ok {
		return nil, fmt.Errorf("the cloud provider %q has no load balancers", config.Cloud.ProviderName())
	}
	registerMetrics()
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	tracker := progress.New(stuckAfter(config))
	c := &Controller{
		config:      config,
		cloud:       cloudClient{provider: balancer, cluster: config.ClusterName, tracker: tracker},
		services:    config.Services.Lister(),
		nodes:       newNodeViews(config.Nodes.Lister()),
		store:       newStore(),
		batcher:     newBatcher(config.Clock, config.Options.NodeBatchWindow, config.Options.NodeBatchInterval),
		tracker:     tracker,
		clock:       config.Clock,
		recorder:    config.Recorder,
		retries:     newRetries(),
		nodeQueue:   newQueue("node", newDelays(), config.Clock, workqueue.DefaultQueue[string]()),
		workerSlots: make(chan struct{}, config.Workers),
		slowSlots:   make(chan struct{}, max(slowPerWorker*config.Workers, minSlow)),
	}
	lanes := newLanes()
	c.queue = serviceQueue{newQueue("service", c.retries.failed, config.Clock, lanes), lanes}
	c.state = newState(config)
	return c, c.watch()
}

// stuckAfter is how long one call may take before it counts as stuck. A guard gives calls up by itself. One that it
// still waits for is no reason to end the process: the next one would make the same call.
func stuckAfter(config Config) time.Duration {
	if limit := cloud.LoadBalancerTimeout(config.Cloud); limit > 0 {
		return max(config.Options.StuckAfter, limit+stuckMargin)
	}
	return config.Options.StuckAfter
}

func newDelays() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay)
}

func newQueue(
	name string,
	delays workqueue.TypedRateLimiter[string],
	clock clock.WithTicker,
	order workqueue.Queue[string],
) workqueue.TypedRateLimitingInterface[string] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: name, Clock: clock, Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[string]{Name: name, Clock: clock, Queue: queue},
	)
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		delays,
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: clock, DelayingQueue: delaying},
	)
}

// Name is how the controller is called in the gauge of running controllers.
func (c *Controller) Name() string { return "service" }

// HealthChecker fails when a call to the provider takes too long. It names the Service.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker {
	return progress.Open{UnnamedHealthChecker: c.tracker}
}

// Run works until ctx ends, and returns when everything that it had begun is done. A controller runs once.
func (c *Controller) Run(ctx context.Context) {
	fence := election.FromContext(ctx)
	if fence == nil {
		fence = election.Unfenced(c.clock.Now())
	}
	calls, cancel := fence.Bind(ctx)
	defer cancel()
	defer c.startEvents(calls)()
	if m := c.config.Metrics; m != nil {
		m.ControllerStarted(c.Name())
		defer m.ControllerStopped(c.Name())
	}
	defer c.nodeQueue.ShutDown()
	defer c.queue.ShutDown()
	defer c.unwatch()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		return
	}
	klog.FromContext(ctx).Info("Keeping load balancers", "workers", c.config.Workers)
	c.adopt(calls, fence)
	if c.nodes.hasNodes() {
		nodeSyncLatency.Observe(0) // upstream counts a pass for the nodes that it finds
	}

	var loops sync.WaitGroup
	loops.Go(func() { c.dispatch(ctx, calls) })
	loops.Go(func() { c.giveBatches(ctx, calls) })
	loops.Go(func() { c.batcher.run(ctx, func() { c.nodeQueue.Add(nodesKey) }) })
	loops.Go(func() { c.findDrift(ctx) })
	loops.Go(func() { c.state.run(ctx, calls) })
	<-ctx.Done()
	c.running.Store(false)
	c.queue.ShutDown()
	c.nodeQueue.ShutDown()
	loops.Wait()
	c.state.flush(calls)
}

// startEvents makes a recorder if none was given, and returns what stops it. Events are still written while the
// controller drains.
func (c *Controller) startEvents(calls context.Context) (stop func()) {
	if c.recorder != nil {
		return func() {}
	}
	broadcaster := record.NewBroadcaster(record.WithContext(calls))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(events.Sink(c.config.Client.CoreV1()))
	c.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return broadcaster.Shutdown
}

// adopt takes over what the last leader has noted, and enqueues what is not known to be in line.
func (c *Controller) adopt(ctx context.Context, fence *election.Fence) {
	noted := c.state.load(ctx, fence)
	v := c.nodes.view()
	c.running.Store(true) // events from here on are not missed; what they enqueue twice is judged once
	services, err := c.services.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing Services in the cache")
	}
	for _, service := range services {
		key := keyOf(service)
		if needsCleanup(service) {
			c.queue.enqueueWaiting(key)
			continue
		}
		if !wantsLoadBalancer(service) || service.DeletionTimestamp != nil {
			continue
		}
		lb, found := c.stateOfAdopted(service, noted, v)
		adoptedServices.WithLabelValues(found).Inc()
		c.store.putLBState(key, lb)
		if found != foundInLine {
			c.queue.enqueueWaiting(key)
		}
	}
	c.state.prune(c.store)
}

// What can be found of a load balancer on taking over.
const (
	foundInLine  = "in_line"
	foundMembers = "members"
	foundChanged = "changed"
	foundUnknown = "unknown"
)

// stateOfAdopted is the first state of a Service's load balancer.
func (c *Controller) stateOfAdopted(service *corev1.Service, noted map[string]entry, v *view) (lbState, string) {
	lb := lbState{uid: service.UID, service: service}
	e, ok := noted[keyOf(service)]
	switch {
	case !ok:
		return lb, foundUnknown
	case e.Print != c.state.print(specPrint(service), &service.Status.LoadBalancer):
		return lb, foundChanged
	}
	lb.spec, lb.members = specPrint(service), v.resolve(e.members)
	lb.status = &service.Status.LoadBalancer
	lb.stored = &service.Status.LoadBalancer
	lb.version = service.ResourceVersion
	c.scheduleAdopted(&lb)
	if v.needsUpdate(lb.members) {
		return lb, foundMembers
	}
	return lb, foundInLine
}

// watch registers what listens to Services and nodes. It costs next to nothing while the controller does not run: on
// taking over, everything is looked at once.
func (c *Controller) watch() error {
	services, nodes := c.config.Services.Informer(), c.config.Nodes.Informer()
	forServices, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.serviceAdded(now) },
		UpdateFunc: func(before, now any) { c.serviceUpdated(before, now) },
		DeleteFunc: func(last any) { c.serviceDeleted(last) },
	})
	if err != nil {
		return fmt.Errorf("listening to Services: %w", err)
	}
	forNodes, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.nodeChanged(nil, now) },
		UpdateFunc: func(before, now any) { c.nodeChanged(before, now) },
		DeleteFunc: func(last any) { c.nodeChanged(last, nil) },
	})
	if err != nil {
		return fmt.Errorf("listening to nodes: %w", err)
	}
	c.synced = []cache.InformerSynced{forServices.HasSynced, forNodes.HasSynced}
	c.removals = []func() error{
		func() error { return services.RemoveEventHandler(forServices) },
		func() error { return nodes.RemoveEventHandler(forNodes) },
	}
	return nil
}

func (c *Controller) unwatch() {
	for _, remove := range c.removals {
		_ = remove() // it fails only for a handler of another informer
	}
}

func (c *Controller) serviceAdded(now any) {
	service, ok := now.(*corev1.Service)
	if ok && c.running.Load() && (wantsLoadBalancer(service) || needsCleanup(service)) {
		c.queue.enqueue(keyOf(service))
	}
}

func (c *Controller) serviceUpdated(before, now any) {
	was, ok1 := before.(*corev1.Service)
	is, ok2 := now.(*corev1.Service)
	if !ok1 || !ok2 || !c.running.Load() {
		return
	}
	lb, known := c.store.get(keyOf(is))
	if isRelevantUpdate(was, is, known, lb) {
		c.queue.enqueue(keyOf(is))
	}
}

func (c *Controller) serviceDeleted(last any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(last)
	if err != nil || !c.running.Load() {
		return
	}
	// One that fails is in its back-off, and is looked at when that is over.
	if lb, known := c.store.get(key); known && (lb.isInSync() || !lb.tried) {
		c.queue.enqueue(key)
	}
}

// nodeChanged takes a node that came (before is nil), changed, or went (now is nil).
func (c *Controller) nodeChanged(before, now any) {
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	var was, is eligibility
	var name string
	old, existed := before.(*corev1.Node)
	if existed {
		was, name = eligibilityOf(old), old.Name
	}
	node, exists := now.(*corev1.Node)
	if exists {
		is, name = eligibilityOf(node), node.Name
	}
	if !existed || !exists || !areSameToProviders(old, node) {
		c.nodes.markStale()
	}
	if was == is {
		return // a heartbeat
	}
	c.nodes.markDirty()
	what := changeNone
	if c.running.Load() {
		what = changeOf(was, is)
	}
	c.batcher.noteEvent(name, is.becomesMember(), what) // a standby knows, too, who is on the way: it may lead in a moment
}

func keyOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

// parseVersion makes a resource version comparable; 0 is one that is not.
func parseVersion(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Options are the settings beyond upstream's.
type Options struct {
	// DriftPeriod is how often each load balancer is looked at with GetLoadBalancer. 0 for never.
	DriftPeriod time.Duration
	// ResyncPeriod is how often each load balancer is ensured though nothing is known to have changed. 0 for never.
	ResyncPeriod time.Duration
	// DriftQPS bounds the calls that both make together.
	DriftQPS float64
	// NodeBatchWindow is how long a node waits for others before load balancers are updated. Several wait until none
	// has come or joined for twice as long, for NodeBatchInterval at most. The first after that much quiet waits only
	// for nodes that are being initialised.
	NodeBatchWindow time.Duration
	// NodeBatchInterval is the least time between two updates of load balancers for nodes that join.
	NodeBatchInterval time.Duration
	// StuckAfter is how long one call to the provider may take before the controller counts as stuck. A limit that a
	// guard has for such calls goes before a shorter time.
	StuckAfter time.Duration
	// StateConfigMap is where fingerprints are kept, as namespace/name. Empty for the default, "none" for nowhere.
	StateConfigMap string
}

const (
	flagDriftPeriod       = "load-balancer-drift-period"
	flagResyncPeriod      = "load-balancer-resync-period"
	flagDriftQPS          = "load-balancer-drift-qps"
	flagNodeBatchWindow   = "load-balancer-node-batch-window"
	flagNodeBatchInterval = "load-balancer-node-batch-interval"
	flagStuckAfter        = "load-balancer-stuck-after"
	flagStateConfigMap    = "load-balancer-state-configmap"
)

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		DriftPeriod:       30 * time.Minute,
		ResyncPeriod:      12 * time.Hour,
		DriftQPS:          2,
		NodeBatchWindow:   time.Second,
		NodeBatchInterval: 10 * time.Second,
		StuckAfter:        20 * time.Minute,
	}
}

// AddFlags binds the settings to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(
		&o.DriftPeriod,
		flagDriftPeriod,
		o.DriftPeriod,
		"How often each load balancer is looked at, with one reading call, for whether it is still there and at its address. "+
			"One that is gone is made again. 0 turns it off.",
	)
	fs.DurationVar(&o.ResyncPeriod, flagResyncPeriod, o.ResyncPeriod,
		"How often each load balancer is ensured even if no change is known. "+
			"This finds members and listeners that were changed in the cloud. 0 turns it off.")
	fs.Float64Var(&o.DriftQPS, flagDriftQPS, o.DriftQPS,
		"How many load balancers per second are looked at or ensured for drift, at most.")
	fs.DurationVar(
		&o.NodeBatchWindow,
		flagNodeBatchWindow,
		o.NodeBatchWindow,
		"How long a node that has joined waits for others before load balancers get it. Several wait until none has joined for twice as long, "+
			"for --"+flagNodeBatchInterval+" at most if that is longer. The first node after that much quiet does not wait, unless others are being initialised. "+
			"Nodes that leave do not wait.",
	)
	fs.DurationVar(
		&o.NodeBatchInterval,
		flagNodeBatchInterval,
		o.NodeBatchInterval,
		"The least time between two updates of the load balancers for joining nodes. Many nodes that join one after the other then cost few updates.",
	)
	fs.DurationVar(
		&o.StuckAfter,
		flagStuckAfter,
		o.StuckAfter,
		"How long one call for a load balancer may take before the health check of the controller fails and names the Service. "+
			"Waiting because of the call rate does not count. It is at least a minute more than --cloud-load-balancer-timeout.",
	)
	fs.StringVar(
		&o.StateConfigMap,
		flagStateConfigMap,
		o.StateConfigMap,
		`The ConfigMap, as namespace/name, that tells the next leader which load balancers are in line, so that it need not ensure them all. `+
			`Empty for kube-system/transplant-service-state-<provider>, "none" for nowhere.`,
	)
}

// Validate returns what is wrong with the settings.
func (o *Options) Validate() []error {
	var errs []error
	for _, p := range []struct {
		flag   string
		period time.Duration
		off    bool // zero turns it off
	}{
		{flagDriftPeriod, o.DriftPeriod, true},
		{flagResyncPeriod, o.ResyncPeriod, true},
		{flagNodeBatchInterval, o.NodeBatchInterval, true},
		{flagNodeBatchWindow, o.NodeBatchWindow, false},
		{flagStuckAfter, o.StuckAfter, false},
	} {
		switch {
		case p.period < 0:
			errs = append(errs, fmt.Errorf("--%s must not be negative, it is %s", p.flag, p.period))
		case p.period == 0 && !p.off:
			errs = append(errs, fmt.Errorf("--%s must be more than zero", p.flag))
		}
	}
	if o.DriftQPS <= 0 {
		errs = append(errs, fmt.Errorf("--%s must be more than zero, it is %v", flagDriftQPS, o.DriftQPS))
	}
	namespace, name, _ := strings.Cut(o.StateConfigMap, "/")
	if o.StateConfigMap != "" && o.StateConfigMap != stateNowhere && (namespace == "" || name == "") {
		errs = append(
			errs,
			fmt.Errorf("--%s must be namespace/name, empty or %q, it is %q", flagStateConfigMap, stateNowhere, o.StateConfigMap),
		)
	}
	return errs
}
