package openstacksim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Port is a port of Neutron. In this simulator a network's name is its ID too.
type Port struct {
	ID, Network string
	// Project has it; the simulator's for an empty one.
	Project string
	// DeviceID is the server or router that has it.
	DeviceID string
	// Owner is what kind of thing the device is; of a server's port, Nova's for an empty one.
	Owner string
	// Status is ACTIVE for an empty one.
	Status    string
	Addresses []string
	// Pairs are allowed address pairs.
	Pairs []string
	// Unsecured is that port security is off.
	Unsecured bool
	// Groups are security groups.
	Groups   []string
	Revision int
}

// Router is a router of Neutron.
type Router struct {
	ID string
	// Routes are "destination via next hop".
	Routes   []string
	Revision int
}

// AddPort adds a port, and returns its ID.
func (c *Cloud) AddPort(p Port) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ID == "" {
		p.ID = c.newID()
	}
	if p.Status == "" {
		p.Status = "ACTIVE"
	}
	if s := c.servers[p.DeviceID]; p.Owner == "" && s != nil {
		p.Owner = "compute:" + s.Zone
	}
	p.Revision = 1
	c.ports[p.ID] = &p
	return p.ID
}

// ChangePort changes a port, as another client would.
func (c *Cloud) ChangePort(id string, change func(*Port)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.ports[id])
	c.ports[id].Revision++
}

// PortOf returns a copy of a port.
func (c *Cloud) PortOf(id string) Port {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := *c.ports[id]
	p.Pairs = slices.Clone(p.Pairs)
	return p
}

// AddRouter adds a router with an interface in a network, and returns its ID.
func (c *Cloud) AddRouter(network, address string) string {
	c.mu.Lock()
	id := c.newID()
	c.mu.Unlock()
	c.AddRouterAs(id, network, address)
	return id
}

// AddRouterAs is AddRouter with the ID of the router.
func (c *Cloud) AddRouterAs(id, network, address string) {
	c.mu.Lock()
	c.routers[id] = &Router{ID: id, Revision: 1}
	c.mu.Unlock()
	c.AddPort(Port{Network: network, DeviceID: id, Addresses: []string{address}})
}

// Routes are a router's.
func (c *Cloud) Routes(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.routers[id].Routes))
}

// AddRoute adds a route, as another client would.
func (c *Cloud) AddRoute(id, route string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routers[id].Routes = append(c.routers[id].Routes, route)
	c.routers[id].Revision++
}

func family(address string) int {
	if parsed, err := netip.ParseAddr(address); err == nil && parsed.Is6() {
		return 6
	}
	return 4
}

// portIDs are sorted as a database gives them.
func (c *Cloud) portIDs() []string { return slices.Sorted(maps.Keys(c.ports)) }

func (c *Cloud) network(in request) (answer, *refusal) {
	switch in.Method + " " + template(in.path) {
	case "GET extensions":
		return c.extensions()
	case "GET ports":
		return c.listPorts(in)
	case "GET ports/{id}":
		if p := c.ports[in.path[1]]; p != nil {
			return answer{status: http.StatusOK, body: object{"port": c.showPort(p)}}, nil
		}
		return answer{}, refuse(http.StatusNotFound, "NeutronError", "Port %s could not be found.", in.path[1])
	case "PUT ports/{id}":
		return c.updatePort(in)
	case "GET networks":
		return c.listNetworks(in)
	case "GET routers":
		return c.listRouters(in)
	case "GET routers/{id}", "PUT routers/{id}", "PUT routers/{id}/add_extraroutes", "PUT routers/{id}/remove_extraroutes":
		return c.router(in)
	}
	return c.extras(in)
}

func (c *Cloud) extensions() (answer, *refusal) {
	list := []object{}
	for _, alias := range []string{"router", "extraroute", "extraroute-atomic", "allowed-address-pairs", "port-security", "revision-if-match"} {
		if alias != "extraroute-atomic" || !c.options.WithoutAtomicRoutes {
			list = append(
				list,
				object{
					"alias":       alias,
					"name":        alias,
					"description": "",
					"links":       []string{},
					"updated":     "2020-01-01T00:00:00-00:00",
				},
			)
		}
	}
	return answer{status: http.StatusOK, body: object{"extensions": list}}, nil
}

func (c *Cloud) listNetworks(in request) (answer, *refusal) {
	if refused := only(in, "router:external"); refused != nil {
		return answer{}, refused
	}
	names := map[string]bool{}
	for _, p := range c.ports {
		names[p.Network] = true
	}
	for _, s := range c.neutron.subnets {
		names[s.Network] = true
	}
	list := []object{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if in.URL.Query().Get("router:external") != "true" || c.external(name) {
			list = append(list, object{"id": name, "name": name, "status": "ACTIVE", "tenant_id": Project})
		}
	}
	return answer{status: http.StatusOK, body: object{"networks": list}}, nil
}

func (c *Cloud) listPorts(in request) (answer, *refusal) {
	query := in.URL.Query()
	address := ""
	for key, values := range query {
		switch key {
		case "device_id", "project_id", "network_id", "security_groups":
		case "fixed_ips":
			var ok bool
			if address, ok = strings.CutPrefix(values[0], "ip_address="); !ok {
				return answer{}, unknown(in)
			}
		default:
			return answer{}, unknown(in)
		}
	}
	list := []object{}
	for _, id := range c.portIDs() {
		p := c.ports[id]
		device := query.Get("device_id")
		if device != "" && p.DeviceID != device || address != "" && !slices.Contains(p.Addresses, address) {
			continue
		}
		if network := query.Get("network_id"); network != "" && p.Network != network {
			continue
		}
		if group := query.Get("security_groups"); group != "" && !slices.Contains(p.Groups, group) {
			continue
		}
		list = append(list, c.showPort(p))
	}
	return answer{status: http.StatusOK, body: object{"ports": list}}, nil
}

// ipv4 is the address of the port that a floating IP leads to; empty for none.
func (p *Port) ipv4() string {
	if i := slices.IndexFunc(p.Addresses, func(address string) bool { return family(address) == 4 }); i >= 0 {
		return p.Addresses[i]
	}
	return ""
}

// subnetFor is the subnet of a network with an address: one that was added, or the one that each network has.
func (c *Cloud) subnetFor(network, address string) string {
	parsed, err := netip.ParseAddr(address)
	for _, id := range slices.Sorted(maps.Keys(c.neutron.subnets)) {
		s := c.neutron.subnets[id]
		prefix, none := netip.ParsePrefix(s.CIDR)
		if err == nil && none == nil && s.Network == network && prefix.Contains(parsed) {
			return id
		}
	}
	return "subnet-" + network
}

func (c *Cloud) showPort(p *Port) object {
	fixed, pairs := []object{}, []object{}
	for _, address := range p.Addresses {
		fixed = append(fixed, object{"subnet_id": c.subnetFor(p.Network, address), "ip_address": address})
	}
	for _, pair := range p.Pairs {
		pairs = append(pairs, object{"ip_address": pair, "mac_address": "fa:16:3e:00:00:01"})
	}
	return object{
		"id":                    p.ID,
		"name":                  "",
		"network_id":            p.Network,
		"device_id":             p.DeviceID,
		"device_owner":          p.Owner,
		"status":                p.Status,
		"fixed_ips":             fixed,
		"allowed_address_pairs": pairs,
		"port_security_enabled": !p.Unsecured,
		"revision_number":       p.Revision,
		"project_id":            cmp.Or(p.Project, Project),
		"tenant_id":             cmp.Or(p.Project, Project),
		"admin_state_up":        true,
		"security_groups":       append([]string{}, p.Groups...),
		"tags":                  []string{},
	}
}

// matches refuses a change of another revision than the one that the client has read.
func matches(in request, revision int) *refusal {
	if want := in.Header.Get("If-Match"); want != "" && want != fmt.Sprintf("revision_number=%d", revision) {
		return refuse(
			http.StatusPreconditionFailed,
			"NeutronError",
			"Constrained to %s, but current revision is %d",
			want,
			revision,
		)
	}
	return nil
}

func (c *Cloud) updatePort(in request) (answer, *refusal) {
	p := c.ports[in.path[1]]
	if p == nil {
		return answer{}, refuse(http.StatusNotFound, "NeutronError", "Port %s could not be found.", in.path[1])
	}
	if refused := matches(in, p.Revision); refused != nil {
		return answer{}, refused
	}
	change, _ := in.body["port"].(object)
	if groups, ok := change["security_groups"].([]any); ok && len(change) == 1 {
		p.Groups = nil
		for _, group := range groups {
			id, _ := group.(string)
			p.Groups = append(p.Groups, id)
		}
		p.Revision++
		return answer{status: http.StatusOK, body: object{"port": c.showPort(p)}}, nil
	}
	pairs, ok := change["allowed_address_pairs"].([]any)
	if !ok || len(change) != 1 {
		return answer{}, unknown(in)
	}
	var list []string
	for _, pair := range pairs {
		address, _ := dig(object{"pair": pair}, "pair", "ip_address").(string)
		if slices.Contains(list, address) {
			return answer{}, refuse(http.StatusBadRequest, "NeutronError", "AllowedAddressPair contains duplicates: %s", address)
		}
		list = append(list, address)
	}
	p.Pairs = list
	p.Revision++
	return answer{status: http.StatusOK, body: object{"port": c.showPort(p)}}, nil
}

func (c *Cloud) listRouters(in request) (answer, *refusal) {
	if refused := only(in, "project_id"); refused != nil {
		return answer{}, refused
	}
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.routers)) {
		list = append(list, dig(showRouter(c.routers[id]).body.(object), "router")) //nolint:forcetypeassert // it is one
	}
	return answer{status: http.StatusOK, body: object{"routers": list}}, nil
}

func (c *Cloud) router(in request) (answer, *refusal) {
	r := c.routers[in.path[1]]
	if r == nil {
		return answer{}, refuse(http.StatusNotFound, "NeutronError", "Router %s could not be found", in.path[1])
	}
	if in.Method == http.MethodGet {
		return showRouter(r), nil
	}
	given, ok := dig(in.body, "router", "routes").([]any) // of them alone Neutron compares no revision
	if !ok {
		return answer{}, unknown(in)
	}
	var routes []string
	for _, entry := range given {
		destination, _ := dig(object{"r": entry}, "r", "destination").(string)
		hop, _ := dig(object{"r": entry}, "r", "nexthop").(string)
		if !c.reaches(r.ID, hop) {
			return answer{}, refuse(http.StatusBadRequest, "NeutronError",
				"Invalid format for routes: [], the nexthop is not connected with router")
		}
		routes = append(routes, destination+" via "+hop)
	}
	changed := slices.Clone(r.Routes)
	switch {
	case len(in.path) == 2:
		changed = routes
	case in.path[2] == "add_extraroutes" && !c.options.WithoutAtomicRoutes:
		for _, route := range routes {
			if !slices.Contains(changed, route) {
				changed = append(changed, route)
			}
		}
	case in.path[2] == "remove_extraroutes" && !c.options.WithoutAtomicRoutes:
		changed = slices.DeleteFunc(changed, func(route string) bool { return slices.Contains(routes, route) })
	default:
		return answer{}, refuse(http.StatusNotFound, "NeutronError", "The resource could not be found.")
	}
	r.Routes = changed
	r.Revision++
	return showRouter(r), nil
}

// reaches reports whether an address is in a network of the router: of the first 16 bits of one of its interfaces.
func (c *Cloud) reaches(router, hop string) bool {
	address, err := netip.ParseAddr(hop)
	if err != nil {
		return false
	}
	for _, p := range c.ports {
		if p.DeviceID != router {
			continue
		}
		for _, own := range p.Addresses {
			parsed, err := netip.ParseAddr(own)
			if err != nil {
				continue
			}
			if prefix, err := parsed.Prefix(16); err == nil && prefix.Contains(address) {
				return true
			}
		}
	}
	return false
}

func showRouter(r *Router) answer {
	routes := []object{}
	for _, route := range r.Routes {
		destination, hop, _ := strings.Cut(route, " via ")
		routes = append(routes, object{"destination": destination, "nexthop": hop})
	}
	return answer{status: http.StatusOK, body: object{"router": object{
		"id":              r.ID,
		"name":            "router",
		"status":          "ACTIVE",
		"routes":          routes,
		"revision_number": r.Revision,
		"project_id":      Project,
	}}}
}

// Ports are copies of all ports, by ID.
func (c *Cloud) Ports() (list []Port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.portIDs() {
		list = append(list, *c.ports[id])
	}
	return list
}
