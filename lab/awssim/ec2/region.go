package ec2

import (
	"fmt"
	"strconv"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// AccountID owns everything.
const AccountID = "123456789012"

// Instance is a simulated machine.
type Instance struct {
	// ID is i- and 17 hexadecimal digits.
	ID string `json:"id"`
	// Type is the instance type, e.g. m5.large.
	Type string `json:"type,omitempty"`
	// State is pending, running, shutting-down, terminated, stopping or stopped.
	State string `json:"state,omitempty"`
	// Zone is the availability zone.
	Zone string `json:"zone,omitempty"`
	// Subnet is the subnet of the only network interface.
	Subnet string `json:"subnet,omitempty"`
	// PrivateIP is the address of the only network interface.
	PrivateIP string `json:"privateIP"`
	// PrivateDNS is the private DNS name, which the in-tree provider demands as Node name.
	PrivateDNS string `json:"privateDNS,omitempty"`
	// SecurityGroups are ids of the interface's groups.
	SecurityGroups []string `json:"securityGroups,omitempty"`
	// Profile is the name of the instance profile, through which its pods get credentials; empty for none.
	Profile string `json:"profile,omitempty"`
	// MetadataHops is how many hops answers of the metadata service travel: with 1 they do not reach a pod. 0 leaves the
	// options out of the answer.
	MetadataHops int `json:"metadataHops,omitempty"`
	// HostnameType is ip-name or resource-name; empty leaves it out of the answer.
	HostnameType string `json:"hostnameType,omitempty"`
	// SourceDestCheckOff is true once the route loop has let the instance forward packets that aren't its own.
	SourceDestCheckOff bool `json:"sourceDestCheckOff,omitempty"`
	// Hidden is true for one that answers leave out though EC2 knows it, without refusing to ask for it.
	Hidden bool `json:"hidden,omitempty"`
	// Tags by key.
	Tags map[string]string `json:"tags,omitempty"`
}

// Zone is an availability zone.
type Zone struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// VPC is the one network.
type VPC struct {
	ID   string            `json:"id"`
	CIDR string            `json:"cidr"`
	Tags map[string]string `json:"tags,omitempty"`
}

// Subnet lies in one zone.
type Subnet struct {
	ID   string            `json:"id"`
	Zone string            `json:"zone"`
	CIDR string            `json:"cidr"`
	Tags map[string]string `json:"tags,omitempty"`
}

// RouteTable holds routes, in the order in which they were made.
type RouteTable struct {
	ID      string            `json:"id"`
	Subnets []string          `json:"subnets"`
	Routes  []Route           `json:"routes"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// Route sends a destination to a gateway or to an instance.
type Route struct {
	CIDR     string `json:"cidr"`
	Gateway  string `json:"gateway,omitempty"`
	Instance string `json:"instance,omitempty"`
	// State is active or blackhole.
	State string `json:"state"`
	// Origin is CreateRouteTable or CreateRoute.
	Origin string `json:"origin"`
}

// SecurityGroup is a set of ingress rules.
type SecurityGroup struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Rules       []Rule            `json:"rules"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// Rule is one ingress rule with one source. The ports are empty when the protocol has none.
type Rule struct {
	Protocol    string `json:"protocol"`
	From        string `json:"from,omitempty"`
	To          string `json:"to,omitempty"`
	CIDR        string `json:"cidr,omitempty"`
	CIDRv6      string `json:"cidrV6,omitempty"`
	Group       string `json:"group,omitempty"`
	Description string `json:"description,omitempty"`
}

// State is everything there is, by id.
type State struct {
	Name           string                    `json:"name"`
	Zones          []Zone                    `json:"zones"`
	VPC            VPC                       `json:"vpc"`
	Subnets        map[string]*Subnet        `json:"subnets"`
	RouteTables    map[string]*RouteTable    `json:"routeTables"`
	SecurityGroups map[string]*SecurityGroup `json:"securityGroups"`
	Instances      map[string]*Instance      `json:"instances"`
	Volumes        map[string]*Volume        `json:"volumes,omitempty"`
}

// Region acts on a State.
type Region struct {
	State
	// groupUsers say whether something outside EC2 (a load balancer) uses a security group.
	groupUsers []func(group string) bool
	groups     int
	volumes    int
}

// New is a region with the given contents.
func New(s State) *Region { return &Region{State: s} }

// UsesGroups registers who else can hold a security group, so that deleting one in use is refused.
func (r *Region) UsesGroups(user func(group string) bool) { r.groupUsers = append(r.groupUsers, user) }

// Running reports whether an instance exists and runs.
func (r *Region) Running(id string) bool {
	i := r.Instances[id]
	return i != nil && i.State == "running"
}

// Actions are the operations of the API in the order of the reference page.
func (r *Region) Actions() []wire.Action {
	var all []wire.Action
	for _, part := range [][]wire.Action{
		r.instanceActions(), r.networkActions(), r.routeActions(), r.groupActions(), r.tagActions(),
		r.volumeActions(),
	} {
		all = append(all, part...)
	}
	return all
}

// nextGroupID numbers new security groups; the numbers start high enough not to meet ids that a configuration would
// choose.
func (r *Region) nextGroupID() string {
	r.groups++
	return fmt.Sprintf("sg-%017x", 0xabc0000+r.groups)
}

// page cuts a sorted list of ids for MaxResults and NextToken. The token is the last id of the page before, so that a
// page is right even when an instance went away in between. DescribeInstances: "This value can be between 5 and 1000.
// You cannot specify this parameter and the instance IDs parameter in the same call."
func page(c *wire.Call, ids []string, named bool) (cut []string, next string, err error) {
	size, paged, err := c.Number("MaxResults", 5, 1000, "InvalidParameterValue")
	if err != nil {
		return nil, "", err
	}
	if paged && named {
		return nil, "", wire.Fail(
			"InvalidParameterCombination",
			"The parameter MaxResults may not be used together with a list of ids.",
		)
	}
	start := 0
	if token := c.Params["NextToken"]; token != "" {
		after, err := strconv.Unquote(token)
		if err != nil {
			return nil, "", wire.Fail("InvalidNextToken", "The token '%s' is invalid.", token)
		}
		for start < len(ids) && ids[start] <= after {
			start++
		}
	}
	cut = ids[start:]
	if paged && len(cut) > size {
		cut = cut[:size]
		next = strconv.Quote(cut[size-1])
	}
	return cut, next, nil
}
