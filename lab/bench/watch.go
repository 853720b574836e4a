package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// nodeWatch remembers when each Node came into a state, as a client that watches sees it. The server ends a watch whose
// client does not keep up with a burst; it is then resumed at once, and not after a pause as informers do, which would
// be measured too.
type nodeWatch struct {
	nodes   corev1client.NodeInterface
	reached func(n *corev1.Node, deleted bool) bool
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	at      map[string]time.Time
	changed chan struct{}
	err     error
}

// watchNodes begins to watch. What a Node is in now already does not count.
func (w *world) watchNodes(ctx context.Context, reached func(n *corev1.Node, deleted bool) bool) (*nodeWatch, error) {
	ctx, stop := context.WithCancel(ctx)
	nw := &nodeWatch{
		nodes: w.client.CoreV1().Nodes(), reached: reached, stop: stop, done: make(chan struct{}),
		at: map[string]time.Time{}, changed: make(chan struct{}, 1),
	}
	list, err := nw.nodes.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		stop()
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	go func() {
		defer close(nw.done)
		version := list.ResourceVersion
		for ctx.Err() == nil {
			if version, err = nw.follow(ctx, version); err != nil && ctx.Err() == nil {
				nw.fail(fmt.Errorf("watching nodes: %w", err))
				return
			}
		}
	}()
	return nw, nil
}

// follow watches from a version on until the watch ends, and returns the last version that it saw.
func (nw *nodeWatch) follow(ctx context.Context, version string) (string, error) {
	events, err := nw.nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return version, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		now := time.Now()
		n, ok := event.Object.(*corev1.Node)
		if !ok {
			return version, apierrors.FromObject(event.Object)
		}
		version = n.ResourceVersion
		if event.Type != watch.Bookmark && nw.reached(n, event.Type == watch.Deleted) {
			nw.see(n.Name, now)
		}
	}
	return version, nil
}

func (nw *nodeWatch) see(name string, now time.Time) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if _, before := nw.at[name]; !before {
		nw.at[name] = now
		nw.tell()
	}
}

func (nw *nodeWatch) fail(err error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.err = err
	nw.tell()
}

func (nw *nodeWatch) tell() {
	select {
	case nw.changed <- struct{}{}:
	default: // whoever waits has been told already
	}
}

// wait waits until the Nodes have reached the state, until the limit, or until the manager ends. It returns the time of
// each Node that has, from the given moment of its own on.
func (nw *nodeWatch) wait(
	ctx context.Context,
	since map[string]time.Time,
	m *manager,
	limit time.Duration,
) (samples, error) {
	s := samples{of: len(since)}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for over := false; !over; {
		reached, err := nw.count(since)
		if err != nil {
			return s, err
		}
		if reached == len(since) {
			break
		}
		select {
		case <-nw.changed:
		case <-timer.C:
			over = true
		case <-m.Done():
			return s, m.Alive()
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return samplesOf(since, nw.at), nil
}

func (nw *nodeWatch) count(names map[string]time.Time) (int, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	n := 0
	for name := range names {
		if _, ok := nw.at[name]; ok {
			n++
		}
	}
	return n, nw.err
}

// close ends the watch.
func (nw *nodeWatch) close() {
	nw.stop()
	<-nw.done
}

// untainted is the state of a Node that may take pods.
func untainted(n *corev1.Node, deleted bool) bool {
	return !deleted && !tainted(n, cloudproviderapi.TaintExternalCloudProvider)
}

// shutDown is the state of a Node that is marked as one whose instance is stopped.
func shutDown(n *corev1.Node, _ bool) bool { return tainted(n, cloudproviderapi.TaintNodeShutdown) }

// gone is the state of a Node that was deleted.
func gone(_ *corev1.Node, deleted bool) bool { return deleted }

// connected is the state of a Node whose network is available.
func connected(n *corev1.Node, deleted bool) bool {
	return !deleted && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
