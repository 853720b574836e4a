package route

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

func (c change) calls() []call {
	var calls []call
	for _, route := range c.deletes {
		calls = append(calls, deleteOf(c.destination, route))
	}
	for _, creation := range c.creates {
		calls = append(calls, createOf(c.destination, creation))
	}
	return calls
}

// choose returns the calls of a change that are due. A black hole stays until the route that takes its place is due:
// that one will most likely be a black hole again.
func (a attempts) choose(c change, now time.Time) change {
	due := change{destination: c.destination}
	relapsed := false
	for _, creation := range c.creates {
		if call := createOf(c.destination, creation); a.isDue(call, now) {
			due.creates = append(due.creates, creation)
		} else {
			relapsed = relapsed || a[call].relapsed
		}
	}
	for _, route := range c.deletes {
		if a.isDue(deleteOf(c.destination, route), now) && !(route.Blackhole && relapsed) {
			due.deletes = append(due.deletes, route)
		}
	}
	return due
}

// makeChange makes the calls of a change, one after the other. A create is tried even if a delete before it failed:
// some clouds replace routes. It is not ok if the fence closed or the manager stops: then nothing is known and nothing
// will be retried.
func (c *Controller) makeChange(ctx, calls context.Context, change change) (changed, ok bool) {
	defer c.finish() // conditions, and what has become due
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		c.release(change.destination, false)
		return false, false
	}
	what := "changing the route to " + string(change.destination)
	failed := false
	defer func() { c.release(change.destination, !failed) }()
	for _, route := range change.deletes {
		begun := c.clock.Now()
		err := c.tracked(calls, what, func(ctx context.Context) error {
			return c.routes.DeleteRoute(ctx, c.clusterName, route)
		})
		if err != nil && term.IsFinal(calls, err) {
			return changed, false
		}
		c.deleted(change.destination, route, begun, err)
		changed, failed = changed || err == nil, failed || err != nil
		if err != nil {
			klog.FromContext(ctx).
				Error(err, "Deleting route, will be retried", "route", route.Name, "destination", route.DestinationCIDR, "node", route.TargetNode)
		} else {
			klog.FromContext(ctx).
				Info("Deleted route", "route", route.Name, "destination", route.DestinationCIDR, "node", route.TargetNode)
		}
	}
	for _, creation := range change.creates {
		route := &cloudprovider.Route{
			TargetNode: types.NodeName(
				creation.node.Name,
			),
			TargetNodeAddresses: creation.node.Status.Addresses,
			DestinationCIDR:     creation.cidr,
		}
		hint, begun := string(creation.node.UID), c.clock.Now()
		err := c.tracked(calls, what, func(ctx context.Context) error {
			return c.routes.CreateRoute(cloud.WithInputs(ctx, creation.node), c.clusterName, hint, route)
		})
		if err != nil && term.IsFinal(calls, err) {
			return changed, false
		}
		c.created(change.destination, creation, route, begun, err)
		changed, failed = changed || err == nil, failed || err != nil
		if err != nil {
			c.eventFailed(creation, c.clock.Since(begun), err)
		} else {
			klog.FromContext(ctx).Info("Created route", "destination", creation.cidr, "node", creation.node.Name)
		}
	}
	return changed, true
}

// finish asks for a pass, and says so to a list that keeps the next pass waiting.
func (c *Controller) finish() {
	c.queue.AddAfter(retry, gather/4)
	select {
	case c.finished <- struct{}{}:
	default:
	}
}

// release ends a destination's being busy. For a while after calls that succeeded, lists say nothing about it: clouds
// show late what they have accepted. After one that failed a list is what tells.
func (c *Controller) release(d destination, succeeded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, d)
	c.settled[d] = c.clock.Now()
	if succeeded {
		c.settled[d] = c.clock.Now().Add(listServes)
	}
}

func (c *Controller) deleted(d destination, route *cloudprovider.Route, begun time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.attempts.recordFailure(deleteOf(d, route), err, begun, c.clock.Now())
		return
	}
	c.attempts.succeed(deleteOf(d, route), begun, c.clock.Now())
	var rest []seen
	for _, other := range c.known[d] {
		if other.Route != route {
			rest = append(rest, other)
		}
	}
	c.known[d] = rest
}

func (c *Controller) created(d destination, creation creation, route *cloudprovider.Route, begun time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.attempts.recordFailure(createOf(d, creation), err, begun, c.clock.Now())
		return
	}
	since := c.attempts.succeed(createOf(d, creation), begun, c.clock.Now())
	createSeconds.Observe(c.clock.Since(since).Seconds())
	if c.known == nil {
		c.known = view{}
	}
	c.known[d] = append(c.known[d], seen{Route: route, made: true})
}

// eventFailed tells a node's user why it has no network, in upstream's words.
func (c *Controller) eventFailed(creation creation, took time.Duration, err error) {
	c.recorder.Eventf(
		&corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       "Node",
			Name:       creation.node.Name,
			UID:        creation.node.UID,
		},
		corev1.EventTypeWarning, "FailedToCreateRoute", "Could not create route %s %s for node %s after %v: %v",
		creation.node.UID, creation.cidr, creation.node.Name, took, err,
	)
}

// eventRefused says why a node gets no route, as eventFailed does of one that the cloud refuses.
func (c *Controller) eventRefused(n needs) {
	for _, d := range slices.Sorted(maps.Keys(n.refused)) {
		c.recorder.Eventf(
			&corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       "Node",
				Name:       n.node.Name,
				UID:        n.node.UID,
			},
			corev1.EventTypeWarning, "FailedToCreateRoute", "Could not create route %s %s for node %s: %s",
			n.node.UID, d, n.node.Name, n.refused[d],
		)
	}
}

// track follows what is done with the context that it returns, which is stuck by the health check if it takes too long.
// Waiting because of the call rate does not count.
func (c *Controller) track(ctx context.Context, what string) (tracking context.Context, end func()) {
	return cloud.Track(ctx, func() func() { return c.tracker.Start(what) })
}

// tracked makes one call. Other calls for the same destination are followed each by itself.
func (c *Controller) tracked(ctx context.Context, what string, call func(context.Context) error) error {
	ctx, end := c.track(ctx, what)
	defer end()
	return guard(func() error { return call(ctx) })
}

// guard turns a provider's panic into an error of the one call.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the provider panicked: %v", p)
		}
	}()
	return f()
}
