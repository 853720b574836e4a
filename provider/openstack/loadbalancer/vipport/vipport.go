// Package vipport decides whether a load balancer may have a port, or an address, that a Service names. The author of a
// Service would take the address of a server, of a router or of a virtual IP otherwise.
package vipport

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// Check refuses a port unless it was prepared for a load balancer of the project and is free.
func Check(ctx context.Context, c *client.Client, id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return fmt.Errorf("%q is no ID of a port", id)
	}
	neutron, err := c.Network(ctx)
	if err != nil {
		return err
	}
	project, err := c.Project(ctx)
	if err != nil {
		return err
	}
	port, err := ports.Get(ctx, neutron, id).Extract()
	switch {
	case client.NotFound(err), err == nil && port.ProjectID != project:
		return fmt.Errorf("the project has no port %s", id)
	case err != nil:
		return fmt.Errorf("reading port %s: %w", id, client.Explain(err))
	case port.DeviceID != "" || port.DeviceOwner != "":
		klog.FromContext(ctx).Info("A Service names a port that is in use", "port", id, "device", port.DeviceID, "owner", port.DeviceOwner)
		return fmt.Errorf("port %s is in use: name a port that nothing uses", id)
	}
	return notVirtual(ctx, neutron, port)
}

// CheckAddress refuses an address that others in a network answer for. The virtual IP of a control plane may have no
// port of its own, nor has a gateway that is no router of Neutron. Neutron would give both away, and a load balancer at
// a gateway's address takes what all nodes send. The network is that of the subnet where it is empty.
func CheckAddress(ctx context.Context, c *client.Client, network, subnet, address string) error {
	if _, err := netip.ParseAddr(address); err != nil {
		return fmt.Errorf("%q is no IP address", address)
	}
	neutron, err := c.Network(ctx)
	if err != nil {
		return err
	}
	if network == "" {
		in, err := subnets.Get(ctx, neutron, subnet).Extract()
		if err != nil {
			return fmt.Errorf("reading subnet %s: %w", subnet, client.Explain(err))
		}
		network = in.NetworkID
	}
	return areFree(ctx, neutron, network, "", []string{address})
}

// notVirtual refuses a port whose address others answer for. Keepalived's virtual IPs are ports without a device, and
// the servers' ports allow their addresses.
func notVirtual(ctx context.Context, neutron *gophercloud.ServiceClient, port *ports.Port) error {
	if len(port.FixedIPs) == 0 {
		return fmt.Errorf("port %s has no address", port.ID)
	}
	var addresses []string
	for _, ip := range port.FixedIPs {
		addresses = append(addresses, ip.IPAddress)
	}
	if err := areFree(ctx, neutron, port.NetworkID, port.ID, addresses); err != nil {
		return fmt.Errorf("port %s: %w", port.ID, err)
	}
	return nil
}

// areFree refuses addresses that ports of a network, but for one, may answer for, and those of its gateways.
func areFree(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	network, except string,
	addresses []string,
) error {
	if err := notGateways(ctx, neutron, network, addresses); err != nil {
		return err
	}
	return notAnswered(ctx, neutron, network, except, addresses)
}

// notGateways refuses addresses that are gateways of a network.
func notGateways(ctx context.Context, neutron *gophercloud.ServiceClient, network string, addresses []string) error {
	in, err := client.List(ctx, "listing the subnets of network "+network,
		subnets.List(neutron, subnets.ListOpts{NetworkID: network}), subnets.ExtractSubnets)
	if err != nil {
		return err
	}
	for _, subnet := range in {
		if slices.ContainsFunc(addresses, func(address string) bool { return covers(subnet.GatewayIP, address) }) {
			return fmt.Errorf("address %s is the gateway of a subnet: name one that nothing uses", subnet.GatewayIP)
		}
	}
	return nil
}

// notAnswered refuses addresses that ports of a network, but for one, are allowed to answer for. The author of the
// Service is told no more than that, and the log has the rest.
func notAnswered(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	network, except string,
	addresses []string,
) error {
	all, err := client.List(ctx, "listing the ports of network "+network,
		ports.List(neutron, ports.ListOpts{NetworkID: network}), ports.ExtractPorts)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.ID == except {
			continue
		}
		for _, pair := range other.AllowedAddressPairs {
			i := slices.IndexFunc(addresses, func(address string) bool { return covers(pair.IPAddress, address) })
			if i >= 0 {
				klog.FromContext(ctx).Info("A Service names an address that others may answer for",
					"address", addresses[i], "port", other.ID, "pair", pair.IPAddress)
				return fmt.Errorf("address %s is one that another port may answer for (allowed address pairs): "+
					"name one that nothing uses", addresses[i])
			}
		}
	}
	return nil
}

// covers reports whether an allowed address pair, an address or a CIDR, has an address. The whole range says that a
// port may send under any address, as that of a router of pods does. It is no claim to this one.
func covers(pair, address string) bool {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return pair == address
	}
	if prefix, err := netip.ParsePrefix(pair); err == nil {
		return prefix.Bits() > 0 && prefix.Contains(parsed)
	}
	one, err := netip.ParseAddr(pair)
	return err == nil && one == parsed
}
