package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

const namespace = "kube-system"

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// api is what an API server does with leases: versions, conflicts, watches.
type api struct {
	mu       sync.Mutex
	version  uint64
	leases   map[string]*coordinationv1.Lease
	watchers map[*watcher]bool
	calls    map[string]int         // by process and verb
	history  []string               // who holds which lease, whenever that changes
	failure  error                  // what every request gets
	lossy    func(verb string) bool // whether the answer to a write is lost although the write is done
	// opaque makes versions that are no numbers.
	opaque bool
}

func newAPI() *api {
	return &api{leases: map[string]*coordinationv1.Lease{}, watchers: map[*watcher]bool{}, calls: map[string]int{}}
}

func (a *api) client(process string) *client { return &client{api: a, process: process} }

// lease is the lease as it is; nil when there is none.
func (a *api) lease(name string) *coordinationv1.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases[name].DeepCopy()
}

func (a *api) holder(name string) string {
	l := a.lease(name)
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// edit changes a lease as somebody else would.
func (a *api) edit(name string, change func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.leases[name].DeepCopy()
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	change(l)
	a.store(l, watch.Modified)
}

func (a *api) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.leases[name].DeepCopy()
	delete(a.leases, name)
	a.stamp(l)
	a.send(watch.Deleted, l)
}

func (a *api) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err
}

func (a *api) lose(answers func(verb string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lossy = answers
}

func (a *api) count(process, verb string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[process+" "+verb]
}

// holders is who held which lease, in the order of time.
func (a *api) holders() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.history)
}

func (a *api) stamp(l *coordinationv1.Lease) {
	a.version++
	l.ResourceVersion = strconv.FormatUint(a.version, 10)
	if a.opaque {
		l.ResourceVersion = fmt.Sprintf("v%x", 1<<20-a.version)
	}
}

func (a *api) store(l *coordinationv1.Lease, kind watch.EventType) {
	a.stamp(l)
	if before := a.leases[l.Name]; before == nil || !ptr.Equal(before.Spec.HolderIdentity, l.Spec.HolderIdentity) {
		a.history = append(a.history, l.Name+" "+ptr.Deref(l.Spec.HolderIdentity, ""))
	}
	a.leases[l.Name] = l.DeepCopy()
	a.send(kind, l)
}

func (a *api) send(kind watch.EventType, l *coordinationv1.Lease) {
	for w := range a.watchers {
		if w.name == l.Name && !w.client.cut {
			w.events = append(w.events, watch.Event{Type: kind, Object: l.DeepCopy()})
			select {
			case w.more <- struct{}{}:
			default:
			}
		}
	}
}

// client is one process's way to the API.
type client struct {
	coordinationv1client.LeaseInterface

	api     *api
	process string
	cut     bool          // requests hang, and watches are silent; guarded by api.mu
	stopped chan struct{} // closed when the process goes on, nil while it runs; guarded by api.mu
	noWatch bool
}

func (c *client) Leases(string) coordinationv1client.LeaseInterface { return c }

// partition cuts the process off the API, or ends that: then its watches break.
func (c *client) partition(cut bool) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	c.cut = cut
	if !cut {
		c.breakWatches()
	}
}

// stop is SIGSTOP: no request leaves the process, and it reads no events. They wait for it.
func (c *client) stop() {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	c.stopped = make(chan struct{})
}

// goOn is SIGCONT.
func (c *client) goOn() {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	close(c.stopped)
	c.stopped = nil
}

func (c *client) isStopped() bool {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	return c.stopped != nil
}

// running waits until the process runs.
func (c *client) running(ctx context.Context) {
	c.api.mu.Lock()
	stopped := c.stopped
	c.api.mu.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-ctx.Done():
		}
	}
}

func (c *client) breakWatches() {
	for w := range c.api.watchers {
		if w.client == c {
			w.stop()
		}
	}
}

func (c *client) arrive(ctx context.Context, verb string) error {
	c.running(ctx)
	c.api.mu.Lock()
	c.api.calls[c.process+" "+verb]++
	cut, failure := c.cut, c.api.failure
	c.api.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	return failure
}

func (c *client) leave(verb string) error {
	if c.api.lossy != nil && c.api.lossy(verb) {
		return errors.New("unexpected EOF")
	}
	return nil
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := c.arrive(ctx, "get"); err != nil {
		return nil, err
	}
	if l := c.api.lease(name); l != nil {
		return l, nil
	}
	return nil, apierrors.NewNotFound(leases, name)
}

func (c *client) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := c.arrive(ctx, "create"); err != nil {
		return nil, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.api.leases[l.Name] != nil {
		return nil, apierrors.NewAlreadyExists(leases, l.Name)
	}
	l = l.DeepCopy()
	c.api.store(l, watch.Added)
	return l, c.leave("create")
}

func (c *client) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := c.arrive(ctx, "update"); err != nil {
		return nil, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	live := c.api.leases[l.Name]
	switch {
	case live == nil:
		return nil, apierrors.NewNotFound(leases, l.Name)
	case l.ResourceVersion != "" && l.ResourceVersion != live.ResourceVersion:
		return nil, apierrors.NewConflict(leases, l.Name, errors.New("the object has been modified"))
	}
	l = l.DeepCopy()
	c.api.store(l, watch.Modified)
	return l, c.leave("update")
}

func (c *client) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if c.noWatch {
		_ = c.arrive(ctx, "watch")
		return nil, apierrors.NewForbidden(leases, "", errors.New("no rule allows it"))
	}
	if err := c.arrive(ctx, "watch"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Duration(ptr.Deref(options.TimeoutSeconds, 60))*time.Second)
	w := &watcher{client: c, name: options.FieldSelector[len("metadata.name="):], more: make(chan struct{}, 1), result: make(chan watch.Event), stop: stop}
	c.api.mu.Lock()
	c.api.watchers[w] = true
	if l := c.api.leases[w.name]; l != nil {
		w.events = append(w.events, watch.Event{Type: watch.Added, Object: l.DeepCopy()})
	}
	c.api.mu.Unlock()
	go w.run(ctx)
	return w, nil
}

type watcher struct {
	client *client
	name   string
	events []watch.Event // guarded by api.mu
	more   chan struct{}
	result chan watch.Event
	stop   context.CancelFunc
}

func (w *watcher) Stop()                          { w.stop() }
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

func (w *watcher) run(ctx context.Context) {
	defer close(w.result)
	defer func() {
		w.client.api.mu.Lock()
		delete(w.client.api.watchers, w)
		w.client.api.mu.Unlock()
	}()
	for {
		w.client.api.mu.Lock()
		events := w.events
		w.events = nil
		w.client.api.mu.Unlock()
		for _, e := range events {
			w.client.running(ctx)
			select {
			case w.result <- e:
			case <-ctx.Done():
				return
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return
		}
	}
}

// clock is a process's clock: bubbles' time, and what a test adds to it as if the machine had been suspended.
type clock struct {
	mu    sync.Mutex
	start time.Time
	slept time.Duration
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.start) + c.slept
}

func (c *clock) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
}

// must fails the test when something went wrong that is not its subject.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// deaf is a client whose watches begin and never say anything.
type deaf struct{ *client }

func (d deaf) Leases(string) coordinationv1client.LeaseInterface { return d }

func (d deaf) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{client: d.client, more: make(chan struct{}), result: make(chan watch.Event), stop: stop}
	go w.run(ctx)
	return w, nil
}
