// Package openstacklab decides what a lab cluster on OpenStack is like while the in-tree provider serves it. It is a
// server for each host, with a router and a network of floating IPs. OpenStack is the simulator's, or a real one.
//
//	manager --edge of its host--> Front (audit log) --> simulator, or a proxy of the real services
package openstacklab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/calllog"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/openstackreal"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/lab/openstackview"
)

// Kind is OpenStack, to a lab: one project, a server for each host, a router that has the pods' routes.
type Kind struct{ site }

var _ cluster.Kind = Kind{}

// site is the OpenStack of a lab.
type site interface {
	places() places
	// server is the ID of a host's server.
	server(h *cluster.Host) string
	// open starts it, with the servers of all hosts.
	open(hosts []*cluster.Host) (*opened, error)
}

// places are IDs of what is there before the cluster is.
type places struct{ subnet, external, router, flavor string }

// opened is an OpenStack that can be used.
type opened struct {
	// handler serves every service below the name of its type in the catalog.
	handler http.Handler
	close   func() error
	// authURL is Keystone's; the viewer sees everything.
	authURL, viewer, project, password string
}

// version is that of the last control plane with the in-tree provider.
const version = "v1.25.0"

// What the simulator calls things as the real services do.
const (
	zone     = "nova"
	region   = openstackreal.Region
	user     = openstackreal.User
	project  = openstackreal.Project
	password = openstackreal.Password
)

// Provider implements cluster.Kind.
func (Kind) Provider() string { return "openstack" }

// Version implements cluster.Kind.
func (Kind) Version() string { return version }

// Place implements cluster.Kind. In tree, a node has the name of its server.
func (k Kind) Place(h *cluster.Host) {
	server := k.server(h)
	h.Place(h.Name, server, zone, "openstack:///"+server)
}

// Config implements cluster.Kind.
func (k Kind) Config(_ *cluster.Host, endpoint string) string {
	at := k.places()
	return strings.Join([]string{
		"[Global]", "auth-url=" + authURL(endpoint), "username=" + user, "password=" + password,
		"tenant-name=" + project, "domain-name=Default", "region=" + region,
		"[LoadBalancer]", "use-octavia=true", "subnet-id=" + at.subnet, "floating-network-id=" + at.external,
		"[Route]", "router-id=" + at.router, "",
	}, "\n")
}

func authURL(endpoint string) string { return "http://" + endpoint + "/identity/v3/" }

// Flags implements cluster.Kind.
func (Kind) Flags(component string) map[string]string {
	if component != cluster.ControllerManager {
		return nil
	}
	return map[string]string{"configure-cloud-routes": "true"}
}

// ManagerEnv implements cluster.Kind. The proxy leads nowhere: a wrong endpoint must not reach a real cloud.
func (Kind) ManagerEnv(*cluster.Host, string, string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "HTTP_PROXY", Value: "http://127.0.0.1:9"},
		{Name: "NO_PROXY", Value: "127.0.0.0/8,10.0.0.0/8,localhost"},
	}
}

// Env implements cluster.Kind.
func (Kind) Env(endpoint string) []string {
	return []string{
		"OS_AUTH_URL=" + authURL(endpoint), "OS_USERNAME=" + user, "OS_PASSWORD=" + password,
		"OS_PROJECT_NAME=" + project, "OS_DOMAIN_NAME=Default", "OS_REGION_NAME=" + region,
	}
}

// Instance implements cluster.Kind. In tree, the type is the ID of the flavor.
func (k Kind) Instance(h *cluster.Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), UUID: h.InstanceID, Zone: zone, Region: region, InstanceType: k.places().flavor,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeHostName, Address: h.NodeName},
		},
	}
}

// Rights implements cluster.Kind.
func (Kind) Rights() []rbacv1.PolicyRule { return nil }

// Services implements cluster.Kind: one with a floating IP, and an internal one.
func (Kind) Services() []*corev1.Service {
	return []*corev1.Service{
		cluster.NewService("web", nil, 80, 443),
		cluster.NewService("inside", map[string]string{
			"service.beta.kubernetes.io/openstack-internal-load-balancer": "true",
		}, 5432),
	}
}

// Key implements cluster.Kind.
func (Kind) Key(h *cluster.Host, component string) string { return h.Name + "/" + component }

// Start implements cluster.Kind.
func (k Kind) Start(l cluster.Layout) (cluster.Cloud, error) {
	made, err := k.open(l.Hosts)
	if err != nil {
		return nil, err
	}
	c := &Cloud{opened: made}
	if err := c.start(l, k.places().router); err != nil {
		return nil, errors.Join(err, made.close())
	}
	return c, nil
}

// Cloud is the OpenStack of a lab.
type Cloud struct {
	*calllog.Log

	opened *opened
	see    *openstackview.View
	idle   func()
	server *http.Server
}

func (c *Cloud) start(l cluster.Layout, router string) error {
	ctx := context.Background() //nolint:forbidigo // a Kind has no context
	o := c.opened
	login, idle, err := openstackview.Login(ctx, o.authURL, o.viewer, o.project, o.password)
	if err != nil {
		return err
	}
	c.idle = idle
	if c.see, err = openstackview.New(login, region, router); err != nil {
		return err
	}
	if c.Log, err = calllog.Open(l.AuditFile); err != nil {
		return err
	}
	c.server = &http.Server{
		Handler: &calllog.Front{
			Log: c.Log, Next: o.handler, Complete: calllog.CompleteByStatus,
			Describe: func(r *http.Request, body []byte) v1.CloudCall { return describe(l, r, body) },
		},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	return nil
}

// Serve implements cluster.Cloud.
func (c *Cloud) Serve(l net.Listener) error { return c.server.Serve(l) }

// Close implements cluster.Cloud.
func (c *Cloud) Close() error {
	c.idle()
	return errors.Join(c.server.Close(), c.opened.close(), c.Log.Close())
}

// Missing implements cluster.Cloud: each range has a route and an allowed address pair.
func (c *Cloud) Missing(h *cluster.Host, podCIDR string) error {
	ctx := context.Background() //nolint:forbidigo // a Cloud has no context
	routes, err1 := c.see.Routes(ctx)
	pairs, err2 := c.see.Pairs(ctx)
	switch {
	case err1 != nil || err2 != nil:
		return errors.Join(err1, err2)
	case !slices.Contains(routes, podCIDR+" via "+h.PrivateIP):
		return fmt.Errorf("the router has no route for node %q (%s)", h.NodeName, podCIDR)
	case !slices.Contains(pairs, podCIDR):
		return fmt.Errorf("no port of node %q lets %s pass", h.NodeName, podCIDR)
	}
	return nil
}

// settling is for how long State waits for Octavia to end a change.
const settling = time.Minute

// State implements cluster.Cloud: what serves traffic, by ID. Tags and descriptions do not: with them a manager marks
// what it has adopted.
func (c *Cloud) State() any {
	state := map[string]any{}
	ctx := context.Background() //nolint:forbidigo // a Cloud has no context
	const often = 200 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, often, settling, true, func(ctx context.Context) (bool, error) {
		objects, err1 := c.see.Objects(ctx)
		pairs, err2 := c.see.Pairs(ctx)
		shapes, err3 := c.see.Shapes(ctx)
		state = map[string]any{"objects": objects, "pairs": pairs, "load balancers": shapes}
		isPending := slices.ContainsFunc(objects, func(o string) bool { return strings.Contains(o, " PENDING_") })
		return !isPending, errors.Join(err1, err2, err3)
	})
	if err != nil {
		state["error"] = err.Error()
	}
	return state
}

// describe names the caller by the edge that it came over, which is its host's, and by its user agent.
func describe(l cluster.Layout, r *http.Request, body []byte) v1.CloudCall {
	asked := openstacksim.Describe(r)
	component := cluster.ControllerManager
	if strings.Contains(r.UserAgent(), cluster.CloudControllerManager) {
		component = cluster.CloudControllerManager
	}
	call := v1.CloudCall{
		Service: asked.Service, Action: asked.Method + " " + asked.Path, Mutating: asked.Mutates(),
		Key: l.KeyOf(Kind{}, r, component),
	}
	if call.Service == "network" && call.Mutating {
		call.Params = fields(body)
	}
	return call
}

// fields are those that a request to Neutron sets, without the name of the object around them.
func fields(body []byte) map[string]string {
	var sent map[string]map[string]json.RawMessage
	if json.Unmarshal(body, &sent) != nil {
		return nil // the simulator refuses it
	}
	out := map[string]string{}
	for _, object := range sent {
		for name, value := range object {
			out[name] = string(value)
		}
	}
	return out
}
