package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/loadbalancer"
)

// Hosts returns every host of the cluster: the control planes, then the workers.
func (c *Cluster) Hosts() []*Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.site.hosts)
}

// ControlPlanes returns the control-plane hosts.
func (c *Cluster) ControlPlanes() []*Host {
	return slices.DeleteFunc(c.Hosts(), func(h *Host) bool { return !h.ControlPlane })
}

// Workers returns the workers.
func (c *Cluster) Workers() []*Host {
	return slices.DeleteFunc(c.Hosts(), func(h *Host) bool { return h.ControlPlane })
}

// Host returns the host with the given name, or an error that names it.
func (c *Cluster) Host(name string) (*Host, error) {
	for _, h := range c.Hosts() {
		if h.Name == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("the lab has no host %q", name)
}

// Dir is the directory that holds everything the lab writes.
func (c *Cluster) Dir() string { return c.site.root }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.site.adminKubeconfig() }

// AuditFile is the path of the cloud's audit log.
func (c *Cluster) AuditFile() string { return c.site.auditFile() }

// Client is the administrator's client, through the load balancer.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// RestConfig returns the administrator's configuration, through the load balancer.
func (c *Cluster) RestConfig() *rest.Config { return rest.CopyConfig(c.config) }

// MetricsToken is the token of an account that may read /metrics of the managers, and nothing else. It holds for a day.
func (c *Cluster) MetricsToken() string { return c.token }

// Cloud is the simulated cloud. It is nil after Stop.
func (c *Cluster) Cloud() Cloud {
	if c.cloud == nil {
		return nil
	}
	return c.cloud.Cloud
}

// Kind is the kind of the simulated cloud.
func (c *Cluster) Kind() Kind { return c.site.kind }

// AWS is the simulated account. It is nil after Stop, and where another cloud is simulated.
func (c *Cluster) AWS() *awssim.Server {
	if a, ok := c.Cloud().(*account); ok {
		return a.sim
	}
	return nil
}

// cloud is where the simulated account itself is, host:port.
func (s *site) cloud() string { return s.block.endpoint(placeCloud, portCloud) }

// CloudEndpoint is the URL of the simulated account itself, for callers that no edge leads there.
func (c *Cluster) CloudEndpoint() string {
	return "http://" + c.site.cloud()
}

// CloudEndpointOf is the URL under which a manager of a host reaches the account: an edge of its own.
func (c *Cluster) CloudEndpointOf(host, component string) string {
	return c.site.url("http", EdgeName(host, component, endCloud))
}

// Edge returns the edge with the given name, or an error that names it.
func (c *Cluster) Edge(name string) (*edge.Edge, error) {
	if e, ok := c.edges[name]; ok {
		return e, nil
	}
	return nil, fmt.Errorf("the lab has no edge %q", name)
}

// Edges returns the edges from or to a host, by name.
func (c *Cluster) Edges(host string) map[string]*edge.Edge {
	out := map[string]*edge.Edge{}
	for name, e := range c.edges {
		if strings.HasPrefix(name, host+"/") || strings.Contains(name, "->"+host+"/") {
			out[name] = e
		}
	}
	return out
}

// LoadBalancer is the balancer in front of the API servers.
func (c *Cluster) LoadBalancer() *loadbalancer.Balancer { return c.lb }

// Env is the environment of a program that works on the lab as its administrator: the kubeconfig, and the cloud under a
// key that may only read. A product of the build tag faults also runs the programs of the lab's hosts.
func (c *Cluster) Env() []string {
	return append(
		[]string{"KUBECONFIG=" + c.Kubeconfig(), "TRANSPLANT_TEST_HOST_PROGRAMS=" + filepath.Join(c.Dir(), "hosts")},
		c.site.kind.Env(c.site.cloud())...)
}

// ShellEnv is Env for the shell of a user, who asks other servers with it, too: the dead proxy is left out.
func (c *Cluster) ShellEnv() []string {
	return slices.DeleteFunc(c.Env(), func(v string) bool {
		return strings.HasPrefix(v, "HTTPS_PROXY=") || strings.HasPrefix(v, "NO_PROXY=")
	})
}

// startKubelet boots a host.
func (c *Cluster) startKubelet(ctx context.Context, h *Host) error {
	k, err := kubelet.New(kubelet.Options{
		HostDir: h.Dir, HostName: h.Name, NodeName: h.NodeName, Address: h.Address, InternalIP: h.PrivateIP,
		Kubeconfig:   h.Path("/etc/kubernetes/kubelet.conf"),
		ResolveImage: c.resolve,
		UnitProgram:  c.unitProgram,
		Env:          []string{"HOME=/nonexistent"}, // nobody's cloud credentials are found
		Instance:     c.site.kind.Instance(h),
		Version:      h.version,
		Pods:         c.podOptions(h),
		Profile:      c.opts.Profile,
		Seed:         c.opts.Seed,
		OnExit:       c.opts.OnExit,
	})
	if err != nil {
		return err
	}
	h.Kubelet = k
	return k.Start(ctx)
}

// startLoadBalancer starts the balancer over the API servers, each behind an edge of its own.
func startLoadBalancer(s *site) (*loadbalancer.Balancer, error) {
	o := loadbalancer.Options{Listen: s.block.endpoint(placeLoadBalancer, portAPIServer), TLS: s.pki.CA.TrustOnly()}
	for _, h := range s.machines() {
		if h.ControlPlane {
			o.Backends = append(o.Backends, s.wires[LoadBalancerEdge(h.Name)].listen)
		}
	}
	return loadbalancer.Start(o)
}
