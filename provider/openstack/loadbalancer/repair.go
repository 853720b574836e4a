package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// repairAgain is how long a failover, or another load balancer, that was asked for is not asked for again.
const repairAgain = 10 * time.Minute

// repair is what happens to a load balancer that Octavia has not made, or not changed, as it was asked to.
type repair struct {
	b  *Balancers
	o  octavia
	s  *settings
	lb *loadbalancers.LoadBalancer
	in scope
	e  *entry
}

// errored is what happens to a load balancer in ERROR. It is repaired if the Service that owns it asks for that.
func (r repair) errored(ctx context.Context) error {
	r.e.waiting = time.Time{}
	r.e.forget()
	problem := fmt.Sprintf("load balancer %s (%s) is in ERROR: Octavia could not execute a change of it",
		r.lb.Name, r.lb.ID)
	if r.in.owner && r.s.onError == "" {
		problem += ", and changes nothing more"
	}
	return r.asAsked(ctx, problem)
}

// erredParts is what happens to a load balancer that is ACTIVE while parts of it are in ERROR. Those serve as they did
// before, or not at all. Octavia does not come back to them by itself.
func (r repair) erredParts(ctx context.Context, parts []string) error {
	return r.asAsked(ctx, fmt.Sprintf("load balancer %s (%s) is ACTIVE, and %s: Octavia could not execute a change of that",
		r.lb.Name, r.lb.ID, andOthers(parts)))
}

// andOthers names the first of some parts.
func andOthers(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return fmt.Sprintf("%s, as %d other parts are", parts[0], len(parts)-1)
}

// asAsked repairs a load balancer as its Service asks for it, or says how it can ask.
func (r repair) asAsked(ctx context.Context, problem string) error {
	switch {
	case !r.in.owner:
		return fmt.Errorf("%s. It is not this Service's own: the one that owns it can ask for a failover", problem)
	case r.s.onError == onErrorRecreate:
		return r.recreate(ctx, problem)
	case r.s.onError != onErrorFailover:
		return fmt.Errorf("%s. Set the annotation %s to %s on the Service, or have 'openstack loadbalancer failover %s' run. "+
			"With %s, it is deleted and made again with its floating IP", problem, AnnotationOnError, onErrorFailover, r.lb.ID,
			onErrorRecreate)
	}
	if err := r.askFailover(ctx, problem); err != nil {
		return err
	}
	return cloudapi.NewRetryError(problem+"; its failover has begun", shortestWait)
}

// askFailover asks Octavia for a failover, unless the last one has not helped.
func (r repair) askFailover(ctx context.Context, problem string) error {
	if since := r.b.now().Sub(r.e.failedOver); !r.e.failedOver.IsZero() && since < repairAgain {
		return fmt.Errorf("%s, and its failover of %s ago has not helped. Ask the cloud's administrator for the reason",
			problem, since.Round(time.Second))
	}
	url := r.o.ServiceURL("lbaas", "loadbalancers", r.lb.ID, "failover")
	_, err := r.o.Put(ctx, url, nil, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return fmt.Errorf("%s, and its failover is refused: %w. Ask the cloud's administrator to run "+
			"'openstack loadbalancer failover %s'", problem, client.Explain(err), r.lb.ID)
	}
	r.e.failedOver = r.b.now()
	r.e.forget()
	klog.FromContext(ctx).Info("A load balancer fails over", "service", klog.KObj(r.s.service), "loadBalancer", r.lb.ID,
		"reason", problem)
	return nil
}

// recreate deletes a load balancer. The next call finds none, and makes one. It gets the floating IP that the Service's
// status shows.
func (r repair) recreate(ctx context.Context, problem string) error {
	if since := r.b.now().Sub(r.b.memory.recreatedAt(r.s.service.UID)); since < repairAgain {
		return fmt.Errorf("%s, and the one before it was deleted %s ago. Ask the cloud's administrator for the reason",
			problem, since.Round(time.Second))
	}
	if err := r.mayRecreate(ctx); err != nil {
		return fmt.Errorf("%s, and it cannot be made again: %w", problem, err)
	}
	neutron, ip, err := r.b.floatingOf(ctx, r.lb)
	if err != nil {
		return err
	}
	if ip != nil {
		if !r.keeps(ip) {
			return fmt.Errorf("%s, and if it is made again it loses its floating IP %s, which the Service's status does not show or "+
				"which has another description. Set spec.loadBalancerIP to it", problem, ip.FloatingIP)
		}
		if err := r.s.adoptFloating(ctx, neutron, r.in, ip); err != nil { // its description says later whose it is
			return err
		}
	}
	klog.FromContext(ctx).Info("Deleting a load balancer, to make it again", "service", klog.KObj(r.s.service),
		"loadBalancer", r.lb.ID, "reason", problem)
	if err := r.removeBroken(ctx, problem); err != nil {
		return err
	}
	r.b.memory.noteRecreated(r.s.service.UID, r.b.now())
	return fmt.Errorf("%s. It is deleted, and made again as the annotation %s asks for", problem, AnnotationOnError)
}

// mayRecreate says why a load balancer may not be deleted to be made again: others would lose what they have.
func (r repair) mayRecreate(ctx context.Context) error {
	if r.s.id != "" {
		return fmt.Errorf("the annotation %sload-balancer-id names it; remove the annotation", prefix)
	}
	if others := r.in.others(r.lb); len(others) > 0 {
		return fmt.Errorf("other Services share it (%s)", strings.Join(others, ", "))
	}
	read, err := r.o.read(ctx, r.lb.ID, r.lb.ProjectID, false)
	if err != nil {
		return err
	}
	for _, l := range read.listeners {
		if !r.in.ownsListener(l) {
			return fmt.Errorf("its listener %s (%s) is not this Service's", l.name, l.id)
		}
	}
	return nil
}

// removeBroken deletes the load balancer.
func (r repair) removeBroken(ctx context.Context, problem string) error {
	switch err := r.o.sendChange(ctx, removeBalancer(r.lb)); {
	case isImmutable(err):
		return cloudapi.NewRetryError(problem, shortestWait)
	case err != nil:
		return fmt.Errorf("%s, and it cannot be deleted to be made again: %w", problem, client.Explain(err))
	}
	r.e.forget()
	return nil
}

// keeps reports whether the next load balancer will be given a floating IP, which is found by its address.
func (r repair) keeps(ip *floatingips.FloatingIP) bool {
	if asked := r.s.askedFloating(); asked != "" {
		return asked == ip.FloatingIP
	}
	described := r.s.isDescribed(ip) || r.in.adopted && ip.Description == ""
	return described && slices.Contains(r.s.shown(r.b.conf.LoadBalancer.IngressHostnameSuffix), ip.FloatingIP)
}

// shown are the addresses that a Service's status shows, also those with a suffix that makes them a host name.
func (s *settings) shown(suffix string) (addresses []string) {
	for _, in := range s.service.Status.LoadBalancer.Ingress {
		address := cmp.Or(in.IP, strings.TrimSuffix(in.Hostname, "."+suffix))
		if _, err := netip.ParseAddr(address); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// shownFloating is the free floating IP that a Service's status shows: it was that of a load balancer that is gone. It
// is nil for none.
func (s *settings) shownFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	project, suffix string,
) (*floatingips.FloatingIP, error) {
	for _, address := range s.shown(suffix) {
		all, err := floating(ctx, neutron, floatingips.ListOpts{FloatingIP: address, ProjectID: project})
		if err != nil {
			return nil, err
		}
		for i := range all {
			ip := &all[i]
			if ip.FloatingIP == address && ip.ProjectID == project && ip.PortID == "" && s.isDescribed(ip) {
				return ip, nil
			}
		}
	}
	return nil, nil
}

// isDescribed reports whether the description of a floating IP says that the Service has it.
func (s *settings) isDescribed(ip *floatingips.FloatingIP) bool {
	return ip.Description == s.usedBy() || slices.Contains(s.floatingDescriptions(), ip.Description)
}

func isPending(status string) bool { return strings.HasPrefix(status, "PENDING_") }

const inError = "ERROR"

func isErred(status string) bool { return status == inError }

// partsIn are the Service's parts whose status is one of some.
func (t *tree) partsIn(in scope, isOne func(status string) bool) (parts []string) {
	add := func(kind, name, id, status string) {
		if isOne(status) {
			parts = append(parts, kind+" "+cmp.Or(name, id)+" is "+strings.Replace(status, inError, "in ERROR", 1))
		}
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
func (r repair) unfinished(ctx context.Context, parts []string) error {
	if r.e.unfinished.IsZero() {
		r.e.unfinished = r.b.now()
	}
	since := r.b.now().Sub(r.e.unfinished)
	problem := fmt.Sprintf("load balancer %s (%s) is ACTIVE, and %s", r.lb.Name, r.lb.ID, andOthers(parts))
	if since < lostUnservedAfter {
		return cloudapi.NewRetryError(problem, pause(since))
	}
	unserved := false
	if r.in.owner && !r.b.memory.wasRemade(r.s.service.UID) {
		var err error
		if unserved, err = r.neverServed(ctx); err != nil {
			return err
		}
	}
	if since < lostAfter && !unserved {
		return cloudapi.NewRetryError(problem, pause(since))
	}
	problem += fmt.Sprintf(", for %s: Octavia has lost a part of a request", since.Round(time.Second))
	switch {
	case !r.in.owner:
		return fmt.Errorf("%s. The load balancer is not this Service's own. Ask the cloud's administrator to run "+
			"'openstack loadbalancer failover %s'", problem, r.lb.ID)
	case unserved:
		return r.remake(ctx, problem)
	case r.s.onError == onErrorRecreate:
		return r.recreate(ctx, problem)
	}
	if err := r.askFailover(ctx, problem); err != nil {
		return err
	}
	r.e.unfinished = time.Time{}
	return fmt.Errorf("%s. Its failover has begun, which makes what is lost", problem)
}

// neverServed reports whether a load balancer has certainly not served, so that it may go. It has no address that
// clients could know, no listener, and no other Service. One of the in-tree provider stays, whatever the Service shows.
func (r repair) neverServed(ctx context.Context) (bool, error) {
	if r.in.adopted || r.e.whole || len(r.in.others(r.lb)) > 0 || len(r.s.service.Status.LoadBalancer.Ingress) > 0 ||
		!r.e.tree.servesNothing() {
		return false, nil
	}
	_, ip, err := r.b.floatingOf(ctx, r.lb) // it is attached when all parts are there
	return err == nil && ip == nil, err
}

// remake deletes a load balancer. The next call finds none, and makes one without parts. They come one after the other,
// as those of all load balancers do that this process makes from now on.
func (r repair) remake(ctx context.Context, problem string) error {
	r.b.mu.Lock()
	r.b.stepwise = true
	r.b.mu.Unlock()
	klog.FromContext(ctx).Info("Deleting a load balancer that has lost its parts; new ones are made step by step",
		"service", klog.KObj(r.s.service), "loadBalancer", r.lb.ID)
	problem += ". It has never served"
	if err := r.removeBroken(ctx, problem); err != nil {
		return err
	}
	r.b.memory.noteRemade(r.s.service.UID)
	return fmt.Errorf("%s: it is deleted, and made again one part after the other", problem)
}

func (b *Balancers) isStepwise() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stepwise
}
