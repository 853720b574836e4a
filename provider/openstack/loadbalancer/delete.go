package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// EnsureLoadBalancerDeleted deletes what a Service has: its load balancer, its floating IP, and the security group that
// another provider made for it. A load balancer that others use too stays without the Service's listeners.
func (b *Balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	o, err := b.open(ctx)
	if err != nil {
		return err
	}
	s := b.lenient(cluster, service)
	var failed error
	err = o.eachPart(ctx, s, b.memory.idOf(s.service.UID), func(lb *loadbalancers.LoadBalancer) bool {
		failed = b.remove(ctx, o, s, lb)
		return failed == nil
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	if id := b.memory.idOf(service.UID); id != "" {
		b.memory.dropLoadBalancer(service.UID, id, true)
	}
	return b.removeLeftovers(ctx, s)
}

// parts are load balancers that have something of a Service. Each is given to do once, until that returns false.
type parts struct {
	of   *settings
	do   func(*loadbalancers.LoadBalancer) bool
	seen map[string]bool
}

// visitParts reports whether do has returned true for each of some load balancers that is a part.
func (p parts) visitParts(all ...loadbalancers.LoadBalancer) bool {
	for i := range all {
		lb := &all[i]
		if !p.of.hasPart(lb) || p.seen[lb.ID] {
			continue
		}
		if p.seen[lb.ID] = true; !p.do(lb) {
			return false
		}
	}
	return true
}

// eachPart finds the load balancers that have something of a Service. These are its own, by the ID that is known and by
// its names, and those that have its tag. Its annotation may name one that it never had, and may have named others.
func (o octavia) eachPart(
	ctx context.Context,
	s *settings,
	known string,
	do func(*loadbalancers.LoadBalancer) bool,
) error {
	found := parts{of: s, do: do, seen: map[string]bool{}}
	for _, id := range []string{known, s.id} {
		if id == "" {
			continue
		}
		lb, _, err := o.get(ctx, id)
		if err != nil {
			return err
		}
		if lb != nil && !found.visitParts(*lb) {
			return nil
		}
	}
	for _, name := range s.names() {
		named, err := o.named(ctx, name)
		if err == nil && len(named) > 1 {
			err = ambiguous(name, named)
		}
		if err != nil || !found.visitParts(named...) {
			return err
		}
	}
	tagged, err := o.tagged(ctx, s.tags())
	found.visitParts(tagged...)
	return err
}

// tags are those that load balancers have for a Service, under any name of the cluster.
func (s *settings) tags() []string {
	return slices.DeleteFunc(slices.Clone(s.names()), func(name string) bool { return name == s.legacy })
}

// hasPart reports whether a load balancer has something of a Service, or is its own.
func (s *settings) hasPart(lb *loadbalancers.LoadBalancer) bool {
	in := s.scope(lb)
	return in.owner || slices.ContainsFunc(lb.Tags, func(tag string) bool { return slices.Contains(s.tags(), tag) })
}

// isLeft reports whether anything of a Service is left.
func (b *Balancers) isLeft(ctx context.Context, o octavia, s *settings) (bool, error) {
	found := false
	err := o.eachPart(ctx, s, b.memory.idOf(s.service.UID), func(*loadbalancers.LoadBalancer) bool {
		found = true
		return false
	})
	if err != nil || found {
		return found, err
	}
	left, err := b.findLeftovers(ctx, s)
	return err == nil && len(left.groups)+len(left.floating) > 0, err
}

// leaveOthers takes a Service from load balancers of others that its annotation named before. Their listeners would go
// on sending to a node port that another Service may get.
func (b *Balancers) leaveOthers(ctx context.Context, o octavia, s *settings, except string) error {
	tagged, err := o.tagged(ctx, s.tags())
	if err != nil {
		return err
	}
	for i := range tagged {
		if lb := &tagged[i]; lb.ID != except && !s.scope(lb).owner {
			if err := b.remove(ctx, o, s, lb); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove takes the next step of removing a load balancer, or a Service's part of it. It returns nil when nothing of
// that is left.
func (b *Balancers) remove(ctx context.Context, o octavia, s *settings, lb *loadbalancers.LoadBalancer) error {
	e := b.memory.entry(lb.ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	if isPending(lb.ProvisioningStatus) {
		return b.pending(lb, e)
	}
	lb, _, err := o.get(ctx, lb.ID) // since the lock: a Service that shares it may have changed it before
	switch {
	case err != nil, lb == nil:
		return err
	case isPending(lb.ProvisioningStatus):
		return b.pending(lb, e)
	}
	in := s.scope(lb)
	for _, tag := range s.tags() {
		if !in.owner && slices.Contains(lb.Tags, tag) {
			in.tag = tag // perhaps with a former name of the cluster
		}
	}
	if !in.owner || len(in.others(lb)) > 0 {
		left, err := b.leaveShared(ctx, o, s, lb, in, e)
		if err != nil || !left {
			return err
		}
	}
	neutron, ip, err := b.floatingOf(ctx, lb)
	if err != nil {
		return err
	}
	if ip != nil {
		if err := b.removeFloating(ctx, neutron, s, lb, in, ip); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("Deleting a load balancer", "service", klog.KObj(s.service), "loadBalancer", lb.ID)
	return b.makeChange(ctx, o, s, e, lb, removeBalancer(lb), 1)
}

func removeBalancer(lb *loadbalancers.LoadBalancer) change {
	return change{method: http.MethodDelete, path: "loadbalancers/" + lb.ID + "?cascade=true", apply: func(string) {}}
}

// leaveShared removes a Service's listeners from a load balancer, and then its tag. It reports whether the load
// balancer is left over. Then its Service, of this cluster, has gone before, and none uses it.
func (b *Balancers) leaveShared(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
) (bool, error) {
	t, err := o.read(ctx, lb.ID, lb.ProjectID, false)
	if err != nil {
		return false, err
	}
	var changes []change
	for _, l := range t.listeners {
		if in.ownsListener(l) {
			changes = append(changes, removeListener(t, l)...)
		}
	}
	if len(changes) == 0 && s.isLast(lb, in, t) {
		return true, nil // with the Service's tag, by which it is found again if this takes long
	}
	if slices.Contains(lb.Tags, in.tag) {
		rest := slices.DeleteFunc(slices.Clone(lb.Tags), func(tag string) bool { return tag == in.tag })
		changes = append(changes, tagChange(lb, rest))
	}
	if len(changes) > 0 {
		e.forget()
		err := b.makeChange(ctx, o, s, e, lb, changes[0], len(changes))
		e.forget()
		return false, err
	}
	b.memory.dropLoadBalancer(s.service.UID, lb.ID, false)
	return false, nil
}

// isLast reports whether a load balancer was made for a Service of this cluster, and none uses it but this one, which
// leaves it.
func (s *settings) isLast(lb *loadbalancers.LoadBalancer, in scope, t *tree) bool {
	_, ok := s.makerOf(lb)
	return ok && len(in.others(lb)) == 0 && len(t.listeners) == 0
}

// groupName is the security group that the in-tree and the external provider make for a Service.
func (s *settings) groupName() string {
	return cut(fmt.Sprintf("lb-sg-%s-%s-%s", s.service.UID, s.service.Namespace, s.service.Name))
}

// leftover is what is left of a Service without its load balancer.
type leftover struct {
	neutron  *gophercloud.ServiceClient
	groups   []groups.SecGroup
	floating []floatingips.FloatingIP
}

func (b *Balancers) findLeftovers(ctx context.Context, s *settings) (*leftover, error) {
	neutron, err := b.client.Network(ctx)
	if err != nil {
		return nil, err
	}
	project, err := b.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	left := &leftover{neutron: neutron}
	named := groups.List(neutron, groups.ListOpts{Name: s.groupName(), ProjectID: project})
	left.groups, err = client.List(ctx, "finding security group "+s.groupName(), named, groups.ExtractGroups)
	if err != nil {
		return nil, err
	}
	// What is in it may be deleted, so the answer of a cloud that leaves the filter out is filtered again.
	left.groups = slices.DeleteFunc(left.groups, func(g groups.SecGroup) bool {
		return g.ID == "" || g.Name != s.groupName() || g.ProjectID != project
	})
	if s.keepFloating {
		return left, nil
	}
	for _, description := range s.floatingDescriptions() {
		all, err := floating(ctx, neutron, floatingips.ListOpts{Description: description, ProjectID: project})
		if err != nil {
			return nil, err
		}
		for _, ip := range all {
			if ip.Description == description && ip.PortID == "" && ip.ProjectID == project {
				left.floating = append(left.floating, ip)
			}
		}
	}
	return left, nil
}

// removeLeftovers removes what is left once the load balancer is gone. These are floating IPs that lost their port, and
// security groups with the rules that name them.
func (b *Balancers) removeLeftovers(ctx context.Context, s *settings) error {
	left, err := b.findLeftovers(ctx, s)
	if err != nil {
		return err
	}
	for _, ip := range left.floating {
		if err := floatingips.Delete(ctx, left.neutron, ip.ID).ExtractErr(); err != nil && !client.NotFound(err) {
			return fmt.Errorf("deleting floating IP %s: %w", ip.FloatingIP, client.Explain(err))
		}
	}
	for _, group := range left.groups {
		if err := RemoveGroup(ctx, left.neutron, group); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGroup removes a security group, with the rules that name it and from the ports that have it.
func RemoveGroup(ctx context.Context, neutron *gophercloud.ServiceClient, group groups.SecGroup) error {
	failed := func(err error) error {
		return fmt.Errorf("removing security group %s (%s): %w", group.Name, group.ID, client.Explain(err))
	}
	pages, err := rules.List(neutron, rules.ListOpts{RemoteGroupID: group.ID}).AllPages(ctx)
	if err != nil {
		return failed(err)
	}
	naming, err := rules.ExtractRules(pages)
	if err != nil {
		return failed(err)
	}
	for _, rule := range naming {
		if rule.RemoteGroupID != group.ID {
			continue
		}
		if err := rules.Delete(ctx, neutron, rule.ID).ExtractErr(); err != nil && !client.NotFound(err) {
			return failed(err)
		}
	}
	if err := takeOff(ctx, neutron, group.ID); err != nil {
		return failed(err)
	}
	err = groups.Delete(ctx, neutron, group.ID).ExtractErr()
	switch {
	case err == nil, client.NotFound(err):
		return nil
	case client.Conflict(err): // a port got it meanwhile, or goes more slowly than its load balancer
		return cloudapi.NewRetryError(failed(err).Error(), longestWait)
	}
	return failed(err)
}

// takeOff takes a security group off all ports. Neutron writes a port's whole list, with the revision that was read.
func takeOff(ctx context.Context, neutron *gophercloud.ServiceClient, group string) error {
	pages, err := ports.List(neutron, ports.ListOpts{SecurityGroups: []string{group}}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := ports.ExtractPorts(pages)
	if err != nil {
		return err
	}
	for _, p := range all {
		rest := slices.DeleteFunc(slices.Clone(p.SecurityGroups), func(id string) bool { return id == group })
		if len(rest) == len(p.SecurityGroups) {
			continue
		}
		options := ports.UpdateOpts{SecurityGroups: &rest}
		if p.RevisionNumber > 0 {
			options.RevisionNumber = &p.RevisionNumber
		}
		if _, err := ports.Update(ctx, neutron, p.ID, options).Extract(); err != nil && !client.NotFound(err) {
			return err
		}
	}
	return nil
}
