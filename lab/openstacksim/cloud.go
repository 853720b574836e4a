package openstacksim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Call is a request that was made.
type Call struct {
	// Service is identity, compute, network or load-balancer.
	Service string
	// Method and Path, IDs in it replaced by {id}.
	Method, Path string
	// Query is the raw query.
	Query  string
	Status int
	// Unknown is that the simulator does not know the request.
	Unknown bool
}

// Mutates reports whether the call changes something.
func (c Call) Mutates() bool {
	return c.Method != http.MethodGet && c.Method != http.MethodHead && c.Service != identityService
}

func (c Call) String() string {
	return fmt.Sprintf("%s %s %s %d", c.Service, c.Method, c.Path, c.Status)
}

const (
	identityService = "identity"
	computeService  = "compute"
	networkService  = "network"
	balancerService = "load-balancer"
)

// Options are the settings of a Cloud.
type Options struct {
	// PageSize is how many servers or ports a page has at most; 0 for 1,000.
	PageSize int
	// WithoutAtomicRoutes leaves out the extension extraroute-atomic, as before Stein.
	WithoutAtomicRoutes bool
	// Unfiltered has lists of security groups and floating IPs show all of them, whatever they are asked for.
	Unfiltered bool
	// Region of every endpoint; empty for RegionOne.
	Region string
}

// Cloud is a simulated OpenStack of one project.
type Cloud struct {
	options Options
	server  *httptest.Server

	mu      sync.Mutex
	number  int // of the last ID
	users   map[string]string
	tokens  map[string]bool
	servers map[string]*Server
	order   []string // IDs of servers, the youngest first, as Nova lists them
	ports   map[string]*Port
	routers map[string]*Router
	calls   []Call
	faults  []*Fault
	before  []hook
	octavia *octavia
	neutron *neutron

	credentials []credential
	absent      []string // services that are not in the catalog
}

// hook is what happens before a request.
type hook struct {
	method, path string
	do           func()
}

// The project, the user and the password that the simulator begins with.
const (
	Project  = "5b1c5e6a9a0f4b7d8c3e2f1a0b9c8d7e"
	User     = "demo"
	Password = "secret"
)

// Start serves a new cloud on a free port of loopback. Close ends it.
func Start(o Options) *Cloud {
	if o.PageSize == 0 {
		o.PageSize = 1000
	}
	if o.Region == "" {
		o.Region = "RegionOne"
	}
	c := &Cloud{
		options: o, users: map[string]string{User: Password}, tokens: map[string]bool{},
		servers: map[string]*Server{}, ports: map[string]*Port{}, routers: map[string]*Router{},
		octavia: newOctavia(), neutron: newNeutron(),
	}
	c.server = httptest.NewServer(c)
	return c
}

// Close ends the cloud.
func (c *Cloud) Close() { c.server.Close() }

// URL is the address of Keystone, for auth-url.
func (c *Cloud) URL() string { return c.server.URL + "/identity/v3/" }

// Config is a cloud.conf for the cloud, with the lines of more at its end.
func (c *Cloud) Config(more ...string) []byte {
	lines := []string{
		"[Global]",
		"auth-url=" + c.URL(),
		"username=" + User,
		"password=" + Password,
		"tenant-name=demo",
		"domain-name=Default",
		"region=" + c.options.Region,
	}
	return []byte(strings.Join(append(lines, more...), "\n") + "\n")
}

// Calls are the requests that were made since the last call of Calls.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// Fault makes requests fail.
type Fault struct {
	// Service, Method and Path choose the requests; an empty one stands for all. Path is with {id}.
	Service, Method, Path string
	// Times is how many requests fail; 0 for all from now on.
	Times int
	// Status and Body are the answer; 0 closes the connection without one.
	Status int
	Body   string
	Header map[string]string
	// AfterEffect has the request executed before it fails.
	AfterEffect bool
	// Delay goes before the answer, as far as the client waits for it.
	Delay time.Duration

	left int
}

// Add adds a fault, and returns what takes it away.
func (c *Cloud) Add(f Fault) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.left = f.Times
	added := &f
	c.faults = append(c.faults, added)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults = slices.DeleteFunc(c.faults, func(f *Fault) bool { return f == added })
	}
}

// BeforeNext has something happen before the next request of its kind is executed: another client is faster.
func (c *Cloud) BeforeNext(method, path string, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = append(c.before, hook{method, path, do})
}

// takeHook returns what happens before a call, once.
func (c *Cloud) takeHook(call Call) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.before, func(h hook) bool { return h.method == call.Method && h.path == call.Path })
	if i < 0 {
		return func() {}
	}
	do := c.before[i].do
	c.before = slices.Delete(c.before, i, i+1)
	return do
}

// fault returns the fault of a request, and counts it.
func (c *Cloud) fault(call Call) *Fault {
	for _, f := range c.faults {
		if f.Service != "" && f.Service != call.Service || f.Method != "" && f.Method != call.Method ||
			f.Path != "" && f.Path != call.Path {
			continue
		}
		if f.Times > 0 {
			if f.left == 0 {
				continue
			}
			f.left--
		}
		return f
	}
	return nil
}

// newID returns IDs that look like OpenStack's and ascend.
func (c *Cloud) newID() string {
	c.number++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", c.number, c.number)
}

// refusal is an error as an API answers it.
type refusal struct {
	status int
	// kind is what the service wraps the message in.
	kind, message string
}

func refuse(status int, kind, format string, args ...any) *refusal {
	return &refusal{status, kind, fmt.Sprintf(format, args...)}
}

// answer wraps the message as its service does.
func (r *refusal) answer() answer {
	if r.kind == "faultstring" {
		return answer{status: r.status, body: object{"faultcode": "Client", "faultstring": r.message, "debuginfo": nil}}
	}
	return answer{status: r.status, body: object{r.kind: object{"message": r.message, "code": r.status}}}
}

// answer is what a handler returns: a status with a JSON body, or a refusal.
type answer struct {
	status int
	body   any
	header map[string]string
}

type object = map[string]any

// request is a request with its body, below the service's prefix.
type request struct {
	*http.Request

	path []string // segments behind the version
	body object
}

// base is the address at which the client of a request has reached the cloud. Whoever came by another one stays on it.
func (in request) base() string { return "http://" + in.Host }

// split is the service of a request, how many segments its path has, and those behind the version.
func split(r *http.Request) (service string, depth int, path []string) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(segments) > 1 {
		path = segments[2:]
	}
	return segments[0], len(segments), path
}

// Describe is a request before it is answered.
func Describe(r *http.Request) Call {
	service, _, path := split(r)
	return Call{Service: service, Method: r.Method, Path: template(path), Query: r.URL.RawQuery}
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, depth, path := split(r)
	in := request{Request: r, path: path}
	if r.Body != nil {
		// a body that is no JSON is refused by what needs it
		_ = json.NewDecoder(r.Body).Decode(&in.body)
	}
	call := Describe(r)
	c.takeHook(call)()
	c.mu.Lock()
	fault := c.fault(call)
	var (
		out     answer
		refused *refusal
	)
	if fault == nil || fault.AfterEffect {
		out, refused = c.handle(service, depth, in)
	}
	switch {
	case fault != nil:
		call.Status = fault.Status
	case refused != nil:
		call.Status, call.Unknown = refused.status, refused.status == http.StatusNotImplemented
	default:
		call.Status = out.status
	}
	c.calls = append(c.calls, call)
	w.Header().Set("Date", c.now().Format(http.TimeFormat))
	c.mu.Unlock()
	switch {
	case fault != nil:
		fault.answer(w, r)
	case refused != nil:
		write(w, refused.answer())
	default:
		write(w, out)
	}
}

func (f *Fault) answer(w http.ResponseWriter, r *http.Request) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if f.Status == 0 {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(f.Body)) // the client may be gone
}

func write(w http.ResponseWriter, out answer) {
	for name, value := range out.header {
		w.Header().Set(name, value)
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.status)
	_ = json.NewEncoder(w).Encode(out.body) // the client may be gone
}

// template replaces IDs in a path.
func template(path []string) string {
	out := slices.Clone(path)
	for i, segment := range out {
		if len(segment) == 36 && strings.Count(segment, "-") == 4 {
			out[i] = "{id}"
		}
	}
	return strings.Join(out, "/")
}

// handle executes a request. The lock is held.
func (c *Cloud) handle(service string, depth int, in request) (answer, *refusal) {
	if depth < 3 && in.Method == http.MethodGet {
		return c.versions(service, in)
	}
	if service == identityService {
		return c.identity(in)
	}
	if !c.tokens[in.Header.Get("X-Auth-Token")] {
		return answer{}, refuse(http.StatusUnauthorized, "error", "The request you have made requires authentication.")
	}
	switch service {
	case computeService:
		return c.compute(in)
	case networkService:
		return c.network(in)
	case balancerService:
		return c.lbaas(in)
	}
	return answer{}, unknown(in)
}

func unknown(in request) *refusal {
	return refuse(http.StatusNotImplemented, "error", "openstacksim does not know %s %s", in.Method, in.URL.Path)
}

// versions is the discovery document of a service, which clients ask before its first use.
func (c *Cloud) versions(service string, in request) (answer, *refusal) {
	if service == balancerService {
		list := []object{}
		for minor := range c.octavia.version + 1 {
			list = append(list, object{"id": fmt.Sprintf("v2.%d", minor), "status": "SUPPORTED", "links": []object{
				{"rel": "self", "href": in.base() + "/load-balancer/v2"},
			}})
		}
		return answer{status: http.StatusOK, body: object{"versions": list}}, nil
	}
	version := map[string]string{identityService: "v3.14", computeService: "v2.1", networkService: "v2.0"}[service]
	if version == "" {
		return answer{}, refuse(http.StatusNotFound, "error", "there is no service %s", service)
	}
	href := in.base() + "/" + service + "/" + strings.TrimSuffix(version, ".14") + "/"
	entry := object{
		"id":          version,
		"status":      "CURRENT",
		"version":     "2.93",
		"min_version": "2.1",
		"links":       []object{{"rel": "self", "href": href}},
	}
	if service == identityService {
		return answer{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{entry}}}}, nil
	}
	return answer{status: http.StatusOK, body: object{"versions": []object{entry}}}, nil
}
