package route

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

// pass compares nodes with routes and starts what has to be done. It does not wait for it: what is started ends with a
// retry or a look at the conditions, which are passes too.
func (c *Controller) pass(ctx, calls context.Context, trigger string) error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if trigger == periodic {
		c.queue.AddAfter(periodic, wait.Jitter(c.period, 0.1))
	}
	listed := false
	if c.wantsList(nodes, trigger) {
		if delay := c.listDelay(trigger); delay > 0 {
			c.queue.AddAfter(retry, delay)
			if !c.hasGivenUp() {
				c.updateConditions(ctx, calls, nodes)
				return nil
			}
		} else {
			listed, err = true, c.listMeanwhile(ctx, calls)
			if err != nil {
				recordSync(trigger, false, true)
				c.queue.AddAfter(retry, c.listDelay(retry))
				if !c.hasGivenUp() {
					c.updateConditions(ctx, calls, nodes)
					return err
				}
			}
		}
	}
	due := c.claimChanges(nodes)
	// by what was found: a route that is deleted at once would leave its node without a word about it
	c.updateConditions(ctx, calls, nodes)
	started := c.startChanges(ctx, calls, trigger, due)
	if listed && !started && err == nil {
		recordSync(trigger, false, false)
	}
	return err
}

// wantsList reports whether something is to be done that must not be done by what is known. It costs no call to find
// out.
func (c *Controller) wantsList(nodes []*corev1.Node, trigger string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.listedAt.IsZero() || c.owed {
		return true
	}
	if trigger == periodic {
		return now.Sub(c.listedAt) > c.period*8/10 // a list for another reason has served for this one
	}
	found := planChanges(nodes, c.known, c.clusterCIDRs)
	for _, d := range found.relist {
		wait := c.settled[d].Sub(now)
		if wait <= 0 {
			return true
		}
		c.queue.AddAfter(retry, wait)
	}
	for _, due := range c.dueChanges(found, now) {
		for _, call := range due.calls() {
			switch known := c.attempts[call]; {
			case known != nil && known.undone: // no other controller makes it
			case now.Sub(c.listedAt) > listServes:
				return true
			case known != nil && !known.ended.Before(c.listedAt):
				return true // it failed since: perhaps it was executed
			}
		}
	}
	return false
}

// listDelay is how long a list has to wait; 0 is now, and then it counts as made.
func (c *Controller) listDelay(trigger string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.owed = true
	if delay := c.nextList.Sub(now); delay > 0 {
		return delay
	}
	if trigger == periodic {
		return 0 // it has its own period
	}
	reservation := c.lists.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}
	return delay
}

func (c *Controller) hasGivenUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listFails >= listGivenUp
}

// listMeanwhile lists, and writes the conditions of nodes whose routes are made in the meantime. A cloud that lists
// slowly keeps no node waiting whose calls it has answered.
func (c *Controller) listMeanwhile(ctx, calls context.Context) error {
	listed := make(chan error, 1)
	go func() { listed <- c.list(calls) }()
	var due <-chan time.Time
	for {
		select {
		case err := <-listed:
			return err
		case <-c.finished:
			if due == nil {
				due = c.clock.After(gather / 4)
			}
		case <-due:
			due = nil
			if nodes, err := c.nodes.List(labels.Everything()); err == nil {
				c.updateConditions(ctx, calls, nodes)
			}
		}
	}
}

// list replaces what is known by what the cloud says, except for destinations that calls were or are being made for.
func (c *Controller) list(calls context.Context) error {
	asked := c.clock.Now()
	var routes []*cloudprovider.Route
	err := guard(func() (err error) {
		routes, err = c.routes.ListRoutes(calls, c.clusterName)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if err != nil {
		c.listFails++
		c.nextList = now.Add(backoff(c.listFails))
		failing.WithLabelValues("list").Set(1)
		return fmt.Errorf("listing routes: %w", err)
	}
	c.listFails, c.nextList, c.owed = 0, time.Time{}, false
	failing.WithLabelValues("list").Set(0)
	ignored := map[destination]bool{}
	for d := range c.busy {
		ignored[d] = true
	}
	for d, until := range c.settled {
		if until.After(asked) {
			ignored[d] = true
		} else {
			delete(c.settled, d)
		}
	}
	fresh := view{}
	for d := range ignored {
		if routes := c.known[d]; len(routes) > 0 {
			fresh[d] = routes
		}
	}
	for _, route := range routes {
		if route == nil {
			continue
		}
		if d := destinationOf(route.DestinationCIDR); !ignored[d] {
			fresh[d] = append(fresh[d], seen{Route: route})
		}
	}
	c.attempts.observe(routes, ignored, now)
	c.known, c.listedAt = fresh, asked
	return nil
}

// claimChanges decides what to start now, and marks its destinations as busy.
func (c *Controller) claimChanges(nodes []*corev1.Node) []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	found := planChanges(nodes, c.current(nodes), c.clusterCIDRs)
	wanted := map[call]bool{}
	for _, change := range found.changes {
		for _, call := range change.calls() {
			wanted[call] = true
		}
	}
	c.attempts.dropUnwanted(wanted)
	for call := range wanted {
		if before := c.attempts[call]; before != nil && before.next.After(now) {
			c.queue.AddAfter(retry, before.next.Sub(now)) // the queue keeps the earliest
		}
	}
	due := c.dueChanges(found, now)
	for _, change := range due {
		c.busy[change.destination] = true
	}
	for _, verb := range []string{"create", "delete"} {
		failing.WithLabelValues(verb).Set(float64(c.attempts.failing(verb)))
	}
	return due
}

// current is what is known of the routes. Before the first list nodes whose condition says so are taken to have theirs.
func (c *Controller) current(nodes []*corev1.Node) view {
	if !c.listedAt.IsZero() {
		return c.known
	}
	assumed := view{}
	for d, routes := range c.known {
		assumed[d] = routes
	}
	for _, node := range nodes {
		if networkCondition(node).Reason != reasonCreated {
			continue
		}
		for _, cidr := range node.Spec.PodCIDRs {
			d := destinationOf(cidr)
			assumed[d] = append(assumed[d], seen{made: true, Route: &cloudprovider.Route{
				TargetNode: types.NodeName(node.Name), TargetNodeAddresses: node.Status.Addresses, DestinationCIDR: cidr,
			}})
		}
	}
	return assumed
}

// dueChanges returns of the changes what can be started now. What is due within the time that events are gathered for
// is taken along.
func (c *Controller) dueChanges(found judgement, now time.Time) []change {
	var all []change
	horizon := now.Add(gather)
	for _, change := range found.changes {
		if c.busy[change.destination] {
			continue
		}
		if due := c.attempts.choose(change, horizon); len(due.calls()) > 0 {
			all = append(all, due)
		}
	}
	return all
}

// round counts what a pass has started, for upstream's metric: its outcome is known when the last call has ended.
type round struct {
	trigger string

	mu      sync.Mutex
	left    int
	changed bool
}

func (r *round) finishChange(changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = r.changed || changed
	if r.left--; r.left == 0 {
		recordSync(r.trigger, r.changed, false)
	}
}

// startChanges makes the calls for each destination in its own goroutine. It reports whether there was anything to do.
func (c *Controller) startChanges(ctx, calls context.Context, trigger string, due []change) bool {
	started := &round{trigger: trigger, left: len(due)}
	for _, change := range due {
		c.work.Go(func() {
			if changed, ok := c.makeChange(ctx, calls, change); ok {
				started.finishChange(changed)
			}
		})
	}
	if len(due) > 0 {
		klog.FromContext(ctx).V(2).Info("Changing routes", "destinations", len(due), "trigger", trigger)
	}
	return len(due) > 0
}
