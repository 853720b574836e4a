package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer"
)

// refusedFor is how long a node is refused without another look at the servers.
const refusedFor = 10 * time.Second

// addressIndex knows which addresses servers have. A kubelet may write any address into the status of its Node, and a
// load balancer would send what is for another machine there. What a look at nodes reads goes into the book, too, so
// that members mostly need no request.
type addressIndex struct {
	instances *instances
	clock     clock.PassiveClock

	mu      sync.Mutex
	listed  time.Time // when all servers were
	servers map[string]*entry
	told    map[string]string // by the name of a node: why it is refused
}

// entry is a server of the book.
type entry struct {
	name      string
	addresses map[netip.Addr]bool
}

var _ loadbalancer.Servers = (*addressIndex)(nil)

// ServerOf implements loadbalancer.Servers.
func (b *addressIndex) ServerOf(node *corev1.Node) string { return b.instances.ask(node).id }

// Refuse implements loadbalancer.Servers. It lists the servers once at most, and only where the book does not show that
// each node has what it claims.
func (b *addressIndex) Refuse(ctx context.Context, claims []loadbalancer.Claim) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused, unknown := b.refuseNodes(claims)
	if unknown || len(refused) > 0 && b.clock.Since(b.listed) >= refusedFor {
		if err := b.read(ctx, claims); err != nil {
			return nil, err
		}
		refused, _ = b.refuseNodes(claims)
	}
	b.logRefused(ctx, claims, refused)
	return refused, nil
}

// logRefused says once in the log why a node is refused.
func (b *addressIndex) logRefused(ctx context.Context, claims []loadbalancer.Claim, refused map[string]string) {
	if len(b.told) > maxNodes {
		b.told = map[string]string{}
	}
	for _, claim := range claims {
		name := claim.Node.Name
		why := refused[name]
		if why == "" {
			delete(b.told, name)
		} else if b.told[name] != why {
			b.told[name] = why
			klog.FromContext(ctx).Info("A node is no member of load balancers", "node", name, "reason", why)
		}
	}
}

// refuseNodes says why nodes are refused, and whether there are servers that the book lacks. A node whose server is not
// known keeps an address that no server has. A list may have lost a page, and nodes need not all be servers.
func (b *addressIndex) refuseNodes(claims []loadbalancer.Claim) (refused map[string]string, unknown bool) {
	refused = map[string]string{}
	for _, claim := range claims {
		address, err := netip.ParseAddr(claim.Address)
		if err != nil {
			continue
		}
		address = address.Unmap()
		question := b.instances.ask(claim.Node)
		if server := b.servers[question.id]; server != nil {
			if !server.addresses[address] {
				refused[claim.Node.Name] = fmt.Sprintf("it claims the address %s, and its server %s has none such",
					address, question.id)
			}
			continue
		}
		unknown = true
		if id := b.ownerOf(address, question.name); id != "" {
			refused[claim.Node.Name] = fmt.Sprintf("it claims the address %s, which server %s has", address, id)
		}
	}
	return refused, unknown
}

// ownerOf is the ID of a server that has an address; empty for none, and where one with that name has it.
func (b *addressIndex) ownerOf(address netip.Addr, name string) (owner string) {
	for _, id := range slices.Sorted(maps.Keys(b.servers)) {
		server := b.servers[id]
		if !server.addresses[address] {
			continue
		}
		if name != "" && strings.EqualFold(server.name, name) {
			return ""
		}
		owner = id
	}
	return owner
}

// read lists all servers. The ports are read for nodes that are refused then: Nova does not show those of trunks.
func (b *addressIndex) read(ctx context.Context, claims []loadbalancer.Claim) error {
	nova, err := b.instances.client.Compute(ctx)
	if err != nil {
		return err
	}
	all, err := listServers(ctx, nova)
	if err != nil {
		return err
	}
	b.servers, b.listed = map[string]*entry{}, b.clock.Now()
	byID := map[string]*servers.Server{}
	for i := range all {
		byID[all[i].ID] = &all[i]
		b.add(&all[i], nil)
	}
	refused, _ := b.refuseNodes(claims)
	doubtful := map[string]*servers.Server{}
	for _, claim := range claims {
		if server := byID[b.ServerOf(claim.Node)]; server != nil && refused[claim.Node.Name] != "" {
			doubtful[server.ID] = server
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	ports, err := b.instances.addresses.read(ctx, doubtful)
	if err != nil {
		return err
	}
	for _, server := range doubtful {
		b.add(server, ports[server.ID])
	}
	return nil
}

// note keeps what a look at nodes has read of their servers.
func (b *addressIndex) note(described map[string]*servers.Server, ports map[string][]port) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, server := range described {
		b.add(server, ports[server.ID])
	}
}

func (b *addressIndex) add(server *servers.Server, ports []port) {
	e := &entry{name: server.Name, addresses: map[netip.Addr]bool{}}
	add := func(text string) {
		if address, err := netip.ParseAddr(text); err == nil {
			e.addresses[address.Unmap()] = true
		}
	}
	add(server.AccessIPv4)
	add(server.AccessIPv6)
	byNetwork, err := novaAddresses(server)
	if err != nil {
		klog.ErrorS(err, "A server's addresses are not known; its node is no member of load balancers", "server", server.ID)
	}
	for _, addresses := range byNetwork {
		for _, address := range addresses {
			add(address.Addr)
		}
	}
	for _, p := range ports {
		for _, fixed := range p.FixedIPs {
			add(fixed.IPAddress)
		}
	}
	b.servers[server.ID] = e
}
