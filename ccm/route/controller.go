package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// What sets off a pass. The first two are the values of upstream's label "trigger"; a retry counts as what it retries,
// a change of a node.
const (
	nodeChange = "node_change"
	periodic   = "periodic"
	retry      = "retry"
)

const (
	// maxInFlight bounds the calls that are made at the same time, as upstream does.
	maxInFlight = 200
	// maxPatches bounds the conditions that are written at the same time.
	maxPatches = 50
	// listServes is for how long a list is taken for the state of the cloud, besides what this controller has done since.
	// It is also upstream's shortest interval between two lists, and how long a cloud may take to show in a list what it
	// has accepted.
	listServes = 10 * time.Second
	// listBurst lists may follow each other without listServes between them: the first retries come after 1, 2 and 4 s.
	listBurst = 4
	// listGivenUp is after how many failed lists in a row the work goes on without.
	listGivenUp = 3
	// gather is how long events are gathered before a pass. Joining nodes come in bursts, and their addresses and podCIDRs
	// soon after them.
	gather = 200 * time.Millisecond
	// stuckAfter is when health says that a call is stuck. Some clouds take minutes for a route.
	stuckAfter = 10 * time.Minute
)

// ErrUnsupported is that the provider has no routes. The controller is then not started.
var ErrUnsupported = errors.New("the provider does not support routes")

// Config is what a controller needs.
type Config struct {
	Client      kubernetes.Interface
	Cloud       cloudprovider.Interface
	Nodes       coreinformers.NodeInformer
	ClusterName string
	// ClusterCIDR is the value of --cluster-cidr.
	ClusterCIDR string
	// ReconciliationPeriod is the value of --route-reconciliation-period if it was given explicitly, else 0. It is then
	// the resync period: who has chosen how often upstream lists gets what they have chosen.
	ReconciliationPeriod time.Duration
	Metrics              *controllersmetrics.ControllerManagerMetrics // nil: none
	Options              Options
	Clock                clock.WithTicker // nil: the real one
}

// Controller keeps the routes of a cloud and the NetworkUnavailable conditions of nodes.
type Controller struct {
	routes       cloudprovider.Routes
	client       kubernetes.Interface
	nodes        corelisters.NodeLister
	synced       cache.InformerSynced
	registration cache.ResourceEventHandlerRegistration
	clusterName  string
	clusterCIDRs []*net.IPNet
	period       time.Duration
	metrics      *controllersmetrics.ControllerManagerMetrics
	clock        clock.WithTicker
	recorder     record.EventRecorder // set by Run
	queue        workqueue.TypedDelayingInterface[string]
	lists        *rate.Limiter
	slots        chan struct{} // one for each call to the cloud in flight
	finished     chan struct{} // has something when a change has ended
	patchSlots   chan struct{} // one for each patch in flight
	work         sync.WaitGroup
	tracker      *progress.Tracker

	mu        sync.Mutex
	known     view
	listedAt  time.Time // when the last successful list was asked for; zero before
	listFails int
	nextList  time.Time // back-off of a failing list
	owed      bool      // a list was wanted, but has not been made
	attempts  attempts
	busy      map[destination]bool
	settled   map[destination]time.Time // until when lists say nothing about it: calls were made
	patches   map[string]*patched       // by node
	told      map[types.UID]bool        // Nodes of which an event says that a route is refused
}

// New returns a controller, or ErrUnsupported if the provider has no routes.
func New(config Config) (*Controller, error) {
	routes, ok := config.Cloud.Routes()
	if !ok {
		return nil, ErrUnsupported
	}
	clusterCIDRs, err := ClusterCIDRs(config.ClusterCIDR)
	if err != nil {
		return nil, err
	}
	if errs := config.Options.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	period := config.Options.ResyncPeriod
	switch {
	case config.ReconciliationPeriod < 0:
		return nil, fmt.Errorf("--route-reconciliation-period is %s, but must be longer than 0", config.ReconciliationPeriod)
	case config.ReconciliationPeriod > 0:
		period = config.ReconciliationPeriod
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	registerMetrics()
	c := &Controller{
		routes:       routes,
		client:       config.Client,
		nodes:        config.Nodes.Lister(),
		synced:       config.Nodes.Informer().HasSynced,
		clusterName:  config.ClusterName,
		clusterCIDRs: clusterCIDRs,
		period:       period,
		metrics:      config.Metrics,
		clock:        config.Clock,
		queue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[string]{Name: "Routes", Clock: config.Clock},
		),
		lists: rate.NewLimiter(
			rate.Every(listServes),
			listBurst,
		),
		slots:      make(chan struct{}, maxInFlight),
		patchSlots: make(chan struct{}, maxPatches),
		finished:   make(chan struct{}, 1),
		tracker:    progress.New(stuckAfter),
		attempts:   attempts{},
		busy:       map[destination]bool{},
		settled:    map[destination]time.Time{},
		patches:    map[string]*patched{},
	}
	c.registration, err = config.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.nodeChanged() },
		UpdateFunc: c.nodeUpdated,
		DeleteFunc: func(any) { c.nodeChanged() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return c, nil
}

// Name is the controller's name in the gauge of running controllers.
func (c *Controller) Name() string { return "route" }

// HealthChecker fails while a call to the cloud is stuck, and when there has been no pass for several periods.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker {
	return progress.Open{UnnamedHealthChecker: healthCheck{c}}
}

type healthCheck struct{ c *Controller }

func (h healthCheck) Check(request *http.Request) error {
	if err := h.c.tracker.Check(request); err != nil {
		return err
	}
	if last := h.c.tracker.Last(); !last.IsZero() && h.c.clock.Since(last) > 3*h.c.period+stuckAfter {
		return fmt.Errorf(
			"routes were last compared %s ago, though every %s is due",
			h.c.clock.Since(last).Round(time.Second),
			h.c.period,
		)
	}
	return nil
}

func (c *Controller) nodeChanged() { c.queue.AddAfter(nodeChange, gather) }

// nodeUpdated looks only at what routes and their condition depend on: every node is updated several times a minute.
func (c *Controller) nodeUpdated(old, updated any) {
	before, ok1 := old.(*corev1.Node)
	after, ok2 := updated.(*corev1.Node)
	if !ok1 || !ok2 {
		return
	}
	if before.UID != after.UID || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		!slices.Equal(
			before.Status.Addresses,
			after.Status.Addresses,
		) || networkCondition(before) != networkCondition(after) {
		c.nodeChanged()
	}
}

// Run works until ctx is done, and returns when the calls have ended that were being made then.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	calls, begun := term.Begin(
		ctx,
		term.Config{
			Name:        c.Name(),
			EventSource: "route_controller",
			Client:      c.client,
			Metrics:     c.metrics,
			Clock:       c.clock,
		},
	)
	defer begun.End()
	c.recorder = begun.Recorder
	if !cache.WaitForCacheSync(ctx.Done(), c.synced, c.registration.HasSynced) {
		return
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	c.queue.Add(nodeChange)
	c.queue.AddAfter(periodic, wait.Jitter(c.period, 0.1))
	for c.processNext(ctx, calls) {
	}
	c.work.Wait()
}

func (c *Controller) processNext(ctx, calls context.Context) bool {
	trigger, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(trigger)
	if ctx.Err() != nil || calls.Err() != nil {
		return false
	}
	calls, end := c.track(calls, "comparing routes with nodes")
	defer end()
	if err := c.pass(ctx, calls, trigger); err != nil {
		klog.FromContext(ctx).Error(err, "Comparing routes with nodes, will be retried", "trigger", trigger)
	}
	return true
}
