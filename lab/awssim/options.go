package awssim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/lab/awssim/ec2"
)

// Instance is a simulated EC2 instance; see Options.Instances for what may be left out.
type Instance = ec2.Instance

// Options describe the account at the start. The zero value is the lab of the documentation: vpc-lab in us-east-1 with
// subnet-a and subnet-b, rtb-lab with a route to an internet gateway, the security group sg-nodes, everything tagged
// for the cluster "lab", and no instances.
type Options struct {
	// Region is the AWS region; us-east-1 by default.
	Region string `json:"region,omitempty"`
	// Zones are availability zones of the region; <region>a and <region>b by default. Each has one public subnet, named by
	// the zone's last letter: subnet-a lies in us-east-1a. At most 16.
	Zones []string `json:"zones,omitempty"`
	// VPC is the id of the network; vpc-lab by default.
	VPC string `json:"vpc,omitempty"`
	// VPCCIDR is the network's address range, at most a /20 long; 10.0.0.0/16 by default. Subnets get a 16th each, in
	// order. Instances' addresses are not held against their subnet's range.
	VPCCIDR string `json:"vpcCIDR,omitempty"`
	// RouteTable is the id of the only route table, associated with all subnets; rtb-lab by default.
	RouteTable string `json:"routeTable,omitempty"`
	// NodeSecurityGroup is the id of the instances' security group; sg-nodes by default. Both providers want exactly one
	// tagged group per instance.
	NodeSecurityGroup string `json:"nodeSecurityGroup,omitempty"`
	// ClusterID goes into the tag kubernetes.io/cluster/<id>=owned of everything there is at the start; lab by default.
	ClusterID string `json:"clusterID,omitempty"`
	// ExtraSubnets are public subnets next to the zones' own.
	ExtraSubnets []ec2.Subnet `json:"extraSubnets,omitempty"`
	// Instances exist at the start. Only PrivateIP must be given. Defaults: an id made from the address, m5.large,
	// running, zones in turn, the zone's subnet, the region's private DNS name for the address, the node security group,
	// the cluster tag.
	Instances []Instance `json:"instances,omitempty"`
	// Certificates are the ARNs of certificates that listeners may use.
	Certificates []string `json:"certificates,omitempty"`
	// ElasticIPs are allocation ids that network load balancers may use.
	ElasticIPs []string `json:"elasticIPs,omitempty"`
	// Keys are the access key ids that may call, with what they may do. Empty: every key may do everything. Once set,
	// another key is refused.
	Keys map[string]Policy `json:"keys,omitempty"`
	// AuditFile gets one JSON line per call when its outcome is certain; empty for none. It is appended to.
	AuditFile string `json:"auditFile,omitempty"`
	// IMDS chooses the instance that the metadata service speaks for.
	IMDS IMDSOptions `json:"imds,omitzero"`

	// Clock is the source of time; the system's by default.
	Clock clock.Clock `json:"-"`
	// Random gives numbers in [0, 1) for faults that hit by chance.
	Random func() float64 `json:"-"`
}

// IMDSOptions choose the instance behind the metadata service by the caller's address.
type IMDSOptions struct {
	// ByAddress maps a caller's IP address to an instance id. A caller whose address is an instance's PrivateIP needs no
	// entry.
	ByAddress map[string]string `json:"byAddress,omitempty"`
	// Default is the instance id for every other caller; empty: they get 404.
	Default string `json:"default,omitempty"`
}

// Policy is what an access key may do.
type Policy string

const (
	// Full allows every action.
	Full Policy = "full"
	// ReadOnly allows actions that change nothing.
	ReadOnly Policy = "read-only"
)

// complete fills in the defaults and reports everything that is wrong at once.
func (o Options) complete() (Options, error) {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&o.Region, "us-east-1")
	set(&o.VPC, "vpc-lab")
	set(&o.VPCCIDR, "10.0.0.0/16")
	set(&o.RouteTable, "rtb-lab")
	set(&o.NodeSecurityGroup, "sg-nodes")
	set(&o.ClusterID, "lab")
	if len(o.Zones) == 0 {
		o.Zones = []string{o.Region + "a", o.Region + "b"}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	problems := o.networkProblems()
	for _, key := range slices.Sorted(maps.Keys(o.Keys)) {
		if p := o.Keys[key]; p != Full && p != ReadOnly {
			problems = append(
				problems,
				fmt.Errorf("key %s has the policy %q, which is neither %s nor %s", key, p, Full, ReadOnly),
			)
		}
	}
	return o, errors.Join(problems...)
}

func (o Options) networkProblems() []error {
	var problems []error
	if prefix, err := netip.ParsePrefix(o.VPCCIDR); err != nil || !prefix.Addr().Is4() || prefix.Bits() > 20 {
		problems = append(problems, fmt.Errorf("vpcCIDR %q is not an IPv4 range of at least 4096 addresses", o.VPCCIDR))
	}
	if len(o.Zones) > 16 {
		problems = append(
			problems,
			fmt.Errorf("%d zones are more than the 16 that the network is divided among", len(o.Zones)),
		)
	}
	seen := map[string]bool{}
	for _, z := range o.Zones {
		if !strings.HasPrefix(z, o.Region) || len(z) != len(o.Region)+1 || seen[z] {
			problems = append(problems, fmt.Errorf("zone %q is not the region %s and one letter of its own", z, o.Region))
		}
		seen[z] = true
	}
	for _, extra := range o.ExtraSubnets {
		if extra.ID == "" || !seen[extra.Zone] {
			problems = append(
				problems,
				fmt.Errorf("extra subnet %q has no id or lies in none of the zones: %q", extra.ID, extra.Zone),
			)
		}
	}
	return problems
}

// instance fills in what an instance leaves out; n is its number among those added.
func (o Options) instance(i Instance, n int) Instance {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&i.ID, ec2.InstanceID(i.PrivateIP))
	set(&i.Type, "m5.large")
	set(&i.State, "running")
	set(&i.Zone, o.Zones[n%len(o.Zones)])
	set(&i.Subnet, subnetOf(i.Zone))
	set(&i.PrivateDNS, ec2.PrivateDNS(i.PrivateIP, o.Region))
	if i.SecurityGroups == nil {
		i.SecurityGroups = []string{o.NodeSecurityGroup}
	}
	if i.Tags == nil {
		i.Tags = o.clusterTags()
	}
	i.SecurityGroups, i.Tags = slices.Clone(i.SecurityGroups), maps.Clone(i.Tags)
	return i
}

func (o Options) clusterTags() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + o.ClusterID: "owned"}
}

func subnetOf(zone string) string { return "subnet-" + zone[len(zone)-1:] }

// region is the account's EC2 before any instance was launched.
func (o Options) region() *ec2.Region {
	network := netip.MustParsePrefix(o.VPCCIDR)
	s := ec2.State{
		Name: o.Region, VPC: ec2.VPC{ID: o.VPC, CIDR: o.VPCCIDR, Tags: o.clusterTags()},
		Subnets: map[string]*ec2.Subnet{}, RouteTables: map[string]*ec2.RouteTable{},
		SecurityGroups: map[string]*ec2.SecurityGroup{}, Instances: map[string]*ec2.Instance{},
	}
	table := &ec2.RouteTable{ID: o.RouteTable, Tags: o.clusterTags(), Routes: []ec2.Route{
		{CIDR: o.VPCCIDR, Gateway: "local", State: "active", Origin: "CreateRouteTable"},
		{CIDR: "0.0.0.0/0", Gateway: "igw-lab", State: "active", Origin: "CreateRoute"},
	}}
	for n, zone := range o.Zones {
		id := subnetOf(zone)
		s.Zones = append(s.Zones, ec2.Zone{Name: zone, ID: fmt.Sprintf("%s-az%d", zoneCode(o.Region), n+1)})
		s.Subnets[id] = &ec2.Subnet{ID: id, Zone: zone, CIDR: sixteenth(network, n), Tags: o.clusterTags()}
		table.Subnets = append(table.Subnets, id)
	}
	for _, extra := range o.ExtraSubnets {
		extra.Tags = maps.Clone(extra.Tags)
		s.Subnets[extra.ID] = &extra
		table.Subnets = append(table.Subnets, extra.ID)
	}
	s.RouteTables[table.ID] = table
	s.SecurityGroups[o.NodeSecurityGroup] = &ec2.SecurityGroup{
		ID:          o.NodeSecurityGroup,
		Name:        "nodes",
		Description: "Nodes of the cluster " + o.ClusterID,
		Rules:       []ec2.Rule{},
		Tags:        o.clusterTags(),
	}
	return ec2.New(s)
}

// zoneCode is the short form of a region in zone ids: us-east-1 is use1.
func zoneCode(region string) string {
	parts := strings.Split(region, "-")
	code := parts[0]
	for _, p := range parts[1:] {
		code += p[:min(1, len(p))]
	}
	return code
}

// sixteenth is the n-th of 16 equal parts of a network.
func sixteenth(network netip.Prefix, n int) string {
	bits := network.Bits() + 4
	a := network.Masked().Addr().As4()
	base := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	base += uint32(n) << (32 - bits)
	return fmt.Sprintf("%d.%d.%d.%d/%d", byte(base>>24), byte(base>>16), byte(base>>8), byte(base), bits)
}
