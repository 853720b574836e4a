package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// jitter is by how much a period may be longer than asked for. So the managers of many clusters do not ask at the same
// moment.
const jitter = 0.1

// refreshAll compares the addresses of all initialised nodes with those of their instances, at once and then once per
// period until ctx is done. The first pass is for the nodes that were initialised before this controller began: those
// that it initialises itself have just been read.
func (c *Controller) refreshAll(ctx, reads, calls context.Context, before []*corev1.Node) {
	nodes := before
	for spread := time.Duration(0); ; spread = c.frequency / 2 {
		begun := c.clock.Now()
		c.refresh(ctx, reads, calls, nodes, spread)
		if ctx.Err() != nil {
			return
		}
		c.finishPass()
		if !c.waitUntil(ctx, begun.Add(wait.Jitter(c.frequency, jitter))) {
			return
		}
		nodes = c.initialisedNodes()
	}
}

func (c *Controller) waitUntil(ctx context.Context, until time.Time) bool {
	timer := c.clock.NewTimer(max(until.Sub(c.clock.Now()), 0))
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// refresh compares the addresses of nodes once, one call for each group, spread over a time.
func (c *Controller) refresh(ctx, reads, calls context.Context, nodes []*corev1.Node, spread time.Duration) {
	groups := slices.Collect(slices.Chunk(nodes, c.reader.Size()))
	begun := c.clock.Now()
	slots := make(chan struct{}, c.statusWorkers)
	var flying sync.WaitGroup
	defer flying.Wait()
	for i, group := range groups {
		if !c.waitUntil(ctx, begun.Add(spread*time.Duration(i)/time.Duration(len(groups)))) {
			return
		}
		slots <- struct{}{}
		flying.Go(func() {
			defer func() { <-slots }()
			c.refreshGroup(ctx, reads, calls, group)
		})
	}
}

func (c *Controller) initialisedNodes() []*corev1.Node {
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil // the cache always answers
	}
	nodes := slices.DeleteFunc(slices.Clone(all), hasCloudTaint)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// refreshGroup is one call, and a patch for each node whose addresses have changed. What fails and may pass is done
// again soon, past the period.
func (c *Controller) refreshGroup(ctx, reads, calls context.Context, group []*corev1.Node) {
	states := c.reader.Group(reads, group, cloud.WantAddresses, 0)
	slots := make(chan struct{}, c.statusWorkers)
	var writing sync.WaitGroup
	defer writing.Wait()
	for i, node := range group {
		if ctx.Err() != nil || calls.Err() != nil {
			return
		}
		slots <- struct{}{}
		writing.Go(func() {
			defer func() { <-slots }()
			j := &job{
				item:  item{node.Name, true},
				node:  node,
				read:  true,
				state: states[i],
			}
			c.judgeRefresh(ctx, calls, j, c.runJob(calls, j))
		})
	}
}

func (c *Controller) judgeRefresh(ctx, calls context.Context, j *job, err error) {
	var f *failure
	switch {
	case err == nil:
		c.reporter.forget(j.node.Name)
	case term.IsFinal(calls, err), isImplementedElsewhere(j.state.Err), ctx.Err() != nil:
	case errors.As(err, &f) && f.lasting:
		c.logFailure(ctx, j, err) // the next period is soon enough
	case errors.As(err, &f) && f.reason == InstanceMissing:
	case j.state.Err != nil && c.reader.Size() == 1:
		// Without batches a cloud that fails would be asked for each node again. The next period is soon enough, as upstream
		// has it.
		c.logFailure(ctx, j, err)
	default:
		c.logFailure(ctx, j, err)
		c.queue.AddRateLimited(j.item)
	}
}

// isImplementedElsewhere reports whether a provider has said that a node is not its to look after.
func isImplementedElsewhere(err error) bool {
	return errors.Is(err, cloudprovider.ImplementedElsewhere)
}
