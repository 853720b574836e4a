// Package vspherelab decides what a lab cluster on vSphere is like while the in-tree provider serves it. It is a
// virtual machine for each host in a simulated vCenter.
package vspherelab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/calllog"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/vspheresim"
)

// Kind is vSphere, to a lab: one vCenter, one datacenter, a virtual machine for each host.
type Kind struct{}

var _ cluster.Kind = Kind{}

// Provider implements cluster.Kind.
func (Kind) Provider() string { return "vsphere" }

// Version implements cluster.Kind. In tree up to 1.29.
func (Kind) Version() string { return cluster.Version }

// Place implements cluster.Kind. In tree, a kubelet on vSphere calls its node as the guest calls itself.
func (Kind) Place(h *cluster.Host) {
	id := machineUUID(h.Name)
	h.Place(h.Name, id, "", "vsphere://"+id)
}

// machineUUID is the UUID of a host's virtual machine.
func machineUUID(host string) string {
	sum := sha256.Sum256([]byte("vsphere/" + host))
	text := hex.EncodeToString(sum[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

const (
	datacenter = "DC0"
	network    = "VM Network"
)

// Config implements cluster.Kind. With vm-uuid the manager does not ask this machine's firmware for it.
func (Kind) Config(h *cluster.Host, endpoint string) string {
	server, port, _ := net.SplitHostPort(endpoint) // an edge of the lab
	return fmt.Sprintf(`[Global]
user = %q
password = %q
port = %q
insecure-flag = "1"
datacenters = %q
vm-uuid = %q

[VirtualCenter %q]

[Workspace]
server = %q
datacenter = %q
default-datastore = "LocalDS_0"
folder = "kubernetes"

[Disk]
scsicontrollertype = pvscsi

[Network]
public-network = %q
`, vspheresim.User, vspheresim.Password, port, datacenter, h.InstanceID, server, server, datacenter, network)
}

// Flags implements cluster.Kind: vSphere has no routes.
func (Kind) Flags(component string) map[string]string {
	if component != cluster.ControllerManager {
		return nil
	}
	return map[string]string{"configure-cloud-routes": "false"}
}

// ManagerEnv implements cluster.Kind. The proxy leads nowhere: a wrong endpoint must not reach a real vCenter.
func (Kind) ManagerEnv(*cluster.Host, string, string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "HTTPS_PROXY", Value: "http://127.0.0.1:9"},
		{Name: "NO_PROXY", Value: "127.0.0.0/8,10.0.0.0/8,localhost"},
	}
}

// Env implements cluster.Kind.
func (Kind) Env(string) []string { return nil }

// Instance implements cluster.Kind.
func (Kind) Instance(h *cluster.Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), UUID: h.InstanceID,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: h.NodeName},
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeExternalIP, Address: h.PrivateIP},
		},
	}
}

// Rights implements cluster.Kind.
func (Kind) Rights() []rbacv1.PolicyRule { return nil }

// Services implements cluster.Kind: vSphere has no load balancers.
func (Kind) Services() []*corev1.Service { return nil }

// Key implements cluster.Kind.
func (Kind) Key(h *cluster.Host, component string) string { return h.Name + "/" + component }

// inTreeAgent begins the user agent of the in-tree provider.
const inTreeAgent = "kubernetes-cloudprovider/"

// Start implements cluster.Kind.
func (Kind) Start(l cluster.Layout) (cluster.Cloud, error) {
	ctx := context.Background() //nolint:forbidigo // it outlives the call that started it
	sim, err := vspheresim.Start(ctx, vspheresim.Options{Machines: len(l.Hosts), Number: 1})
	if err != nil {
		return nil, fmt.Errorf("starting the simulated vCenter: %w", err)
	}
	machines, err := sim.Machines(ctx)
	if err != nil {
		sim.Close()
		return nil, err
	}
	for i, h := range l.Hosts {
		sim.SetUUID(machines[i], h.InstanceID)
		sim.SetGuest(machines[i], h.NodeName, h.PrivateIP)
	}
	calls, err := calllog.Open(l.AuditFile)
	if err != nil {
		sim.Close()
		return nil, err
	}
	c := &Cloud{VCenter: sim, Log: calls}
	c.server = &http.Server{
		Handler: &calllog.Front{
			Log: calls, Next: sim, Complete: complete,
			Describe: func(r *http.Request, body []byte) v1.CloudCall { return describe(l, r, body) },
		},
		TLSConfig:         sim.ServingTLS(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	return c, nil
}

// Cloud is the simulated vCenter of a lab.
type Cloud struct {
	*vspheresim.VCenter
	*calllog.Log

	server *http.Server
}

// Serve implements cluster.Cloud.
func (c *Cloud) Serve(l net.Listener) error { return c.server.ServeTLS(l, "", "") }

// Close implements cluster.Cloud.
func (c *Cloud) Close() error {
	err := c.server.Close()
	c.VCenter.Close()
	return errors.Join(err, c.Log.Close())
}

// Missing implements cluster.Cloud: no cloud object belongs to a node's range.
func (c *Cloud) Missing(*cluster.Host, string) error { return nil }

// Calls are those of the audit log; the simulator counts its own.
func (c *Cloud) Calls(chosen func(v1.CloudCall) bool) []v1.CloudCall { return c.Log.Calls(chosen) }

// State implements cluster.Cloud: the virtual machines.
func (c *Cloud) State() any {
	machines, err := c.Machines(context.Background()) //nolint:forbidigo // memory of this process
	if err != nil {
		return err.Error()
	}
	return machines
}

var soapOperation = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)

// reads are the SOAP operations that change nothing but the client's own session and views.
var reads = []string{
	"RetrieveServiceContent", "Login", "Logout", "SessionIsActive", "CurrentTime", "RetrieveProperties",
	"RetrievePropertiesEx", "ContinueRetrievePropertiesEx", "CancelRetrievePropertiesEx", "CreateContainerView", "DestroyView",
	"FindByUuid", "FindAllByUuid", "FindByInventoryPath", "CreateFilter", "WaitForUpdatesEx", "DestroyPropertyFilter",
	"CreatePropertyCollector", "DestroyPropertyCollector",
}

// describe names the caller by the edge that it came over, which is its host's, and by its user agent.
func describe(l cluster.Layout, r *http.Request, body []byte) v1.CloudCall {
	component := cluster.CloudControllerManager
	if strings.HasPrefix(r.UserAgent(), inTreeAgent) {
		component = cluster.ControllerManager
	}
	call := v1.CloudCall{Service: "rest", Action: r.Method + " " + r.URL.Path, Key: l.KeyOf(Kind{}, r, component)}
	if m := soapOperation.FindSubmatch(body); m != nil {
		call.Service, call.Action = "vim", string(m[1])
		call.Mutating = !slices.Contains(reads, call.Action)
	}
	return call
}

// complete has a fault as the error; the simulator says of an operation that it does not have that it was not found.
func complete(call *v1.CloudCall, status int, answer []byte) {
	if status < http.StatusBadRequest {
		return
	}
	call.Error = http.StatusText(status)
	call.Unknown = strings.Contains(string(answer), "does not implement") || status == http.StatusNotImplemented
}
