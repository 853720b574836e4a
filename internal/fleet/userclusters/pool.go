package userclusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/answerlimit"
)

// Clients reach one user cluster. They convert to hosted.Clients.
type Clients struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Options of a Pool; the zero value of everything but Seed is useful.
type Options struct {
	// Seed is where the kubeconfig Secrets are. They are read with GET, one by one.
	Seed kubernetes.Interface
	// Wrap goes around every request to a user cluster: an election's fence, a counter. Nil for nothing.
	Wrap transport.WrapperFunc
	// Open bounds how many clusters are connected to at a time; default 64. One that has requests under way is never
	// closed, so the bound may be exceeded by those.
	Open int
	// Total is what the open answers of all clusters may hold together. Other pools of the process may share it. When it
	// is nil, the pool has one of its own.
	Total *answerlimit.Total
	// Recheck is how old what was read of a Secret may be when Get is called; default 30 s. A refusal (401) makes it be
	// read at once.
	Recheck time.Duration
	// Dial and Answer bound the connecting and the wait for the first byte of an answer; default 10 s and 30 s.
	Dial, Answer time.Duration
	// Write bounds one write to an API server, at most one record of TLS; default 10 s. A library writes while it reads,
	// too: it gives windows back, and answers pings. A server that reads nothing more would hold the goroutine that reads
	// from it or closes it, beyond any time limit.
	Write time.Duration
	// Request bounds a request other than a watch, to the end of its answer; default 2 min. A run asks without a time
	// limit of its own. A server that sends a byte now and then would keep it for ever, with its place and what it keeps.
	Request time.Duration
	// BackoffMin and BackoffMax bound for how long Get refuses a cluster after failures in a row; default 1 s and 2 min.
	BackoffMin, BackoffMax time.Duration
	// QPS and Burst per cluster; default 20 and 40.
	QPS   float32
	Burst int
	// Clock is the real one when nil.
	Clock clock.PassiveClock
}

// BackoffError says that a cluster failed lately and is not asked before Until.
type BackoffError struct {
	Namespace string
	Until     time.Time
	// Failures in a row.
	Failures int
	Err      error // of the last one
}

func (e *BackoffError) Error() string {
	return fmt.Sprintf(
		"user cluster of namespace %s failed %d times in a row and is left alone until %s: %v",
		e.Namespace,
		e.Failures,
		e.Until.Format(time.TimeOnly),
		e.Err,
	)
}

// Unwrap returns the last failure.
func (e *BackoffError) Unwrap() error { return e.Err }

// ErrClosed is what a request gets after the pool was closed.
var ErrClosed = errors.New("the pool of user clusters is closed")

// ErrForgotten is what clients get after Forget. Get makes new ones.
var ErrForgotten = errors.New(
	"its connections were closed because it was not needed any longer; the next look takes new ones",
)

// Pool keeps the connections to user clusters. Its methods may be called at the same time.
type Pool struct {
	o Options

	mu      sync.Mutex // guards everything below and every entry; never held while anything is waited for
	entries map[string]*entry
	turns   int64 // counts uses: who was used least recently
	opened  int
	closed  bool
}

// New makes a pool that is connected to nothing yet.
func New(o Options) *Pool {
	if o.Open <= 0 {
		o.Open = 64
	}
	for value, usual := range map[*time.Duration]time.Duration{
		&o.Recheck:    30 * time.Second,
		&o.Dial:       10 * time.Second,
		&o.Answer:     30 * time.Second,
		&o.Write:      10 * time.Second,
		&o.Request:    2 * time.Minute,
		&o.BackoffMin: time.Second,
		&o.BackoffMax: 2 * time.Minute,
	} {
		if *value <= 0 {
			*value = usual
		}
	}
	if o.QPS == 0 {
		o.QPS, o.Burst = 20, 40
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Total == nil {
		o.Total = answerlimit.NewTotal()
	}
	return &Pool{o: o, entries: map[string]*entry{}}
}

// Get returns the clients of the user cluster of a namespace. It reads the Secret when that is due and talks to the
// seed alone. It fails with *BackoffError while the cluster is left alone; clients that are already in use are not
// affected.
func (p *Pool) Get(ctx context.Context, namespace string) (Clients, error) {
	e, err := p.loadEntry(ctx, namespace)
	if err != nil {
		return Clients{}, err
	}
	return e.clients, nil
}

// Metadata is Get for who wants no more of objects than their metadata.
func (p *Pool) Metadata(ctx context.Context, namespace string) (metadata.Interface, error) {
	e, err := p.loadEntry(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return e.metadata, nil
}

// loadEntry returns the entry of a namespace once its Secret was read. Where the entry is forgotten meanwhile, it takes
// the next one.
func (p *Pool) loadEntry(ctx context.Context, namespace string) (*entry, error) {
	for {
		e, err := p.entry(namespace)
		if err != nil {
			return nil, err
		}
		if err := p.backoff(e); err != nil {
			return nil, err
		}
		if err := p.recheck(ctx, e); !errors.Is(err, ErrForgotten) {
			return e, err
		}
	}
}

// Forget closes the connections to a user cluster. Clients of it fail with ErrForgotten from then on; a Get that is
// under way, or comes later, makes new ones.
func (p *Pool) Forget(namespace string) {
	p.mu.Lock()
	e := p.entries[namespace]
	delete(p.entries, namespace)
	var old *connection
	if e != nil {
		e.gone = true
		old, e.conn = e.conn, nil
	}
	p.mu.Unlock()
	old.close()
}

// Close closes all connections. Requests that are under way end by themselves, watches at once; later ones fail with
// ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	namespaces := slices.Collect(maps.Keys(p.entries))
	p.mu.Unlock()
	for _, n := range namespaces {
		p.Forget(n)
	}
}

// Stats are figures about a pool at one moment.
type Stats struct {
	// Known clusters, those that are connected to, and those that are left alone.
	Known, Open, BackingOff int
	// Opened counts how often connections were opened, by now.
	Opened int
}

// Stats returns the figures of now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Known: len(p.entries), Opened: p.opened}
	now := p.o.Clock.Now()
	for _, e := range p.entries {
		if e.conn != nil {
			s.Open++
		}
		if now.Before(e.until) {
			s.BackingOff++
		}
	}
	return s
}
