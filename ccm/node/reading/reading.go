// Package reading decides what the node controllers can rely on when they ask the cloud about a group of nodes. There
// is one state for each node, in time. Neither a panic nor a missing answer ends more than the group.
package reading

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
)

// ErrUnsupported is that the provider knows nothing of instances. A controller of nodes is then not started.
var ErrUnsupported = errors.New("the provider does not support instances")

// InstancesOf returns how a controller reads nodes: by what its config gives, or as the provider is read by all where
// that is nil.
func InstancesOf(given cloud.Instances, provider cloudprovider.Interface) (cloud.Instances, error) {
	if given != nil {
		return given, nil
	}
	if provider == nil {
		return nil, errors.New("there is no cloud provider")
	}
	if shared, ok := cloud.InstancesOf(provider); ok {
		return shared, nil
	}
	return nil, ErrUnsupported
}

// Reader asks about groups of nodes.
type Reader struct {
	Instances cloud.Instances
	Class     cloud.Class
	// Timeout bounds the waiting for a group, besides what bounds a call below.
	Timeout time.Duration
	Tracker *progress.Tracker
}

// New returns a reader that is stuck when a call takes longer than stuckAfter.
func New(instances cloud.Instances, class cloud.Class, timeout, stuckAfter time.Duration) Reader {
	return Reader{
		Instances: instances,
		Class:     class,
		Timeout:   timeout,
		Tracker:   progress.New(stuckAfter),
	}
}

// Size is how many nodes one call serves, at least 1. A group has no more.
func (r Reader) Size() int { return max(r.Instances.BatchSize(), 1) }

// Group asks about nodes.
func (r Reader) Group(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
	maxAge time.Duration,
) (states []cloud.InstanceState) {
	what := subject(nodes)
	defer r.Tracker.Start(what)()
	ctx, cancel := context.WithTimeout(cloud.WithClass(ctx, r.Class), r.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			states = failed(len(nodes), fmt.Errorf("%s: panic: %v", what, p))
		}
	}()
	states = r.Instances.Read(ctx, nodes, want, maxAge)
	if len(states) != len(nodes) {
		return failed(len(nodes), fmt.Errorf("%s: there are %d answers for %d nodes", what, len(states), len(nodes)))
	}
	return states
}

func failed(n int, err error) []cloud.InstanceState {
	states := make([]cloud.InstanceState, n)
	for i := range states {
		states[i].Err = err
	}
	return states
}

func subject(nodes []*corev1.Node) string {
	switch len(nodes) {
	case 0:
		return "reading no instance"
	case 1:
		return fmt.Sprintf("reading the instance of node %q", nodes[0].Name)
	}
	return fmt.Sprintf("reading the instances of node %q and %d others", nodes[0].Name, len(nodes)-1)
}
