// Package process decides how the operator of a fleet runs as a process. It has its flags, its clients with their
// limits, and its election. It also decides what each replica serves.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/fleet/operator"
	"github.com/transplant-dev/transplant/internal/fleet/served"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask/events"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// pageClusters is to how many user clusters the page keeps connections.
const pageClusters = 8

// process is the operator with everything around it.
type process struct {
	*flags
	log     logr.Logger
	base    *rest.Config // counted, without a fence: for what every replica does
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// datacenters are what migrations know of the seeds' datacenters. The webhooks keep their own, so that a flood of
	// reviews cannot make the operator's reads fail.
	datacenters *admission.Datacenters
	metrics     *operator.Metrics
	elector     *election.Elector
	operator    *operator.Operator
	hosted      *operator.Hosted
	users       *userclusters.Pool
	// looker reads control planes for the page, on every replica, and changes nothing. It has no fence, which would
	// take some of its requests for writes: those for its rights and for a token for gauges. It has its own
	// connections, because the operator closes those of a cluster that needs nothing.
	looker *operator.Hosted
	// led is closed when what was begun under the lease has ended.
	led chan struct{}
}

// run runs one replica until it is told to end, or has lost the lease while it held it.
func run(ctx context.Context, f *flags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &process{
		flags:   f,
		log:     klog.Background(),
		metrics: operator.NewMetrics(),
		led:     make(chan struct{}),
	}
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.elect(); err != nil {
		return err
	}
	endEvents, err := p.assemble()
	if err != nil {
		return err
	}
	defer endEvents()
	defer p.users.Close()
	defer p.looker.Users.Close()
	return p.serveAndLead(ctx)
}

// serveAndLead does what every replica does, and contends for the lease. Servers and caches end after what was begun
// under the lease.
func (p *process) serveAndLead(ctx context.Context) error {
	around, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var group sync.WaitGroup
	servers, err := p.servers(around)
	if err != nil {
		return err
	}
	for _, s := range servers {
		group.Go(func() {
			if err := s(around); err != nil {
				end(err)
			}
		})
	}
	group.Go(func() { p.operator.Warm(around) })
	leading, stopLeading := context.WithCancel(ctx)
	context.AfterFunc(around, stopLeading) // a server that cannot serve ends the process
	err = p.elector.Run(leading)
	stopLeading()
	if errors.Is(err, election.ErrLost) { // whatever still runs is fenced: nothing is waited for
		return fmt.Errorf("holding the lease %s: %w", p.lease, err)
	}
	failed := context.Cause(around)
	end(nil)
	group.Wait()
	return errors.Join(failed, err)
}

// connect makes the clients that no lease fences.
func (p *process) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading how to reach the seed: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = p.qps, p.burst, "transplant-operator/"+p.version
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return p.metrics.Counting("seed", next) })
	p.base = config
	p.kube, err = kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client of the seed: %w", err)
	}
	p.dynamic, err = dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client of the seed's Clusters: %w", err)
	}
	return nil
}

// elect prepares the election. What acts under the lease is the operator, which assemble makes before any replica
// contends.
func (p *process) elect() error {
	if p.identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("reading the name of this host for the holder of the lease: %w", err)
		}
		p.identity = host + "_" + string(uuid.NewUUID())
	}
	leases := rest.CopyConfig(p.base)
	leases.QPS, leases.Burst, leases.Timeout = 10, 20, 0 // a rate that nothing else can use up
	client, err := kubernetes.NewForConfig(leases)
	if err != nil {
		return fmt.Errorf("making the client of leases: %w", err)
	}
	p.elector, err = election.New(election.Config{
		Identity:      p.identity,
		Client:        client.CoordinationV1(),
		Leases:        []election.Lease{{Namespace: p.namespace, Name: p.lease, Contend: true}},
		LeaseDuration: p.leaseDuration,
		RenewDeadline: p.renewDeadline,
		RetryPeriod:   p.retryPeriod,
		DrainTimeout:  p.drain,
		OnStarted: func(ctx context.Context, _ string) {
			defer close(p.led)
			p.log.Info("This replica acts", "identity", p.identity)
			p.operator.Lead(ctx)
		},
		Drained: func(string) <-chan struct{} { return p.led },
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	return nil
}

// assemble makes the operator on fenced clients.
func (p *process) assemble() (endEvents func(), err error) {
	fence := p.elector.Fence(p.lease)
	fenced := rest.CopyConfig(p.base)
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) })
	kube, err := kubernetes.NewForConfig(fenced)
	if err != nil {
		return nil, fmt.Errorf("making the fenced client of the seed: %w", err)
	}
	dyn, err := dynamic.NewForConfig(fenced)
	if err != nil {
		return nil, fmt.Errorf("making the fenced client of the seed's Clusters: %w", err)
	}
	p.datacenters = &admission.Datacenters{Client: dyn}
	total := answerlimit.NewTotal()
	p.users = userclusters.New(
		userclusters.Options{
			Seed:  kube,
			Open:  p.openClusters,
			Total: total,
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return election.Transport(fence, p.metrics.Counting("user", next))
			},
		},
	)
	installation := p.namespace + "/" + p.lease
	holders := "transplant-operator of " + installation + ": "
	p.hosted = &operator.Hosted{
		Seed:         hosted.Clients{Kube: kube, Dynamic: dyn},
		Users:        p.users,
		Holder:       holders + p.identity,
		HolderPrefix: holders,
		ToolVersion:  p.version,
		Images:       p.images,

		IgnoreObjectives: p.objectives == objectives.FlagOff,
	}
	p.looker = &operator.Hosted{
		Seed:        hosted.Clients{Kube: p.kube, Dynamic: p.dynamic},
		ToolVersion: p.version,
		Images:      p.images,
		Users: userclusters.New(
			userclusters.Options{
				Seed:  p.kube,
				Open:  pageClusters,
				Total: total,
				Wrap:  func(next http.RoundTripper) http.RoundTripper { return p.metrics.Counting("user", next) },
			},
		),
	}

	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(events.Sink(kube.CoreV1()))
	limits := p.limits
	limits.Version = p.version
	fleetRules := p.rules()
	p.operator, err = operator.New(operator.Options{
		Kube:                kube,
		Dynamic:             dyn,
		Engine:              p.hosted,
		Parts:               operator.HostedParts{Hosted: p.hosted, Datacenter: fleetRules.Datacenter},
		Machines:            operator.HostedMachines{Hosted: p.hosted},
		Rules:               fleetRules,
		Definitions:         p.definitions,
		Installation:        installation,
		Limits:              limits,
		MaxParallel:         p.maxParallel,
		MaxParallelMachines: p.maxParallelMachines,
		MaxWatches:          max(1, p.openClusters/2),
		StallAfter:          p.stallAfter,
		Workers:             p.workers,
		Looks:               p.looks,
		LookTimeout:         p.lookTimeout,
		Metrics:             p.metrics,
		Log:                 p.log,
		Recorder: broadcaster.NewRecorder(
			runtime.NewScheme(),
			corev1.EventSource{Component: "transplant-operator"},
		),
	})
	return broadcaster.Shutdown, err
}

// definitions judges the CRDs of Clusters, after installing ours where that is wanted. Every replica does, and who
// comes second changes nothing.
func (p *process) definitions(ctx context.Context) ([]served.Verdict, error) {
	if p.installCRDs {
		return served.Install(ctx, p.dynamic)
	}
	return served.Look(ctx, p.dynamic)
}
