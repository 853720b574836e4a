package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/node/reading"
)

const (
	// readTimeout bounds a call for a group of nodes; it is there for clouds whose calls nothing else bounds.
	readTimeout = 4 * time.Minute
	// stuckAfter is when health says that a piece of work is stuck.
	stuckAfter = 5 * time.Minute
	// jitter is by how much a period may be longer than asked for. So the managers of many clusters do not ask at the same
	// moment.
	jitter = 0.1
)

// Config is what a controller needs.
type Config struct {
	Client kubernetes.Interface
	Cloud  cloudprovider.Interface
	Nodes  coreinformers.NodeInformer
	// MonitorPeriod is the value of --node-monitor-period.
	MonitorPeriod time.Duration
	// Workers is the value of --concurrent-node-lifecycle-syncs: how many nodes are written at the same time and, if the
	// provider cannot list instances, asked for.
	Workers int
	Metrics *controllersmetrics.ControllerManagerMetrics // nil: none
	Options Options
	Clock   clock.WithTicker // nil: the real one
	// Instances is how nodes are read; nil: cloud.InstancesOf(Cloud).
	Instances cloud.Instances
	// Host is where the manager runs; the zero value if that is not known. See ThisHost.
	Host Host
}

func (config *Config) complete() error {
	errs := config.Options.Validate()
	if config.Client == nil {
		errs = append(errs, errors.New("there is no client"))
	}
	if config.MonitorPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--node-monitor-period is %s, but must be longer than 0", config.MonitorPeriod))
	}
	if config.Workers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-node-lifecycle-syncs is %d, but must be at least 1", config.Workers))
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	var err error
	config.Instances, err = reading.InstancesOf(config.Instances, config.Cloud)
	return errors.Join(append(errs, err)...)
}

// Controller deletes nodes whose instance is gone and taints those whose instance is shut down.
type Controller struct {
	client   kubernetes.Interface
	nodes    corelisters.NodeLister
	synced   cache.InformerSynced
	reader   reading.Reader
	period   time.Duration
	options  Options
	metrics  *controllersmetrics.ControllerManagerMetrics
	clock    clock.WithTicker
	fence    *election.Fence      // set by Run
	recorder record.EventRecorder // set by Run
	reads    chan struct{}        // one for each call to the cloud in flight
	writes   chan struct{}        // one for each node that is being written
	warnings *rate.Limiter
	work     sync.WaitGroup

	mu      sync.Mutex
	watched map[string]*watched // nodes that are not Ready, or that are being written, by name
	ticked  time.Time           // when the last tick began

	began     time.Time // when Run began
	inherited bool      // a manager of this kind worked before, and what it deleted is not known

	host  Host   // Config.Host
	own   string // the node that runs this manager, "" if it is not known
	known int    // nodes that there are
	// toldNoOwn reports whether it was said that the own node is not known.
	toldNoOwn bool
	// recent is when the Nodes of a name were last deleted that count towards the limit, within the window. A kubelet that
	// registers its Node again and again takes up one place.
	recent map[string]time.Time
	// recentTerminated is the same of nodes whose instances were terminated, which have a limit of their own.
	recentTerminated map[string]time.Time
	holds            map[holdReason]int // how many nodes are held
	witnesses        map[string]bool    // Ready nodes that are being asked for
	turn             int                // where among them the next pass begins
}

// New returns a controller, or reading.ErrUnsupported if the provider knows nothing of instances.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	registerMetrics()
	c := &Controller{
		client:  config.Client,
		nodes:   config.Nodes.Lister(),
		synced:  config.Nodes.Informer().HasSynced,
		reader:  reading.New(config.Instances, cloud.ClassLifecycle, readTimeout, stuckAfter),
		period:  config.MonitorPeriod,
		options: config.Options,
		metrics: config.Metrics,
		clock:   config.Clock,
		writes: make(
			chan struct{},
			config.Workers,
		),
		warnings:         rate.NewLimiter(1, 50),
		watched:          map[string]*watched{},
		host:             config.Host,
		recent:           map[string]time.Time{},
		recentTerminated: map[string]time.Time{},
		witnesses:        map[string]bool{},
	}
	flights := groupsInFlight
	if c.reader.Size() == 1 {
		flights = config.Workers
	}
	c.reads = make(chan struct{}, flights)
	return c, nil
}

// Name is the controller's name in the gauge of running controllers.
func (c *Controller) Name() string { return "cloud-node-lifecycle" }

// HealthChecker fails while a call for nodes or a write is stuck, and when no tick has begun for several periods.
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
	if age := h.c.clock.Since(h.c.ticked); !h.c.ticked.IsZero() && age > 3*h.c.period+stuckAfter {
		return fmt.Errorf("nodes were last looked at %s ago, though every %s is due", age.Round(time.Second), h.c.period)
	}
	return nil
}

// Run works until ctx is done, and returns when the writes have ended that were being made then.
func (c *Controller) Run(ctx context.Context) {
	calls, begun := term.Begin(
		ctx,
		term.Config{
			Name:        c.Name(),
			EventSource: "cloud-node-lifecycle-controller",
			Client:      c.client,
			Metrics:     c.metrics,
			Clock:       c.clock,
		},
	)
	defer begun.End()
	c.fence, c.recorder = begun.Fence, begun.Recorder
	c.mu.Lock()
	c.began, c.inherited = c.clock.Now(), begun.Fence.Tenure().IsInherited
	c.mu.Unlock()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return
	}
	// Reads change nothing: they end with ctx, so that a planned stop waits only for what is being written.
	reads, cancelReads := context.WithCancel(calls)
	defer cancelReads()
	defer context.AfterFunc(ctx, cancelReads)()
	defer c.forgetHolds()
	defer c.work.Wait()
	for ctx.Err() == nil && calls.Err() == nil {
		next := c.clock.Now().Add(wait.Jitter(c.period, jitter))
		ticking, cancel := context.WithDeadline(reads, next)
		c.tick(ticking, reads, calls)
		cancel()
		c.wait(ctx, next)
	}
}

func (c *Controller) wait(ctx context.Context, until time.Time) {
	timer := c.clock.NewTimer(max(until.Sub(c.clock.Now()), 0))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// forgetHolds is for a manager that ends its work and goes on living: another one holds the nodes now.
func (c *Controller) forgetHolds() {
	for _, why := range holdReasons {
		held.WithLabelValues(string(why)).Set(0)
	}
}
