package gcesim

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// link is the address of an object.
func (c *Cloud) link(path string) string {
	return c.server.URL + "/compute/v1/projects/" + Project + "/" + path
}

// put keeps a new object.
func (c *Cloud) put(at string, o object) object {
	c.number++
	o["id"] = fmt.Sprint(c.number)
	o["selfLink"] = c.link(at)
	if c.objects[at] == nil {
		c.order = append(c.order, at)
	}
	c.objects[at] = o
	return o
}

func (c *Cloud) drop(at string) {
	delete(c.objects, at)
	c.order = slices.DeleteFunc(c.order, func(p string) bool { return p == at })
}

// text is a field of an object.
func text(o object, field string) string {
	value, _ := o[field].(string)
	return value
}

func (c *Cloud) insert(in *request, at string) (object, *refusal) {
	collection, name := path.Base(at), text(in.body, "name")
	if name == "" || strings.HasSuffix(name, "-") || len(name) > 63 {
		return nil, refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.name': '%s'", name)
	}
	if c.objects[at+"/"+name] != nil {
		return nil, refuse(http.StatusConflict, "alreadyExists", "The resource 'projects/%s/%s/%s' already exists", Project, at, name)
	}
	var refused *refusal
	switch collection {
	case "addresses":
		refused = c.reserve(in.body)
	case "forwardingRules":
		refused = c.allocate(at, in.body)
	case "targetPools":
		refused = c.checkPool(in.body)
	case "backendServices", "firewalls", "httpHealthChecks", "healthChecks", "routes", "instanceGroups":
	default:
		refused = unknown
	}
	if refused != nil {
		return nil, refused
	}
	if network := text(in.body, "network"); network != "" && c.objects["global/networks/"+path.Base(network)] == nil {
		return nil, notFound("global/networks/" + path.Base(network))
	}
	return c.operation(at+"/"+name, func() { c.put(at+"/"+name, in.body) }), nil
}

// holders are the objects of a collection with a value in a field.
func (c *Cloud) holders(collection, field, value string) (all []string) {
	for _, p := range c.order {
		if path.Base(path.Dir(p)) == collection && text(c.objects[p], field) == value {
			all = append(all, p)
		}
	}
	return all
}

// reserve gives a static address: a free one, or the one that is asked for.
func (c *Cloud) reserve(o object) *refusal {
	wanted := text(o, "address")
	if wanted == "" {
		o["address"] = c.free()
	} else if len(c.holders("addresses", "address", wanted)) > 0 {
		return refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.address': '%s'. "+
			"Specified IP address is already reserved.", wanted)
	}
	o["status"] = "RESERVED"
	return nil
}

func (c *Cloud) free() string {
	c.number++
	return fmt.Sprintf("198.51.%d.%d", c.number/250, c.number%250+1)
}

// allocate gives a forwarding rule its address: one that is reserved and not in use, or an ephemeral one.
func (c *Cloud) allocate(at string, o object) *refusal {
	if text(o, "loadBalancingScheme") == "" {
		o["loadBalancingScheme"] = "EXTERNAL"
	}
	if target := text(o, "target"); target != "" {
		pool := path.Dir(at) + "/targetPools/" + path.Base(target)
		if c.objects[pool] == nil {
			return notFound(pool)
		}
	}
	wanted := text(o, "IPAddress")
	switch {
	case wanted == "":
		o["IPAddress"] = c.free()
	case len(c.holders("forwardingRules", "IPAddress", wanted)) > 0:
		return refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.IPAddress': '%s'. "+
			"Specified IP address is in-use and would result in a conflict.", wanted)
	case len(c.holders("addresses", "address", wanted)) == 0 && text(o, "loadBalancingScheme") == "EXTERNAL":
		return refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.IPAddress': '%s'. "+
			"It is not reserved.", wanted)
	}
	return nil
}

// below is the path of an object that a link names, below the project.
func below(link string) string {
	if i := strings.Index(link, "/zones/"); i >= 0 {
		return link[i+1:]
	}
	return strings.TrimPrefix(link, "/")
}

func (c *Cloud) checkPool(o object) *refusal {
	links, _ := o["instances"].([]any)
	var full []any
	for _, one := range links {
		at := below(fmt.Sprint(one))
		if c.objects[at] == nil {
			return notFound(at)
		}
		full = append(full, c.link(at))
	}
	o["instances"] = full
	checks, _ := o["healthChecks"].([]any)
	for _, check := range checks {
		if at := "global/httpHealthChecks/" + path.Base(fmt.Sprint(check)); c.objects[at] == nil {
			return notFound(at)
		}
	}
	return nil
}

// userOf is the object that uses another one, which so cannot be deleted; empty for none.
func (c *Cloud) userOf(at, collection string) string {
	uses := map[string]struct{ by, field string }{
		"targetPools":      {"forwardingRules", "target"},
		"backendServices":  {"forwardingRules", "backendService"},
		"httpHealthChecks": {"targetPools", "healthChecks"},
		"healthChecks":     {"backendServices", "healthChecks"},
		"instanceGroups":   {"backendServices", "backends"},
	}[collection]
	name := path.Base(at)
	if collection == "instanceGroups" { // those of all zones have one name
		name = at
	}
	for _, p := range c.order {
		if uses.by == "" || path.Base(path.Dir(p)) != uses.by {
			continue
		}
		links := strings.ReplaceAll(fmt.Sprint(c.objects[p][uses.field]), "]", " ") + " "
		if strings.Contains(links, "/"+name+" ") {
			return p
		}
	}
	return ""
}

// verb is a request to an object that is no creation, change or deletion.
func (c *Cloud) verb(in *request, at, verb string) (object, *refusal) {
	o := c.objects[at]
	if in.method != http.MethodPost {
		return nil, unknown
	}
	if o == nil {
		return nil, notFound(at)
	}
	switch verb {
	case "operations.wait":
		c.finish(at)
		return o, nil
	case "targetPools.addInstance", "targetPools.removeInstance":
		return c.changeMembers(in, at, strings.HasSuffix(verb, "addInstance"))
	case "instanceGroups.addInstances", "instanceGroups.removeInstances":
		return c.changeMembers(in, at, strings.HasSuffix(verb, "addInstances"))
	case "instanceGroups.listInstances":
		items := []any{}
		members, _ := o["instances"].([]any)
		for _, one := range members {
			items = append(items, object{"instance": one, "status": "RUNNING"})
		}
		return object{"items": items}, nil
	}
	return nil, unknown
}

func (c *Cloud) changeMembers(in *request, at string, add bool) (object, *refusal) {
	members, _ := c.objects[at]["instances"].([]any)
	references, _ := in.body["instances"].([]any)
	for _, one := range references {
		reference, _ := one.(object)
		instance := below(text(reference, "instance"))
		full := c.link(instance)
		isMember := slices.Contains(members, any(full))
		switch {
		case add && c.objects[instance] == nil:
			return nil, notFound(instance)
		case add && !isMember:
			members = append(slices.Clone(members), full)
		case !add && isMember:
			members = slices.DeleteFunc(slices.Clone(members), func(m any) bool { return m == any(full) })
		case !add && path.Base(path.Dir(at)) == "instanceGroups":
			return nil, refuse(http.StatusBadRequest, "memberNotFound", "The instance %s is not a member", instance)
		}
	}
	return c.operation(at, func() { c.objects[at]["instances"] = members }), nil
}
