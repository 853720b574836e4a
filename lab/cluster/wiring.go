package cluster

import (
	"fmt"

	"github.com/transplant-dev/transplant/lab/edge"
)

// The other ends of edges that are not components of a host.
const (
	endLoadBalancer = "load-balancer"
	endEtcd         = "etcd"
	endCloud        = "aws"
)

// EdgeName is the name of the edge from a host's component to what it talks to, for example
// "cp-1/kube-controller-manager->kube-apiserver" or "cp-1/kube-controller-manager->aws".
func EdgeName(host, component, to string) string { return host + "/" + component + "->" + to }

// LoadBalancerEdge is the name of the edge from the load balancer to a host's API server.
func LoadBalancerEdge(host string) string { return endLoadBalancer + "->" + host + "/" + APIServer }

// wire is an edge to be made: who talks to whom, at which address.
type wire struct {
	name           string
	listen, target string // host:port
	address        string // the IP address of listen
	serves         string // "" or the host whose API server answers at its end; endLoadBalancer: any of them
}

// wires lists every edge of a lab, in the order of their addresses.
//
//	managers ---> own host's API server ---> etcd        managers ---> aws
//	kubelets ---> load balancer ---> every API server    everybody else ---> load balancer, directly
func wires(b *block, hosts []*Host) []wire {
	lb := b.endpoint(placeLoadBalancer, portAPIServer)
	cloud := b.endpoint(placeCloud, portCloud)
	etcd := b.endpoint(placeEtcd, portEtcdClient)
	var out []wire
	add := func(name, target string, port int, serves string) {
		place := placeEdges + len(out)
		out = append(out, wire{
			name: name, target: target, serves: serves, listen: b.endpoint(place, port), address: b.address(place),
		})
	}
	for _, h := range hosts {
		add(EdgeName(h.Name, "kubelet", endLoadBalancer), lb, portAPIServer, endLoadBalancer)
		if !h.ControlPlane {
			continue
		}
		own := fmt.Sprintf("%s:%d", h.Address, portAPIServer)
		for _, manager := range []string{ControllerManager, Scheduler, CloudControllerManager} {
			add(EdgeName(h.Name, manager, APIServer), own, portAPIServer, h.Name)
		}
		add(LoadBalancerEdge(h.Name), own, portAPIServer, h.Name)
		add(EdgeName(h.Name, APIServer, endEtcd), etcd, portEtcdClient, "")
		for _, manager := range []string{ControllerManager, CloudControllerManager} {
			add(EdgeName(h.Name, manager, endCloud), cloud, portCloud, "")
		}
	}
	return out
}

// startEdges opens every edge; on an error none is left open.
func startEdges(ws []wire) (map[string]*edge.Edge, error) {
	out := make(map[string]*edge.Edge, len(ws))
	for _, w := range ws {
		e, err := edge.Start(edge.Options{Name: w.name, Listen: w.listen, Target: w.target})
		if err != nil {
			closeEdges(out)
			return nil, err
		}
		out[w.name] = e
	}
	return out, nil
}

func closeEdges(edges map[string]*edge.Edge) {
	for _, e := range edges {
		e.Close()
	}
}

// servingAddresses are the addresses under which clients reach a host's API server.
func servingAddresses(b *block, ws []wire, h *Host) []string {
	out := []string{h.Address, b.address(placeLoadBalancer), serviceIP}
	for _, w := range ws {
		if w.serves == h.Name || w.serves == endLoadBalancer {
			out = append(out, w.address)
		}
	}
	return out
}
