package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer/vipport"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// madeByUs begins the description of floating IPs that a manager made for a Service: this one, or the external
// provider's.
const madeByUs = "Floating IP for Kubernetes external service "

// floatingDescription is how a floating IP is described that is made for the Service.
func (s *settings) floatingDescription() string { return s.floatingDescriptions()[0] }

// floatingDescriptions are those by which a floating IP was made for the Service, under any name of the cluster. No
// other is deleted with it.
func (s *settings) floatingDescriptions() (all []string) {
	for _, cluster := range s.clusters {
		all = append(all, floatingFor(s.service.Namespace+"/"+s.service.Name, cluster))
	}
	return all
}

// floatingFor is how a floating IP is described that is made for a Service, by namespace/name.
func floatingFor(service, cluster string) string {
	return cut(madeByUs + service + " from cluster " + cluster)
}

// describedFor begins the description of floating IPs that were made for Services of this namespace.
func (s *settings) describedFor() string { return madeByUs + s.service.Namespace + "/" }

// usedBy describes a floating IP that is not the Service's: its address was named, or another client attached it.
func (s *settings) usedBy() string {
	return cut("Used by Kubernetes service " + s.service.Namespace + "/" + s.service.Name + ", and not made for it")
}

// wasMadeForService reports whether the floating IP of a load balancer was made for the Service. One that was made for
// the Service which the load balancer was made for, and which has gone before, counts too.
func (s *settings) wasMadeForService(lb *loadbalancers.LoadBalancer, ip *floatingips.FloatingIP) bool {
	if slices.Contains(s.floatingDescriptions(), ip.Description) {
		return true
	}
	maker, ok := s.makerOf(lb)
	return ok && ip.Description == floatingFor(maker.Service(), maker.Cluster)
}

// makerOf is the Service of this cluster that a load balancer was made for. No in-tree name says which that is.
func (s *settings) makerOf(lb *loadbalancers.LoadBalancer) (naming.Owner, bool) {
	maker, ok := naming.OfBalancer(lb.Name)
	return maker, ok && maker.UID == "" && slices.Contains(s.clusters, maker.Cluster)
}

// isOwnDescription reports whether a description is that of a floating IP for the Service's own namespace and cluster.
func (s *settings) isOwnDescription(description string) bool {
	return strings.HasPrefix(description, s.describedFor()) && slices.ContainsFunc(s.clusters, func(cluster string) bool {
		return strings.HasSuffix(description, " from cluster "+cluster)
	})
}

// isForeignDescription reports whether a description is that of a floating IP for a Service of another namespace or
// cluster.
func (s *settings) isForeignDescription(description string) bool {
	return strings.HasPrefix(description, madeByUs) && !s.isOwnDescription(description)
}

// checkPort refuses a port that something else uses, and one whose floating IP was made for others.
func (s *settings) checkPort(ctx context.Context, c *client.Client) error {
	if err := vipport.Check(ctx, c, s.port); err != nil {
		return err
	}
	neutron, err := c.Network(ctx)
	if err != nil {
		return err
	}
	ips, err := floating(ctx, neutron, floatingips.ListOpts{PortID: s.port})
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if s.isForeignDescription(ip.Description) {
			klog.FromContext(ctx).Info("A Service names a port with a floating IP that was made for others",
				"service", klog.KObj(s.service), "floatingIP", ip.FloatingIP, "description", ip.Description)
			return fmt.Errorf("floating IP %s of port %s was made for another namespace or cluster", ip.FloatingIP, s.port)
		}
	}
	return nil
}

// floating lists floating IPs.
func floating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	options floatingips.ListOpts,
) ([]floatingips.FloatingIP, error) {
	return client.List(
		ctx, "listing floating IPs", floatingips.List(neutron, options), floatingips.ExtractFloatingIPs)
}

// floatingOf is the floating IP of a load balancer; nil for none.
func (b *Balancers) floatingOf(
	ctx context.Context,
	lb *loadbalancers.LoadBalancer,
) (*gophercloud.ServiceClient, *floatingips.FloatingIP, error) {
	neutron, err := b.client.Network(ctx)
	if v4, _ := vipOf(lb, corev1.IPv4Protocol); err != nil || lb.VipPortID == "" || isIPv6(lb.VipAddress) && v4 == "" {
		return neutron, nil, err
	}
	all, err := floating(ctx, neutron, floatingips.ListOpts{PortID: lb.VipPortID})
	if err != nil {
		return neutron, nil, err
	}
	if i := slices.IndexFunc(all, func(ip floatingips.FloatingIP) bool { return ip.PortID == lb.VipPortID }); i >= 0 {
		return neutron, &all[i], nil
	}
	return neutron, nil, nil
}

// addressNow is the address of a load balancer: that of its floating IP, or its own.
func (b *Balancers) addressNow(ctx context.Context, s *settings, lb *loadbalancers.LoadBalancer) (string, error) {
	if s.internal {
		return s.frontAddress(lb), nil
	}
	_, ip, err := b.floatingOf(ctx, lb)
	if err != nil || ip == nil {
		return s.frontAddress(lb), err
	}
	return ip.FloatingIP, nil
}

// ensureAddress gives a load balancer the floating IP that its Service asks for, or takes it from one that is internal.
func (b *Balancers) ensureAddress(ctx context.Context, s *settings, lb *loadbalancers.LoadBalancer) (string, error) {
	in, own := s.scope(lb), s.frontAddress(lb)
	neutron, ip, err := b.floatingOf(ctx, lb)
	switch {
	case err != nil:
		return "", err
	case s.internal && ip != nil && in.owner:
		return own, b.removeFloating(ctx, neutron, s, lb, in, ip)
	case s.internal, isIPv6(own):
		return own, nil
	case ip != nil && !s.wantsOther(in, lb, ip):
		return ip.FloatingIP, s.adoptFloating(ctx, neutron, in, ip)
	case !in.owner, s.service.Spec.LoadBalancerIP == own:
		return own, nil // what others have made is not given an address that they may not want
	}
	free, err := b.unusedFloating(ctx, neutron, s, ip != nil)
	if err != nil {
		return "", err
	}
	if ip != nil {
		if err := b.removeFloating(ctx, neutron, s, lb, in, ip); err != nil {
			return "", err
		}
	}
	if free != nil {
		return free.FloatingIP, s.attach(ctx, neutron, in, free, lb.VipPortID)
	}
	return b.makeFloating(ctx, neutron, s, lb)
}

// unusedFloating is the floating IP that a Service asks for, or else the one that its status shows, where its load
// balancer has none. It is nil if one has to be made.
func (b *Balancers) unusedFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	s *settings,
	hasOne bool,
) (*floatingips.FloatingIP, error) {
	project, err := b.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	if s.askedFloating() == "" && !hasOne {
		return s.shownFloating(ctx, neutron, project, b.conf.LoadBalancer.IngressHostnameSuffix)
	}
	return s.freeFloating(ctx, neutron, project)
}

// wantsOther reports whether a Service asks for another address than that of the floating IP that there is.
func (s *settings) wantsOther(in scope, lb *loadbalancers.LoadBalancer, ip *floatingips.FloatingIP) bool {
	asked := s.askedFloating()
	return in.owner && asked != "" && asked != ip.FloatingIP && asked != s.frontAddress(lb)
}

// freeFloating is the floating IP with the address that a Service asks for, if it exists; nil if it has to be made. One
// that was kept for a Service of another namespace is not given away.
func (s *settings) freeFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	project string,
) (*floatingips.FloatingIP, error) {
	address := s.askedFloating()
	if address == "" {
		return nil, nil
	}
	all, err := floating(ctx, neutron, floatingips.ListOpts{FloatingIP: address, ProjectID: project})
	all = slices.DeleteFunc(all, func(ip floatingips.FloatingIP) bool {
		return ip.FloatingIP != address || ip.ProjectID != project
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	// A tenant learns nothing of what others have: the log says who uses it.
	log := klog.FromContext(ctx).WithValues("service", klog.KObj(s.service), "floatingIP", address)
	if port := all[0].PortID; port != "" {
		log.Info("A Service asks for a floating IP that is in use", "port", port)
		return nil, fmt.Errorf("floating IP %s, which spec.loadBalancerIP asks for, is in use: free it, or ask for another", address)
	}
	if of := all[0].Description; s.isForeignDescription(of) {
		log.Info("A Service asks for a floating IP that was made for others", "description", of)
		return nil, fmt.Errorf("floating IP %s, which spec.loadBalancerIP asks for, was made for another namespace or cluster: "+
			"ask for another, or change its description", address)
	}
	return &all[0], nil
}

// attach gives a floating IP that exists to the port of a load balancer. One without a description is given one where
// the in-tree provider's have none: it must not be taken for one of those, which are deleted.
func (s *settings) attach(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	in scope,
	ip *floatingips.FloatingIP,
	port string,
) error {
	options := floatingips.UpdateOpts{PortID: &port}
	if in.adopted && ip.Description == "" {
		options.Description = new(s.usedBy())
	}
	return update(ctx, neutron, ip, "changing the port of", options)
}

// detach takes a floating IP off its port.
func (s *settings) detach(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	ip *floatingips.FloatingIP,
) error {
	options := floatingips.UpdateOpts{PortID: new(string)}
	if ip.Description == s.usedBy() {
		options.Description = new(string)
	}
	return update(ctx, neutron, ip, "changing the port of", options)
}

func update(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	ip *floatingips.FloatingIP,
	doing string,
	options floatingips.UpdateOpts,
) error {
	if _, err := floatingips.Update(ctx, neutron, ip.ID, options).Extract(); err != nil {
		return fmt.Errorf("%s floating IP %s: %w", doing, ip.FloatingIP, client.Explain(err))
	}
	return nil
}

// wasMadeInTree reports whether the in-tree provider has made a floating IP. It left no description. An address that
// the user has named may be the user's own.
func (s *settings) wasMadeInTree(in scope, ip *floatingips.FloatingIP) bool {
	if !in.adopted || ip.Description != "" || ip.FloatingIP == s.service.Spec.LoadBalancerIP {
		return false
	}
	shown := s.service.Status.LoadBalancer.Ingress
	return len(shown) == 0 || slices.ContainsFunc(shown, func(i corev1.LoadBalancerIngress) bool {
		return i.IP == ip.FloatingIP || i.Hostname != ""
	})
}

// adoptFloating describes a floating IP of the in-tree provider, so that it is known as the Service's from then on.
// Another one without a description is described as not the Service's, before the Service shows it. The in-tree
// provider does not look at descriptions.
func (s *settings) adoptFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	in scope,
	ip *floatingips.FloatingIP,
) error {
	if !in.adopted || ip.Description != "" {
		return nil
	}
	description := s.usedBy()
	if s.wasMadeInTree(in, ip) {
		description = s.floatingDescription()
	}
	// without a port: to name it would attach it again
	return update(ctx, neutron, ip, "describing", floatingips.UpdateOpts{Description: &description})
}

// removeFloating deletes a floating IP that a manager has made for the Service, and takes another one off.
func (b *Balancers) removeFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	ip *floatingips.FloatingIP,
) error {
	if s.keepFloating || !s.wasMadeForService(lb, ip) && !s.wasMadeInTree(in, ip) {
		return s.detach(ctx, neutron, ip)
	}
	klog.FromContext(ctx).Info("Deleting a floating IP", "service", klog.KObj(s.service), "address", ip.FloatingIP)
	if err := floatingips.Delete(ctx, neutron, ip.ID).ExtractErr(); err != nil && !client.NotFound(err) {
		return fmt.Errorf("deleting floating IP %s: %w", ip.FloatingIP, client.Explain(err))
	}
	return nil
}

// makeFloating makes a floating IP. Without a network of floating IPs the load balancer's own address is the Service's.
func (b *Balancers) makeFloating(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	s *settings,
	lb *loadbalancers.LoadBalancer,
) (string, error) {
	network, err := b.floatingNetwork(ctx, neutron, s)
	if err != nil {
		return "", err
	}
	if network == "" {
		klog.FromContext(ctx).Info("The cloud has no network of floating IPs; the load balancer has its own address alone",
			"service", klog.KObj(s.service), "loadBalancer", lb.ID)
		return s.frontAddress(lb), nil
	}
	from, err := s.floatingSubnets(ctx, neutron, network)
	if err != nil {
		return "", err
	}
	for _, subnet := range from {
		var made *floatingips.FloatingIP
		made, err = floatingips.Create(ctx, neutron, floatingips.CreateOpts{
			FloatingNetworkID: network, PortID: lb.VipPortID, SubnetID: subnet,
			FloatingIP: s.askedFloating(), Description: s.floatingDescription(),
		}).Extract()
		if err == nil {
			return made.FloatingIP, nil
		}
	}
	return "", fmt.Errorf("making a floating IP in network %s for load balancer %s: %w", network, lb.ID, s.explain(err))
}

// floatingSubnets are the subnets to try for a floating IP; an empty one leaves the choice to Neutron.
func (s *settings) floatingSubnets(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	network string,
) ([]string, error) {
	spec := s.floatingSubnet
	if spec.id != "" || s.askedFloating() != "" || spec.name == "" && spec.tags == "" {
		return []string{spec.id}, nil
	}
	matches, err := namePattern(spec.name)
	if err != nil {
		return nil, err
	}
	options := tagFilter(spec.tags)
	options.NetworkID = network
	all, err := client.List(
		ctx, "listing the subnets of network "+network, subnets.List(neutron, options), subnets.ExtractSubnets)
	if err != nil {
		return nil, err
	}
	var chosen []string
	for _, subnet := range all {
		if matches(subnet.Name) {
			chosen = append(chosen, subnet.ID)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("network %s has no subnet with name %q and tags %q (floating-subnet, floating-subnet-tags)",
			network, spec.name, spec.tags)
	}
	return chosen, nil
}

// maxPattern is the longest name of a subnet. An expression of some kilobytes may take hundreds of megabytes.
const maxPattern = 255

// namePattern reads a pattern of subnets' names: a glob, a regular expression behind ~, and either negated by !.
func namePattern(text string) (func(string) bool, error) {
	if text == "" {
		return func(string) bool { return true }, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("floating-subnet has %d characters, and may have %d", len(text), maxPattern)
	}
	pattern, negated := strings.CutPrefix(text, "!")
	if expression, ok := strings.CutPrefix(pattern, "~"); ok {
		compiled, err := regexp.Compile("^(?:" + expression + ")$")
		if err != nil {
			return nil, fmt.Errorf("floating-subnet is %q: %w", text, err)
		}
		return func(name string) bool { return compiled.MatchString(name) != negated }, nil
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("floating-subnet is %q, which is no pattern of names: %w", text, err)
	}
	return func(name string) bool {
		matched, _ := path.Match(pattern, name) // the pattern was tried above
		return matched != negated
	}, nil
}

// tagFilter reads tags of subnets: one of a list; all of it behind &; and either negated by !.
func tagFilter(text string) subnets.ListOpts {
	tags, negated := strings.CutPrefix(text, "!")
	tags, all := strings.CutPrefix(tags, "&")
	parts := strings.Split(tags, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	tags = strings.Join(parts, ",")
	switch {
	case negated && all:
		return subnets.ListOpts{NotTags: tags}
	case negated:
		return subnets.ListOpts{NotTagsAny: tags}
	case all:
		return subnets.ListOpts{Tags: tags}
	}
	return subnets.ListOpts{TagsAny: tags}
}

// status is what a Service shows of its load balancer. Behind the PROXY protocol no connection may take the short way
// through kube-proxy. The mode of the address says so, or a host name in place of the address.
//
// A host name that is made of an address has one address, of a dual-stack Service the IPv4 one.
func (b *Balancers) status(s *settings, addresses []string) *corev1.LoadBalancerStatus {
	mode, hostname := corev1.LoadBalancerIPModeVIP, s.hostname
	switch {
	case hostname != "" || s.proxy == "":
	case b.conf.LoadBalancer.EnableIngressHostname:
		from := addresses[0]
		if i := slices.IndexFunc(addresses, func(address string) bool { return !isIPv6(address) }); i >= 0 {
			from = addresses[i]
		}
		hostname = from + "." + b.conf.LoadBalancer.IngressHostnameSuffix
	default:
		mode = corev1.LoadBalancerIPModeProxy
	}
	if hostname != "" {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: hostname}}}
	}
	status := &corev1.LoadBalancerStatus{}
	for _, address := range addresses {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: address, IPMode: &mode})
	}
	return status
}

func isIPv6(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && parsed.Is6()
}

// familyOf is the family of an address; empty for none.
func familyOf(address string) corev1.IPFamily {
	parsed, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case parsed.Is4():
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// vipOf is the address of a family that a load balancer has itself, and its subnet; empty for none.
func vipOf(lb *loadbalancers.LoadBalancer, family corev1.IPFamily) (address, subnet string) {
	if familyOf(lb.VipAddress) == family {
		return lb.VipAddress, lb.VipSubnetID
	}
	for _, vip := range lb.AdditionalVips {
		if familyOf(vip.IPAddress) == family {
			return vip.IPAddress, vip.SubnetID
		}
	}
	return "", ""
}

// frontAddress is the address of a load balancer's own that a floating IP leads to. Of a dual-stack Service it is the
// IPv4 one.
func (s *settings) frontAddress(lb *loadbalancers.LoadBalancer) string {
	if v4, _ := vipOf(lb, corev1.IPv4Protocol); s.second != "" && v4 != "" {
		return v4
	}
	return lb.VipAddress
}

// askedFloating is the floating IP that a Service asks for. An IPv6 address that a dual-stack Service asks for is the
// load balancer's own.
func (s *settings) askedFloating() string {
	if asked := s.service.Spec.LoadBalancerIP; s.second == "" || !isIPv6(asked) {
		return asked
	}
	return ""
}

// shownAddresses are those that a Service shows, in the order of its families. One of them is known: that of its
// floating IP, or the one that such an IP would lead to.
func shownAddresses(s *settings, lb *loadbalancers.LoadBalancer, known string) (all []string) {
	own := s.frontAddress(lb)
	for _, family := range []corev1.IPFamily{s.family, s.second} {
		address, _ := vipOf(lb, family)
		if address == own {
			address = known
		}
		if address != "" && family != "" {
			all = append(all, address)
		}
	}
	if s.second == "" || len(all) == 0 {
		return []string{known}
	}
	return all
}
