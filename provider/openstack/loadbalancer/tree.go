package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// tree is a load balancer's listeners with what is below them: as it is, or as it should be.
type tree struct {
	id        string // the load balancer's
	listeners []*listener
}

type listener struct {
	id, name, protocol string
	port               int
	connections        int
	timeouts           [4]*int // nil where it does not matter
	allowed            []string
	headers            map[string]string
	tls                string
	tags               []string
	pool               *pool
	status             string // of provisioning, as it was read
}

type pool struct {
	id, name, protocol, method, persistence string
	members                                 []member
	// unsure is that the ports at which members are checked were not read.
	unsure  bool
	monitor *monitor
	status  string
}

type member struct {
	id, name, address, subnet string
	port, healthPort          int
	status                    string
}

// key is what Octavia identifies a member by.
func (m member) key() string { return fmt.Sprintf("%s:%d", m.address, m.port) }

type monitor struct {
	id, name, kind, status               string
	delay, timeout, retries, retriesDown int
}

// key is what identifies a listener: there cannot be two of one transport at one port.
func (l *listener) key() string { return fmt.Sprintf("%s/%d", l.protocol, l.port) }

func (l *listener) transport() string {
	switch l.protocol {
	case "UDP", "SCTP":
		return fmt.Sprintf("%s/%d", l.protocol, l.port)
	}
	return fmt.Sprintf("TCP/%d", l.port)
}

const forwardedFor = "X-Forwarded-For"

// wanted is the tree that a Service asks for, below a load balancer of a name. Members are in memberSubnet; empty for
// the load balancer's own. One that the in-tree provider made keeps the timeouts that the cloud gave it, where no
// annotation says otherwise.
func wanted(s *settings, name, memberSubnet string, adopted bool, nodes []target, f features) *tree {
	t := &tree{}
	for i, p := range s.service.Spec.Ports {
		l := &listener{
			name: cut(fmt.Sprintf("listener_%d_%s", i, name)), protocol: string(p.Protocol), port: int(p.Port),
			connections: s.connections, allowed: s.allowed, tls: s.tls,
		}
		if f.supportsTimeouts() {
			l.timeouts = s.timeouts
		}
		for i := range l.timeouts {
			if l.timeouts[i] == nil && f.supportsTimeouts() && !adopted {
				l.timeouts[i] = &defaultTimeouts[i]
			}
		}
		if f.supportsTags() {
			l.tags = []string{s.name}
		}
		l.pool = &pool{name: cut(fmt.Sprintf("pool_%d_%s", i, name)), method: s.method, persistence: s.persistence}
		switch {
		case s.tls != "":
			l.protocol, l.pool.protocol = "TERMINATED_HTTPS", "HTTP"
		case s.forwardedFor:
			l.protocol = "HTTP"
		}
		if s.forwardedFor {
			l.headers = map[string]string{forwardedFor: "true"}
		}
		if s.proxy != "" {
			l.pool.protocol = s.proxy
		} else if l.pool.protocol == "" {
			l.pool.protocol = l.protocol
		}
		healthPort := 0
		l.pool.monitor, healthPort = wantedMonitor(s, p, cut(fmt.Sprintf("monitor_%d_%s", i, name)), f)
		for _, node := range nodes {
			l.pool.members = append(l.pool.members, member{
				name: node.name, address: node.address, subnet: cmp.Or(node.subnet, memberSubnet), port: int(p.NodePort),
				healthPort: healthPort,
			})
		}
		t.listeners = append(t.listeners, l)
	}
	return t
}

func wantedMonitor(s *settings, p corev1.ServicePort, name string, f features) (m *monitor, healthPort int) {
	if s.monitor == nil {
		return nil, 0
	}
	made := *s.monitor
	made.name, made.kind = name, string(p.Protocol)
	if p.Protocol == corev1.ProtocolUDP {
		made.kind = "UDP-CONNECT"
	}
	if s.healthPort > 0 && f.supportsHTTPMonitor(p.Protocol) {
		made.kind, healthPort = "HTTP", s.healthPort
	}
	return &made, healthPort
}

type object = map[string]any

// change is one request that brings a tree nearer to what it should be. Each makes the whole load balancer immutable
// for a while.
type change struct {
	method, path string
	// kind wraps the body, and the answer; empty for members.
	kind string
	body any
	// apply changes the tree that was read as the request changes Octavia's. It is given the ID of what was made.
	apply func(id string)
}

func (c change) String() string { return c.method + " " + c.path }

func (l *listener) create() object {
	body := object{"name": l.name, "protocol": l.protocol, "protocol_port": l.port, "connection_limit": l.connections}
	for i, timeout := range l.timeouts {
		if timeout != nil {
			body[timeoutFields[i]] = *timeout
		}
	}
	if len(l.allowed) > 0 {
		body["allowed_cidrs"] = l.allowed
	}
	if len(l.headers) > 0 {
		body["insert_headers"] = l.headers
	}
	if l.tls != "" {
		body["default_tls_container_ref"] = l.tls
	}
	if len(l.tags) > 0 {
		body["tags"] = l.tags
	}
	return body
}

func (p *pool) create() object {
	body := object{"name": p.name, "protocol": p.protocol, "lb_algorithm": p.method}
	if p.persistence != "" {
		body["session_persistence"] = object{"type": p.persistence}
	}
	return body
}

func (m *monitor) create() object {
	body := object{
		"name": m.name, "type": m.kind, "delay": m.delay, "timeout": m.timeout, "max_retries": m.retries,
		"max_retries_down": m.retriesDown,
	}
	if m.kind == "HTTP" {
		body["url_path"], body["http_method"], body["expected_codes"] = "/healthz", "GET", "200"
	}
	return body
}

func (m member) create() object {
	body := object{"name": m.name, "address": m.address, "protocol_port": m.port}
	if m.subnet != "" {
		body["subnet_id"] = m.subnet
	}
	if m.healthPort > 0 {
		body["monitor_port"] = m.healthPort
	}
	return body
}

// create is the whole tree for the request that makes a load balancer.
func (t *tree) create() []object {
	var listeners []object
	for _, l := range t.listeners {
		body, below := l.create(), l.pool.create()
		members := []object{}
		for _, m := range l.pool.members {
			members = append(members, m.create())
		}
		below["members"] = members
		if l.pool.monitor != nil {
			below["healthmonitor"] = l.pool.monitor.create()
		}
		body["default_pool"] = below
		listeners = append(listeners, body)
	}
	return listeners
}

// scope says which listeners a Service may touch.
type scope struct {
	tag string
	// owner is that the load balancer is the Service's own: listeners without tags are too.
	owner bool
	// adopted is that the in-tree provider made it. What no annotation asks for stays as it made it.
	adopted bool
}

// ownsListener reports whether a listener is the Service's.
func (s scope) ownsListener(l *listener) bool {
	if slices.Contains(l.tags, s.tag) {
		return true
	}
	return s.owner && !slices.ContainsFunc(l.tags, naming.IsServiceName)
}

// diff lists the requests that make a tree what it should be, as far as they can be known now. What is below a listener
// or pool that is yet to be made comes with the next diff. Listeners in the way of new ones go first. Others that are
// not wanted go last.
func diff(want, have *tree, in scope, f features) ([]change, error) {
	var early, changes, late []change
	found := map[*listener]bool{}
	needed := map[string]bool{}
	for _, w := range want.listeners {
		h := have.listenerAt(w.key())
		if h == nil {
			needed[w.transport()] = true
			changes = append(changes, createListener(have, w))
			continue
		}
		if !in.ownsListener(h) {
			return nil, fmt.Errorf("port %d is used by another Service of this load balancer (tags %s): use another port, "+
				"or a load balancer of its own", w.port, strings.Join(h.tags, ", "))
		}
		found[h] = true
		changes = append(changes, diffListener(w, h, in)...)
		changes = append(changes, diffPool(w, h, f)...)
	}
	for _, h := range have.listeners {
		if found[h] {
			continue
		}
		blocks := needed[h.transport()]
		switch {
		case !in.ownsListener(h) && blocks:
			return nil, fmt.Errorf("port %d is used by another Service of this load balancer (tags %s): use another port, "+
				"or a load balancer of its own", h.port, strings.Join(h.tags, ", "))
		case !in.ownsListener(h):
		case blocks:
			early = append(early, removeListener(have, h)...)
		default:
			late = append(late, removeListener(have, h)...)
		}
	}
	return slices.Concat(early, changes, late), nil
}

func (t *tree) listenerAt(key string) *listener {
	i := slices.IndexFunc(t.listeners, func(l *listener) bool { return l.key() == key })
	if i < 0 {
		return nil
	}
	return t.listeners[i]
}

func createListener(have *tree, w *listener) change {
	body := w.create()
	body["loadbalancer_id"] = have.id
	return change{
		method: http.MethodPost, path: "listeners", kind: "listener", body: body,
		apply: func(id string) {
			made := *w
			made.id, made.pool = id, nil
			have.listeners = append(have.listeners, &made)
		},
	}
}

func removeListener(have *tree, h *listener) (changes []change) {
	if h.pool != nil {
		changes = append(changes, removePool(h))
	}
	return append(changes, change{
		method: http.MethodDelete, path: "listeners/" + h.id,
		apply: func(string) {
			have.listeners = slices.DeleteFunc(have.listeners, func(l *listener) bool { return l == h })
		},
	})
}

func removePool(h *listener) change {
	return change{method: http.MethodDelete, path: "pools/" + h.pool.id, apply: func(string) { h.pool = nil }}
}

func diffListener(w, h *listener, in scope) []change {
	body := object{}
	if len(w.tags) > 0 && !in.adopted && !slices.Contains(h.tags, in.tag) {
		body["tags"] = append(slices.Clone(h.tags), w.tags...)
	}
	if w.connections != h.connections {
		body["connection_limit"] = w.connections
	}
	for i, timeout := range w.timeouts {
		if timeout != nil && h.timeouts[i] != nil && *timeout != *h.timeouts[i] {
			body[timeoutFields[i]] = *timeout
		}
	}
	if !slices.Equal(w.allowed, h.allowed) {
		body["allowed_cidrs"] = append([]string{}, w.allowed...)
	}
	if w.headers[forwardedFor] != h.headers[forwardedFor] {
		headers := maps.Clone(h.headers)
		if headers == nil {
			headers = map[string]string{}
		}
		delete(headers, forwardedFor)
		maps.Copy(headers, w.headers)
		body["insert_headers"] = headers
	}
	if w.tls != h.tls {
		body["default_tls_container_ref"] = w.tls
	}
	if len(body) == 0 {
		return nil
	}
	return []change{{
		method: http.MethodPut, path: "listeners/" + h.id, kind: "listener", body: body,
		apply: func(string) { h.become(w, body) },
	}}
}

// become changes a listener as the request with a body does.
func (l *listener) become(w *listener, body object) {
	if tags, ok := body["tags"].([]string); ok {
		l.tags = tags
	}
	for i, field := range timeoutFields {
		if value, ok := body[field].(int); ok {
			l.timeouts[i] = &value
		}
	}
	l.connections, l.allowed, l.tls = w.connections, w.allowed, w.tls
	if headers, ok := body["insert_headers"].(map[string]string); ok {
		l.headers = headers
	}
}

func diffPool(w, h *listener, f features) []change {
	if h.pool == nil {
		body := w.pool.create()
		body["listener_id"] = h.id
		return []change{{
			method: http.MethodPost, path: "pools", kind: "pool", body: body,
			apply: func(id string) {
				made := *w.pool
				made.id, made.members, made.monitor = id, nil, nil
				h.pool = &made
			},
		}}
	}
	if w.pool.protocol != h.pool.protocol { // which cannot be changed
		return []change{removePool(h)}
	}
	var changes []change
	body := object{}
	if w.pool.method != h.pool.method {
		body["lb_algorithm"] = w.pool.method
	}
	if w.pool.persistence != h.pool.persistence {
		body["session_persistence"] = nil
		if w.pool.persistence != "" {
			body["session_persistence"] = object{"type": w.pool.persistence}
		}
	}
	if len(body) > 0 {
		changes = append(changes, change{
			method: http.MethodPut, path: "pools/" + h.pool.id, kind: "pool", body: body,
			apply: func(string) { h.pool.method, h.pool.persistence = w.pool.method, w.pool.persistence },
		})
	}
	changes = append(changes, diffMembers(w.pool, h.pool, f)...)
	return append(changes, diffMonitor(w.pool, h.pool)...)
}

// compareMembers lists the members to write and those to remove.
func compareMembers(w, h *pool, have map[string]member, recheck bool) (news, gone []member) {
	keys := map[string]bool{}
	for _, m := range w.members {
		keys[m.key()] = true
		known, ok := have[m.key()]
		if !ok || recheck || !h.unsure && known.healthPort != m.healthPort {
			news = append(news, m)
		}
	}
	for _, m := range h.members {
		if !keys[m.key()] {
			gone = append(gone, m)
		}
	}
	return news, gone
}

// diffMembers is one request, whatever the number of nodes: what is new alone where nothing goes, or the whole list.
func diffMembers(w, h *pool, f features) []change {
	recheck := h.mustRecheck(w)
	have := map[string]member{}
	for _, m := range h.members {
		have[m.key()] = m
	}
	news, gone := compareMembers(w, h, have, recheck)
	switch {
	case len(news) == 0 && len(gone) == 0:
		return nil
	case f.serial:
		return serialMembers(h, news, gone)
	}
	path, sent := "pools/"+h.id+"/members", w.members
	if len(gone) == 0 && f.supportsAdditiveUpdate() {
		path, sent = path+"?additive_only=true", news
	}
	bodies := []object{}
	for _, m := range sent {
		body := m.create()
		if known, ok := have[m.key()]; ok && m.healthPort == 0 && (recheck || known.healthPort != 0) {
			body["monitor_port"] = nil
		}
		bodies = append(bodies, body)
	}
	return []change{{
		method: http.MethodPut, path: path, body: object{"members": bodies},
		apply: func(string) { h.members, h.unsure = slices.Clone(w.members), false },
	}}
}

// mustRecheck reports whether all members have to be written. The ports at which they are checked may not be known, and
// only checks by HTTP have a port of their own.
func (p *pool) mustRecheck(w *pool) bool {
	want, have := kindOf(w.monitor), kindOf(p.monitor)
	return p.unsure && want != have && (want == "HTTP" || have == "HTTP")
}

func kindOf(m *monitor) string {
	if m == nil {
		return ""
	}
	return m.kind
}

// serialMembers is for providers of Octavia that take one member at a time.
func serialMembers(h *pool, news, gone []member) (changes []change) {
	for _, m := range gone {
		changes = append(changes, change{
			method: http.MethodDelete, path: "pools/" + h.id + "/members/" + m.id,
			apply: func(string) {
				h.members = slices.DeleteFunc(h.members, func(o member) bool { return o.key() == m.key() })
			},
		})
	}
	for _, m := range news {
		if i := slices.IndexFunc(h.members, func(o member) bool { return o.key() == m.key() }); i >= 0 {
			changes = append(changes, change{
				method: http.MethodPut, path: "pools/" + h.id + "/members/" + h.members[i].id, kind: "member",
				body: object{"monitor_port": portOrNone(m.healthPort)}, apply: func(string) { h.members[i].healthPort = m.healthPort },
			})
			continue
		}
		changes = append(changes, change{
			method: http.MethodPost, path: "pools/" + h.id + "/members", kind: "member", body: m.create(),
			apply: func(id string) {
				m.id = id
				h.members = append(h.members, m)
			},
		})
	}
	return changes
}

func portOrNone(port int) any {
	if port == 0 {
		return nil
	}
	return port
}

func diffMonitor(w, h *pool) []change {
	create := change{
		method: http.MethodPost, path: "healthmonitors", kind: "healthmonitor",
		apply: func(id string) {
			made := *w.monitor
			made.id = id
			h.monitor = &made
		},
	}
	if w.monitor != nil {
		body := w.monitor.create()
		body["pool_id"] = h.id
		create.body = body
	}
	switch {
	case w.monitor == nil && h.monitor == nil:
		return nil
	case h.monitor == nil:
		return []change{create}
	case w.monitor == nil, w.monitor.kind != h.monitor.kind:
		return []change{{
			method: http.MethodDelete, path: "healthmonitors/" + h.monitor.id, apply: func(string) { h.monitor = nil },
		}}
	}
	body := object{}
	for _, field := range []struct {
		name       string
		want, have int
	}{
		{"delay", w.monitor.delay, h.monitor.delay},
		{"timeout", w.monitor.timeout, h.monitor.timeout},
		{"max_retries", w.monitor.retries, h.monitor.retries},
		{"max_retries_down", w.monitor.retriesDown, h.monitor.retriesDown},
	} {
		if field.want != field.have {
			body[field.name] = field.want
		}
	}
	if len(body) == 0 {
		return nil
	}
	return []change{{
		method: http.MethodPut, path: "healthmonitors/" + h.monitor.id, kind: "healthmonitor", body: body,
		apply: func(string) {
			id, kind, name := h.monitor.id, h.monitor.kind, h.monitor.name
			*h.monitor = *w.monitor
			h.monitor.id, h.monitor.kind, h.monitor.name = id, kind, name
		},
	}}
}
