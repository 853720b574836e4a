package nodelifecycle

import (
	"net"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Host is where a manager runs.
type Host struct {
	// Name is that of its Node, or that of the host. The name of a host is that of the pod, in a pod network.
	Name string
	// Addresses are those of the host, in canonical form. They are empty where Name is certainly the Node's.
	Addresses []string
}

// ThisHost returns what is known of the node that this process runs on: NODE_NAME, or the name and the addresses of the
// host.
func ThisHost() Host {
	if name := os.Getenv("NODE_NAME"); name != "" {
		return Host{Name: name}
	}
	name, err := os.Hostname()
	if err != nil {
		return Host{}
	}
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return Host{}
	}
	host := Host{Name: name}
	for _, network := range networks {
		if network, ok := network.(*net.IPNet); ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			host.Addresses = append(host.Addresses, network.IP.String())
		}
	}
	if len(host.Addresses) == 0 {
		return Host{}
	}
	return host
}

// node returns the name of the node that is this host, or "" if none is, or more than one claims to be.
//
// The name of a host alone proves nothing. In a seed it is that of a pod, which the lease in the user cluster shows. A
// machine there could name or label its Node so, and its instance would stand for the manager's own. So the Node also
// needs one of the host's addresses.
func (h Host) node(all []*corev1.Node) string {
	if h.Name == "" {
		return ""
	}
	own := ""
	for _, node := range all {
		switch {
		case len(h.Addresses) == 0 && node.Name == h.Name:
			return h.Name
		case len(h.Addresses) == 0:
		case node.Name != h.Name && node.Labels[corev1.LabelHostname] != h.Name, !h.has(node):
		case own != "":
			return ""
		default:
			own = node.Name
		}
	}
	return own
}

// has reports whether a node has one of the host's addresses.
func (h Host) has(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(address corev1.NodeAddress) bool {
		ip := net.ParseIP(address.Address)
		return address.Type == corev1.NodeInternalIP && ip != nil && slices.Contains(h.Addresses, ip.String())
	})
}
