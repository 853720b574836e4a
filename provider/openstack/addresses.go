package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunk_details"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// port is a Neutron port with what extensions add to it.
type port struct {
	ports.Port
	portsecurity.PortSecurityExt
	trunk_details.TrunkDetailsExt
}

// addressing decides which addresses a node gets, and in which order. The order is that of the external provider, so
// that a node's first InternalIP does not change with the manager.
//
//	addresses of ACTIVE ports, by port ID    InternalIP
//	the server's access addresses            ExternalIP
//	its metadata key hostname                Hostname
//	floating IPs, public-network-name        ExternalIP
//	other networks, by name                  InternalIP, unless internal-network-name leaves them out
type addressing struct {
	client *client.Client
	conf   cloudconf.Networking
	order  []netip.Prefix
}

// metadataHostname is the key of a server's metadata that gives a node its Hostname.
const metadataHostname = "hostname"

// read lists the ports of servers, by server: those of one server, or all of the project.
func (a addressing) read(ctx context.Context, of map[string]*servers.Server) (map[string][]port, error) {
	neutron, err := a.client.Network(ctx)
	if err != nil {
		return nil, err
	}
	options := ports.ListOpts{}
	if len(of) == 1 {
		for id := range of {
			options.DeviceID = id
		}
	} else if options.ProjectID, err = a.client.Project(ctx); err != nil {
		return nil, err
	}
	all, err := listPorts(ctx, neutron, options)
	if err != nil {
		return nil, fmt.Errorf("listing the ports of servers: %w", err)
	}
	byServer := map[string][]port{}
	var subports []string
	for _, p := range all {
		if of[p.DeviceID] == nil {
			continue
		}
		byServer[p.DeviceID] = append(byServer[p.DeviceID], p)
		for _, sub := range p.SubPorts {
			subports = append(subports, sub.PortID)
		}
	}
	for id := range byServer {
		slices.SortFunc(byServer[id], func(a, b port) int { return strings.Compare(a.ID, b.ID) })
	}
	if len(subports) > 0 {
		if err := a.nameSubports(ctx, neutron, all, of); err != nil {
			return nil, err
		}
	}
	return byServer, nil
}

// nameSubports puts the addresses of trunk ports' subports next to the server's own, under the names of their networks.
func (a addressing) nameSubports(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	all []port,
	of map[string]*servers.Server,
) error {
	listed, err := client.List(
		ctx, "listing the networks of trunks", networks.List(neutron, networks.ListOpts{}), networks.ExtractNetworks)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, network := range listed {
		names[network.ID] = network.Name
	}
	byID := map[string]port{}
	for _, p := range all {
		byID[p.ID] = p
	}
	for _, trunk := range all {
		server := of[trunk.DeviceID]
		if server == nil {
			continue
		}
		for _, sub := range trunk.SubPorts {
			p, ok := byID[sub.PortID]
			if !ok {
				if p, err = getPort(ctx, neutron, sub.PortID); err != nil {
					return err
				}
			}
			for _, fixed := range p.FixedIPs {
				addAddress(server, names[p.NetworkID], fixed.IPAddress)
			}
		}
	}
	return nil
}

func addAddress(server *servers.Server, network, address string) {
	if server.Addresses == nil {
		server.Addresses = map[string]any{}
	}
	list, _ := server.Addresses[network].([]any)
	server.Addresses[network] = append(list, map[string]any{"OS-EXT-IPS:type": "fixed", "addr": address})
}

func listPorts(ctx context.Context, neutron *gophercloud.ServiceClient, options ports.ListOpts) ([]port, error) {
	pages, err := ports.List(neutron, options).AllPages(ctx)
	if err != nil {
		return nil, client.Explain(err)
	}
	var all []port
	if err := ports.ExtractPortsInto(pages, &all); err != nil {
		return nil, err
	}
	return all, nil
}

func getPort(ctx context.Context, neutron *gophercloud.ServiceClient, id string) (port, error) {
	var p port
	if err := ports.Get(ctx, neutron, id).ExtractInto(&p); err != nil {
		return port{}, fmt.Errorf("reading port %s: %w", id, client.Explain(err))
	}
	return p, nil
}

// novaAddress is an address as Nova shows it.
type novaAddress struct {
	Type string `json:"OS-EXT-IPS:type"`
	Addr string `json:"addr"`
}

// addressesOf are the addresses of a server's node. A server without any is an error: a node that was initialised
// without addresses would stay without them until the next period.
func (a addressing) addressesOf(server *servers.Server, byServer map[string][]port) ([]corev1.NodeAddress, error) {
	var list addressList
	for _, p := range byServer[server.ID] {
		for _, fixed := range p.FixedIPs {
			if p.Status == "ACTIVE" && a.wants(fixed.IPAddress) {
				list.add(corev1.NodeInternalIP, fixed.IPAddress)
			}
		}
	}
	for _, access := range []string{server.AccessIPv4, server.AccessIPv6} {
		if access != "" && a.wants(access) {
			list.add(corev1.NodeExternalIP, access)
		}
	}
	if name := server.Metadata[metadataHostname]; name != "" {
		list.add(corev1.NodeHostName, name)
	}
	byNetwork, err := novaAddresses(server)
	if err != nil {
		return nil, err
	}
	for _, network := range slices.Sorted(maps.Keys(byNetwork)) {
		for _, address := range byNetwork[network] {
			a.addNova(&list, network, address)
		}
	}
	if !slices.ContainsFunc(list, func(n corev1.NodeAddress) bool { return n.Type != corev1.NodeHostName }) {
		return nil, fmt.Errorf("server %s (%s, %s) has no address: none of its %d ports is ACTIVE, and Nova names none. "+
			"Attach a port to it, and check [Networking] in the cloud config",
			server.ID, server.Name, server.Status, len(byServer[server.ID]))
	}
	if len(a.order) > 0 {
		list.sort(a.order)
	}
	return list, nil
}

func novaAddresses(server *servers.Server) (map[string][]novaAddress, error) {
	raw, err := json.Marshal(server.Addresses)
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of server %s: %w", server.ID, err)
	}
	var byNetwork map[string][]novaAddress
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&byNetwork); err != nil {
		return nil, fmt.Errorf("reading the addresses of server %s: %w", server.ID, err)
	}
	return byNetwork, nil
}

// addNova adds an address that Nova shows. One of a network that the config calls public is no InternalIP as well.
func (a addressing) addNova(list *addressList, network string, address novaAddress) {
	kind := corev1.NodeInternalIP
	switch {
	case address.Type == "floating":
		kind = corev1.NodeExternalIP
	case slices.Contains(a.conf.PublicNetworkName, network):
		kind = corev1.NodeExternalIP
		list.remove(address.Addr)
	case len(a.conf.InternalNetworkName) > 0 && !slices.Contains(a.conf.InternalNetworkName, network):
		list.remove(address.Addr)
		return
	}
	if a.wants(address.Addr) {
		list.add(kind, address.Addr)
	}
}

// wants reports whether nodes get this address.
func (a addressing) wants(address string) bool {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		klog.V(2).InfoS("OpenStack gave an address that is none", "address", address)
		return false
	}
	return !a.conf.IPv6SupportDisabled || parsed.Unmap().Is4()
}

type addressList []corev1.NodeAddress

func (l *addressList) add(kind corev1.NodeAddressType, address string) {
	if added := (corev1.NodeAddress{Type: kind, Address: address}); !slices.Contains(*l, added) {
		*l = append(*l, added)
	}
}

func (l *addressList) remove(address string) {
	*l = slices.DeleteFunc(*l, func(n corev1.NodeAddress) bool { return n.Address == address })
}

// sort puts addresses of the first CIDR first, ascending within a CIDR; those of none stay behind, in their order.
func (l *addressList) sort(order []netip.Prefix) {
	rank := func(n corev1.NodeAddress) (int, netip.Addr) {
		address, err := netip.ParseAddr(n.Address)
		if err != nil {
			return len(order), netip.Addr{}
		}
		i := slices.IndexFunc(order, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
		if i < 0 {
			return len(order), netip.Addr{}
		}
		return i, address
	}
	slices.SortStableFunc(*l, func(x, y corev1.NodeAddress) int {
		i, a := rank(x)
		j, b := rank(y)
		if i != j {
			return i - j
		}
		return a.Compare(b)
	})
}
