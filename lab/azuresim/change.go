package azuresim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// put keeps an object, with a new ETag.
func (c *Cloud) put(path string, o object) {
	at := strings.ToLower(path)
	c.number++
	o["etag"] = fmt.Sprintf(`W/"%d"`, c.number)
	if o["id"] == nil {
		o["id"], o["name"] = path, nameOf(path)
	}
	if c.objects[at] == nil {
		c.order = append(c.order, at)
	}
	c.objects[at] = o
}

func (c *Cloud) drop(at string) {
	delete(c.objects, at)
	c.order = slices.DeleteFunc(c.order, func(p string) bool { return p == at })
}

// change makes or deletes an object. The answer names an operation that is to be asked for.
func (c *Cloud) change(in *request, kind string) (int, object, *refusal) {
	if owner, pool, isPool := strings.Cut(in.path, "/backendaddresspools/"); isPool {
		return c.changePool(in, owner, pool)
	}
	have := c.objects[in.path]
	if refused := checkETag(in, have); refused != nil {
		return 0, nil, refused
	}
	if in.method == http.MethodDelete {
		return c.remove(in)
	}
	if have == nil && strings.HasPrefix(kind, "microsoft.compute/") {
		return 0, nil, notFound(in.path)
	}
	return c.write(in, kind)
}

// remove deletes an object that nothing uses.
func (c *Cloud) remove(in *request) (int, object, *refusal) {
	if c.objects[in.path] == nil {
		return http.StatusNoContent, nil, nil
	}
	if user := c.userOf(in.path); user != "" {
		return 0, nil, refuse(http.StatusBadRequest, "InUseCannotBeDeleted", "'%s' cannot be deleted: it is in use by '%s'",
			below(in.path), user)
	}
	c.operationOf(in, in.path, func(string) {
		c.drop(in.path)
		c.leavePools(in.path)
	})
	return http.StatusAccepted, nil, nil
}

// write makes or changes an object.
func (c *Cloud) write(in *request, kind string) (int, object, *refusal) {
	have, made := c.objects[in.path], clone(in.body)
	if strings.HasPrefix(kind, "microsoft.compute/") { // what is not sent stays
		made = merged(have, made)
	}
	refused := c.complete(in.given, kind, have, made)
	if refused == nil {
		refused = c.checkPools(made)
	}
	if refused != nil {
		return 0, nil, refused
	}
	properties, _ := made["properties"].(object)
	if properties == nil {
		properties = object{}
		made["properties"] = properties
	}
	properties["resourceGuid"] = fmt.Sprintf("guid-%d", c.number+1)
	status := http.StatusCreated
	if have != nil {
		status = http.StatusOK
		properties["resourceGuid"] = text(have, "properties", "resourceGuid")
		made["id"], made["name"] = have["id"], have["name"]
	} else {
		delete(made, "id")
	}
	answer := clone(made)
	c.operationOf(in, in.path, func(state string) {
		properties["provisioningState"] = state
		c.put(in.given, made)
		answer = c.shown(in.path)
	})
	answer["properties"].(object)["provisioningState"] = "Updating"
	return status, answer, nil
}

// complete adds to an object what Azure adds.
func (c *Cloud) complete(at, kind string, have, made object) *refusal {
	switch kind {
	case "microsoft.network/loadbalancers":
		return c.settle(at, have, made)
	case "microsoft.network/publicipaddresses":
		c.allocate(have, made)
	case "microsoft.network/networksecuritygroups":
		identify(at, made, "securityRules")
	case "microsoft.network/routetables":
		identify(at, made, "routes")
	case "microsoft.network/networkinterfaces":
		keepInterface(have, made)
	}
	return nil
}

// keepInterface has an interface keep what a client cannot write: its machine, and whether it is the first one.
func keepInterface(have, made object) {
	before, _ := have["properties"].(object)
	now, _ := made["properties"].(object)
	for _, field := range []string{"virtualMachine", "primary", "macAddress"} {
		if now != nil && before[field] != nil {
			now[field] = before[field]
		}
	}
}

func checkETag(in *request, have object) *refusal {
	if in.ifIs != "" && in.ifIs != "*" && in.ifIs != text(have, "etag") {
		return refuse(http.StatusPreconditionFailed, "PreconditionFailed", "Precondition failed: the ETag is %s", text(have, "etag"))
	}
	return nil
}

// clone is a copy by JSON.
func clone(o object) (out object) {
	copied, err := json.Marshal(o)
	if err != nil {
		panic(err) // it came from JSON
	}
	_ = json.Unmarshal(copied, &out)
	return out
}

// merged is an object with what is sent in place of what it has.
func merged(have, sent object) object {
	out := clone(have)
	for key, value := range sent {
		inner, isObject := value.(object)
		before, hadObject := out[key].(object)
		if isObject && hadObject {
			value = merged(before, inner)
		}
		out[key] = value
	}
	return out
}

// identify gives the parts of an object their IDs.
func identify(of string, o object, lists ...string) {
	properties, _ := o["properties"].(object)
	for _, list := range lists {
		for _, one := range listIn(properties, list) {
			if part, ok := one.(object); ok {
				part["id"] = of + "/" + list + "/" + text(part, "name")
			}
		}
	}
}

// settle makes of a load balancer that is sent the one that is kept: with IDs, and with the addresses of its frontends.
func (c *Cloud) settle(at string, have, made object) *refusal {
	dropRead(made)
	identify(at, made, "frontendIPConfigurations", "backendAddressPools", "loadBalancingRules", "probes", "outboundRules")
	ports := map[string]string{}
	for _, one := range listIn(made, "properties", "loadBalancingRules") {
		properties, _ := one.(object)["properties"].(object)
		key := fmt.Sprint(strings.ToLower(text(properties, "frontendIPConfiguration", "id")), properties["protocol"], properties["frontendPort"])
		if before := ports[key]; before != "" {
			return refuse(http.StatusBadRequest, "RulesUseSameFrontendPortProtocolAndIPConfig", "%s and %s", before, text(one, "name"))
		}
		ports[key] = text(one, "name")
		for field, list := range map[string]string{
			"frontendIPConfiguration": "frontendIPConfigurations", "backendAddressPool": "backendAddressPools", "probe": "probes",
		} {
			id := text(properties, field, "id")
			if id != "" && partOf(made, list, id) == nil {
				return refuse(http.StatusBadRequest, "InvalidResourceReference", "'%s' of rule %s does not exist", id, text(one, "name"))
			}
		}
	}
	for _, pool := range listIn(have, "properties", "backendAddressPools") {
		if user := c.inPool(text(pool, "id")); user != "" && partOf(made, "backendAddressPools", text(pool, "id")) == nil {
			return refuse(http.StatusBadRequest, "InUseBackendAddressPoolCannotBeDeleted", "%s is in use by %s", text(pool, "id"), user)
		}
	}
	for _, one := range listIn(made, "properties", "frontendIPConfigurations") {
		properties, _ := one.(object)["properties"].(object)
		if public := text(properties, "publicIPAddress", "id"); public != "" {
			if refused := c.checkAddress(public, at); refused != nil {
				return refused
			}
			continue
		}
		if text(properties, "privateIPAddress") == "" {
			properties["privateIPAddress"] = c.free("10.0.200")
			before := partOf(have, "frontendIPConfigurations", text(one, "id"))
			if kept := text(before, "properties", "privateIPAddress"); kept != "" {
				properties["privateIPAddress"] = kept
			}
		}
	}
	return nil
}

// checkAddress refuses a load balancer with a public address that is not there, or is not provisioned.
func (c *Cloud) checkAddress(public, balancer string) *refusal {
	have := c.objects[strings.ToLower(public)]
	if have == nil {
		return notFound(strings.ToLower(public))
	}
	if state := text(have, "properties", "provisioningState"); state != "Succeeded" {
		return refuse(http.StatusTooManyRequests, "ReferencedResourceNotProvisioned", "Cannot proceed with operation because resource %s "+
			"used by resource %s is not in Succeeded state. Resource is in %s state and the last operation that updated/is updating "+
			"the resource is PutPublicIpAddressOperation.", text(have, "id"), balancer, state)
	}
	return nil
}

// dropRead removes fields that are read-only: the rules and the machines that use a part. Clients send back what they
// have read.
func dropRead(balancer object) {
	for list, fields := range map[string][]string{
		"backendAddressPools":      {"backendIPConfigurations", "loadBalancingRules"},
		"frontendIPConfigurations": {"loadBalancingRules"}, "probes": {"loadBalancingRules"},
	} {
		for _, one := range listIn(balancer, "properties", list) {
			part, _ := one.(object)
			properties, _ := part["properties"].(object)
			for _, field := range fields {
				delete(properties, field)
			}
		}
	}
}

// partOf is the part of an object with this ID; nil for none.
func partOf(o object, list, id string) any {
	for _, one := range listIn(o, "properties", list) {
		if strings.EqualFold(text(one, "id"), id) {
			return one
		}
	}
	return nil
}

func (c *Cloud) free(prefix string) string {
	c.number++
	return fmt.Sprintf("%s.%d", prefix, c.number%250+1)
}

// allocate gives a public address its number.
func (c *Cloud) allocate(have, made object) {
	properties, _ := made["properties"].(object)
	if properties == nil {
		properties = object{}
		made["properties"] = properties
	}
	properties["ipAddress"] = text(have, "properties", "ipAddress")
	if properties["ipAddress"] == "" {
		properties["ipAddress"] = c.free("198.51.100")
	}
	if settings, ok := properties["dnsSettings"].(object); ok {
		settings["fqdn"] = fmt.Sprintf("%s.%s.cloudapp.lab.invalid", settings["domainNameLabel"], Location)
	}
	delete(properties, "ipConfiguration")
}

// poolsOf are the IDs of the backend pools that an interface, a machine of a scale set, or a scale set is in.
func poolsOf(o object) (all []string) {
	configs := listIn(o, "properties", "ipConfigurations")
	for _, path := range [][]string{
		{"properties", "networkProfileConfiguration"}, {"properties", "virtualMachineProfile", "networkProfile"},
	} {
		for _, nic := range listIn(o, append(path, "networkInterfaceConfigurations")...) {
			configs = append(configs, listIn(nic, "properties", "ipConfigurations")...)
		}
	}
	for _, config := range configs {
		for _, pool := range listIn(config, "properties", "loadBalancerBackendAddressPools") {
			all = append(all, text(pool, "id"))
		}
	}
	return all
}

// checkPools refuses an object in a backend pool that does not exist.
func (c *Cloud) checkPools(o object) *refusal {
	for _, pool := range poolsOf(o) {
		owner, _, _ := strings.Cut(strings.ToLower(pool), "/backendaddresspools/")
		if partOf(c.objects[owner], "backendAddressPools", pool) == nil {
			return refuse(http.StatusBadRequest, "InvalidResourceReference", "the backend pool %s does not exist", pool)
		}
	}
	return nil
}

// leavePools has interfaces leave the pools of a load balancer that was deleted, as Azure does. Scale sets have to
// leave before.
func (c *Cloud) leavePools(balancer string) {
	for _, path := range c.order {
		for _, config := range listIn(c.objects[path], "properties", "ipConfigurations") {
			properties, _ := config.(object)["properties"].(object)
			pools := listIn(properties, "loadBalancerBackendAddressPools")
			if len(pools) > 0 {
				properties["loadBalancerBackendAddressPools"] = slices.DeleteFunc(pools, func(pool any) bool {
					return strings.HasPrefix(strings.ToLower(text(pool, "id")), balancer+"/")
				})
			}
		}
	}
}

// inPool is a scale set, or a machine of one, that is in a backend pool; empty for none.
func (c *Cloud) inPool(id string) string {
	for _, path := range c.order {
		isIn := func(pool string) bool { return strings.EqualFold(pool, id) }
		if strings.HasPrefix(kindOf(path), "microsoft.compute/") && slices.ContainsFunc(poolsOf(c.objects[path]), isIn) {
			return path
		}
	}
	return ""
}

// userOf is what uses an object, which so cannot be deleted; empty for none.
func (c *Cloud) userOf(path string) string {
	if kindOf(path) == "microsoft.network/publicipaddresses" {
		frontend := c.frontendOf(path)
		return text(frontend, "id")
	}
	for _, pool := range listIn(c.objects[path], "properties", "backendAddressPools") {
		if user := c.inPool(text(pool, "id")); user != "" {
			return user
		}
	}
	return ""
}

// frontendOf is the frontend of a load balancer that has a public address; nil for none.
func (c *Cloud) frontendOf(public string) any {
	for _, path := range c.order {
		for _, one := range listIn(c.objects[path], "properties", "frontendIPConfigurations") {
			if strings.EqualFold(text(one, "properties", "publicIPAddress", "id"), public) {
				return one
			}
		}
	}
	return nil
}

// shown is an object as it is read: with what others say of it.
func (c *Cloud) shown(path string) object {
	if c.objects[path] == nil {
		return nil
	}
	out := clone(c.objects[path])
	properties, _ := out["properties"].(object)
	switch kindOf(path) {
	case "microsoft.network/publicipaddresses":
		if frontend := c.frontendOf(path); frontend != nil {
			properties["ipConfiguration"] = object{"id": text(frontend, "id")}
		}
	case "microsoft.network/loadbalancers":
		c.showRules(properties)
		for _, one := range listIn(properties, "backendAddressPools") {
			pool, _ := one.(object)
			inner, _ := pool["properties"].(object)
			if inner == nil {
				inner = object{}
				pool["properties"] = inner
			}
			inner["backendIPConfigurations"] = c.membersOf(text(pool, "id"))
		}
	}
	return out
}

// showRules has the frontends and pools of a load balancer name the rules that use them.
func (c *Cloud) showRules(properties object) {
	for list, field := range map[string]string{
		"frontendIPConfigurations": "frontendIPConfiguration", "backendAddressPools": "backendAddressPool",
	} {
		for _, one := range listIn(properties, list) {
			part, _ := one.(object)
			inner, _ := part["properties"].(object)
			if inner == nil {
				inner = object{}
				part["properties"] = inner
			}
			var users []any
			for _, rule := range listIn(properties, "loadBalancingRules") {
				if strings.EqualFold(text(rule, "properties", field, "id"), text(part, "id")) {
					users = append(users, object{"id": text(rule, "id")})
				}
			}
			if inner["loadBalancingRules"] = users; users == nil {
				delete(inner, "loadBalancingRules")
			}
		}
	}
}

// membersOf are the configurations of interfaces that are in a backend pool.
func (c *Cloud) membersOf(pool string) []any {
	all := []any{}
	for _, path := range c.order {
		o := c.objects[path]
		if !slices.ContainsFunc(poolsOf(o), func(id string) bool { return strings.EqualFold(id, pool) }) {
			continue
		}
		id := text(o, "id")
		switch kindOf(path) {
		case "microsoft.compute/virtualmachinescalesets/virtualmachines":
			all = append(all, object{"id": id + "/networkInterfaces/nic/ipConfigurations/ipconfig1"})
		case "microsoft.network/networkinterfaces":
			all = append(all, object{"id": id + "/ipConfigurations/ipconfig1"})
		}
	}
	return all
}

// changePool makes or deletes a backend pool of a load balancer that is there.
func (c *Cloud) changePool(in *request, owner, name string) (int, object, *refusal) {
	have := c.objects[owner]
	if have == nil {
		return 0, nil, notFound(owner)
	}
	made := clone(have)
	properties, _ := made["properties"].(object)
	pools := slices.DeleteFunc(listIn(properties, "backendAddressPools"), func(one any) bool {
		return strings.EqualFold(text(one, "name"), name)
	})
	if in.method == http.MethodPut {
		pool := maps.Clone(in.body)
		pool["name"] = nameOf(in.given)
		pools = append(pools, pool)
	}
	properties["backendAddressPools"] = pools
	if refused := c.settle(text(have, "id"), have, made); refused != nil {
		return 0, nil, refused
	}
	answer := in.body
	c.operationOf(in, owner, func(state string) {
		properties["provisioningState"] = state
		c.put(text(have, "id"), made)
		answer, _ = c.get(&request{method: http.MethodGet, path: in.path}) // none of a pool that was deleted
	})
	if in.method == http.MethodDelete {
		return http.StatusAccepted, nil, nil
	}
	return http.StatusOK, answer, nil
}
