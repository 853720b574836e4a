package loadbalancer

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

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
	if err := b.choosePlace(ctx, s, nodes); err != nil {
		return err
	}
	if address := s.ownAddress(); address != "" && s.port == "" {
		if err := vipport.CheckAddress(ctx, b.client, s.network.value, s.subnet.value, address); err != nil {
			return fmt.Errorf("spec.loadBalancerIP: %w", err)
		}
	}
	body := s.create(o.features)
	body["provider"] = b.conf.LoadBalancer.LBProvider
	if !o.serial && !b.isStepwise() {
		subnet := s.memberSubnet.or(s.subnet)
		body["listeners"] = wanted(s, s.name, subnet.value, false, targets, o.features).create()
	}
	made := ""
	err := o.sendChange(ctx, change{
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

// ownAddress is the address that a Service asks for and a load balancer has itself. Others are those of floating IPs.
func (s *settings) ownAddress() string {
	if s.internal || s.family == corev1.IPv6Protocol {
		return s.service.Spec.LoadBalancerIP
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
	set("vip_address", s.ownAddress(), true)
	set("flavor_id", s.flavor, f.supportsFlavors())
	set("availability_zone", s.zone, f.supportsZones())
	if f.supportsTags() {
		body["tags"] = []string{s.name}
	}
	return body
}
