package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// makeBridge makes the cluster's network unless it is there. An address that belongs to something else on this machine
// is refused.
func (c *Cluster) makeBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(c.bridge()); err == nil {
		return nil
	}
	if err := c.subnetFree(); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"ip", "link", "add", c.bridge(), "type", "bridge"},
		{"ip", "addr", "add", c.address(1) + "/24", "dev", c.bridge()},
		{"ip", "link", "set", c.bridge(), "up"},
	} {
		if err := run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// subnetFree reports whether no interface of the machine has an address in the cluster's subnet.
func (c *Cluster) subnetFree() error {
	_, subnet, err := net.ParseCIDR(c.Subnet)
	if err != nil {
		return fmt.Errorf("reading subnet: %w", err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && subnet.Contains(n.IP) {
				return fmt.Errorf("subnet %s is in use: %s has %s; choose another subnet", c.Subnet, i.Name, n.IP)
			}
		}
	}
	return nil
}

// removeLink removes a network interface of this machine, if there is one.
func removeLink(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	err := run(ctx, "ip", "link", "del", name)
	if _, missing := net.InterfaceByName(name); missing != nil {
		return nil //nolint:nilerr // it went with its other end meanwhile
	}
	return err
}

// vpcOf is the /16 around a subnet, which the simulated account takes for its network.
func vpcOf(subnet string) string {
	p := netip.MustParsePrefix(subnet) // checked by withDefaults
	return netip.PrefixFrom(p.Addr(), 16).Masked().String()
}

var errNotReady = errors.New("not ready yet")
