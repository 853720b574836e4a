package cluster

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Kind is a kind of cloud that a lab simulates, and what a cluster on it is like while the in-tree provider serves it.
type Kind interface {
	// Provider is the value of --cloud-provider.
	Provider() string
	// Version is that of the control plane and of the kubelets: one that has the in-tree provider.
	Version() string
	// Place gives a host its names and its machine. Its name and its private address are there already.
	Place(h *Host)
	// Config is the in-tree provider's cloud config of a host, whose managers reach the cloud at an endpoint, host:port.
	Config(h *Host, endpoint string) string
	// Flags are further ones of kube-apiserver, kube-controller-manager, kube-scheduler or a kubelet.
	Flags(component string) map[string]string
	// Rights are what the in-tree provider's own account, cloud-provider, needs next to what Kubernetes gives it.
	Rights() []rbacv1.PolicyRule
	// ManagerEnv is what a manager of a host has in its environment. The cloud itself is at an endpoint, host:port, that
	// is no edge of the host.
	ManagerEnv(h *Host, component, endpoint string) []corev1.EnvVar
	// Env is what a program in an administrator's hands has, NAME=VALUE, with the cloud at an endpoint.
	Env(endpoint string) []string
	// Instance is what a host's kubelet learns from the cloud about its machine.
	Instance(h *Host) *kubelet.Instance
	// Services are the workload, new ones at each call.
	Services() []*corev1.Service
	// Key is the identity of a manager in the cloud's audit log.
	Key(h *Host, component string) string
	// Start starts the cloud with the machines of all hosts.
	Start(Layout) (Cloud, error)
}

// release is a kind with another version of Kubernetes than its own, where one is given, and the gates of that version
// and of the lab's options.
type release struct {
	Kind

	version, gates string
}

// OfVersion is a kind with a version of Kubernetes; with the kind's own where it is empty.
func OfVersion(kind Kind, version string) Kind { return release{Kind: kind, version: version} }

// Version implements Kind.
func (r release) Version() string { return cmp.Or(r.version, r.Kind.Version()) }

// gatesSince is the first minor that refuses a provider's name, in each program, unless both of inTreeGates are off.
const (
	gatesSince  = 29
	inTreeGates = "DisableCloudProviders=false,DisableKubeletCloudCredentialProviders=false"
)

// Flags implements Kind.
func (r release) Flags(component string) map[string]string {
	flags := maps.Clone(r.Kind.Flags(component))
	var gates []string
	if component != Scheduler && version.MustParse(r.Version()).Minor() >= gatesSince {
		gates = append(gates, inTreeGates)
	}
	if r.gates != "" {
		gates = append(gates, r.gates)
	}
	if len(gates) == 0 {
		return flags
	}
	if flags == nil {
		flags = map[string]string{}
	}
	flags["feature-gates"] = strings.Join(gates, ",")
	return flags
}

// Layout is what a cloud is told of its lab.
type Layout struct {
	Hosts []*Host
	// AuditFile is where the cloud's audit log is written.
	AuditFile string
	// HostOf returns the host whose managers reach the cloud at an address; nil for none.
	HostOf func(address string) *Host
}

// KeyOf is the Key of the manager that has made a request: the one of the component on the host whose edge the request
// came over. It is "?" for a request of anybody else.
func (l Layout) KeyOf(k Kind, r *http.Request, component string) string {
	address, _, _ := net.SplitHostPort(r.Host) // without a port nothing is found
	if h := l.HostOf(address); h != nil {
		return k.Key(h, component)
	}
	return "?"
}

// Cloud is a simulated cloud that runs.
type Cloud interface {
	// Serve serves the cloud until Close.
	Serve(net.Listener) error
	// Close ends it, first what hangs in it. It ends the audit log.
	Close() error
	// Missing returns an error that names what the cloud has not yet been told of a host that has a range for pods.
	Missing(h *Host, podCIDR string) error
	// State is what the cloud holds, to be written as JSON that two equal clouds share.
	State() any
	// Unknown are the requests that the cloud does not know. Each is a failure of the lab.
	Unknown() []string
}
