package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer/vipport"
)

// create makes a load balancer with all that is below it. Where trees are not taken, what is below comes with changes.
func (b *Balancers) create(ctx context.Context, o octavia, s *settings, nodes []*corev1.Node, targets []target) error {
	if err := b.leaveOthers(ctx, o, s, ""); err != nil {
		return err
	}
	if s.port != "" {
		if err := s.checkPort(ctx, b.client); err != nil {
			return fmt.Errorf("annotation %sport-id: %w", prefix, err)
		}
	}
	at := place{b, s, nodes}
	if err := at.choose(ctx); err != nil {
		return err
	}
	other, err := at.chooseSecond(ctx, o)
	if err != nil {
		return err
	}
	if err := checkAddress(ctx, b.client, s, s.ownAddress(s.family), s.subnet.value); err != nil {
		return err
	}
	body := s.create(o.features)
	if other != nil {
		if err := checkAddress(ctx, b.client, s, other.address, other.subnet); err != nil {
			return err
		}
		body["additional_vips"] = []object{other.create()}
		targets = slices.Concat(targets, other.targets)
	}
	body["provider"] = b.conf.LoadBalancer.LBProvider
	if !o.serial && !b.isStepwise() {
		subnet := s.memberSubnet.or(s.subnet)
		body["listeners"] = wanted(s, s.name, subnet.value, false, targets, o.features).create()
	}
	made := ""
	err = o.sendChange(ctx, change{
		method: http.MethodPost, path: "loadbalancers", kind: "loadbalancer", body: body, apply: func(id string) { made = id },
	})
	if err != nil {
		return fmt.Errorf("making load balancer %s: %w", s.name, s.explain(err))
	}
	b.memory.setID(s.service.UID, made)
	after, _ := b.memory.entry(made).wait(b.now())
	klog.FromContext(ctx).Info("A load balancer is being made", "service", klog.KObj(s.service), "loadBalancer", made)
	return cloudapi.NewRetryError(fmt.Sprintf("load balancer %s (%s) is being made", s.name, made), after)
}

// second is the other address of a new load balancer for a dual-stack Service, and the members behind it.
type second struct {
	subnet, address string // no address for any of the subnet's
	targets         []target
}

func (s second) create() object {
	vip := object{"subnet_id": s.subnet}
	if s.address != "" {
		vip["ip_address"] = s.address
	}
	return vip
}

// chooseSecond finds where the second address of a new load balancer is; nil for none. A Service that requires both
// gets no load balancer with one: Octavia adds no address later.
func (p place) chooseSecond(ctx context.Context, o octavia) (*second, error) {
	s := p.s
	if s.second == "" {
		return nil, nil
	}
	made, lacks, err := p.findSecond(ctx, o)
	switch {
	case err != nil:
		return nil, err
	case lacks == "":
		return made, nil
	case s.required:
		return nil, fmt.Errorf("service %s/%s requires an address of each family, and %s", s.service.Namespace,
			s.service.Name, lacks)
	}
	p.b.notices.send(ctx, s.service, p.b.now(), "The load balancer gets no address of family "+string(s.second)+": "+lacks)
	return nil, nil
}

// findSecond finds the subnet and the members of the second address. What they lack says what to do about it.
func (p place) findSecond(ctx context.Context, o octavia) (made *second, lacks string, err error) {
	s := p.s
	switch {
	case !o.supportsSecondAddress():
		return nil, o.lacksSecondAddress(), nil
	case s.port != "":
		return nil, "the port of annotation " + prefix + "port-id has one address for it: remove the annotation", nil
	}
	made = &second{address: s.ownAddress(s.second)}
	if made.targets, lacks, err = p.secondTargets(ctx); err != nil || lacks != "" {
		return nil, lacks, err
	}
	neutron, err := p.b.client.Network(ctx)
	if err != nil {
		return nil, "", err
	}
	network, err := p.network(ctx, neutron)
	if err != nil {
		return nil, "", err
	}
	if s.subnet.value == "" && s.family == corev1.IPv6Protocol { // Octavia would choose one of IPv4
		first, lacks, err := p.subnetIn(ctx, neutron, s.family, network)
		if err != nil || lacks != "" {
			return nil, lacks, err
		}
		s.subnet = sourced{first, "the network " + network}
	}
	if made.subnet = s.secondSubnet; made.subnet == "" {
		if made.subnet, lacks, err = p.subnetIn(ctx, neutron, s.second, network); err != nil || lacks != "" {
			return nil, lacks, err
		}
	}
	for i := range made.targets {
		made.targets[i].subnet = made.subnet
	}
	return made, "", nil
}

// secondTargets are the members by the second family, or what they lack.
func (p place) secondTargets(ctx context.Context) (targets []target, lacks string, err error) {
	targets, err = p.b.secondMembers(ctx, p.s, p.nodes, "")
	claimed := (*falseClaimsError)(nil)
	switch {
	case errors.As(err, &claimed):
		return nil, fmt.Sprintf("no node has an address of its own of family %s (%s): correct them, or %s",
			p.s.second, claimed, single), nil
	case err == nil && len(targets) == 0:
		return nil, fmt.Sprintf("no node has an address of family %s: give the nodes some, or %s", p.s.second, single), nil
	}
	return targets, "", err
}

// checkAddress refuses an address of the load balancer's own that something else may answer for.
func checkAddress(ctx context.Context, c *client.Client, s *settings, address, subnet string) error {
	if address == "" || s.port != "" {
		return nil
	}
	if err := vipport.CheckAddress(ctx, c, s.network.value, subnet, address); err != nil {
		return fmt.Errorf("spec.loadBalancerIP: %w", err)
	}
	return nil
}

// ownAddress is the address that a Service asks for and a load balancer has itself, of a family that it has. Others are
// those of floating IPs.
func (s *settings) ownAddress(family corev1.IPFamily) string {
	asked := s.service.Spec.LoadBalancerIP
	if s.second != "" && familyOf(asked) != family {
		return ""
	}
	if s.internal || family == corev1.IPv6Protocol {
		return asked
	}
	return ""
}

// create is a new load balancer without what is below it.
func (s *settings) create(f features) object {
	body := object{
		"name": s.name,
		"description": cut(fmt.Sprintf("Kubernetes external service %s/%s from cluster %s",
			s.service.Namespace, s.service.Name, s.clusters[0])),
	}
	set := func(field, value string, can bool) {
		if value != "" && can {
			body[field] = value
		}
	}
	set("vip_port_id", s.port, true)
	set("vip_subnet_id", s.subnet.value, s.port == "")
	set("vip_network_id", s.network.value, s.port == "")
	set("vip_address", s.ownAddress(s.family), true)
	set("flavor_id", s.flavor, f.supportsFlavors())
	set("availability_zone", s.zone, f.supportsZones())
	if f.supportsTags() {
		body["tags"] = []string{s.name}
	}
	return body
}
