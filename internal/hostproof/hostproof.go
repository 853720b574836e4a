// Package hostproof decides whether a host whose Node is labelled as control plane is one. The label can be set by
// accounts that may patch Nodes. On a worker these are more than its kubelet: a storage driver's DaemonSet may do so.
// So the addresses count too that the API servers write into the EndpointSlice of the Service kubernetes themselves.
package hostproof

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Namespace and Slice name the EndpointSlice that the API servers write.
const (
	Namespace = "default"
	Slice     = "kubernetes"
)

// Flag is the flag by which an operator names hosts of the control plane.
const Flag = "control-plane-hosts"

// Result is what is known of a host whose Node is labelled as control plane.
type Result int

const (
	// LabelAlone is a host of a cluster in which no Node has the address of an API server. That of a load balancer may
	// be announced, or none; or an account that may patch the status of Nodes has taken their addresses away.
	LabelAlone Result = iota
	// Named is such a host whose name the operator gave.
	Named
	// Proven is a host whose Node alone has the address of an API server.
	Proven
	// Shared is a host that has the address of an API server together with another Node.
	Shared
	// Elsewhere is a host at whose addresses no API server is, while other Nodes have those of API servers.
	Elsewhere
)

// Evidence is which Nodes have which addresses, and which of these the API servers have.
type Evidence struct {
	// addresses are the internal ones of each Node, holders the Nodes that have each address of an API server.
	addresses map[string][]string
	holders   map[string][]string
	servers   []string
	named     []string
}

// New returns the evidence of the API servers' addresses, without any Node.
func New(servers []string) *Evidence {
	e := &Evidence{addresses: map[string][]string{}, holders: map[string][]string{}}
	for _, s := range servers {
		e.servers = append(e.servers, normal(s))
	}
	return e
}

// Name adds the hosts that the operator says are of the control plane. It counts where there is no other proof.
func (e *Evidence) Name(hosts ...string) { e.named = append(e.named, hosts...) }

// OfSnapshot returns the evidence that a snapshot has.
func OfSnapshot(snap *v1.Snapshot) *Evidence {
	e := New(snap.APIServers)
	e.Name(snap.NamedHosts...)
	for _, n := range snap.Nodes {
		var ips []string
		for _, a := range n.Addresses {
			if ip, is := strings.CutPrefix(a, "InternalIP="); is {
				ips = append(ips, ip)
			}
		}
		e.AddNode(n.Name, ips)
	}
	return e
}

// AddNode adds a Node with its internal addresses.
func (e *Evidence) AddNode(name string, internalIPs []string) {
	for _, ip := range internalIPs {
		ip = normal(ip)
		if slices.Contains(e.addresses[name], ip) {
			continue
		}
		e.addresses[name] = append(e.addresses[name], ip)
		if slices.Contains(e.servers, ip) {
			e.holders[ip] = append(e.holders[ip], name)
			slices.Sort(e.holders[ip])
		}
	}
}

// normal is an address in its one shortest form, so that two ways to write it are equal.
func normal(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return ip.Unmap().WithZone("").String()
}

// Judge returns what is known of the host whose Node has this name and is labelled as control plane. A kubelet sets the
// addresses of its own Node, so one that two Nodes have proves neither. A Node without the label counts as the place of
// an API server as well. Else it would be enough to take the label from the others.
func (e *Evidence) Judge(node string) Result {
	result := LabelAlone
	switch {
	case len(e.holders) > 0:
		result = Elsewhere
	case slices.Contains(e.named, node):
		result = Named
	}
	for _, holders := range e.holders {
		if !slices.Contains(holders, node) {
			continue
		}
		if len(holders) > 1 {
			return Shared
		}
		result = Proven
	}
	return result
}

// SharedAddress is an address of an API server that several Nodes have.
type SharedAddress struct {
	Address string
	// Nodes is sorted.
	Nodes []string
}

// Shared returns the addresses of API servers that several Nodes have, sorted.
func (e *Evidence) Shared() []SharedAddress {
	var out []SharedAddress
	for address, nodes := range e.holders {
		if len(nodes) > 1 {
			out = append(out, SharedAddress{address, nodes})
		}
	}
	slices.SortFunc(out, func(a, b SharedAddress) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// IsLabelled reports whether a host of a snapshot is taken for the control plane by the label of the Node with its
// name. Without the label, nothing of the control plane is kept of it.
func IsLabelled(snap *v1.Snapshot, h v1.Host) bool {
	return h.ControlPlane && !h.APIOnly &&
		slices.ContainsFunc(snap.Nodes, func(n v1.Node) bool { return n.Name == h.Name })
}

// WhyNot says why a host of a snapshot is not taken for the control plane although its Node is labelled; empty where
// it is.
func (e *Evidence) WhyNot(snap *v1.Snapshot, h v1.Host) string {
	if !IsLabelled(snap, h) {
		return ""
	}
	return e.Why(h.Name)
}

// String says what is wrong: two Nodes cannot both be the machine with the address.
func (s SharedAddress) String() string {
	return fmt.Sprintf(
		"Nodes %s all have the address %s of an API server: delete those that are left over, "+
			"and find out who set it on a Node whose machine has another",
		strings.Join(s.Nodes, ", "),
		s.Address,
	)
}

// Why says why a host is not taken for the control plane although its Node is labelled, and what to do; empty where it
// is.
func (e *Evidence) Why(node string) string {
	switch e.Judge(node) {
	case Shared:
		for _, s := range e.Shared() {
			if slices.Contains(s.Nodes, node) {
				return s.String()
			}
		}
	case Elsewhere:
		return fmt.Sprintf(
			"Node %[1]s is labelled as control plane, and no API server announces one of its addresses (%[2]s), only %[3]s: "+
				"if it is, start its kube-apiserver with its Node's address as --advertise-address; "+
				"else take the label away (kubectl label node %[1]s node-role.kubernetes.io/control-plane- "+
				"node-role.kubernetes.io/master-) and find out who set it",
			node,
			orNone(e.addresses[node], "it has none"),
			strings.Join(e.servers, ", "),
		)
	case LabelAlone:
		return fmt.Sprintf(
			"Node %[1]s is labelled as control plane, and no Node has an address that the API servers announce (%[2]s): "+
				"any account that may patch Nodes could have set the label, and removed addresses from their status; "+
				"if it is one of your control plane's, say so with --%[3]s=%[1]s, once you have compared it with your own list",
			node,
			orNone(e.servers, "none is announced"),
			Flag,
		)
	case Named, Proven:
	}
	return ""
}

// WhyChanged says why a host is no longer taken for the control plane. An address proved it before, and the host has
// another one now. The answer is empty where it has the same, and where no address proved it before. An account that
// may patch the status of Nodes could move an address to a worker.
func (e *Evidence) WhyChanged(node string, before *Evidence) string {
	old := before.proofs(node)
	if len(old) == 0 || slices.ContainsFunc(old, func(ip string) bool { return slices.Contains(e.proofs(node), ip) }) {
		return ""
	}
	return fmt.Sprintf(
		"Node %s had the address %s of an API server when this run began, and has it no longer: "+
			"see who changed the Node's status, and run the same command again",
		node,
		strings.Join(old, ", "),
	)
}

// proofs are the addresses of API servers that one Node alone has, sorted.
func (e *Evidence) proofs(node string) []string {
	var out []string
	for ip, holders := range e.holders {
		if len(holders) == 1 && holders[0] == node {
			out = append(out, ip)
		}
	}
	slices.Sort(out)
	return out
}

// Unlabelled says why a host is not taken for the control plane whose Node has no label, and what to do.
func Unlabelled(host string) string {
	return fmt.Sprintf(
		"no Node %[1]s is labelled as control plane: if it is, run \"kubectl label node %[1]s "+
			"node-role.kubernetes.io/control-plane=\", else find out who wrote there",
		host,
	)
}

func orNone(addresses []string, none string) string {
	if len(addresses) == 0 {
		return none
	}
	return strings.Join(addresses, ", ")
}
