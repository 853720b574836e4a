package ec2

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// stateCodes are the low bytes of instance-state-code.
var stateCodes = map[string]int{
	"pending":       0,
	"running":       16,
	"shutting-down": 32,
	"terminated":    48,
	"stopping":      64,
	"stopped":       80,
}

var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

func (r *Region) instanceActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeInstances",
			Params: []string{"InstanceId.N", "Filter.N.Name", "Filter.N.Value.N", "MaxResults", "NextToken"},
			Filters: []string{
				"instance-id",
				"instance-state-name",
				"private-dns-name",
				"private-ip-address",
				"vpc-id",
				"subnet-id",
				"availability-zone",
				"instance-type",
				"tag-key",
				"tag:<key>",
			},
			Errors: []string{
				"InvalidInstanceID.NotFound",
				"InvalidInstanceID.Malformed",
				"InvalidParameterCombination",
				"InvalidParameterValue",
				"InvalidNextToken",
				"FilterLimitExceeded",
			},
			Note: "One reservation per instance, sorted by id. Without MaxResults everything comes at once. At most 1,000 ids, and 200 values per filter. Unknown ids " +
				"are all named in the refusal, malformed ones by the first. A terminated instance keeps its id, zone and tags and loses address, name, groups and interface.",
			Do: r.describeInstances,
		},
		{
			Name:   "DescribeInstanceTopology",
			Params: []string{"InstanceId.N", "MaxResults", "NextToken"},
			Errors: []string{"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidParameterValue"},
			Note:   "Always an empty set, which is what AWS answers for types without topology. At most 100 ids.",
			Do: func(c *wire.Call) ([]wire.Node, error) {
				if err := r.askable(c, topologiesPerCall); err != nil {
					return nil, err
				}
				return []wire.Node{wire.El("instanceSet")}, nil
			},
		},
		{
			Name:     "ModifyInstanceAttribute",
			Mutating: true,
			Params:   []string{"InstanceId", "SourceDestCheck.Value"},
			Errors: []string{
				"MissingParameter",
				"InvalidInstanceID.NotFound",
				"InvalidInstanceID.Malformed",
				"IncorrectInstanceState",
				"InvalidParameterValue",
			},
			Note: "Only the attribute sourceDestCheck.",
			Do:   r.modifyInstanceAttribute,
		},
	}
}

// Limits of one call: "you should not specify more than 1,000 IDs", "up to 200 values per filter" (EC2 developer
// guide), and "Maximum 100 explicitly specified instance IDs" (DescribeInstanceTopology).
const (
	idsPerCall        = 1000
	valuesPerFilter   = 200
	topologiesPerCall = 100
)

// askable refuses a call for too much, and one that names instances which are not there: EC2 then names all of them, so
// that a caller can ask again for the others.
func (r *Region) askable(c *wire.Call, limit int) error {
	asked := c.List("InstanceId")
	if len(asked) > limit {
		return wire.Fail("InvalidParameterValue", "%d ids are more than the %d of one call.", len(asked), limit)
	}
	for _, f := range c.Filters() {
		if n := len(f.Values); n > valuesPerFilter {
			return wire.Fail(
				"FilterLimitExceeded",
				"The maximum number of filter values specified on a single call is %d; the filter %s has %d.",
				valuesPerFilter,
				f.Name,
				n,
			)
		}
	}
	var unknown []string
	for _, id := range asked {
		if !instanceID.MatchString(id) {
			return unknownInstance(id)
		}
		if r.Instances[id] == nil && !slices.Contains(unknown, id) {
			unknown = append(unknown, id)
		}
	}
	switch len(unknown) {
	case 0:
		return nil
	case 1:
		return unknownInstance(unknown[0])
	default:
		return wire.Fail("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
}

func (r *Region) describeInstances(c *wire.Call) ([]wire.Node, error) {
	if err := r.askable(c, idsPerCall); err != nil {
		return nil, err
	}
	list, named, err := ids(c, "InstanceId", r.Instances, unknownInstance)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(id string) bool {
		i := r.Instances[id]
		v := r.visible(i)
		return i.Hidden || !selected(c, map[string][]string{
			"instance-id": {
				id,
			},
			"instance-state-name": {i.State},
			"private-dns-name":    {v.PrivateDNS},
			"private-ip-address":  {v.PrivateIP},
			"vpc-id":              {r.vpcOf(v)},
			"subnet-id":           {v.Subnet},
			"availability-zone":   {i.Zone},
			"instance-type":       {i.Type},
		}, i.Tags)
	})
	cut, next, err := page(c, list, named)
	if err != nil {
		return nil, err
	}
	set := wire.El("reservationSet")
	for _, id := range cut {
		set.Children = append(set.Children, wire.El("item",
			wire.Text("reservationId", "r-"+id[2:]), wire.Text("ownerId", AccountID), wire.El("groupSet"),
			wire.El("instancesSet", r.instanceNode(r.Instances[id]))))
	}
	return []wire.Node{set, wire.Opt("nextToken", next)}, nil
}

// visible is an instance as DescribeInstances shows it. A terminated one has lost its network interface, and with it
// everything that hangs on it.
func (r *Region) visible(i *Instance) Instance {
	v := *i
	if i.State == "terminated" {
		v.PrivateIP, v.PrivateDNS, v.Subnet, v.SecurityGroups = "", "", "", nil
	}
	return v
}

func (r *Region) vpcOf(v Instance) string {
	if v.Subnet == "" {
		return ""
	}
	return r.VPC.ID
}

func (r *Region) instanceNode(i *Instance) wire.Node {
	v := r.visible(i)
	interfaces := wire.El("networkInterfaceSet")
	if v.Subnet != "" {
		interfaces.Children = append(interfaces.Children, r.interfaceNode(&v))
	}
	item := wire.El("item",
		wire.Text("instanceId", v.ID), wire.Text("imageId", "ami-00000000000000001"),
		wire.El("instanceState", wire.Int("code", stateCodes[v.State]), wire.Text("name", v.State)),
		wire.Text("privateDnsName", v.PrivateDNS), wire.Text("dnsName", ""), wire.Text("instanceType", v.Type),
		wire.Text("launchTime", "2026-01-01T00:00:00.000Z"),
		wire.El("placement", wire.Text("availabilityZone", v.Zone), wire.Text("tenancy", "default")),
		wire.Opt("subnetId", v.Subnet), wire.Opt("vpcId", r.vpcOf(v)), wire.Opt("privateIpAddress", v.PrivateIP),
		wire.Bool("sourceDestCheck", !v.SourceDestCheckOff), r.devicesNode(v.ID), r.groupSet(v.SecurityGroups), interfaces,
		wire.TagNodes("tagSet", "item", "key", "value", v.Tags), wire.Text("architecture", "x86_64"))
	if v.Profile != "" {
		item.Children = append(item.Children, wire.El(
			"iamInstanceProfile",
			wire.Text(
				"arn",
				"arn:aws:iam::"+AccountID+":instance-profile/"+v.Profile,
			),
			wire.Text("id", "AIPA00000000000000001"),
		))
	}
	if v.MetadataHops > 0 {
		item.Children = append(
			item.Children,
			wire.El("metadataOptions", wire.Text("state", "applied"), wire.Text("httpTokens", "required"),
				wire.Int("httpPutResponseHopLimit", v.MetadataHops), wire.Text("httpEndpoint", "enabled")),
		)
	}
	if v.HostnameType != "" {
		item.Children = append(item.Children, wire.El("privateDnsNameOptions", wire.Text("hostnameType", v.HostnameType)))
	}
	return item
}

func (r *Region) groupSet(groups []string) wire.Node {
	set := wire.El("groupSet")
	for _, g := range groups {
		name := ""
		if sg := r.SecurityGroups[g]; sg != nil {
			name = sg.Name
		}
		set.Children = append(set.Children, wire.El("item", wire.Text("groupId", g), wire.Text("groupName", name)))
	}
	return set
}

// instance finds the one that a mutating call is about.
func (r *Region) instance(id string) (*Instance, error) {
	if i := r.Instances[id]; i != nil {
		return i, nil
	}
	return nil, unknownInstance(id)
}

func unknownInstance(id string) error {
	if !instanceID.MatchString(id) {
		return wire.Fail("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
	}
	return wire.Fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

func (r *Region) modifyInstanceAttribute(c *wire.Call) ([]wire.Node, error) {
	id, err := required(c, "InstanceId")
	if err != nil {
		return nil, err
	}
	i, err := r.instance(id)
	if err != nil {
		return nil, err
	}
	value, err := required(c, "SourceDestCheck.Value")
	if err != nil {
		return nil, err
	}
	if value != "true" && value != "false" {
		return nil, wire.Fail("InvalidParameterValue", "Value (%s) for parameter sourceDestCheck is invalid.", value)
	}
	if i.State == "terminated" || i.State == "shutting-down" {
		return nil, wire.Fail(
			"IncorrectInstanceState",
			"The instance '%s' is not in a state from which it can be modified.",
			id,
		)
	}
	i.SourceDestCheckOff = value == "false"
	return done(), nil
}

// done is the answer of most mutating actions.
func done() []wire.Node { return []wire.Node{wire.Bool("return", true)} }

// Add launches an instance whose fields are complete, or says which one is wrong.
func (r *Region) Add(i Instance) error {
	if !instanceID.MatchString(i.ID) {
		return fmt.Errorf("adding instance %q: the id must be i- and 8 or 17 hexadecimal digits", i.ID)
	}
	if r.Instances[i.ID] != nil {
		return fmt.Errorf("adding instance %q: there is one with this id", i.ID)
	}
	if _, err := netip.ParseAddr(i.PrivateIP); err != nil {
		return fmt.Errorf("adding instance %q: reading its private address: %w", i.ID, err)
	}
	if _, ok := stateCodes[i.State]; !ok {
		return fmt.Errorf("adding instance %q: unknown state %q", i.ID, i.State)
	}
	subnet := r.Subnets[i.Subnet]
	if subnet == nil || subnet.Zone != i.Zone {
		return fmt.Errorf("adding instance %q: there is no subnet %q in zone %q", i.ID, i.Subnet, i.Zone)
	}
	for _, g := range i.SecurityGroups {
		if r.SecurityGroups[g] == nil {
			return fmt.Errorf("adding instance %q: there is no security group %q", i.ID, g)
		}
	}
	for _, other := range r.Instances {
		if other.State != "terminated" && other.PrivateIP == i.PrivateIP {
			return fmt.Errorf("adding instance %q: address %s belongs to %s", i.ID, i.PrivateIP, other.ID)
		}
	}
	r.Instances[i.ID] = &i
	return nil
}

// SetState moves an instance to a state, whatever the one before; routes to it become blackholes or active again.
func (r *Region) SetState(id, state string) error {
	if r.Instances[id] == nil {
		return fmt.Errorf("setting the state of instance %q: there is no such instance", id)
	}
	if _, ok := stateCodes[state]; !ok {
		return fmt.Errorf("setting the state of instance %q: unknown state %q", id, state)
	}
	r.Instances[id].State = state
	r.settleRoutes()
	r.settleVolumes()
	return nil
}

// Vanish makes EC2 forget an instance, as it does about an hour after termination.
func (r *Region) Vanish(id string) error {
	if r.Instances[id] == nil {
		return fmt.Errorf("forgetting instance %q: there is no such instance", id)
	}
	delete(r.Instances, id)
	r.settleRoutes()
	r.settleVolumes()
	return nil
}
