// Package vipport decides whether a load balancer may have a port that a Service names. Who may write a Service would
// take the address of a server, of a router or of a virtual IP otherwise.
package vipport

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// Check refuses a port unless it was prepared for a load balancer of the project and is free. Its floating IP may have
// any description but one that isTaken refuses.
func Check(ctx context.Context, c *client.Client, id string, isTaken func(description string) bool) error {
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
		return fmt.Errorf("port %s is in use (device %q, owner %q): name a port that nothing uses", id, port.DeviceID, port.DeviceOwner)
	}
	if err := notVirtual(ctx, neutron, port); err != nil {
		return err
	}
	return notTaken(ctx, neutron, port, isTaken)
}

// notVirtual refuses a port whose address others answer for. Keepalived's virtual IPs are ports without a device, and
// the servers' ports allow their addresses.
func notVirtual(ctx context.Context, neutron *gophercloud.ServiceClient, port *ports.Port) error {
	if len(port.FixedIPs) == 0 {
		return fmt.Errorf("port %s has no address", port.ID)
	}
	all, err := client.List(ctx, "listing the ports of network "+port.NetworkID,
		ports.List(neutron, ports.ListOpts{NetworkID: port.NetworkID}), ports.ExtractPorts)
	if err != nil {
		return err
	}
	for _, other := range all {
		for _, pair := range other.AllowedAddressPairs {
			for _, fixed := range port.FixedIPs {
				if other.ID != port.ID && covers(pair.IPAddress, fixed.IPAddress) {
					return fmt.Errorf("address %s of port %s is one that port %s may answer for (allowed address pair %s): "+
						"name a port that nothing uses", fixed.IPAddress, port.ID, other.ID, pair.IPAddress)
				}
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

func notTaken(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	port *ports.Port,
	isTaken func(description string) bool,
) error {
	ips, err := client.List(ctx, "listing the floating IPs of port "+port.ID,
		floatingips.List(neutron, floatingips.ListOpts{PortID: port.ID}), floatingips.ExtractFloatingIPs)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if isTaken(ip.Description) {
			return fmt.Errorf("floating IP %s of port %s was made for another namespace or cluster (%q)",
				ip.FloatingIP, port.ID, ip.Description)
		}
	}
	return nil
}
