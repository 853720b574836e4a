package openstacksim

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// FloatingIP is a floating IP of Neutron.
type FloatingIP struct {
	ID, Address, Network, Subnet, Description string
	// Port is the port that has it; empty for none.
	Port string
}

// Subnet is a subnet of Neutron.
type Subnet struct {
	ID, Name, Network, CIDR string
	Tags                    []string
	// Gateway is its gateway_ip. It has no port where the gateway is no router of Neutron.
	Gateway string
	// External is that the network is one of floating IPs.
	External bool
}

// SecurityGroup is a security group of Neutron.
type SecurityGroup struct{ ID, Name string }

// Rule is a rule of a security group.
type Rule struct {
	ID, Group, RemoteGroup, Prefix, Protocol string
	Port                                     int
}

// neutron is what Neutron has for load balancers.
type neutron struct {
	floating map[string]*FloatingIP
	subnets  map[string]*Subnet
	gone     map[string]bool // subnets that were deleted
	groups   map[string]*SecurityGroup
	rules    map[string]*Rule
	next     int
}

func newNeutron() *neutron {
	return &neutron{
		floating: map[string]*FloatingIP{}, subnets: map[string]*Subnet{}, gone: map[string]bool{},
		groups: map[string]*SecurityGroup{}, rules: map[string]*Rule{},
	}
}

// AddSubnet adds a subnet, and returns its ID.
func (c *Cloud) AddSubnet(s Subnet) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ID == "" {
		s.ID = c.newID()
	}
	c.neutron.subnets[s.ID] = &s
	return s.ID
}

// DeleteSubnet deletes a subnet.
func (c *Cloud) DeleteSubnet(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.neutron.subnets, id)
	c.neutron.gone[id] = true
}

// AddFloatingIP adds a floating IP, and returns its ID.
func (c *Cloud) AddFloatingIP(f FloatingIP) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addFloating(f).ID
}

func (c *Cloud) addFloating(f FloatingIP) *FloatingIP {
	f.ID = c.newID()
	if f.Address == "" {
		c.neutron.next++
		f.Address = fmt.Sprintf("203.0.113.%d", c.neutron.next)
	}
	c.neutron.floating[f.ID] = &f
	return &f
}

// DescribeFloatingIP sets the description of a floating IP, as another client would.
func (c *Cloud) DescribeFloatingIP(id, description string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.floating[id].Description = description
}

// DeleteFloatingIP deletes one, as an administrator does.
func (c *Cloud) DeleteFloatingIP(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.neutron.floating, id)
}

// AttachFloatingIP gives one to a port, as an administrator does.
func (c *Cloud) AttachFloatingIP(id, port string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.floating[id].Port = port
}

// FloatingIPs are copies of all floating IPs, by ID.
func (c *Cloud) FloatingIPs() (list []FloatingIP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.neutron.floating)) {
		list = append(list, *c.neutron.floating[id])
	}
	return list
}

// AddSecurityGroup adds a security group with rules, and returns its ID. A rule without a group is one of the new
// group.
func (c *Cloud) AddSecurityGroup(name string, rules ...Rule) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.newID()
	c.neutron.groups[id] = &SecurityGroup{ID: id, Name: name}
	for _, r := range rules {
		c.addRule(r, id)
	}
	return id
}

func (c *Cloud) addRule(r Rule, group string) {
	r.ID = c.newID()
	if r.Group == "" {
		r.Group = group
	}
	c.neutron.rules[r.ID] = &r
}

// AddRule adds a rule to a security group.
func (c *Cloud) AddRule(r Rule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addRule(r, r.Group)
}

// SecurityGroups are copies of all security groups and rules, by ID.
func (c *Cloud) SecurityGroups() (groups []SecurityGroup, rules []Rule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.neutron.groups)) {
		groups = append(groups, *c.neutron.groups[id])
	}
	for _, id := range slices.Sorted(maps.Keys(c.neutron.rules)) {
		rules = append(rules, *c.neutron.rules[id])
	}
	return groups, rules
}

// removePort removes a port; floating IPs lose it.
func (c *Cloud) removePort(id string) {
	delete(c.ports, id)
	for _, f := range c.neutron.floating {
		if f.Port == id {
			f.Port = ""
		}
	}
}

// networkOf is the network of a subnet; empty for a subnet that does not exist. Each network with a port has the subnet
// of its name.
func (c *Cloud) networkOf(subnet string) string {
	if s := c.neutron.subnets[subnet]; s != nil {
		return s.Network
	}
	network, implicit := strings.CutPrefix(subnet, "subnet-")
	if !implicit || c.neutron.gone[subnet] {
		return ""
	}
	for _, p := range c.ports {
		if p.Network == network {
			return network
		}
	}
	return ""
}

// subnetIn is a subnet of a network.
func (c *Cloud) subnetIn(network string) string {
	for _, id := range slices.Sorted(maps.Keys(c.neutron.subnets)) {
		if c.neutron.subnets[id].Network == network {
			return id
		}
	}
	return "subnet-" + network
}

func neutronMissing(kind, id string) *refusal {
	return refuse(http.StatusNotFound, "NeutronError", "%s %s could not be found", kind, id)
}

// extras are the requests of Neutron about floating IPs, subnets and security groups.
func (c *Cloud) extras(in request) (answer, *refusal) {
	kind := in.path[0]
	if subnet := c.implicitSubnet(in); subnet != nil {
		return answer{status: http.StatusOK, body: object{"subnet": showSubnet(subnet)}}, nil
	}
	switch in.Method + " " + template(in.path) {
	case "GET subnets":
		return c.listSubnets(in)
	case "GET subnets/{id}":
		if s := c.neutron.subnets[in.path[1]]; s != nil {
			return answer{status: http.StatusOK, body: object{"subnet": showSubnet(s)}}, nil
		}
		return answer{}, neutronMissing("Subnet", in.path[1])
	case "GET floatingips":
		return c.listFloating(in)
	case "POST floatingips":
		return c.createFloating(in)
	case "PUT floatingips/{id}", "DELETE floatingips/{id}":
		return c.changeFloating(in)
	case "GET security-groups", "GET security-group-rules":
		return c.listGroups(in, kind)
	case "DELETE security-groups/{id}":
		return c.deleteGroup(in.path[1])
	case "DELETE security-group-rules/{id}":
		if c.neutron.rules[in.path[1]] == nil {
			return answer{}, neutronMissing("Security group rule", in.path[1])
		}
		delete(c.neutron.rules, in.path[1])
		return answer{status: http.StatusNoContent}, nil
	}
	return answer{}, unknown(in)
}

// only refuses queries of other keys.
func only(in request, keys ...string) *refusal {
	for key := range in.URL.Query() {
		if !slices.Contains(keys, key) {
			return unknown(in)
		}
	}
	return nil
}

// implicitSubnet is the subnet that each network with a port has, where a request asks for it; else nil.
func (c *Cloud) implicitSubnet(in request) *Subnet {
	if in.Method != http.MethodGet || in.path[0] != "subnets" || len(in.path) != 2 ||
		c.neutron.subnets[in.path[1]] != nil {
		return nil
	}
	network := c.networkOf(in.path[1])
	if network == "" {
		return nil
	}
	return &Subnet{ID: in.path[1], Name: in.path[1], Network: network}
}

// version is 6 for a subnet of IPv6.
func (s *Subnet) version() int {
	network, _, _ := strings.Cut(s.CIDR, "/")
	return family(network)
}

func showSubnet(s *Subnet) object {
	tags := s.Tags
	if tags == nil {
		tags = []string{}
	}
	shown := object{
		"id": s.ID, "name": s.Name, "network_id": s.Network, "cidr": s.CIDR, "ip_version": s.version(), "tags": tags,
		"project_id": Project, "gateway_ip": nil,
	}
	if s.Gateway != "" {
		shown["gateway_ip"] = s.Gateway
	}
	return shown
}

func (c *Cloud) listSubnets(in request) (answer, *refusal) {
	if refused := only(in, "network_id", "tags", "tags-any", "not-tags", "not-tags-any"); refused != nil {
		return answer{}, refused
	}
	query := in.URL.Query()
	list := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.neutron.subnets)) {
		s := c.neutron.subnets[id]
		if (query.Get("network_id") == "" || s.Network == query.Get("network_id")) && s.tagged(query) {
			list = append(list, showSubnet(s))
		}
	}
	return answer{status: http.StatusOK, body: object{"subnets": list}}, nil
}

// tagged reports whether a subnet passes the filters by tags.
func (s *Subnet) tagged(query url.Values) bool {
	for _, key := range []string{"tags", "tags-any", "not-tags", "not-tags-any"} {
		if query.Get(key) == "" {
			continue
		}
		all, any := true, false
		for tag := range strings.SplitSeq(query.Get(key), ",") {
			has := slices.Contains(s.Tags, tag)
			all, any = all && has, any || has
		}
		passes := all
		if strings.HasSuffix(key, "-any") {
			passes = any
		}
		if passes == strings.HasPrefix(key, "not-") {
			return false
		}
	}
	return true
}

func (c *Cloud) showFloating(f *FloatingIP) object {
	out := object{
		"id": f.ID, "floating_ip_address": f.Address, "floating_network_id": f.Network, "description": f.Description,
		"port_id": nil, "fixed_ip_address": nil, "status": "DOWN", "project_id": Project, "tags": []string{},
	}
	if p := c.ports[f.Port]; p != nil {
		out["port_id"], out["fixed_ip_address"], out["status"] = p.ID, p.ipv4(), "ACTIVE"
	}
	return out
}

func (c *Cloud) listFloating(in request) (answer, *refusal) {
	if refused := only(in, "port_id", "project_id", "floating_ip_address", "description"); refused != nil {
		return answer{}, refused
	}
	query := in.URL.Query()
	list := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.neutron.floating)) {
		f := c.neutron.floating[id]
		same := func(key, value string) bool {
			return c.options.Unfiltered || !query.Has(key) || query.Get(key) == value
		}
		if same("port_id", f.Port) && same("floating_ip_address", f.Address) && same("description", f.Description) {
			list = append(list, c.showFloating(f))
		}
	}
	return answer{status: http.StatusOK, body: object{"floatingips": list}}, nil
}

func (c *Cloud) external(network string) bool {
	for _, s := range c.neutron.subnets {
		if s.Network == network && s.External {
			return true
		}
	}
	return false
}

func (c *Cloud) createFloating(in request) (answer, *refusal) {
	given, _ := in.body["floatingip"].(object)
	for key := range given {
		known := []string{"floating_network_id", "port_id", "description", "subnet_id", "floating_ip_address"}
		if !slices.Contains(known, key) {
			return answer{}, unknown(in)
		}
	}
	network := text(given, "floating_network_id")
	if !c.external(network) {
		return answer{}, refuse(http.StatusBadRequest, "NeutronError",
			"Bad floatingip request: Network %s is not a valid external network.", network)
	}
	if most, limited := c.octavia.quota["floatingip"]; limited && len(c.neutron.floating) >= most {
		return answer{}, refuse(http.StatusConflict, "NeutronError", "Quota exceeded for resources: ['floatingip'].")
	}
	if port := text(given, "port_id"); port != "" && c.ports[port] == nil {
		return answer{}, neutronMissing("Port", port)
	}
	if p := c.ports[text(given, "port_id")]; p != nil && p.ipv4() == "" {
		return answer{}, refuse(http.StatusBadRequest, "NeutronError",
			"Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.ID)
	}
	made := c.addFloating(FloatingIP{
		Network: network, Port: text(given, "port_id"), Description: text(given, "description"),
		Address: text(given, "floating_ip_address"), Subnet: text(given, "subnet_id"),
	})
	return answer{status: http.StatusCreated, body: object{"floatingip": c.showFloating(made)}}, nil
}

func (c *Cloud) changeFloating(in request) (answer, *refusal) {
	f := c.neutron.floating[in.path[1]]
	if f == nil {
		return answer{}, neutronMissing("Floating IP", in.path[1])
	}
	if in.Method == http.MethodDelete {
		delete(c.neutron.floating, f.ID)
		return answer{status: http.StatusNoContent}, nil
	}
	change, _ := in.body["floatingip"].(object)
	for key, value := range change {
		set, _ := value.(string)
		switch key {
		case "port_id":
			if set != "" && c.ports[set] == nil {
				return answer{}, neutronMissing("Port", set)
			}
			f.Port = set
		case "description":
			f.Description = set
		default:
			return answer{}, unknown(in)
		}
	}
	return answer{status: http.StatusOK, body: object{"floatingip": c.showFloating(f)}}, nil
}

func (c *Cloud) listGroups(in request, kind string) (answer, *refusal) {
	if refused := only(in, "name", "project_id", "security_group_id", "remote_group_id"); refused != nil {
		return answer{}, refused
	}
	query := in.URL.Query()
	list := []object{}
	if kind == "security-groups" {
		for _, id := range slices.Sorted(maps.Keys(c.neutron.groups)) {
			if g := c.neutron.groups[id]; c.options.Unfiltered || !query.Has("name") || g.Name == query.Get("name") {
				list = append(list, object{"id": g.ID, "name": g.Name, "project_id": Project, "security_group_rules": []object{}})
			}
		}
		return answer{status: http.StatusOK, body: object{"security_groups": list}}, nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.neutron.rules)) {
		r := c.neutron.rules[id]
		group, remote := query.Get("security_group_id"), query.Get("remote_group_id")
		if (group == "" || r.Group == group) && (remote == "" || r.RemoteGroup == remote) {
			list = append(list, object{
				"id": r.ID, "security_group_id": r.Group, "remote_group_id": textOrNone(r.RemoteGroup), "direction": "ingress",
				"ethertype": "IPv4", "protocol": r.Protocol, "port_range_min": r.Port, "port_range_max": r.Port,
				"remote_ip_prefix": textOrNone(r.Prefix), "project_id": Project,
			})
		}
	}
	return answer{status: http.StatusOK, body: object{"security_group_rules": list}}, nil
}

// textOrNone is how an API shows a text that may not be there.
func textOrNone(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// deleteGroup deletes a group with its rules and those that name it, as Neutron does, unless a port has it.
func (c *Cloud) deleteGroup(id string) (answer, *refusal) {
	if c.neutron.groups[id] == nil {
		return answer{}, neutronMissing("Security group", id)
	}
	for _, p := range c.ports {
		if slices.Contains(p.Groups, id) {
			return answer{}, refuse(http.StatusConflict, "NeutronError", "Security Group %s in use.", id)
		}
	}
	for ruleID, r := range c.neutron.rules {
		if r.Group == id || r.RemoteGroup == id {
			delete(c.neutron.rules, ruleID)
		}
	}
	delete(c.neutron.groups, id)
	return answer{status: http.StatusNoContent}, nil
}
