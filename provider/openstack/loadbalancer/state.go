package loadbalancer

import (
	"context"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// entry is what this process knows of one load balancer. Its lock is held while one Service is worked on, as a load
// balancer may be shared.
type entry struct {
	mu sync.Mutex
	// tree is what is below it; nil for what is not known.
	tree *tree
	// healthPorts is that the tree was read with the ports at which members are checked.
	healthPorts bool
	// version is its updated_at when the tree was read. Octavia sets it with each change of any part, in whole seconds.
	version time.Time
	// settled is that the second of version was over when the tree was read: a later change has another version.
	settled bool
	// changed is that the tree follows what this process has changed since it was read.
	changed bool
	// waiting is since when it has been PENDING, as far as this process has seen.
	waiting time.Time
	// failedOver is when its failover was asked for last.
	failedOver time.Time
	// unfinished is since when parts of it have been PENDING while it is ACTIVE.
	unfinished time.Time
	// erred is that parts of it were in ERROR while it is ACTIVE. It is read each time until they are not.
	erred bool
	// whole is that it was once as its Service asks for: it may serve.
	whole bool
}

// forget has the tree read again.
func (e *entry) forget() { e.tree = nil }

// keepTree remembers a tree that was read after the load balancer.
func (e *entry) keepTree(t *tree, healthPorts bool, lb *loadbalancers.LoadBalancer, date time.Time) {
	e.tree, e.healthPorts, e.version, e.changed = t, healthPorts, lb.UpdatedAt, false
	e.settled = !lb.UpdatedAt.IsZero() && date.After(lb.UpdatedAt.Add(time.Second))
}

const (
	shortestWait = 300 * time.Millisecond
	longestWait  = 10 * time.Second
	// A load balancer that is PENDING for longer than this is reported: Octavia's worker may have died in the middle.
	tooLong = 15 * time.Minute
	// Parts that are PENDING for longer than this under a load balancer that is ACTIVE are lost. Octavia makes the parts
	// of a request ACTIVE before the load balancer.
	lostAfter = time.Minute
	// A load balancer that has never served may go sooner, since its Service is without one for as long.
	lostUnservedAfter = 15 * time.Second
)

// wait is how long a load balancer that is PENDING is left alone, and how long it has been so. The first looks come
// soon: most changes take a second. Later ones are seldom: a new load balancer may take minutes.
func (e *entry) wait(now time.Time) (after, since time.Duration) {
	if e.waiting.IsZero() {
		e.waiting = now
	}
	since = now.Sub(e.waiting)
	return pause(since), since
}

// pause is how long nothing is asked of what has been waited for since.
func pause(since time.Duration) time.Duration { return min(max(since/3, shortestWait), longestWait) }

// entryStore is what this process knows of load balancers.
type entryStore struct {
	mu      sync.Mutex
	entries map[string]*entry    // by the load balancer's ID
	ids     map[types.UID]string // the load balancer's, by the Service's
	remade  map[types.UID]bool   // the Services whose load balancers were made again
	// recreated is when the load balancers of Services were deleted last because they asked for it.
	recreated map[types.UID]time.Time
}

func newMemory() *entryStore {
	return &entryStore{
		entries: map[string]*entry{}, ids: map[types.UID]string{}, remade: map[types.UID]bool{},
		recreated: map[types.UID]time.Time{},
	}
}

func (m *entryStore) entry(id string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[id] == nil {
		m.entries[id] = &entry{}
	}
	return m.entries[id]
}

func (m *entryStore) idOf(service types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[service]
}

func (m *entryStore) setID(service types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids[service] = id
}

// wasRemade reports whether the load balancer of a Service was deleted and made again, which this process does once.
func (m *entryStore) wasRemade(service types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remade[service]
}

func (m *entryStore) noteRemade(service types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remade[service] = true
}

func (m *entryStore) recreatedAt(service types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recreated[service]
}

func (m *entryStore) noteRecreated(service types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recreated[service] = at
}

// dropLoadBalancer forgets the load balancer of a Service, and what is known of it when it is gone.
func (m *entryStore) dropLoadBalancer(service types.UID, id string, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ids, service)
	if gone {
		delete(m.entries, id)
	}
}

// notices are events of Services whose load balancers work, and not as they ask.
type notices struct {
	mu     sync.Mutex
	events record.EventRecorder // nil for the log alone
	sent   map[string]time.Time // by the Service's UID and the message
}

const (
	noticeReason = "LoadBalancerIsNotAsAsked"
	// noticeAgain is when an event is sent again: API servers keep events for an hour.
	noticeAgain = time.Hour
	// noticesKept is how many are remembered.
	noticesKept = 10000
)

// UseEvents sets where events of Services go that no error of a call becomes.
func (b *Balancers) UseEvents(events record.EventRecorder) {
	b.notices.mu.Lock()
	defer b.notices.mu.Unlock()
	b.notices.events = events
}

// send sends an event, unless it was sent within the last hour.
func (n *notices) send(ctx context.Context, service *corev1.Service, now time.Time, message string) {
	key := string(service.UID) + " " + message
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.sent[key]; ok && now.Sub(last) < noticeAgain {
		return
	}
	if n.sent == nil || len(n.sent) > noticesKept {
		n.sent = map[string]time.Time{}
	}
	n.sent[key] = now
	klog.FromContext(ctx).Info(message, "service", klog.KObj(service))
	if n.events != nil {
		n.events.Event(service, corev1.EventTypeWarning, noticeReason, message)
	}
}
