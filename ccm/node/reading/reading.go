// Package reading decides how controllers ask the cloud about groups of nodes: that a call which hangs or panics costs only its own group, and that
// one node which makes every call fail that it is in cannot keep the others from being read.
package reading

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
)

const (
	// hopeless is after how many failed calls in a row the search for the node that makes calls fail is given up: then it is the cloud that fails.
	hopeless = 6
	// tries bounds the failed calls of one search.
	tries = 64
)

// Reader asks about groups of nodes.
type Reader struct {
	Instances cloud.Instances
	Class     cloud.Class
	// Timeout bounds a call, besides what bounds it below: for a cloud without a shell, nothing does.
	Timeout time.Duration
	Tracker *progress.Tracker
}

// Size is how many nodes a group may have, at least 1.
func (r Reader) Size() int { return max(r.Instances.BatchSize(), 1) }

// Group asks about nodes in one call; there are at most Size of them. With isolate, and if the call fails for all, the group is split until those are found
// that make it fail. That is for groups that have failed before: it makes more calls.
func (r Reader) Group(ctx context.Context, nodes []*corev1.Node, want cloud.Want, maxAge time.Duration, isolate bool) []cloud.InstanceState {
	states := r.once(ctx, nodes, want, maxAge)
	if isolate && failed(states) {
		r.isolate(ctx, nodes, want, states)
	}
	return states
}

func (r Reader) once(ctx context.Context, nodes []*corev1.Node, want cloud.Want, maxAge time.Duration) (states []cloud.InstanceState) {
	defer r.Tracker.Start(subject(nodes))()
	ctx, cancel := context.WithTimeout(cloud.WithClass(ctx, r.Class), r.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			states = all(len(nodes), fmt.Errorf("%s: the provider panicked: %v", subject(nodes), p))
		}
	}()
	states = r.Instances.Read(ctx, nodes, want, maxAge)
	if len(states) != len(nodes) {
		return all(len(nodes), fmt.Errorf("%s: the provider gave %d answers for %d nodes", subject(nodes), len(states), len(nodes)))
	}
	return states
}

func (r Reader) isolate(ctx context.Context, nodes []*corev1.Node, want cloud.Want, states []cloud.InstanceState) {
	type span struct{ from, to int }
	halves := func(s span) []span {
		if s.to-s.from < 2 {
			return nil
		}
		middle := (s.from + s.to) / 2
		return []span{{s.from, middle}, {middle, s.to}}
	}
	failures, succeeded := 0, false
	for spans := halves(span{0, len(nodes)}); len(spans) > 0 && ctx.Err() == nil; {
		s := spans[0]
		spans = spans[1:]
		part := r.once(ctx, nodes[s.from:s.to], want, 0)
		copy(states[s.from:s.to], part)
		if s.to-s.from > 1 && !failed(part) || s.to-s.from == 1 && part[0].Err == nil {
			succeeded = true
			continue
		}
		if failures++; failures >= tries || failures >= hopeless && !succeeded {
			return
		}
		spans = append(spans, halves(s)...)
	}
}

// failed tells whether it was the call that failed, and not the nodes: then all have the same error.
func failed(states []cloud.InstanceState) bool {
	if len(states) < 2 {
		return false
	}
	for _, state := range states {
		if state.Err == nil || state.Err.Error() != states[0].Err.Error() {
			return false
		}
	}
	return true
}

func all(n int, err error) []cloud.InstanceState {
	states := make([]cloud.InstanceState, n)
	for i := range states {
		states[i].Err = err
	}
	return states
}

func subject(nodes []*corev1.Node) string {
	if len(nodes) == 1 {
		return fmt.Sprintf("reading the instance of node %q", nodes[0].Name)
	}
	return fmt.Sprintf("reading the instances of node %q and %d others", nodes[0].Name, len(nodes)-1)
}
