// Package vipport decides whether a load balancer may have a port that a Service names. The author of a Service
// would take the address of a server, of a router or of a virtual IP otherwise.
package vipport

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

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
		return fmt.Errorf("port %s is in use (device %q, owner %q): name a port that nothing uses",
			id, port.DeviceID, port.DeviceOwner)
	}
	return notVirtual(ctx, neutron, port)
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
		if other.ID == port.ID {
			continue
		}
		for _, pair := range other.AllowedAddressPairs {
			i := slices.IndexFunc(port.FixedIPs, func(ip ports.IP) bool { return covers(pair.IPAddress, ip.IPAddress) })
			if i >= 0 {
				return fmt.Errorf("address %s of port %s is one that port %s may answer for (allowed address pair %s): "+
					"name a port that nothing uses", port.FixedIPs[i].IPAddress, port.ID, other.ID, pair.IPAddress)
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
