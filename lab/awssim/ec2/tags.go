package ec2

import (
	"maps"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// maxTags is "Each resource can have a maximum of 50 tags."
const maxTags = 50

func (r *Region) tagActions() []wire.Action {
	return []wire.Action{
		{
			Name:     "CreateTags",
			Mutating: true,
			Params:   []string{"ResourceId.N", "Tag.N.Key", "Tag.N.Value"},
			Errors: []string{
				"MissingParameter",
				"InvalidParameterValue",
				"TagLimitExceeded",
				"InvalidID",
				"InvalidInstanceID.NotFound",
				"InvalidGroup.NotFound",
				"InvalidSubnetID.NotFound",
				"InvalidRouteTableID.NotFound",
				"InvalidVpcID.NotFound",
				"InvalidVolume.NotFound",
			},
			Note: "All resources of a call or none.",
			Do:   r.createTags,
		},
		{
			Name:     "DeleteTags",
			Mutating: true,
			Params:   []string{"ResourceId.N", "Tag.N.Key", "Tag.N.Value"},
			Errors: []string{
				"MissingParameter",
				"InvalidID",
				"InvalidInstanceID.NotFound",
				"InvalidGroup.NotFound",
				"InvalidSubnetID.NotFound",
				"InvalidRouteTableID.NotFound",
				"InvalidVpcID.NotFound",
				"InvalidVolume.NotFound",
			},
			Note: "A tag with a value is deleted only if it has that value; without tags, all are deleted.",
			Do:   r.deleteTags,
		},
		{
			Name:    "DescribeTags",
			Params:  []string{"Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{"key", "value", "resource-id", "resource-type", "tag:<key>"},
			Do:      r.describeTags,
		},
	}
}

// tagged is a resource that can have tags.
type tagged struct {
	kind string
	tags *map[string]string
}

func (r *Region) taggable() map[string]tagged {
	all := map[string]tagged{r.VPC.ID: {"vpc", &r.VPC.Tags}}
	for id, x := range r.Instances {
		all[id] = tagged{"instance", &x.Tags}
	}
	for id, x := range r.SecurityGroups {
		all[id] = tagged{"security-group", &x.Tags}
	}
	for id, x := range r.Subnets {
		all[id] = tagged{"subnet", &x.Tags}
	}
	for id, x := range r.RouteTables {
		all[id] = tagged{"route-table", &x.Tags}
	}
	for id, x := range r.Volumes {
		all[id] = tagged{"volume", &x.Tags}
	}
	return all
}

// resources are what a tag call names. An id of no known form is InvalidID, as cloud-provider-aws pull request 1387
// shows for instances that never were; one of a known form is that kind's NotFound.
func (r *Region) resources(c *wire.Call) ([]tagged, error) {
	all := r.taggable()
	var out []tagged
	for _, id := range c.List("ResourceId") {
		t, ok := all[id]
		if !ok {
			return nil, unknownResource(id)
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, wire.Fail("MissingParameter", "The request must contain the parameter resourceIdSet")
	}
	return out, nil
}

func unknownResource(id string) error {
	kind, _, _ := strings.Cut(id, "-")
	switch {
	case instanceID.MatchString(id):
		return unknownInstance(id)
	case kind == "sg":
		return unknownGroup(id)
	case kind == "subnet":
		return unknownSubnet(id)
	case kind == "rtb":
		return unknownRouteTable(id)
	case kind == "vpc":
		return unknownVPC(id)
	case volumeID.MatchString(id):
		return unknownVolume(id)
	}
	return wire.Fail("InvalidID", "The ID '%s' is not valid", id)
}

func (r *Region) createTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := r.resources(c)
	if err != nil {
		return nil, err
	}
	add := c.Structs("Tag")
	if len(add) == 0 {
		return nil, wire.Fail("MissingParameter", "The request must contain the parameter tagSet")
	}
	updated := make([]map[string]string, len(targets))
	for i, t := range targets {
		updated[i] = maps.Clone(*t.tags)
		if updated[i] == nil {
			updated[i] = map[string]string{}
		}
		for _, tag := range add {
			if tag["Key"] == "" {
				return nil, wire.Fail(
					"InvalidParameterValue",
					"Value ( ) for parameter Tag key is invalid. Tag key cannot be null or empty.",
				)
			}
			updated[i][tag["Key"]] = tag["Value"]
		}
		if len(updated[i]) > maxTags {
			return nil, wire.Fail("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
	}
	for i, t := range targets {
		*t.tags = updated[i]
	}
	return done(), nil
}

func (r *Region) deleteTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := r.resources(c)
	if err != nil {
		return nil, err
	}
	remove := c.Structs("Tag")
	for _, t := range targets {
		if len(remove) == 0 {
			*t.tags = map[string]string{}
		}
		for _, tag := range remove {
			if have, ok := (*t.tags)[tag["Key"]]; ok && (!tag.Has("Value") || tag["Value"] == have) {
				delete(*t.tags, tag["Key"])
			}
		}
	}
	return done(), nil
}

func (r *Region) describeTags(c *wire.Call) ([]wire.Node, error) {
	all := r.taggable()
	set := wire.El("tagSet")
	for _, id := range wire.Keys(all) {
		t := all[id]
		for _, key := range wire.Keys(*t.tags) {
			value := (*t.tags)[key]
			if selected(
				c,
				map[string][]string{"key": {key}, "value": {value}, "resource-id": {id}, "resource-type": {t.kind}},
				map[string]string{key: value},
			) {
				set.Children = append(set.Children, wire.El("item",
					wire.Text("resourceId", id), wire.Text("resourceType", t.kind), wire.Text("key", key), wire.Text("value", value)))
			}
		}
	}
	return []wire.Node{set}, nil
}
