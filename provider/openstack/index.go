package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer"
)

// refusedFor is how long a list of servers is enough for nodes that are refused, and for those whose server it lacks.
const refusedFor = 10 * time.Second

// addressIndex knows which addresses servers have. A kubelet may write any address into the status of its Node, and a
// load balancer would send what is for another machine there. What a look at nodes reads goes into the index, too, so
// that members mostly need no request.
type addressIndex struct {
	instances *instances
	clock     clock.PassiveClock
	listing   *semaphore.Weighted // of the one look that lists servers; the others wait as long as their contexts last

	mu      sync.Mutex
	listed  time.Time // when all servers were
	servers entries
	missing map[string]bool   // by keyOf: nodes for which a list was made that had no server of theirs
	told    map[string]string // by the name of a node: why it is refused
}

func newAddressIndex(of *instances, clock clock.PassiveClock) *addressIndex {
	return &addressIndex{
		instances: of, clock: clock, listing: semaphore.NewWeighted(1),
		servers: entries{}, missing: map[string]bool{}, told: map[string]string{},
	}
}

// entries are servers by ID.
type entries map[string]*entry

// entry is a server of the book.
type entry struct {
	name      string
	addresses map[netip.Addr]bool
}

var _ loadbalancer.Servers = (*addressIndex)(nil)

// ServerOf implements loadbalancer.Servers.
func (x *addressIndex) ServerOf(node *corev1.Node) string { return x.instances.queryFor(node).id }

// Refuse implements loadbalancer.Servers. It lists the servers once at most, and only where the book does not show that
// each node has what it claims. A Node may be without a server for good: it causes no list with each look.
func (x *addressIndex) Refuse(ctx context.Context, claims []loadbalancer.Claim) (map[string]string, error) {
	refused, enough := x.judge(claims)
	if !enough {
		if err := x.listing.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("waiting for the list of servers that another look reads: %w", err)
		}
		defer x.listing.Release(1)
		if refused, enough = x.judge(claims); !enough { // what the other has read may be enough
			if err := x.read(ctx, claims); err != nil {
				return nil, err
			}
			refused, _ = x.judge(claims)
		}
	}
	x.logRefused(ctx, claims, refused)
	return refused, nil
}

// judge says by the book why nodes are refused, and whether the book is enough for that. It is not for a node that no
// list was made for yet. When it is old, it is enough only where each node has what it claims.
func (x *addressIndex) judge(claims []loadbalancer.Claim) (refused map[string]string, enough bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	refused, unknown := x.servers.refuseClaims(claims, x.instances.queryFor)
	if slices.ContainsFunc(unknown, func(key string) bool { return !x.missing[key] }) {
		return refused, false
	}
	return refused, len(refused)+len(unknown) == 0 || x.clock.Since(x.listed) < refusedFor
}

// logRefused says once in the log why a node is refused.
func (x *addressIndex) logRefused(ctx context.Context, claims []loadbalancer.Claim, refused map[string]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.told) > maxNodes {
		x.told = map[string]string{}
	}
	for _, claim := range claims {
		name := claim.Node.Name
		why := refused[name]
		if why == "" {
			delete(x.told, name)
		} else if x.told[name] != why {
			x.told[name] = why
			klog.FromContext(ctx).Info("A node is no member of load balancers", "node", name, "reason", why)
		}
	}
}

// refuseClaims says why nodes are refused, and which have no server here (by keyOf). A node whose server is not known
// keeps an address that no server has. A list may have lost a page, and nodes need not all be servers.
func (e entries) refuseClaims(
	claims []loadbalancer.Claim,
	ask func(*corev1.Node) asked,
) (refused map[string]string, unknown []string) {
	refused = map[string]string{}
	for _, claim := range claims {
		address, err := netip.ParseAddr(claim.Address)
		if err != nil {
			continue
		}
		address = address.Unmap()
		question := ask(claim.Node)
		if server := e[question.id]; server != nil {
			if !server.addresses[address] {
				refused[claim.Node.Name] = fmt.Sprintf("it claims the address %s, and its server %s has none such",
					address, question.id)
			}
			continue
		}
		unknown = append(unknown, keyOf(claim.Node, question))
		if id := e.ownerOf(address, question.name); id != "" {
			refused[claim.Node.Name] = fmt.Sprintf("it claims the address %s, which server %s has", address, id)
		}
	}
	return refused, unknown
}

// keyOf is what a node's server is looked for by: its ID, or the node's name, or a providerID that is of no server.
func keyOf(node *corev1.Node, question asked) string {
	return cmp.Or(question.id, question.name, node.Spec.ProviderID)
}

// ownerOf is the ID of a server that has an address; empty for none, and where one with that name has it.
func (e entries) ownerOf(address netip.Addr, name string) (owner string) {
	for _, id := range slices.Sorted(maps.Keys(e)) {
		server := e[id]
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

// read lists all servers. The ports are read for nodes that are refused then: Nova does not show those of trunks. Other
// looks go by the old book until the new one is whole.
func (x *addressIndex) read(ctx context.Context, claims []loadbalancer.Claim) error {
	nova, err := x.instances.client.Compute(ctx)
	if err != nil {
		return err
	}
	all, err := listServers(ctx, nova)
	if err != nil {
		return err
	}
	read, listed, byID := entries{}, x.clock.Now(), map[string]*servers.Server{}
	for i := range all {
		byID[all[i].ID] = &all[i]
		read.add(&all[i], nil)
	}
	refused, unknown := read.refuseClaims(claims, x.instances.queryFor)
	doubtful := map[string]*servers.Server{}
	for _, claim := range claims {
		if server := byID[x.ServerOf(claim.Node)]; server != nil && refused[claim.Node.Name] != "" {
			doubtful[server.ID] = server
		}
	}
	if len(doubtful) > 0 {
		ports, err := x.instances.addresses.read(ctx, doubtful)
		if err != nil {
			return err
		}
		for _, server := range doubtful {
			read.add(server, ports[server.ID])
		}
	}
	x.replace(read, listed, unknown)
	return nil
}

// replace has a list in place of the book, and remembers which nodes' servers it lacks.
func (x *addressIndex) replace(read entries, listed time.Time, unknown []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.servers, x.listed = read, listed
	if len(x.missing) > maxNodes {
		x.missing = map[string]bool{}
	}
	for _, key := range unknown {
		x.missing[key] = true
	}
}

// addServers keeps what a look at nodes has read of their servers.
func (x *addressIndex) addServers(described map[string]*servers.Server, ports map[string][]port) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, server := range described {
		x.servers.add(server, ports[server.ID])
	}
}

func (e entries) add(server *servers.Server, ports []port) {
	one := &entry{name: server.Name, addresses: map[netip.Addr]bool{}}
	add := func(text string) {
		if address, err := netip.ParseAddr(text); err == nil {
			one.addresses[address.Unmap()] = true
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
	e[server.ID] = one
}
