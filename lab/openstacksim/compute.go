package openstacksim

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Server is a server of Nova.
type Server struct {
	ID, Name string
	// Status and VMState as Nova shows them, ACTIVE and active for empty ones.
	Status, VMState string
	// Zone is the availability zone; empty for nova.
	Zone string
	// Flavor is the flavor's name; empty for m1.small.
	Flavor string
	// AccessIPv4 is the server's own access address.
	AccessIPv4 string
	Metadata   map[string]string
	// Floating are floating IPs, by the network of the port that has them.
	Floating map[string][]string
}

// AddServer adds a server, and returns its ID. A server with an ID keeps it.
func (c *Cloud) AddServer(s Server) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ID == "" {
		s.ID = c.newID()
	}
	for _, field := range []struct {
		into  *string
		value string
	}{{&s.Status, "ACTIVE"}, {&s.VMState, "active"}, {&s.Zone, "nova"}, {&s.Flavor, "m1.small"}} {
		if *field.into == "" {
			*field.into = field.value
		}
	}
	c.servers[s.ID] = &s
	c.order = slices.Insert(c.order, 0, s.ID)
	return s.ID
}

// ChangeServer changes a server.
func (c *Cloud) ChangeServer(id string, change func(*Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.servers[id])
}

// DeleteServer deletes a server, and its ports, as Nova does with those that it made.
func (c *Cloud) DeleteServer(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, id)
	c.order = slices.DeleteFunc(c.order, func(other string) bool { return other == id })
	for portID, p := range c.ports {
		if p.DeviceID == id {
			delete(c.ports, portID)
		}
	}
}

func (c *Cloud) compute(in request) (answer, *refusal) {
	if in.Method != http.MethodGet {
		return answer{}, unknown(in)
	}
	switch template(in.path) {
	case "servers/detail":
		return c.listServers(in, c.show)
	case "servers":
		return c.listServers(in, showBriefly)
	case "servers/{id}/os-interface":
		return c.listInterfaces(in.path[1])
	case "servers/{id}":
		s := c.servers[in.path[1]]
		if s == nil {
			return answer{}, refuse(http.StatusNotFound, "itemNotFound", "Instance %s could not be found.", in.path[1])
		}
		return answer{status: http.StatusOK, body: object{"server": c.show(s, in)}}, nil
	}
	if name, ok := strings.CutPrefix(strings.Join(in.path, "/"), "flavors/"+FlavorID("")); ok {
		return answer{status: http.StatusOK, body: object{"flavor": object{"id": FlavorID(name), "name": name}}}, nil
	}
	if len(in.path) == 2 && in.path[0] == "servers" {
		return answer{}, refuse(http.StatusNotFound, "itemNotFound", "Instance %s could not be found.", in.path[1])
	}
	return answer{}, unknown(in)
}

// listServers has names as regular expressions, and pages by marker, as Nova has.
func (c *Cloud) listServers(in request, show func(*Server, request) object) (answer, *refusal) {
	query := in.URL.Query()
	for key := range query {
		if !slices.Contains([]string{"name", "limit", "marker"}, key) {
			return answer{}, unknown(in)
		}
	}
	name, err := regexp.Compile("(?i)" + query.Get("name"))
	if err != nil {
		return answer{}, refuse(http.StatusBadRequest, "badRequest", "Invalid input for query parameters name.")
	}
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit > c.options.PageSize || limit <= 0 {
		limit = c.options.PageSize
	}
	var matching []string
	for _, id := range c.order {
		if name.MatchString(c.servers[id].Name) && c.servers[id].Status != "SOFT_DELETED" {
			matching = append(matching, id)
		}
	}
	if marker := query.Get("marker"); marker != "" {
		i := slices.Index(matching, marker)
		if i < 0 {
			return answer{}, refuse(http.StatusBadRequest, "badRequest", "marker [%s] not found", marker)
		}
		matching = matching[i+1:]
	}
	body := object{}
	if len(matching) > limit {
		matching = matching[:limit]
		next := *in.URL
		query.Set("marker", matching[limit-1])
		next.RawQuery = query.Encode()
		body["servers_links"] = []object{{"rel": "next", "href": in.base() + next.String()}}
	}
	list := make([]object, 0, len(matching))
	for _, id := range matching {
		list = append(list, show(c.servers[id], in))
	}
	body["servers"] = list
	return answer{status: http.StatusOK, body: body}, nil
}

// FlavorID is the ID of the flavor of a name.
func FlavorID(name string) string { return "flavor-" + name }

// showFlavor is the flavor of a server. From microversion 2.47 on it is in the server itself; before, its ID is.
func showFlavor(name string, in request) object {
	minor, err := strconv.Atoi(strings.TrimPrefix(in.Header.Get("X-OpenStack-Nova-API-Version"), "2."))
	if err != nil || minor < 47 {
		return object{"id": FlavorID(name), "links": []object{}}
	}
	return object{
		"original_name": name, "vcpus": 1, "ram": 512, "disk": 1, "ephemeral": 0, "swap": 0, "extra_specs": object{},
	}
}

// listInterfaces are the ports of a server, as Nova tells of them.
func (c *Cloud) listInterfaces(server string) (answer, *refusal) {
	if c.servers[server] == nil {
		return answer{}, refuse(http.StatusNotFound, "itemNotFound", "Instance %s could not be found.", server)
	}
	list := []object{}
	for _, id := range c.portIDs() {
		if p := c.ports[id]; p.DeviceID == server {
			list = append(list, object{
				"port_id": p.ID, "net_id": p.Network, "port_state": p.Status, "mac_addr": "fa:16:3e:00:00:01",
				"fixed_ips": c.showPort(p)["fixed_ips"],
			})
		}
	}
	return answer{status: http.StatusOK, body: object{"interfaceAttachments": list}}, nil
}

// showBriefly is a server in a list without details.
func showBriefly(s *Server, _ request) object {
	return object{"id": s.ID, "name": s.Name, "links": []object{}}
}

func (c *Cloud) show(s *Server, in request) object {
	metadata := s.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	addresses := map[string][]object{}
	for _, id := range c.portIDs() {
		p := c.ports[id]
		if p.DeviceID != s.ID {
			continue
		}
		for _, address := range p.Addresses {
			addresses[p.Network] = append(addresses[p.Network], object{
				"version": family(
					address,
				),
				"addr":                    address,
				"OS-EXT-IPS:type":         "fixed",
				"OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01",
			})
		}
	}
	for network, floating := range s.Floating {
		for _, address := range floating {
			addresses[network] = append(addresses[network], object{
				"version": family(
					address,
				),
				"addr":                    address,
				"OS-EXT-IPS:type":         "floating",
				"OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01",
			})
		}
	}
	return object{
		"id":                          s.ID,
		"name":                        s.Name,
		"status":                      s.Status,
		"tenant_id":                   Project,
		"user_id":                     "u-" + User,
		"metadata":                    metadata,
		"created":                     "2026-01-01T00:00:00Z",
		"updated":                     "2026-01-01T00:00:00Z",
		"accessIPv4":                  s.AccessIPv4,
		"accessIPv6":                  "",
		"OS-EXT-AZ:availability_zone": s.Zone,
		"OS-EXT-STS:vm_state":         s.VMState,
		"OS-EXT-STS:power_state":      1,
		"OS-EXT-STS:task_state":       nil,
		"addresses":                   addresses,
		"image":                       "",
		"flavor":                      showFlavor(s.Flavor, in),
	}
}
