// Package azurelab decides what a lab cluster on Azure is like while the in-tree provider serves it. It is a virtual
// machine of one availability set for each host, in one simulated subscription. Workers may be of a scale set. The
// route table has the pods' routes.
package azurelab

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/calllog"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Kind is Azure, to a lab: one subscription, resource group and route table, a machine for each host.
type Kind struct {
	// ScaleSets has the workers be machines of a uniform scale set (vmType vmss).
	ScaleSets bool
}

var _ cluster.Kind = Kind{}

// Provider implements cluster.Kind.
func (Kind) Provider() string { return "azure" }

// Version implements cluster.Kind. In tree up to 1.29.
func (Kind) Version() string { return cluster.Version }

// zone is that of the machines, and the name that nodes have for it.
const (
	zone     = "1"
	nodeZone = azuresim.Location + "-" + zone
)

// Place implements cluster.Kind. A node has the name of its machine. In a scale set, Azure makes that of the set's name
// and the machine's number.
func (k Kind) Place(h *cluster.Host) {
	name, id := h.Name, "virtualMachines/"+h.Name
	if k.inScaleSet(h) {
		number := instanceOf(h)
		name = fmt.Sprintf("%s%06s", azuresim.ScaleSet, strconv.FormatInt(int64(number), 36))
		id = fmt.Sprintf("virtualMachineScaleSets/%s/virtualMachines/%d", azuresim.ScaleSet, number)
	}
	h.Place(name, name, nodeZone, strings.Join([]string{
		"azure:///subscriptions", azuresim.Subscription, "resourceGroups", azuresim.Group, "providers", "Microsoft.Compute", id,
	}, "/"))
}

func (k Kind) inScaleSet(h *cluster.Host) bool { return k.ScaleSets && !h.ControlPlane }

// instanceOf is the number of a host's machine in the scale set: the last part of its address, which is its own there.
func instanceOf(h *cluster.Host) int {
	number, err := strconv.Atoi(h.PrivateIP[strings.LastIndex(h.PrivateIP, ".")+1:])
	if err != nil {
		panic(err) // a host has an address
	}
	return number
}

// Config implements cluster.Kind. It does not say the kind of machines where there is no scale set: in tree that is
// another one than outside, which a plan has to write down.
func (k Kind) Config(_ *cluster.Host, endpoint string) string {
	vmType := any(nil)
	if k.ScaleSets {
		vmType = "vmss"
	}
	return string(azuresim.ConfigAt("http://"+endpoint, map[string]any{"vmType": vmType}))
}

// Flags implements cluster.Kind.
func (Kind) Flags(component string) map[string]string {
	if component != cluster.ControllerManager {
		return nil
	}
	return map[string]string{"configure-cloud-routes": "true"}
}

// proxies of the managers. The in-tree provider asks for tokens at 169.254.169.254 and nowhere else: the cloud is the
// proxy of this address. What is asked for over TLS leads nowhere, as a wrong endpoint must not reach a real cloud.
func proxies(endpoint string) map[string]string {
	return map[string]string{
		"HTTP_PROXY": "http://" + endpoint, "HTTPS_PROXY": "http://127.0.0.1:9",
		"NO_PROXY": "127.0.0.0/8,10.0.0.0/8,localhost",
	}
}

// ManagerEnv implements cluster.Kind. Every manager has its token of one metadata service.
func (Kind) ManagerEnv(_ *cluster.Host, _, endpoint string) (env []corev1.EnvVar) {
	all := proxies(endpoint)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, corev1.EnvVar{Name: name, Value: all[name]})
	}
	return env
}

// Env implements cluster.Kind. An administrator's program has an identity of its own.
func (Kind) Env(endpoint string) (env []string) {
	all := proxies(endpoint)
	maps.Copy(all, azuresim.EnvAt("http://"+endpoint))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// Instance implements cluster.Kind.
func (Kind) Instance(h *cluster.Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), Zone: nodeZone, Region: azuresim.Location, InstanceType: azuresim.Size,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeHostName, Address: h.NodeName},
		},
	}
}

// Rights implements cluster.Kind. The in-tree provider's events and its Secret are of no account here.
func (Kind) Rights() []rbacv1.PolicyRule { return nil }

// Services implements cluster.Kind: one with an external load balancer, and an internal one.
func (Kind) Services() []*corev1.Service {
	internal := map[string]string{"service.beta.kubernetes.io/azure-load-balancer-internal": "true"}
	return []*corev1.Service{
		cluster.NewService("web", nil, 80, 443), cluster.NewService("inside", internal, 5432),
	}
}

// Key implements cluster.Kind.
func (Kind) Key(h *cluster.Host, component string) string { return h.Name + "/" + component }

// Start implements cluster.Kind.
func (k Kind) Start(l cluster.Layout) (cluster.Cloud, error) {
	sim := azuresim.Start(azuresim.Options{})
	for _, h := range l.Hosts {
		machine := azuresim.Machine{Name: h.NodeName, IP: h.PrivateIP, Zone: zone}
		if machine.InScaleSet = k.inScaleSet(h); machine.InScaleSet {
			machine.Instance = instanceOf(h)
		}
		made := sim.AddMachine(machine)
		if made != h.ProviderID() {
			sim.Close()
			return nil, fmt.Errorf("the machine of host %s is %s, and its node says %s", h.Name, made, h.ProviderID())
		}
	}
	calls, err := calllog.Open(l.AuditFile)
	if err != nil {
		sim.Close()
		return nil, err
	}
	c := &Cloud{Log: calls, sim: sim}
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

// Cloud is the simulated subscription of a lab.
type Cloud struct {
	*calllog.Log

	sim    *azuresim.Cloud
	server *http.Server
}

// Serve implements cluster.Cloud.
func (c *Cloud) Serve(l net.Listener) error { return c.server.Serve(l) }

// Close implements cluster.Cloud.
func (c *Cloud) Close() error {
	err := c.server.Close()
	c.sim.Close()
	return errors.Join(err, c.Log.Close())
}

// Missing implements cluster.Cloud: each range has a route to its node.
func (c *Cloud) Missing(h *cluster.Host, podCIDR string) error {
	table, _ := c.sim.Object("routeTables/" + azuresim.RouteTable)["properties"].(map[string]any)
	routes, _ := table["routes"].([]any)
	for _, one := range routes {
		route, _ := one.(map[string]any)
		to, _ := route["properties"].(map[string]any)
		if to["addressPrefix"] == podCIDR && to["nextHopIpAddress"] == h.PrivateIP {
			return nil
		}
	}
	return fmt.Errorf("no route leads to node %q (%s)", h.NodeName, podCIDR)
}

// State implements cluster.Cloud: what users of Services and routes of pods depend on. The rules of the security group
// are not among it: the managers call them differently, and each has its own next to the other's.
func (c *Cloud) State() any {
	state := map[string]any{}
	for _, name := range c.sim.Objects() {
		if strings.Contains(name, " in ") { // a pool: also of scale sets, which are no part of the network
			state[name] = []any{name}
		}
	}
	for path, one := range c.sim.State() {
		o, _ := one.(map[string]any)
		properties, _ := o["properties"].(map[string]any)
		switch kind, _, _ := strings.Cut(path, "/"); kind {
		case "networksecuritygroups":
		case "publicipaddresses":
			state[path] = []any{properties["resourceGuid"], properties["ipAddress"]}
		case "loadbalancers":
			state[path] = []any{properties["resourceGuid"]}
			addParts(state, path, properties, "frontendIPConfigurations", "publicIPAddress", "privateIPAddress")
			addParts(state, path, properties, "backendAddressPools")
			addParts(state, path, properties, "loadBalancingRules",
				"protocol", "frontendPort", "backendPort", "frontendIPConfiguration", "backendAddressPool")
		default:
			state[path] = o
		}
	}
	return state
}

// addParts adds the parts of an object, with these of their fields.
func addParts(state map[string]any, path string, of map[string]any, list string, fields ...string) {
	parts, _ := of[list].([]any)
	for _, one := range parts {
		part, _ := one.(map[string]any)
		properties, _ := part["properties"].(map[string]any)
		kept := map[string]any{}
		for _, field := range fields {
			kept[field] = properties[field]
		}
		state[fmt.Sprintf("%s/%s/%v", path, list, part["name"])] = kept
	}
}

// inTreeAgent is in the user agent of the in-tree provider, and of no other one.
const inTreeAgent = "kubernetes-cloudprovider/"

// describe names the caller by the edge that it came over, which is its host's, and by its user agent.
func describe(l cluster.Layout, r *http.Request) v1.CloudCall {
	component := cluster.CloudControllerManager
	if strings.Contains(r.UserAgent(), inTreeAgent) {
		component = cluster.ControllerManager
	}
	service := "manager"
	if strings.HasPrefix(r.URL.Path, "/metadata/") || strings.HasPrefix(r.URL.Path, "/msi/") {
		service = "metadata"
	}
	return v1.CloudCall{
		Service: service, Action: r.Method + " " + r.URL.Path, Mutating: service == "manager" && r.Method != http.MethodGet,
		Key: l.KeyOf(Kind{}, r, component),
	}
}
