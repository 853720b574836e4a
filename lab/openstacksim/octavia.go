package openstacksim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The provisioning statuses of Octavia.
const (
	Active        = "ACTIVE"
	Errored       = "ERROR"
	PendingCreate = "PENDING_CREATE"
	PendingUpdate = "PENDING_UPDATE"
	PendingDelete = "PENDING_DELETE"
)

// resource is a load balancer or a part of one: its fields as Octavia shows them, without those that follow from other
// resources.
type resource struct {
	kind   string
	fields object
	// owner is the load balancer of a listener or pool, and the pool of a member or monitor.
	owner string
	// lost is that Octavia's worker does not know of it: it keeps its status until a failover.
	lost bool
}

func (r *resource) id() string { return r.text("id") }

func (r *resource) text(field string) string {
	value, _ := r.fields[field].(string)
	return value
}

func (r *resource) number(field string) int {
	switch value := r.fields[field].(type) {
	case float64:
		return int(value)
	case int:
		return value
	}
	return 0
}

func (r *resource) list(field string) (out []string) {
	switch value := r.fields[field].(type) {
	case []string:
		return slices.Clone(value)
	case []any:
		for _, item := range value {
			text, _ := item.(string)
			out = append(out, text)
		}
	}
	return out
}

// octavia is the load balancer service. Resources keep the order in which they were made.
type octavia struct {
	resources []*resource
	// ready is when a load balancer leaves its PENDING status, by its ID. None stays in it.
	ready   map[string]time.Time
	pending time.Duration
	work    *work  // nil for pending alone
	stopped bool   // nothing that is PENDING goes on
	failing string // the status that changes end in; empty for ACTIVE
	losing  int    // how many of the next trees lose their parts
	quota   map[string]int
	version int // the minor version of the API
	offset  time.Duration
	nextVIP int
}

// latestOctavia is the minor version of the API of OpenStack Zed.
const latestOctavia = 26

func newOctavia() *octavia {
	return &octavia{ready: map[string]time.Time{}, quota: map[string]int{}, version: latestOctavia}
}

// SetPending sets how long a load balancer that was changed stays PENDING. A negative time is until FinishPending.
func (c *Cloud) SetPending(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.pending = d
}

// FinishPending ends what is PENDING.
func (c *Cloud) FinishPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.octavia.ready {
		c.octavia.ready[id] = time.Time{}
	}
	c.settle()
}

// FailChanges has load balancers that are changed from now on end in ERROR, or in ACTIVE again.
func (c *Cloud) FailChanges(fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.failing = ""
	if fail {
		c.octavia.failing = Errored
	}
}

// LoseParts has the worker read the next load balancers that are made as whole trees before their parts are committed:
// each becomes ACTIVE, and its parts stay PENDING_CREATE until a failover.
func (c *Cloud) LoseParts(trees int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.losing = trees
}

// PartStatuses are "kind name status" of everything that load balancers are made of.
func (c *Cloud) PartStatuses() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, r := range c.octavia.resources {
		list = append(list, r.kind+" "+r.text("name")+" "+r.text("provisioning_status"))
	}
	return list
}

// SetQuota sets how many loadbalancer, listener, pool or floatingip there may be.
func (c *Cloud) SetQuota(kind string, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.quota[kind] = most
}

// SetOctaviaVersion sets the minor version of Octavia's API.
func (c *Cloud) SetOctaviaVersion(minor int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.version = minor
}

// Advance moves the cloud's clock, from which updated_at and the header Date are.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.offset += d
}

func (c *Cloud) now() time.Time { return time.Now().Add(c.octavia.offset).UTC() }

// StopWorker has everything that is PENDING stay so, until it is resumed.
func (c *Cloud) StopWorker() (resume func()) {
	stop := func(stopped bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.octavia.stopped = stopped
	}
	stop(true)
	return func() { stop(false) }
}

// settle ends the PENDING statuses whose time has come.
func (c *Cloud) settle() {
	if c.octavia.stopped {
		return
	}
	for id, at := range c.octavia.ready {
		if c.now().Before(at) {
			continue
		}
		delete(c.octavia.ready, id)
		lb := c.find("loadbalancer", id)
		if lb.text("provisioning_status") == PendingDelete {
			c.removeTree(lb)
			continue
		}
		status := Active
		if c.octavia.failing != "" {
			status = c.octavia.failing
		}
		c.setStatus(lb, status)
	}
}

// setStatus sets the status of a load balancer and of its parts that have changed with it.
func (c *Cloud) setStatus(lb *resource, status string) {
	lb.fields["provisioning_status"] = status
	lb.fields["updated_at"] = c.now().Format("2006-01-02T15:04:05")
	for _, r := range c.octavia.resources {
		if c.balancerOf(r) == lb && r != lb && !r.lost && strings.HasPrefix(r.text("provisioning_status"), "PENDING") {
			r.fields["provisioning_status"] = status
		}
	}
}

// begin makes a load balancer PENDING.
func (c *Cloud) begin(lb *resource, status string) {
	lb.fields["provisioning_status"] = status
	lb.fields["updated_at"] = c.now().Format("2006-01-02T15:04:05")
	switch {
	case c.octavia.work != nil:
		c.octavia.ready[lb.id()] = c.octavia.work.end(c.now(), status)
	case c.octavia.pending >= 0:
		c.octavia.ready[lb.id()] = c.now().Add(c.octavia.pending)
	default:
		c.octavia.ready[lb.id()] = c.now().Add(24 * time.Hour)
	}
}

// balancerOf is the load balancer that a resource belongs to.
func (c *Cloud) balancerOf(r *resource) *resource {
	switch r.kind {
	case "loadbalancer":
		return r
	case "listener", "pool":
		return c.find("loadbalancer", r.owner)
	}
	if pool := c.find("pool", r.owner); pool != nil {
		return c.find("loadbalancer", pool.owner)
	}
	return nil
}

func (c *Cloud) find(kind, id string) *resource {
	for _, r := range c.octavia.resources {
		if r.kind == kind && r.id() == id {
			return r
		}
	}
	return nil
}

// owned are the resources of a kind that belong to an owner; all of an empty one.
func (c *Cloud) owned(kind, owner string) (list []*resource) {
	for _, r := range c.octavia.resources {
		if r.kind == kind && (owner == "" || r.owner == owner) {
			list = append(list, r)
		}
	}
	return list
}

func (c *Cloud) remove(gone *resource) {
	c.octavia.resources = slices.DeleteFunc(c.octavia.resources, func(r *resource) bool { return r == gone })
}

// removeTree removes a load balancer with its parts and its port.
func (c *Cloud) removeTree(lb *resource) {
	for _, r := range slices.Clone(c.octavia.resources) {
		if r != lb && c.balancerOf(r) == lb && (r.kind == "member" || r.kind == "healthmonitor") {
			c.remove(r)
		}
	}
	for _, r := range slices.Clone(c.octavia.resources) {
		if r != lb && r.owner == lb.id() {
			c.remove(r)
		}
	}
	c.remove(lb)
	c.removePort(lb.text("vip_port_id"))
}

// faulty is a refusal in Octavia's form.
func faulty(status int, format string, args ...any) *refusal {
	return refuse(status, "faultstring", format, args...)
}

var titles = map[string]string{
	"loadbalancer": "Load Balancer", "listener": "Listener", "pool": "Pool", "member": "member",
	"healthmonitor": "Health Monitor",
}

func missing(kind, id string) *refusal {
	return faulty(http.StatusNotFound, "%s %s not found.", titles[kind], id)
}

// lbaas is Octavia.
func (c *Cloud) lbaas(in request) (answer, *refusal) {
	c.settle()
	if len(in.path) < 2 || in.path[0] != "lbaas" || filters[strings.TrimSuffix(in.path[1], "s")] == nil {
		return answer{}, unknown(in)
	}
	kind := strings.TrimSuffix(in.path[1], "s")
	if len(in.path) >= 4 && in.path[3] == "members" {
		return c.members(in)
	}
	switch in.Method + " " + strconv.Itoa(len(in.path)) {
	case "GET 2":
		return c.listResources(in, kind)
	case "POST 2":
		return c.createResource(in, kind)
	}
	if len(in.path) < 3 {
		return answer{}, unknown(in)
	}
	return c.oneResource(in, kind)
}

// oneResource is a request about a resource that exists.
func (c *Cloud) oneResource(in request, kind string) (answer, *refusal) {
	r := c.find(kind, in.path[2])
	if r == nil {
		return answer{}, missing(kind, in.path[2])
	}
	switch in.Method + " " + strings.Join(in.path[3:], "/") {
	case "GET ":
		return answer{status: http.StatusOK, body: object{kind: c.showResource(r)}}, nil
	case "PUT ":
		return c.updateResource(in, r)
	case "DELETE ":
		return c.deleteResource(in, r)
	case "GET status":
		return answer{status: http.StatusOK, body: object{"statuses": object{"loadbalancer": c.statusTree(r)}}}, nil
	case "PUT failover":
		if kind == "loadbalancer" {
			return c.failover(r)
		}
	}
	return answer{}, unknown(in)
}

func (c *Cloud) failover(lb *resource) (answer, *refusal) {
	if status := lb.text("provisioning_status"); status != Active && status != Errored {
		return answer{}, immutable(lb)
	}
	for _, r := range c.octavia.resources { // a failover builds all that the database has
		if r == lb || c.balancerOf(r) != lb {
			continue
		}
		if r.lost = false; r.text("provisioning_status") == Errored {
			r.fields["provisioning_status"] = PendingUpdate
		}
	}
	c.begin(lb, PendingUpdate)
	return answer{status: http.StatusAccepted}, nil
}

func immutable(lb *resource) *refusal {
	return faulty(http.StatusConflict, "Load Balancer %s is immutable and cannot be updated.", lb.id())
}

// filters are what lists of a kind can be asked for.
var filters = map[string][]string{
	"loadbalancer":  {"name", "project_id", "vip_port_id", "id", "tags", "limit", "marker"},
	"listener":      {"loadbalancer_id", "project_id", "name", "limit", "marker"},
	"pool":          {"loadbalancer_id", "project_id", "name", "limit", "marker"},
	"healthmonitor": {"project_id", "name", "limit", "marker"},
}

func (c *Cloud) listResources(in request, kind string) (answer, *refusal) {
	query := in.URL.Query()
	for key := range query {
		if !slices.Contains(filters[kind], key) {
			return answer{}, unknown(in)
		}
	}
	list := []object{}
	for _, r := range c.owned(kind, query.Get("loadbalancer_id")) {
		if name := query.Get("name"); name != "" && r.text("name") != name {
			continue
		}
		if port := query.Get("vip_port_id"); port != "" && r.text("vip_port_id") != port {
			continue
		}
		if project := query.Get("project_id"); project != "" && r.text("project_id") != project {
			continue
		}
		if tags := query.Get("tags"); tags != "" && !hasTags(r, strings.Split(tags, ",")) {
			continue
		}
		list = append(list, c.showResource(r))
	}
	return answer{status: http.StatusOK, body: object{kind + "s": list, kind + "s_links": []object{}}}, nil
}

// hasTags reports whether a resource has all of some tags.
func hasTags(r *resource, tags []string) bool {
	own := r.list("tags")
	return !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(own, tag) })
}

// showResource is a resource with its references.
func (c *Cloud) showResource(r *resource) object {
	out := maps.Clone(r.fields)
	refs := func(list []*resource) []object {
		ids := []object{}
		for _, r := range list {
			ids = append(ids, object{"id": r.id()})
		}
		return ids
	}
	switch r.kind {
	case "loadbalancer":
		out["listeners"], out["pools"] = refs(c.owned("listener", r.id())), refs(c.owned("pool", r.id()))
	case "listener":
		out["loadbalancers"] = []object{{"id": r.owner}}
	case "pool":
		out["loadbalancers"] = []object{{"id": r.owner}}
		out["members"] = refs(c.owned("member", r.id()))
		listeners := []object{}
		for _, l := range c.owned("listener", r.owner) {
			if l.text("default_pool_id") == r.id() {
				listeners = append(listeners, object{"id": l.id()})
			}
		}
		out["listeners"] = listeners
		out["healthmonitor_id"] = nil
		for _, m := range c.owned("healthmonitor", r.id()) {
			out["healthmonitor_id"] = m.id()
		}
	case "healthmonitor":
		out["pools"] = []object{{"id": r.owner}}
	}
	return out
}

// statusTree is a load balancer as /status shows it: names and statuses, and the addresses of members.
func (c *Cloud) statusTree(lb *resource) object {
	pick := func(r *resource, more ...string) object {
		out := object{}
		for _, field := range append(more, "id", "name", "provisioning_status", "operating_status") {
			out[field] = r.fields[field]
		}
		return out
	}
	pools := map[string]object{}
	for _, p := range c.owned("pool", lb.id()) {
		shown := pick(p)
		members := []object{}
		for _, m := range c.owned("member", p.id()) {
			members = append(members, pick(m, "address", "protocol_port"))
		}
		shown["members"] = members
		for _, m := range c.owned("healthmonitor", p.id()) {
			shown["health_monitor"] = pick(m, "type")
		}
		pools[p.id()] = shown
	}
	listeners := []object{}
	for _, l := range c.owned("listener", lb.id()) {
		shown := pick(l)
		shown["pools"] = []object{}
		if pool := pools[l.text("default_pool_id")]; pool != nil {
			shown["pools"] = []object{pool}
		}
		listeners = append(listeners, shown)
	}
	out := pick(lb)
	out["listeners"] = listeners
	return out
}

type (
	// Listener is a listener of a load balancer.
	Listener struct {
		ID, Name, Protocol, DefaultPool string
		Port, ConnectionLimit           int
		AllowedCIDRs, Tags              []string
		Timeouts                        [4]int // client data, member connect, member data, TCP inspect
	}
	// Pool is a pool of a load balancer.
	Pool struct {
		ID, Name, Protocol, Algorithm, Persistence string
		Members                                    []Member
		Monitor                                    *Monitor
	}
	// Member is a member of a pool.
	Member struct {
		ID, Name, Address, Subnet string
		Port, MonitorPort         int
	}
	// Monitor checks the members of a pool.
	Monitor struct {
		ID, Name, Type, Path              string
		Delay, Timeout, Retries, Retries2 int
	}
)

// LoadBalancer is a load balancer of Octavia with its parts, in the order in which they were made.
type LoadBalancer struct {
	ID, Name, Description, Provider, Status string
	VIP, VIPPort, VIPSubnet, Flavor, Zone   string
	// Additional are the addresses of additional_vips, by subnet.
	Additional map[string]string
	Tags       []string
	Listeners  []Listener
	Pools      []Pool
}

// LoadBalancers are copies of all load balancers.
func (c *Cloud) LoadBalancers() (list []LoadBalancer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, r := range c.owned("loadbalancer", "") {
		lb := LoadBalancer{
			ID: r.id(), Name: r.text("name"), Description: r.text("description"), Provider: r.text("provider"),
			Status: r.text("provisioning_status"), VIP: r.text("vip_address"), VIPPort: r.text("vip_port_id"),
			VIPSubnet: r.text("vip_subnet_id"), Flavor: r.text("flavor_id"), Zone: r.text("availability_zone"),
			Tags: r.list("tags"),
		}
		vips, _ := r.fields["additional_vips"].([]object)
		for _, vip := range vips {
			if lb.Additional == nil {
				lb.Additional = map[string]string{}
			}
			lb.Additional[text(vip, "subnet_id")] = text(vip, "ip_address")
		}
		for _, l := range c.owned("listener", lb.ID) {
			lb.Listeners = append(lb.Listeners, Listener{
				ID: l.id(), Name: l.text("name"), Protocol: l.text("protocol"), DefaultPool: l.text("default_pool_id"),
				Port: l.number("protocol_port"), ConnectionLimit: l.number("connection_limit"),
				AllowedCIDRs: l.list("allowed_cidrs"), Tags: l.list("tags"),
				Timeouts: [4]int{
					l.number("timeout_client_data"), l.number("timeout_member_connect"),
					l.number("timeout_member_data"), l.number("timeout_tcp_inspect"),
				},
			})
		}
		for _, p := range c.owned("pool", lb.ID) {
			lb.Pools = append(lb.Pools, c.copyPool(p))
		}
		list = append(list, lb)
	}
	return list
}

func (c *Cloud) copyPool(p *resource) Pool {
	persistence, _ := dig(p.fields, "session_persistence", "type").(string)
	pool := Pool{
		ID: p.id(), Name: p.text("name"), Protocol: p.text("protocol"), Algorithm: p.text("lb_algorithm"),
		Persistence: persistence,
	}
	for _, m := range c.owned("member", p.id()) {
		pool.Members = append(pool.Members, Member{
			ID: m.id(), Name: m.text("name"), Address: m.text("address"), Subnet: m.text("subnet_id"),
			Port: m.number("protocol_port"), MonitorPort: m.number("monitor_port"),
		})
	}
	for _, m := range c.owned("healthmonitor", p.id()) {
		pool.Monitor = &Monitor{
			ID: m.id(), Name: m.text("name"), Type: m.text("type"), Path: m.text("url_path"),
			Delay: m.number("delay"), Timeout: m.number("timeout"), Retries: m.number("max_retries"),
			Retries2: m.number("max_retries_down"),
		}
	}
	return pool
}

// SetStatus sets the provisioning status of a load balancer, as a failure or another client would.
func (c *Cloud) SetStatus(id, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.octavia.ready, id)
	c.setStatus(c.find("loadbalancer", id), status)
}

// ChangeResource changes a field of a load balancer or of a part of one, as another client would.
func (c *Cloud) ChangeResource(id, field string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.octavia.resources {
		if r.id() == id {
			r.fields[field] = value
			c.balancerOf(r).fields["updated_at"] = c.now().Format("2006-01-02T15:04:05")
			return
		}
	}
	panic(fmt.Sprintf("there is no %s", id))
}
