// Package gcelab decides what a lab cluster on Google Compute Engine is like while the in-tree provider serves it. It
// is an instance for each host in one simulated project, whose network has the pods' routes.
package gcelab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/calllog"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Kind is GCE, to a lab: one project and network, an instance for each host.
type Kind struct {
	// PodsFromCloud reports whether instances have alias ranges, which the in-tree manager gives to nodes as their pod
	// CIDRs. There are no routes then.
	PodsFromCloud bool
}

// SpareID is the provider ID of an instance without a host. It has an alias range, for a node that joins.
const SpareID = "gce://" + gcesim.Project + "/" + gcesim.Zone + "/" + spare

const spare = "spare"

// aliasRange is the range for pods of an instance, by its number.
func aliasRange(n int) string { return fmt.Sprintf("10.200.%d.0/24", 100+n) }

var _ cluster.Kind = Kind{}

// version is that of the last control plane with the in-tree provider.
const version = "v1.30.14"

// Provider implements cluster.Kind.
func (Kind) Provider() string { return "gce" }

// Version implements cluster.Kind.
func (Kind) Version() string { return version }

// Place implements cluster.Kind. A node has the name of its instance.
func (Kind) Place(h *cluster.Host) {
	h.Place(h.Name, h.Name, gcesim.Zone, strings.Join([]string{"gce:/", gcesim.Project, gcesim.Zone, h.Name}, "/"))
}

// Config implements cluster.Kind.
func (Kind) Config(_ *cluster.Host, endpoint string) string {
	return string(gcesim.ConfigAt("http://"+endpoint, "multizone = true"))
}

// Flags implements cluster.Kind.
func (k Kind) Flags(component string) map[string]string {
	if component != cluster.ControllerManager {
		return nil
	}
	flags := map[string]string{"configure-cloud-routes": strconv.FormatBool(!k.PodsFromCloud)}
	if k.PodsFromCloud {
		flags["cidr-allocator-type"] = "CloudAllocator"
	}
	return flags
}

// ManagerEnv implements cluster.Kind. Every manager has its token of one metadata server. The proxy leads nowhere: a
// wrong endpoint must not reach a real cloud.
func (k Kind) ManagerEnv(_ *cluster.Host, _, endpoint string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, v := range k.Env(endpoint) {
		name, value, _ := strings.Cut(v, "=")
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env
}

// Env implements cluster.Kind.
func (Kind) Env(endpoint string) []string {
	return []string{
		"GCE_METADATA_HOST=" + endpoint, "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9",
		"NO_PROXY=127.0.0.0/8,10.0.0.0/8,localhost",
	}
}

// Instance implements cluster.Kind.
func (Kind) Instance(h *cluster.Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), Zone: gcesim.Zone, Region: gcesim.Region, InstanceType: gcesim.MachineType,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeHostName, Address: h.NodeName},
		},
	}
}

// Rights implements cluster.Kind. An administrator adds them, and without them the in-tree provider only logs refusals:
// internal load balancers have a finalizer of the provider's own.
func (Kind) Rights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"get", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

// Services implements cluster.Kind: one with an external load balancer, and an internal one.
func (Kind) Services() []*corev1.Service {
	return []*corev1.Service{
		cluster.NewService("web", nil, 80, 443),
		cluster.NewService("inside", map[string]string{"networking.gke.io/load-balancer-type": "Internal"}, 5432),
	}
}

// Key implements cluster.Kind.
func (Kind) Key(h *cluster.Host, component string) string { return h.Name + "/" + component }

// Start implements cluster.Kind.
func (k Kind) Start(l cluster.Layout) (cluster.Cloud, error) {
	sim := gcesim.Start(gcesim.Options{})
	ranges := map[string]string{}
	for n, h := range l.Hosts {
		made := gcesim.Instance{Name: h.NodeName, IP: h.PrivateIP}
		if k.PodsFromCloud {
			ranges[h.NodeName] = aliasRange(n)
			made.AliasRanges = []string{ranges[h.NodeName]}
		}
		sim.AddInstance(made)
	}
	if k.PodsFromCloud {
		sim.AddInstance(gcesim.Instance{Name: spare, IP: "10.0.255.1", AliasRanges: []string{aliasRange(len(l.Hosts))}})
	}
	calls, err := calllog.Open(l.AuditFile)
	if err != nil {
		sim.Close()
		return nil, err
	}
	c := &Cloud{Log: calls, sim: sim, ranges: ranges}
	c.server = &http.Server{
		Handler: &calllog.Front{
			Log: calls, Next: sim, Complete: calllog.CompleteByStatus,
			Describe: func(r *http.Request, _ []byte) v1.CloudCall { return describe(l, r) },
		},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	return c, nil
}

// Cloud is the simulated project of a lab.
type Cloud struct {
	*calllog.Log

	sim    *gcesim.Cloud
	server *http.Server
	ranges map[string]string // alias ranges by node; empty where there are routes
}

// Serve implements cluster.Cloud.
func (c *Cloud) Serve(l net.Listener) error { return c.server.Serve(l) }

// Close implements cluster.Cloud.
func (c *Cloud) Close() error {
	err := c.server.Close()
	c.sim.Close()
	return errors.Join(err, c.Log.Close())
}

// Missing implements cluster.Cloud: each range is the alias range of the node's instance, or has a route to it.
func (c *Cloud) Missing(h *cluster.Host, podCIDR string) error {
	if alias := c.ranges[h.NodeName]; alias == podCIDR {
		return nil
	} else if alias != "" {
		return fmt.Errorf("node %q has %s, and its instance has %s", h.NodeName, podCIDR, alias)
	}
	for _, path := range c.sim.Objects() {
		route := c.sim.Object(path)
		if route["destRange"] == podCIDR && strings.HasSuffix(fmt.Sprint(route["nextHopInstance"]), "/instances/"+h.NodeName) {
			return nil
		}
	}
	return fmt.Errorf("no route leads to node %q (%s)", h.NodeName, podCIDR)
}

// settling is for how long State waits for a manager to give an address back.
const settling = 30 * time.Second

// State implements cluster.Cloud: load balancers, their parts and routes. While it looks at a load balancer, upstream's
// code reserves its address and gives it back.
func (c *Cloud) State() any {
	state := map[string]any{}
	ctx := context.Background() //nolint:forbidigo // a Cloud has no context
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settling, true, func(context.Context) (bool, error) {
		state = map[string]any{}
		settled := true
		for _, path := range c.sim.Objects() {
			o := c.sim.Object(path)
			if strings.HasPrefix(path, "global/firewalls/") {
				delete(o, "destinationRanges") // the in-tree provider writes none before 1.25
				o["network"] = withoutEdge(fmt.Sprint(o["network"]))
			}
			state[path] = o
			settled = settled && !strings.Contains(path, "/addresses/")
		}
		return settled, nil
	})
	if err != nil {
		state["error"] = "an address is still reserved"
	}
	return state
}

// withoutEdge is the URL of a resource without the address over which its writer reaches the cloud. Each host of the
// lab has its own.
func withoutEdge(url string) string {
	if _, resource, found := strings.Cut(url, "/compute/v1/"); found {
		return resource
	}
	return url
}

// describe names the caller by the edge that it came over, which is its host's, and by its user agent.
func describe(l cluster.Layout, r *http.Request) v1.CloudCall {
	component := cluster.ControllerManager
	if strings.Contains(r.UserAgent(), cluster.CloudControllerManager) {
		component = cluster.CloudControllerManager
	}
	service, asked := gcesim.Describe(r)
	return v1.CloudCall{
		Service: service, Action: asked.Method + " " + asked.Path, Mutating: asked.Mutates, Key: l.KeyOf(Kind{}, r, component),
	}
}
