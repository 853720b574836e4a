package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// nodeWatch remembers when each Node came into a state, as a client that watches sees it.
type nodeWatch struct {
	reached func(event watch.EventType, n *corev1.Node) bool
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	at      map[string]time.Time
	changed chan struct{}
	err     error
}

// watchNodes begins to watch. Nodes that are in the state now already do not count.
func (w *world) watchNodes(ctx context.Context, reached func(event watch.EventType, n *corev1.Node) bool) (*nodeWatch, error) {
	ctx, stop := context.WithCancel(ctx)
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		stop()
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	events, err := w.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	nw := &nodeWatch{reached: reached, stop: stop, done: make(chan struct{}), at: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	go func() {
		defer close(nw.done)
		defer events.Stop()
		for event := range events.ResultChan() {
			nw.see(event)
		}
		if ctx.Err() == nil {
			nw.fail(fmt.Errorf("watching nodes: the watch ended"))
		}
	}()
	return nw, nil
}

func (nw *nodeWatch) see(event watch.Event) {
	now := time.Now()
	n, ok := event.Object.(*corev1.Node)
	if !ok {
		nw.fail(fmt.Errorf("watching nodes: %s %v", event.Type, event.Object))
		return
	}
	if !nw.reached(event.Type, n) {
		return
	}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if _, before := nw.at[n.Name]; !before {
		nw.at[n.Name] = now
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

// wait waits until the Nodes have reached the state, until the limit, or until the manager ends. It returns the time of each Node that has, from
// the given moment of its own on.
func (nw *nodeWatch) wait(ctx context.Context, since map[string]time.Time, m *manager, limit time.Duration) (samples, error) {
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
			return s, m.alive()
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	var first, last time.Time
	for name, begin := range since {
		if first.IsZero() || begin.Before(first) {
			first = begin
		}
		at, ok := nw.at[name]
		if !ok {
			continue
		}
		s.times = append(s.times, at.Sub(begin))
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(s.times)
	if !last.IsZero() {
		s.total = last.Sub(first)
	}
	return s, nil
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
func untainted(event watch.EventType, n *corev1.Node) bool {
	return event != watch.Deleted && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
}

// shutDown is the state of a Node that is marked as one whose instance is stopped.
func shutDown(_ watch.EventType, n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintNodeShutdown })
}

// deleted is the state of a Node that is gone.
func deleted(event watch.EventType, _ *corev1.Node) bool { return event == watch.Deleted }

// connected is the state of a Node whose network is available.
func connected(event watch.EventType, n *corev1.Node) bool {
	return event != watch.Deleted && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
}
