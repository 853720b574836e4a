package openstacksim

// AddLoadBalancer adds a load balancer as another client has made it, and returns its ID. The first listener has the
// first pool, and so on. It is in the subnet that VIPSubnet names.
func (c *Cloud) AddLoadBalancer(lb LoadBalancer) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(kind, owner string, given object) *resource {
		for field, value := range given {
			if text, ok := value.(string); ok && text == "" {
				delete(given, field)
			}
		}
		made, refused := c.newResource(kind, owner, given)
		if refused != nil {
			panic(refused.message)
		}
		made.fields["provisioning_status"] = Active
		c.octavia.resources = append(c.octavia.resources, made)
		return made
	}
	made := add("loadbalancer", "", object{
		"name": lb.Name, "description": lb.Description, "vip_subnet_id": lb.VIPSubnet, "tags": lb.Tags,
	})
	if refused := c.addVIP(made); refused != nil {
		panic(refused.message)
	}
	made.fields["updated_at"] = c.now().Format("2006-01-02T15:04:05")
	for i, l := range lb.Listeners {
		listener := add("listener", made.id(), object{
			"name": l.Name, "protocol": l.Protocol, "protocol_port": l.Port, "tags": l.Tags,
		})
		if i >= len(lb.Pools) {
			continue
		}
		p := lb.Pools[i]
		pool := add("pool", made.id(), object{"name": p.Name, "protocol": p.Protocol, "lb_algorithm": p.Algorithm})
		if p.Persistence != "" {
			pool.fields["session_persistence"] = object{"type": p.Persistence}
		}
		listener.fields["default_pool_id"] = pool.id()
		for _, m := range p.Members {
			add("member", pool.id(), object{
				"name": m.Name, "address": m.Address, "protocol_port": m.Port, "subnet_id": m.Subnet,
			})
		}
		if m := p.Monitor; m != nil {
			add("healthmonitor", pool.id(), object{
				"name": m.Name, "type": m.Type, "delay": m.Delay, "timeout": m.Timeout, "max_retries": m.Retries,
			})
		}
	}
	return made.id()
}
