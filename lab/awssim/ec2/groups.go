package ec2

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// ruleParams are IpPermissions as the two SDKs send them. Prefix lists and groups by name are not among them: the
// managers never send them.
var ruleParams = []string{"GroupId", "IpPermissions.N.IpProtocol", "IpPermissions.N.FromPort", "IpPermissions.N.ToPort",
	"IpPermissions.N.IpRanges.N.CidrIp", "IpPermissions.N.IpRanges.N.Description",
	"IpPermissions.N.Ipv6Ranges.N.CidrIpv6", "IpPermissions.N.Ipv6Ranges.N.Description",
	"IpPermissions.N.Groups.N.GroupId", "IpPermissions.N.Groups.N.UserId", "IpPermissions.N.Groups.N.Description"}

func (r *Region) groupActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeSecurityGroups",
			Params: []string{"GroupId.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{
				"vpc-id",
				"group-id",
				"group-name",
				"description",
				"ip-permission.group-id",
				"tag-key",
				"tag:<key>",
			},
			Errors: []string{"InvalidGroup.NotFound"},
			Note:   "Egress is always the default rule.",
			Do:     r.describeGroups,
		},
		{
			Name:     "CreateSecurityGroup",
			Mutating: true,
			Params: []string{
				"GroupName",
				"GroupDescription",
				"VpcId",
				"TagSpecification.N.ResourceType",
				"TagSpecification.N.Tag.N.Key",
				"TagSpecification.N.Tag.N.Value",
			},
			Errors: []string{"MissingParameter", "InvalidParameterValue", "InvalidVpcID.NotFound", "InvalidGroup.Duplicate"},
			Do:     r.createGroup,
		},
		{
			Name:     "DeleteSecurityGroup",
			Mutating: true,
			Params:   []string{"GroupId"},
			Errors:   []string{"MissingParameter", "InvalidGroup.NotFound", "DependencyViolation"},
			Note:     "In use is: by an instance that is not terminated, by another group's rule, by a load balancer of either kind.",
			Do:       r.deleteGroup,
		},
		{
			Name:     "AuthorizeSecurityGroupIngress",
			Mutating: true,
			Params:   ruleParams,
			Errors: []string{
				"MissingParameter",
				"InvalidParameterValue",
				"InvalidGroup.NotFound",
				"InvalidPermission.Duplicate",
			},
			Note: "All rules of a call or none. A rule's description does not make it another rule.",
			Do:   r.authorize,
		},
		{
			Name: "RevokeSecurityGroupIngress", Mutating: true,
			Params: ruleParams,
			Errors: []string{"MissingParameter", "InvalidParameterValue", "InvalidGroup.NotFound", "InvalidPermission.NotFound"},
			Note:   "All rules of a call or none, as outside a default VPC.",
			Do:     r.revoke,
		},
	}
}

func (r *Region) describeGroups(c *wire.Call) ([]wire.Node, error) {
	list, _, err := ids(c, "GroupId", r.SecurityGroups, unknownGroup)
	if err != nil {
		return nil, err
	}
	set := wire.El("securityGroupInfo")
	for _, id := range list {
		g := r.SecurityGroups[id]
		var referred []string
		for _, rule := range g.Rules {
			if rule.Group != "" {
				referred = append(referred, rule.Group)
			}
		}
		if !selected(c, map[string][]string{
			"vpc-id": {
				r.VPC.ID,
			},
			"group-id":               {id},
			"group-name":             {g.Name},
			"description":            {g.Description},
			"ip-permission.group-id": referred,
		}, g.Tags) {
			continue
		}
		set.Children = append(set.Children, wire.El(
			"item",
			wire.Text(
				"ownerId",
				AccountID,
			),
			wire.Text("groupId", id),
			wire.Text("groupName", g.Name),
			wire.Text("groupDescription", g.Description),
			wire.Text("vpcId", r.VPC.ID),
			permissions("ipPermissions", g.Rules),
			permissions("ipPermissionsEgress", []Rule{{Protocol: "-1", CIDR: "0.0.0.0/0"}}),
			wire.TagNodes("tagSet", "item", "key", "value", g.Tags),
		))
	}
	return []wire.Node{set}, nil
}

func unknownGroup(id string) error {
	return wire.Fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

func (r *Region) createGroup(c *wire.Call) ([]wire.Node, error) {
	name, err := required(c, "GroupName")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "sg-") {
		return nil, wire.Fail(
			"InvalidParameterValue",
			"Value (%s) for parameter GroupName is invalid. Cannot start with sg-.",
			name,
		)
	}
	description, err := required(c, "GroupDescription")
	if err != nil {
		return nil, err
	}
	vpc, err := required(c, "VpcId")
	if err != nil {
		return nil, err
	}
	if vpc != r.VPC.ID {
		return nil, unknownVPC(vpc)
	}
	tags := map[string]string{}
	for _, spec := range c.Structs("TagSpecification") {
		if spec["ResourceType"] != "security-group" {
			return nil, wire.Fail(
				"InvalidParameterValue",
				"'%s' is not a valid taggable resource type for this operation.",
				spec["ResourceType"],
			)
		}
		for _, t := range spec.Structs("Tag") {
			tags[t["Key"]] = t["Value"]
		}
	}
	for _, g := range r.SecurityGroups {
		if g.Name == name {
			return nil, wire.Fail("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, vpc)
		}
	}
	g := &SecurityGroup{ID: r.nextGroupID(), Name: name, Description: description, Rules: []Rule{}, Tags: tags}
	r.SecurityGroups[g.ID] = g
	c.Made(g.ID)
	return append(done(), wire.Text("groupId", g.ID), wire.TagNodes("tagSet", "item", "key", "value", tags)), nil
}

// group finds the one that a mutating call is about.
func (r *Region) group(c *wire.Call) (*SecurityGroup, error) {
	id, err := required(c, "GroupId")
	if err != nil {
		return nil, err
	}
	g := r.SecurityGroups[id]
	if g == nil {
		return nil, unknownGroup(id)
	}
	return g, nil
}

func (r *Region) deleteGroup(c *wire.Call) ([]wire.Node, error) {
	g, err := r.group(c)
	if err != nil {
		return nil, err
	}
	if r.groupInUse(g.ID) {
		return nil, wire.Fail("DependencyViolation", "resource %s has a dependent object", g.ID)
	}
	delete(r.SecurityGroups, g.ID)
	return done(), nil
}

// groupInUse: "If you attempt to delete a security group that is associated with an instance, or is referenced by
// another security group, the operation fails with [...] DependencyViolation in EC2-VPC." A load balancer's interfaces
// count too: both providers wait for that error to go away after they have deleted one. A group's rules about itself do
// not count.
func (r *Region) groupInUse(id string) bool {
	for _, i := range r.Instances {
		if i.State != "terminated" && slices.Contains(i.SecurityGroups, id) {
			return true
		}
	}
	for _, other := range r.SecurityGroups {
		if other.ID != id && slices.ContainsFunc(other.Rules, func(x Rule) bool { return x.Group == id }) {
			return true
		}
	}
	return slices.ContainsFunc(r.groupUsers, func(uses func(string) bool) bool { return uses(id) })
}
