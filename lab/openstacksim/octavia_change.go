package openstacksim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// spec is what a kind of resource can be made and changed with.
type spec struct {
	defaults object
	required []string
	optional []string // fields without a default
	fixed    []string // fields that cannot be changed
}

var specs = map[string]spec{
	"loadbalancer": {
		defaults: object{"name": "", "description": "", "admin_state_up": true, "provider": "amphora"},
		optional: []string{
			"vip_subnet_id", "vip_network_id", "vip_port_id", "vip_address", "flavor_id", "availability_zone", "tags",
			"listeners", "pools", "project_id", "additional_vips",
		},
		fixed: []string{
			"vip_subnet_id", "vip_network_id", "vip_port_id", "vip_address", "flavor_id", "availability_zone", "provider",
			"listeners", "pools", "project_id", "additional_vips",
		},
	},
	"listener": {
		defaults: object{
			"name": "", "description": "", "admin_state_up": true, "connection_limit": -1, "allowed_cidrs": nil,
			"timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000,
			"timeout_tcp_inspect": 0, "default_pool_id": nil, "insert_headers": object{},
			"default_tls_container_ref": nil,
		},
		required: []string{"protocol", "protocol_port"},
		optional: []string{"loadbalancer_id", "default_pool", "tags"},
		fixed:    []string{"protocol", "protocol_port", "loadbalancer_id", "default_pool"},
	},
	"pool": {
		defaults: object{"name": "", "description": "", "admin_state_up": true, "session_persistence": nil},
		required: []string{"protocol", "lb_algorithm"},
		optional: []string{"loadbalancer_id", "listener_id", "members", "healthmonitor", "tags"},
		fixed:    []string{"protocol", "loadbalancer_id", "listener_id", "members", "healthmonitor"},
	},
	"member": {
		defaults: object{
			"name": "", "weight": 1, "backup": false, "admin_state_up": true, "monitor_port": nil, "monitor_address": nil,
		},
		required: []string{"address", "protocol_port"},
		optional: []string{"subnet_id", "tags"},
		fixed:    []string{"address", "protocol_port", "subnet_id"},
	},
	"healthmonitor": {
		defaults: object{
			"name": "", "max_retries_down": 3, "url_path": nil, "http_method": nil, "expected_codes": nil,
			"admin_state_up": true,
		},
		required: []string{"type", "delay", "timeout", "max_retries"},
		optional: []string{"pool_id", "tags"},
		fixed:    []string{"type", "pool_id"},
	},
}

// newResource makes a resource from the body of a request.
func (c *Cloud) newResource(kind, owner string, given object) (*resource, *refusal) {
	s := specs[kind]
	fields := object{
		"id": c.newID(), "project_id": Project, "provisioning_status": PendingCreate, "operating_status": "ONLINE",
		"created_at": c.now().Format("2006-01-02T15:04:05"), "updated_at": nil, "tags": []string{},
	}
	for field, value := range s.defaults {
		fields[field] = value
	}
	for field, value := range given {
		_, known := s.defaults[field]
		if !known && !slices.Contains(s.required, field) && !slices.Contains(s.optional, field) {
			return nil, faulty(http.StatusBadRequest, "Invalid input for field/attribute %s. Unknown attribute.", field)
		}
		fields[field] = value
	}
	for _, field := range s.required {
		if given[field] == nil {
			return nil, faulty(http.StatusBadRequest,
				"Invalid input for field/attribute %s. Value: 'None'. Mandatory field missing.", field)
		}
	}
	if subnet, ok := given["subnet_id"].(string); ok && c.networkOf(subnet) == "" {
		return nil, faulty(http.StatusBadRequest, "Subnet %s not found.", subnet)
	}
	for _, child := range []string{"listeners", "pools", "default_pool", "members", "healthmonitor", "loadbalancer_id"} {
		delete(fields, child)
	}
	return &resource{kind: kind, fields: fields, owner: owner}, nil
}

func (c *Cloud) exceeds(kind string, more int) bool {
	most, limited := c.octavia.quota[kind]
	return limited && len(c.owned(kind, ""))+more > most
}

func overQuota(kind string) *refusal {
	return faulty(http.StatusForbidden, "Quota has been met for resources: %s", titles[kind])
}

func (c *Cloud) createResource(in request, kind string) (answer, *refusal) {
	given, _ := in.body[kind].(object)
	if given == nil || len(in.body) != 1 {
		return answer{}, faulty(http.StatusBadRequest, "Missing argument: \"%s_\"", kind)
	}
	if kind == "loadbalancer" {
		return c.createBalancer(given)
	}
	lb, owner, refused := c.parentOf(kind, given)
	if refused != nil {
		return answer{}, refused
	}
	if lb.text("provisioning_status") != Active {
		return answer{}, immutable(lb)
	}
	if c.exceeds(kind, 1) {
		return answer{}, overQuota(kind)
	}
	if given["default_pool"] != nil || given["members"] != nil || given["healthmonitor"] != nil {
		return answer{}, refuse(http.StatusNotImplemented, "error", "openstacksim makes whole trees only with load balancers")
	}
	made, refused := c.addChild(kind, owner, given)
	if refused != nil {
		return answer{}, refused
	}
	if listener := c.find("listener", text(given, "listener_id")); kind == "pool" && listener != nil {
		listener.fields["default_pool_id"] = made.id()
		delete(made.fields, "listener_id")
	}
	c.begin(lb, PendingUpdate)
	return answer{status: http.StatusCreated, body: object{kind: c.showResource(made)}}, nil
}

// addChild makes a listener, pool, member or monitor, if it does not collide.
func (c *Cloud) addChild(kind, owner string, given object) (*resource, *refusal) {
	made, refused := c.newResource(kind, owner, given)
	if refused != nil {
		return nil, refused
	}
	for _, other := range c.owned(kind, owner) {
		port := other.number("protocol_port") == made.number("protocol_port")
		switch {
		case kind == "listener" && port && transportOf(other) == transportOf(made):
			return nil, faulty(http.StatusConflict,
				"Another Listener on this Load Balancer is already using protocol_port %d", made.number("protocol_port"))
		case kind == "member" && port && other.text("address") == made.text("address"):
			return nil, faulty(http.StatusConflict, "Another member on this pool is already using ip %s on protocol_port %d",
				made.text("address"), made.number("protocol_port"))
		case kind == "healthmonitor":
			return nil, faulty(http.StatusConflict, "This pool already has a health monitor")
		}
	}
	if refused := c.suits(made); refused != nil {
		return nil, refused
	}
	c.octavia.resources = append(c.octavia.resources, made)
	return made, nil
}

// suits refuses what Octavia's API cannot do.
func (c *Cloud) suits(made *resource) *refusal {
	protocol := made.text("protocol")
	if protocol == "SCTP" && c.octavia.version < 23 || protocol == "PROXYV2" && c.octavia.version < 22 {
		return faulty(http.StatusBadRequest, "Invalid input for field/attribute protocol. Value: '%s'.", protocol)
	}
	if len(made.list("allowed_cidrs")) > 0 && c.octavia.version < 12 {
		return faulty(http.StatusBadRequest, "Invalid input for field/attribute allowed_cidrs. Unknown attribute.")
	}
	for _, cidr := range made.list("allowed_cidrs") {
		if !strings.Contains(cidr, "/") {
			return faulty(http.StatusBadRequest, "Invalid CIDR %s", cidr)
		}
	}
	return nil
}

func transportOf(listener *resource) string {
	if p := listener.text("protocol"); p == "UDP" || p == "SCTP" {
		return p
	}
	return "TCP"
}

func text(fields object, field string) string {
	value, _ := fields[field].(string)
	return value
}

// parentOf is the load balancer that a new resource belongs to, and its owner.
func (c *Cloud) parentOf(kind string, given object) (lb *resource, owner string, refused *refusal) {
	if id := text(given, "listener_id"); kind == "pool" && id != "" {
		listener := c.find("listener", id)
		if listener == nil {
			return nil, "", missing("listener", id)
		}
		if listener.text("default_pool_id") != "" {
			return nil, "", faulty(http.StatusConflict, "Listener %s already has a default pool.", id)
		}
		return c.balancerOf(listener), listener.owner, nil
	}
	if kind == "healthmonitor" {
		pool := c.find("pool", text(given, "pool_id"))
		if pool == nil {
			return nil, "", missing("pool", text(given, "pool_id"))
		}
		return c.balancerOf(pool), pool.id(), nil
	}
	id := text(given, "loadbalancer_id")
	if lb = c.find("loadbalancer", id); lb == nil {
		return nil, "", missing("loadbalancer", id)
	}
	return lb, id, nil
}

func (c *Cloud) createBalancer(given object) (answer, *refusal) {
	if c.exceeds("loadbalancer", 1) {
		return answer{}, overQuota("loadbalancer")
	}
	listeners := objects(given["listeners"])
	if c.exceeds("listener", len(listeners)) {
		return answer{}, overQuota("listener")
	}
	if given["pools"] != nil {
		return answer{}, refuse(http.StatusNotImplemented, "error", "openstacksim does not know pools of a new tree")
	}
	before := slices.Clone(c.octavia.resources)
	lb, refused := c.newResource("loadbalancer", "", given)
	if refused != nil {
		return answer{}, refused
	}
	if refused := c.addVIP(lb); refused != nil {
		return answer{}, refused
	}
	c.octavia.resources = append(c.octavia.resources, lb)
	for _, listener := range listeners {
		if refused := c.addListenerTree(lb, listener); refused != nil {
			c.octavia.resources = before
			c.removePort(lb.text("vip_port_id"))
			return answer{}, refused
		}
	}
	c.loseParts(lb, len(listeners))
	c.begin(lb, PendingCreate)
	return answer{status: http.StatusCreated, body: object{"loadbalancer": c.showResource(lb)}}, nil
}

// loseParts has the worker not know of what is below a new load balancer, if there is anything.
func (c *Cloud) loseParts(lb *resource, parts int) {
	if c.octavia.losing == 0 || parts == 0 {
		return
	}
	c.octavia.losing--
	for _, r := range c.octavia.resources {
		r.lost = r.lost || r != lb && c.balancerOf(r) == lb
	}
}

// addListenerTree makes a listener with the pool, members and monitor that are in it.
func (c *Cloud) addListenerTree(lb *resource, given object) *refusal {
	listener, refused := c.addChild("listener", lb.id(), given)
	if refused != nil {
		return refused
	}
	wanted, ok := given["default_pool"].(object)
	if !ok {
		return nil
	}
	if text(wanted, "name") == "" {
		return faulty(http.StatusBadRequest, "Pool name is required to create a fully populated load balancer.")
	}
	pool, refused := c.addChild("pool", lb.id(), wanted)
	if refused != nil {
		return refused
	}
	listener.fields["default_pool_id"] = pool.id()
	for _, member := range objects(wanted["members"]) {
		if _, refused := c.addChild("member", pool.id(), member); refused != nil {
			return refused
		}
	}
	if monitor, ok := wanted["healthmonitor"].(object); ok {
		_, refused = c.addChild("healthmonitor", pool.id(), monitor)
	}
	return refused
}

func objects(value any) (out []object) {
	list, _ := value.([]any)
	for _, item := range list {
		if o, ok := item.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

// addVIP gives a load balancer its port, with an address of its subnet.
func (c *Cloud) addVIP(lb *resource) *refusal {
	if id := lb.text("vip_port_id"); id != "" {
		p := c.ports[id]
		if p == nil {
			return faulty(http.StatusBadRequest, "Port %s not found.", id)
		}
		if len(p.Addresses) == 0 {
			return faulty(http.StatusBadRequest, "Port %s has no fixed IP.", id)
		}
		lb.fields["vip_address"], lb.fields["vip_network_id"] = p.Addresses[0], p.Network
		lb.fields["vip_subnet_id"] = "subnet-" + p.Network
		return nil
	}
	subnet, network := lb.text("vip_subnet_id"), lb.text("vip_network_id")
	switch {
	case subnet == "" && network == "":
		return faulty(http.StatusBadRequest, "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
	case subnet == "":
		subnet = c.subnetIn(network)
	}
	if c.networkOf(subnet) == "" {
		return faulty(http.StatusBadRequest, "Subnet %s not found.", subnet)
	}
	address := lb.text("vip_address")
	if address == "" {
		address = c.nextVIP(subnet)
	}
	p := &Port{
		ID: c.newID(), Network: c.networkOf(subnet), DeviceID: "lb-" + lb.id(), Owner: "Octavia", Status: "ACTIVE",
		Addresses: []string{address}, Revision: 1,
	}
	lb.fields["vip_port_id"], lb.fields["vip_address"] = p.ID, address
	lb.fields["vip_subnet_id"], lb.fields["vip_network_id"] = subnet, p.Network
	if refused := c.addMoreVIPs(lb, p); refused != nil {
		return refused
	}
	c.ports[p.ID] = p
	return nil
}

// nextVIP is a free address of a subnet.
func (c *Cloud) nextVIP(subnet string) string {
	c.octavia.nextVIP++
	if s := c.neutron.subnets[subnet]; s != nil && s.version() == 6 {
		base, _, _ := strings.Cut(s.CIDR, "::")
		return fmt.Sprintf("%s::250:%x", base, c.octavia.nextVIP)
	}
	return fmt.Sprintf("10.0.250.%d", c.octavia.nextVIP)
}

// addMoreVIPs gives the port of a load balancer an address of each of its additional_vips.
func (c *Cloud) addMoreVIPs(lb *resource, p *Port) *refusal {
	given, asked := lb.fields["additional_vips"]
	if asked && c.octavia.version < 26 {
		return faulty(http.StatusBadRequest, "Invalid input for field/attribute additional_vips. Unknown attribute.")
	}
	if c.octavia.version < 26 {
		return nil
	}
	made, used := []object{}, []string{lb.text("vip_subnet_id")}
	for _, vip := range objects(given) {
		subnet, address := text(vip, "subnet_id"), text(vip, "ip_address")
		switch {
		case subnet == "":
			return faulty(http.StatusBadRequest,
				"Invalid input for field/attribute subnet_id. Value: 'None'. Mandatory field missing.")
		case slices.Contains(used, subnet):
			return faulty(http.StatusBadRequest,
				"Validation failure: Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.")
		case c.networkOf(subnet) == "":
			return faulty(http.StatusBadRequest, "Validation failure: Subnet %s not found", subnet)
		case c.networkOf(subnet) != p.Network:
			return faulty(http.StatusBadRequest, "Validation failure: All VIP subnets must belong to the same network.")
		case address == "":
			address = c.nextVIP(subnet)
		}
		used = append(used, subnet)
		p.Addresses = append(p.Addresses, address)
		made = append(made, object{"subnet_id": subnet, "ip_address": address, "port_id": p.ID})
	}
	lb.fields["additional_vips"] = made
	return nil
}

func (c *Cloud) updateResource(in request, r *resource) (answer, *refusal) {
	lb := c.balancerOf(r)
	change, _ := in.body[r.kind].(object)
	if change == nil || len(in.body) != 1 {
		return answer{}, unknown(in)
	}
	if lb.text("provisioning_status") != Active {
		return answer{}, immutable(lb)
	}
	s := specs[r.kind]
	for field, value := range change {
		_, known := s.defaults[field]
		known = known || slices.Contains(s.required, field) || slices.Contains(s.optional, field)
		if !known || slices.Contains(s.fixed, field) {
			return answer{}, faulty(http.StatusBadRequest, "Invalid input for field/attribute %s. Unknown attribute.", field)
		}
		r.fields[field] = value
	}
	if r != lb {
		r.fields["provisioning_status"] = PendingUpdate
	}
	c.begin(lb, PendingUpdate)
	return answer{status: http.StatusOK, body: object{r.kind: c.showResource(r)}}, nil
}

func (c *Cloud) deleteResource(in request, r *resource) (answer, *refusal) {
	lb := c.balancerOf(r)
	status := lb.text("provisioning_status")
	if status != Active && (r != lb || status != Errored) {
		return answer{}, immutable(lb)
	}
	if r == lb {
		children := len(c.owned("listener", lb.id())) + len(c.owned("pool", lb.id()))
		if in.URL.Query().Get("cascade") != "true" && children > 0 {
			return answer{}, faulty(http.StatusBadRequest, "Validation failure: Cannot delete Load Balancer %s - it has children", lb.id())
		}
		c.begin(lb, PendingDelete)
		return answer{status: http.StatusNoContent}, nil
	}
	for _, child := range append(c.owned("member", r.id()), c.owned("healthmonitor", r.id())...) {
		c.remove(child)
	}
	for _, listener := range c.owned("listener", lb.id()) {
		if listener.text("default_pool_id") == r.id() {
			listener.fields["default_pool_id"] = nil
		}
	}
	c.remove(r)
	c.begin(lb, PendingUpdate)
	return answer{status: http.StatusNoContent}, nil
}

// members are the members of one pool: a list, a new one, one that goes, or all at once.
func (c *Cloud) members(in request) (answer, *refusal) {
	pool := c.find("pool", in.path[2])
	if pool == nil { // Octavia refuses it before its own form of errors is used
		text := "Pool " + in.path[2] + " not found."
		return answer{status: http.StatusNotFound, body: object{"message": text, "code": "404 Not Found", "title": "Not Found"}}, nil
	}
	lb := c.balancerOf(pool)
	if in.Method == http.MethodGet && len(in.path) == 4 {
		list := []object{}
		for _, m := range c.owned("member", pool.id()) {
			list = append(list, c.showResource(m))
		}
		return answer{status: http.StatusOK, body: object{"members": list, "members_links": []object{}}}, nil
	}
	if lb.text("provisioning_status") != Active {
		return answer{}, immutable(lb)
	}
	switch {
	case in.Method == http.MethodPut && len(in.path) == 4:
		return c.batchMembers(in, pool, lb)
	case in.Method == http.MethodPost && len(in.path) == 4:
		given, _ := in.body["member"].(object)
		made, refused := c.addChild("member", pool.id(), given)
		if refused != nil {
			return answer{}, refused
		}
		c.begin(lb, PendingUpdate)
		return answer{status: http.StatusCreated, body: object{"member": c.showResource(made)}}, nil
	case in.Method == http.MethodDelete && len(in.path) == 5:
		member := c.find("member", in.path[4])
		if member == nil {
			return answer{}, missing("member", in.path[4])
		}
		c.remove(member)
		c.begin(lb, PendingUpdate)
		return answer{status: http.StatusNoContent}, nil
	}
	return answer{}, unknown(in)
}

func (c *Cloud) batchMembers(in request, pool, lb *resource) (answer, *refusal) {
	additive := in.URL.Query().Get("additive_only") == "true"
	if in.URL.Query().Has("additive_only") && c.octavia.version < 11 {
		return answer{}, faulty(http.StatusBadRequest, "Unknown argument: \"additive_only\"")
	}
	if _, ok := in.body["members"].([]any); !ok {
		return answer{}, faulty(http.StatusBadRequest, "Missing argument: \"members_\"")
	}
	stays := map[*resource]bool{}
	before := c.owned("member", pool.id())
	for _, given := range objects(in.body["members"]) {
		wanted, refused := c.newResource("member", pool.id(), given)
		if refused != nil {
			return answer{}, refused
		}
		i := slices.IndexFunc(before, func(m *resource) bool {
			return m.text("address") == wanted.text("address") && m.number("protocol_port") == wanted.number("protocol_port")
		})
		if i < 0 {
			c.octavia.resources = append(c.octavia.resources, wanted)
			continue
		}
		stays[before[i]] = true
		for field, value := range given {
			before[i].fields[field] = value
		}
	}
	for _, m := range before {
		if !additive && !stays[m] {
			c.remove(m)
		}
	}
	c.begin(lb, PendingUpdate)
	return answer{status: http.StatusAccepted}, nil
}
