// Package api decides what the simulated cloud and its clients say to each other: one POST with a JSON body for each
// operation, under PathPrefix, with the caller's name in a header. A request is a call, whatever a provider makes of
// it.
package api

import "slices"

const (
	// PathPrefix is what the path of an operation begins with; its name follows.
	PathPrefix = "/v1/"
	// AdminPrefix is what the paths of the controls begin with. They are no calls.
	AdminPrefix = "/admin/"
	// CallerHeader names who calls. A request without it is refused.
	CallerHeader = "X-Sim-Caller"
	// MaxInstances is how many instances one call may ask for.
	MaxInstances = 1000
)

// Operation is what a call asks for.
type Operation string

// The operations.
const (
	DescribeInstances  Operation = "DescribeInstances"
	GetLoadBalancer    Operation = "GetLoadBalancer"
	EnsureLoadBalancer Operation = "EnsureLoadBalancer" // creates it, or makes it what is asked for
	UpdateLoadBalancer Operation = "UpdateLoadBalancer" // changes its members only
	DeleteLoadBalancer Operation = "DeleteLoadBalancer"
	ListRoutes         Operation = "ListRoutes"
	CreateRoute        Operation = "CreateRoute"
	DeleteRoute        Operation = "DeleteRoute"
)

// Operations are all of them.
var Operations = []Operation{
	DescribeInstances,
	GetLoadBalancer,
	EnsureLoadBalancer,
	UpdateLoadBalancer,
	DeleteLoadBalancer,
	ListRoutes,
	CreateRoute,
	DeleteRoute,
}

// Mutating reports whether an operation is one that may change something.
func (o Operation) Mutating() bool {
	return o != DescribeInstances && o != GetLoadBalancer && o != ListRoutes
}

// Known reports whether there is such an operation.
func (o Operation) Known() bool { return slices.Contains(Operations, o) }

// Instance is a machine.
type Instance struct {
	Name       string            `json:"name"` // of the Node
	ProviderID string            `json:"providerID"`
	Addresses  []Address         `json:"addresses,omitempty"`
	Type       string            `json:"type,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	Region     string            `json:"region,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // further labels of its Node
	Shutdown   bool              `json:"shutdown,omitempty"`
}

// Address is an address of an instance, with a type of Kubernetes.
type Address struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// LoadBalancer is a load balancer.
type LoadBalancer struct {
	Name     string            `json:"name"`
	Service  string            `json:"service"` // namespace/name, for people
	Ports    []Port            `json:"ports"`
	Members  []string          `json:"members"`            // provider ids, sorted
	Settings map[string]string `json:"settings,omitempty"` // whatever else the Service asks for
	Ingress  Ingress           `json:"ingress"`
}

// Port is what a load balancer forwards.
type Port struct {
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
	NodePort int32  `json:"nodePort"`
}

// Ingress is where a load balancer is reached: at a host name, or at an address. Asking for one, IP and Hostname are
// empty, and Kind chooses.
type Ingress struct {
	Kind     string `json:"kind,omitempty"` // hostname (default) or ip
	Hostname string `json:"hostname,omitempty"`
	IP       string `json:"ip,omitempty"`
	IPMode   string `json:"ipMode,omitempty"` // VIP, Proxy or empty
}

// The kinds of ingress.
const (
	KindHostname = "hostname"
	KindIP       = "ip"
)

// Route sends a range of pod addresses to an instance.
type Route struct {
	Name      string `json:"name"`
	CIDR      string `json:"cidr"`
	Node      string `json:"node,omitempty"`
	Blackhole bool   `json:"blackhole,omitempty"`
}

// Request is the body of every operation; each uses its own fields.
type Request struct {
	IDs   []string `json:"ids,omitempty"`   // DescribeInstances: by provider id
	Names []string `json:"names,omitempty"` // DescribeInstances: by name
	// GetLoadBalancer, UpdateLoadBalancer, DeleteLoadBalancer, DeleteRoute
	Name         string        `json:"name,omitempty"`
	Members      []string      `json:"members,omitempty"`      // UpdateLoadBalancer
	LoadBalancer *LoadBalancer `json:"loadBalancer,omitempty"` // EnsureLoadBalancer
	Route        *Route        `json:"route,omitempty"`        // CreateRoute
}

// Response is the body of every answer; each operation has its own fields. What does not exist is left out.
type Response struct {
	Instances    []Instance    `json:"instances,omitempty"`
	LoadBalancer *LoadBalancer `json:"loadBalancer,omitempty"`
	Routes       []Route       `json:"routes,omitempty"`
}

// Refusal is the body of an answer whose status is not 200.
type Refusal struct {
	Message string `json:"message"`
}
