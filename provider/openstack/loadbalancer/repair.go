package loadbalancer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// failoverAgain is how long a failover that was asked for is not asked for again.
const failoverAgain = 10 * time.Minute

// failover has Octavia replace what carries a load balancer in ERROR, if the Service that owns it asks for it.
func (b *Balancers) failover(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
) error {
	e.waiting = time.Time{}
	e.forget()
	problem := fmt.Sprintf("load balancer %s (%s) is in ERROR: Octavia could not execute a change of it", lb.Name, lb.ID)
	if !in.owner {
		return fmt.Errorf("%s. It is not this Service's own: the one that owns it can ask for a failover", problem)
	}
	if s.onError != onErrorFailover {
		return fmt.Errorf("%s, and changes nothing more. Set the annotation %s to %s on the Service, or have "+
			"'openstack loadbalancer failover %s' run; or delete the Service to have another one", problem, AnnotationOnError,
			onErrorFailover, lb.ID)
	}
	if err := b.askFailover(ctx, o, s, lb, e, problem); err != nil {
		return err
	}
	return cloudapi.NewRetryError(problem+"; its failover has begun", shortestWait)
}

// askFailover asks Octavia for a failover, unless the last one has not helped.
func (b *Balancers) askFailover(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	e *entry,
	problem string,
) error {
	if !e.failedOver.IsZero() && b.now().Sub(e.failedOver) < failoverAgain {
		return fmt.Errorf("%s, and its failover of %s ago has not helped. Ask the cloud's administrator for the reason",
			problem, b.now().Sub(e.failedOver).Round(time.Second))
	}
	url := o.ServiceURL("lbaas", "loadbalancers", lb.ID, "failover")
	_, err := o.Put(ctx, url, nil, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return fmt.Errorf("%s, and its failover is refused: %w. Ask the cloud's administrator to run "+
			"'openstack loadbalancer failover %s'", problem, client.Explain(err), lb.ID)
	}
	e.failedOver = b.now()
	e.forget()
	klog.FromContext(ctx).Info("A load balancer fails over", "service", klog.KObj(s.service), "loadBalancer", lb.ID,
		"reason", problem)
	return nil
}

func isPending(status string) bool { return strings.HasPrefix(status, "PENDING_") }

// unfinished are the Service's parts that are PENDING.
func (t *tree) unfinished(in scope) (parts []string) {
	add := func(kind, name, id, status string) {
		if !isPending(status) {
			return
		}
		if name == "" {
			name = id
		}
		parts = append(parts, kind+" "+name+" is "+status)
	}
	for _, l := range t.listeners {
		if !in.ownsListener(l) {
			continue
		}
		add("listener", l.name, l.id, l.status)
		if l.pool == nil {
			continue
		}
		add("pool", l.pool.name, l.pool.id, l.pool.status)
		for _, m := range l.pool.members {
			add("member", m.name, m.id, m.status)
		}
		if m := l.pool.monitor; m != nil {
			add("monitor", m.name, m.id, m.status)
		}
	}
	return parts
}

// servesNothing reports whether Octavia has made none of the listeners.
func (t *tree) servesNothing() bool {
	return !slices.ContainsFunc(t.listeners, func(l *listener) bool { return l.status != "PENDING_CREATE" })
}

// unfinished is what happens to a load balancer that is ACTIVE while parts of it are PENDING. Octavia's worker may have
// read its row before those of its parts were committed. Then it never comes back to them.
func (b *Balancers) unfinished(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
	parts []string,
) error {
	if e.unfinished.IsZero() {
		e.unfinished = b.now()
	}
	since := b.now().Sub(e.unfinished)
	pending := parts[0]
	if len(parts) > 1 {
		pending += fmt.Sprintf(", as %d other parts are", len(parts)-1)
	}
	problem := fmt.Sprintf("load balancer %s (%s) is ACTIVE, and %s", lb.Name, lb.ID, pending)
	if since < lostAfter {
		return cloudapi.NewRetryError(problem, pause(since))
	}
	problem += fmt.Sprintf(", for %s: Octavia has lost a part of a request", since.Round(time.Second))
	if !in.owner {
		return fmt.Errorf("%s. The load balancer is not this Service's own. Ask the cloud's administrator to run "+
			"'openstack loadbalancer failover %s'", problem, lb.ID)
	}
	unserved, err := b.neverServed(ctx, s, lb, in, e)
	if err != nil {
		return err
	}
	if unserved && !b.memory.wasRemade(s.service.UID) {
		return b.remake(ctx, o, s, lb, e, problem)
	}
	if err := b.askFailover(ctx, o, s, lb, e, problem); err != nil {
		return err
	}
	e.unfinished = time.Time{}
	return fmt.Errorf("%s. Its failover has begun, which makes what is lost", problem)
}

// neverServed reports whether a load balancer has certainly not served, so that it may go. It has no address that
// clients could know, no listener, and no other Service. One of the in-tree provider stays, whatever the Service shows.
func (b *Balancers) neverServed(
	ctx context.Context,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
) (bool, error) {
	if in.adopted || e.whole || len(in.others(lb)) > 0 || len(s.service.Status.LoadBalancer.Ingress) > 0 ||
		!e.tree.servesNothing() {
		return false, nil
	}
	_, ip, err := b.floatingOf(ctx, lb) // it is attached when all parts are there
	return err == nil && ip == nil, err
}

// remake deletes a load balancer. The next call finds none, and makes one without parts. They come one after the other,
// as those of all load balancers do that this process makes from now on.
func (b *Balancers) remake(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	e *entry,
	problem string,
) error {
	b.mu.Lock()
	b.stepwise = true
	b.mu.Unlock()
	klog.FromContext(ctx).Info("Deleting a load balancer that has lost its parts; new ones are made step by step",
		"service", klog.KObj(s.service), "loadBalancer", lb.ID)
	switch err := o.sendChange(ctx, removeBalancer(lb)); {
	case isImmutable(err):
		return cloudapi.NewRetryError(problem, shortestWait)
	case err != nil:
		return fmt.Errorf("%s. It has never served, and it cannot be deleted to be made again: %w", problem, client.Explain(err))
	}
	e.forget()
	b.memory.noteRemade(s.service.UID)
	return fmt.Errorf("%s. It has never served: it is deleted, and made again one part after the other", problem)
}

func (b *Balancers) isStepwise() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stepwise
}
