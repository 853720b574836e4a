// Package servingrequest decides whether a person is told to approve a kubelet's request for a serving certificate.
// With the credentials of a node, one may ask for any name, that of the API server among them. The request itself may
// have any name, too. So a command is printed only for a request that asks for the names of its Node and for nothing
// else.
package servingrequest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// UserPrefix begins the user name of a kubelet, before the name of its Node.
const UserPrefix = "system:node:"

// isPlain is a name of which a shell makes nothing else. The API takes nearly any name for a request.
var isPlain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString

// Nodes says which Nodes have a name or an address.
type Nodes struct {
	owners map[string][]string
	added  map[ownedName]bool // what owners has: thousands of Nodes may claim one address
	// plane are the Nodes with the label of the control plane, which a kubelet cannot set.
	plane map[string]bool
	// servers are the names and addresses of API servers, and services the ranges of Services.
	servers  map[string]bool
	services []netip.Prefix
}

// AddControlPlane adds a Node whose names may be those of an API server.
func (n *Nodes) AddControlPlane(node string) {
	if n.plane == nil {
		n.plane = map[string]bool{}
	}
	n.plane[node] = true
}

// AddServers adds what a snapshot says of where the API servers are. A kubelet writes the addresses of its Node. With a
// certificate for the virtual IP of the API servers it could stand between them and their clients.
func (n *Nodes) AddServers(s *v1.Snapshot) {
	if n.servers == nil {
		n.servers = map[string]bool{}
	}
	if at, err := url.Parse(s.Cluster.Server); err == nil && at.Hostname() != "" {
		n.servers[keyOf(at.Hostname())] = true
	}
	if host, _ := s.Kubeadm.Endpoint(); host != "" {
		n.servers[keyOf(host)] = true
	}
	for _, address := range s.APIServers {
		n.servers[keyOf(address)] = true
	}
	for _, h := range s.Hosts {
		n.addServices(h.Components)
	}
	n.addServices(s.Hosted)
}

func (n *Nodes) addServices(components []v1.Component) {
	for _, c := range components {
		ranges := strings.Split(c.Flags["service-cluster-ip-range"], ",")
		for _, text := range ranges[:min(len(ranges), 2)] { // one of each family: an API server takes no more
			if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(n.services, p) {
				n.services = append(n.services, p)
			}
		}
	}
}

// ownedName is a name or an address of one Node.
type ownedName struct{ key, node string }

// Add adds a Node with its addresses.
func (n *Nodes) Add(node string, addresses ...string) {
	if n.owners == nil {
		n.owners, n.added = map[string][]string{}, map[ownedName]bool{}
	}
	for _, a := range append([]string{node}, addresses...) {
		if key := keyOf(a); !n.added[ownedName{key, node}] {
			n.added[ownedName{key, node}] = true
			n.owners[key] = append(n.owners[key], node)
		}
	}
}

// NodesOf are those of a snapshot.
func NodesOf(s *v1.Snapshot) *Nodes {
	nodes := &Nodes{}
	nodes.AddServers(s)
	for _, node := range s.Nodes {
		nodes.Add(node.Name)
		if component.HasControlPlaneRole(node.Labels) {
			nodes.AddControlPlane(node.Name)
		}
		for _, a := range node.Addresses {
			_, address, _ := strings.Cut(a, "=")
			nodes.Add(node.Name, address)
		}
	}
	return nodes
}

// keyOf is the same for what means the same name or address.
func keyOf(name string) string {
	if ip := net.ParseIP(name); ip != nil {
		return ip.String()
	}
	return strings.ToLower(name)
}

// Approve is the command that approves a request, or an error that says why it is not printed.
func (n *Nodes) Approve(r v1.CertificateRequest) (string, error) {
	node, kubelet := strings.CutPrefix(r.Username, UserPrefix)
	switch {
	case !kubelet:
		return "", fmt.Errorf("%q, which asks, is no kubelet", r.Username)
	case !isPlain(r.Name):
		return "", errors.New("its name is not one that a kubelet chooses")
	case r.Problem != "":
		return "", errors.New(r.Problem)
	case len(r.Names) == 0:
		return "", errors.New("what it asks for is not known")
	}
	for _, name := range r.Names {
		if err := n.has(node, name); err != nil {
			return "", err
		}
	}
	return Command("certificate approve", r.Name), nil
}

// has says why a Node cannot have a name. A kubelet writes the addresses of its Node, too. So a name that another Node
// has, and one that the API server has everywhere, is refused.
func (n *Nodes) has(node, name string) error {
	owners := n.owners[keyOf(name)]
	if !slices.Contains(owners, node) {
		return fmt.Errorf("it asks for %s, which Node %s does not have", name, node)
	}
	if ip := net.ParseIP(name); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return fmt.Errorf("it asks for %s, which every host has", name)
	}
	if n.isServer(node, name) {
		return fmt.Errorf("it asks for %s, a name of the API server", name)
	}
	if len(owners) > 1 {
		others := slices.DeleteFunc(slices.Clone(owners), func(o string) bool { return o == node })
		return fmt.Errorf("it asks for %s, which Node %s has, too", name, slices.Min(others))
	}
	return nil
}

// isServer reports whether a name is one by which an API server, or another Service, is reached. One of the control
// plane's Nodes has the address of its own API server.
func (n *Nodes) isServer(node, name string) bool {
	labels := strings.Split(strings.ToLower(name), ".")
	if labels[0] == "localhost" || labels[0] == "kubernetes" || slices.Contains(labels[1:], "svc") {
		return true
	}
	if ip, err := netip.ParseAddr(name); err == nil &&
		slices.ContainsFunc(n.services, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) }) {
		return true
	}
	return n.servers[keyOf(name)] && !n.plane[node]
}

// Command is a command of kubectl on a request. It is without the name where a shell would read that otherwise.
func Command(verb, name string) string {
	if !isPlain(name) {
		name = "NAME"
	}
	return "kubectl " + verb + " " + name
}
