// Package node decides what of a cloud's instance belongs on its Node: provider ID, addresses, and the labels of type,
// zone and region. It also decides when to remove the taint that keeps pods away until then. It behaves as upstream's
// cloud-node-controller where a user or another component can see it:
//
//	registered --taint uninitialized--> metadata and provider ID are known --> addresses --> labels, provider ID, no taint --> event Synced
//	    ^                                    | nil metadata, no provider ID, an error, provided IP is not the instance's
//	    +------------ back-off, event -------+
//	initialised: labels are kept equal to their beta pairs; addresses are compared once per period
//
// What differs, and why:
//   - Nodes that join together are read in one call, where the provider lists instances (see cloud.InstancesLister). A
//     lone node waits 50 ms for company.
//   - Addresses are written before the taint goes: pods that are scheduled to the node may need them (k/k#123024 is the
//     same for the provider ID).
//   - Nil metadata and a missing provider ID are retried and told in an event. Upstream forgets the first until the
//     node changes.
//   - A label value that the API server would refuse, such as a zone with a blank, is left out and named in an event.
//     The rest is done. Upstream sends it with everything else, for ever, and the node stays tainted
//     (kubernetes/cloud-provider-openstack#1379). The price: such a node has no zone.
//   - Two small patches replace a PUT of the whole node, which conflicts with every heartbeat. They carry the node's
//     UID: a node that was deleted and created again under its name gets nothing that was read for the first.
//   - Addresses that are the same are not patched. Upstream sends an empty patch for each dual-stack node in each
//     period.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
)

const (
	// firstRetry is the time between the first two attempts for a node; it doubles up to Options.RetryLimit.
	firstRetry = 200 * time.Millisecond
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
	// StatusUpdateFrequency is the value of --node-status-update-frequency.
	StatusUpdateFrequency time.Duration
	// Workers is the value of --concurrent-node-syncs: how many nodes are written at the same time.
	Workers int
	// StatusWorkers is the value of --concurrent-node-status-updates; 0: as Workers.
	StatusWorkers int
	Metrics       *controllersmetrics.ControllerManagerMetrics // nil: none
	Options       Options
	Clock         clock.WithTicker // nil: the real one
	// Instances is how nodes are read; nil: cloud.InstancesOf(Cloud).
	Instances cloud.Instances
}

func (config *Config) complete() error {
	errs := config.Options.Validate()
	if config.StatusUpdateFrequency <= 0 {
		errs = append(
			errs,
			fmt.Errorf("--node-status-update-frequency is %s, but must be longer than 0", config.StatusUpdateFrequency),
		)
	}
	if config.Workers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-node-syncs is %d, but must be at least 1", config.Workers))
	}
	if config.StatusWorkers < 0 {
		errs = append(
			errs,
			fmt.Errorf("--concurrent-node-status-updates is %d, but must not be negative", config.StatusWorkers),
		)
	}
	if config.StatusWorkers == 0 {
		config.StatusWorkers = config.Workers
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	var err error
	config.Instances, err = reading.InstancesOf(config.Instances, config.Cloud)
	return errors.Join(append(errs, err)...)
}

// item is what the queue says: read the node. With addresses, it is only the addresses of an initialised node, which
// could not be written when they were due.
type item struct {
	name      string
	addresses bool
}

// Controller initialises nodes and keeps their labels and addresses.
type Controller struct {
	client        kubernetes.Interface
	nodes         corelisters.NodeLister
	synced        cache.InformerSynced
	registration  cache.ResourceEventHandlerRegistration
	reader        reading.Reader
	idsOptional   bool
	frequency     time.Duration
	workers       int
	statusWorkers int
	window        time.Duration
	metrics       *controllersmetrics.ControllerManagerMetrics
	clock         clock.WithTicker
	recorder      record.EventRecorder // set by Run
	queue         workqueue.TypedRateLimitingInterface[item]
	pace          *rate.Limiter // of calls for groups that are not full
	jobs          chan *job
	reporter      *reporter

	mu     sync.Mutex
	wrote  map[string]version // what this controller has made of nodes, by name: the cache may still show what was before
	passed time.Time          // when the last pass over all addresses ended, or Run began
}

type version struct {
	uid             types.UID
	resourceVersion string
}

// New returns a controller, or reading.ErrUnsupported if the provider knows nothing of instances.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	registerMetrics()
	c := &Controller{
		client:        config.Client,
		nodes:         config.Nodes.Lister(),
		synced:        config.Nodes.Informer().HasSynced,
		reader:        reading.New(config.Instances, cloud.ClassNode, readTimeout, stuckAfter),
		idsOptional:   idsOptional(config.Cloud),
		frequency:     config.StatusUpdateFrequency,
		workers:       config.Workers,
		statusWorkers: config.StatusWorkers,
		window:        config.Options.GatherWindow,
		metrics:       config.Metrics,
		clock:         config.Clock,
		pace:          rate.NewLimiter(1, 5),
		jobs:          make(chan *job),
		reporter:      newReporter(),
		wrote:         map[string]version{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[item](firstRetry, config.Options.RetryLimit),
			workqueue.TypedRateLimitingQueueConfig[item]{Name: "Nodes", Clock: config.Clock},
		),
	}
	var err error
	c.registration, err = config.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.added, UpdateFunc: c.updated, DeleteFunc: c.deleted,
	})
	if err != nil {
		c.queue.ShutDown()
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return c, nil
}

// idsOptional reports whether a node may be initialised without a provider ID: providers of the first generation need
// not have any.
func idsOptional(provider cloudprovider.Interface) bool {
	if provider == nil {
		return false
	}
	if _, lists := cloud.Unwrap(provider).(cloud.InstancesLister); lists {
		return false
	}
	_, second := provider.InstancesV2()
	return !second
}

// Name is the controller's name in the gauge of running controllers.
func (c *Controller) Name() string { return "cloud-node" }

// HealthChecker fails while a call for nodes or a patch is stuck, and when no pass over all addresses has ended for
// several periods.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker {
	return progress.Open{UnnamedHealthChecker: healthCheck{c}}
}

type healthCheck struct{ c *Controller }

func (h healthCheck) Check(request *http.Request) error {
	if err := h.c.reader.Tracker.Check(request); err != nil {
		return err
	}
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if age := h.c.clock.Since(h.c.passed); !h.c.passed.IsZero() && age > 3*h.c.frequency+stuckAfter {
		return fmt.Errorf(
			"the addresses of nodes were last compared %s ago, though every %s is due",
			age.Round(time.Second),
			h.c.frequency,
		)
	}
	return nil
}

func (c *Controller) added(object any) {
	if node, ok := object.(*corev1.Node); ok && needsWork(node) {
		c.queue.Add(item{name: node.Name})
	}
}

func (c *Controller) updated(old, updated any) {
	before, ok1 := old.(*corev1.Node)
	after, ok2 := updated.(*corev1.Node)
	if !ok1 || !ok2 {
		return
	}
	if !needsWork(after) {
		c.forgetWrite(after.Name) // the cache has it
		return
	}
	if hasRelevantChange(before, after) || before.ResourceVersion == after.ResourceVersion { // or the informer's resync
		c.queue.Add(item{name: after.Name})
	}
}

func (c *Controller) deleted(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if node, ok := object.(*corev1.Node); ok {
		c.reporter.forget(node.Name)
		c.forgetWrite(node.Name)
	}
}

func (c *Controller) forgetWrite(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wrote, name)
}

func (c *Controller) rememberWrite(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote[node.Name] = version{node.UID, node.ResourceVersion}
}

// isOutdated reports whether the cache shows a node as it was before this controller initialised it.
func (c *Controller) isOutdated(node *corev1.Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wrote, ok := c.wrote[node.Name]
	if !ok || wrote.uid != node.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, wrote.resourceVersion)
	return err == nil && order < 0
}

// Run works until ctx is done, and returns when the nodes have been finished that were being written then.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	calls, begun := term.Begin(
		ctx,
		term.Config{
			Name:        c.Name(),
			EventSource: "cloud-node-controller",
			Client:      c.client,
			Metrics:     c.metrics,
			Clock:       c.clock,
		},
	)
	defer begun.End()
	c.recorder = begun.Recorder
	c.reporter.recorder = c.recorder
	if !cache.WaitForCacheSync(ctx.Done(), c.synced, c.registration.HasSynced) {
		return
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	c.finishPass()

	// Reads change nothing: they end with ctx, so that a planned stop waits only for what is being written.
	reads, cancelReads := context.WithCancel(calls)
	defer cancelReads()
	defer context.AfterFunc(ctx, cancelReads)()

	var group sync.WaitGroup
	initialised := c.initialisedNodes()
	group.Go(func() { c.refreshAll(ctx, reads, calls, initialised) })
	for range c.workers {
		group.Go(func() { c.work(ctx, calls) })
	}
	c.gather(ctx, reads)
	close(c.jobs)
	group.Wait()
}

func (c *Controller) finishPass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed = c.clock.Now()
}

// Options are the settings of the controller that upstream does not have.
type Options struct {
	// GatherWindow is how long a node that has joined waits for others, to be read in one call with them. While nodes keep
	// joining it grows to a second.
	GatherWindow time.Duration
	// RetryLimit is the longest time between two attempts to initialise a node.
	RetryLimit time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{GatherWindow: 50 * time.Millisecond, RetryLimit: 2 * time.Minute}
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(
		&o.GatherWindow,
		"node-sync-gather-window",
		o.GatherWindow,
		"How long a node that has joined waits for other nodes. They are read from the "+
			"cloud in one call, if the provider can list instances. While nodes keep joining it grows to a second.",
	)
	fs.DurationVar(
		&o.RetryLimit,
		"node-sync-retry-limit",
		o.RetryLimit,
		"The longest time between two attempts to initialise a node. Attempts start 200ms apart.",
	)
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	if o.GatherWindow < 0 {
		errs = append(errs, fmt.Errorf("--node-sync-gather-window is %s, but must not be negative", o.GatherWindow))
	}
	if o.RetryLimit <= 0 {
		errs = append(errs, fmt.Errorf("--node-sync-retry-limit is %s, but must be longer than 0", o.RetryLimit))
	}
	return errs
}
