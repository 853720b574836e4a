package gcesim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

// refusal is an error in the form of Google's APIs.
type refusal struct {
	status  int
	reason  string
	message string
}

func (r *refusal) body() object {
	return object{"error": object{
		"code": r.status, "message": r.message,
		"errors": []any{object{"message": r.message, "domain": "global", "reason": r.reason}},
	}}
}

func refuse(status int, reason, format string, args ...any) *refusal {
	return &refusal{status, reason, fmt.Sprintf(format, args...)}
}

// computeRoot begins the path of a request to the Compute API.
const computeRoot = "/compute/v1/projects/"

// betaRoot is the same of the version in which the in-tree provider asks for alias ranges. All versions answer alike.
const betaRoot = "/compute/beta/projects/"

// belowRoot is the path of a request to the Compute API, below projects; false for another request.
func belowRoot(path string) (string, bool) {
	if below, isBeta := strings.CutPrefix(path, betaRoot); isBeta {
		return below, true
	}
	return strings.CutPrefix(path, computeRoot)
}

// request is one to the Compute API, below the project.
type request struct {
	method string
	path   string
	query  url.Values
	body   object
}

func (c *Cloud) serveCompute(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	below, _ := belowRoot(r.URL.Path)
	project, below, _ := strings.Cut(below, "/")
	in := &request{method: r.Method, path: below, query: r.URL.Query(), body: object{}}
	identity := c.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	fault := c.Fault(w, r)
	var answer object
	var refused *refusal
	switch {
	case identity == "":
		refused = refuse(http.StatusUnauthorized, "authError", "Invalid Credentials")
	case !fault.HasEffect():
	case project != Project:
		refused = refuse(http.StatusNotFound, "notFound", "The resource 'projects/%s' was not found", project)
	case c.checkPermission(identity, in) != nil:
		refused = c.checkPermission(identity, in)
	case len(text) > 0 && json.Unmarshal(text, &in.body) != nil:
		refused = refuse(http.StatusBadRequest, "parseError", "Parse Error")
	default:
		answer, refused = c.do(in)
	}
	status := http.StatusOK
	if fault.IsRefusal() {
		refused = refuse(fault.Status, fault.Code, "the fault of a test: %s", fault.Code)
	}
	if refused != nil {
		status, answer = refused.status, refused.body()
	}
	c.Record(simhttp.Call{
		Identity: identity, Method: in.method, Path: in.path, Query: r.URL.RawQuery, Status: status,
		Mutates: !isRead(in.method, in.path), Unknown: status == http.StatusNotImplemented,
	})
	if status == 0 {
		panic(http.ErrAbortHandler) // it ends the connection
	}
	fault.WriteJSON(w, status, answer)
}

// collections are the kinds of objects that are known, by scope.
var collections = map[string][]string{
	"global":  {"firewalls", "httpHealthChecks", "healthChecks", "routes", "networks", "operations"},
	"regions": {"forwardingRules", "targetPools", "backendServices", "addresses", "operations"},
	"zones":   {"instances", "instanceGroups", "operations"},
}

var unknown = refuse(http.StatusNotImplemented, "unknown", "the simulator does not know this request")

// do finds what a request is about: "", zones, zones/Z, aggregated/instances, SCOPE/COLLECTION, an object, its verb.
func (c *Cloud) do(in *request) (object, *refusal) {
	parts := strings.Split(in.path, "/")
	switch {
	case in.path == "" && in.method == http.MethodGet:
		return object{"name": Project}, nil
	case in.path == "aggregated/instances" && in.method == http.MethodGet:
		return c.aggregated(in)
	case in.path == "zones" && in.method == http.MethodGet:
		return c.list(in, "zones", 2)
	}
	scope := parts[0]
	if scope == "zones" || scope == "regions" {
		switch len(parts) {
		case 1:
			return nil, unknown
		case 2:
			return c.get(in)
		}
		scope = strings.Join(parts[:2], "/")
		if c.objects[scope] == nil {
			kind := strings.TrimSuffix(parts[0], "s")
			return nil, refuse(http.StatusBadRequest, "invalid", "Invalid value for field '%s': '%s'. Unknown %s.", kind, parts[1], kind)
		}
		parts = parts[1:]
	}
	return c.within(in, scope, parts)
}

// within finds what a request is about in a scope: a collection, an object, its verb. The first part is the scope's.
func (c *Cloud) within(in *request, scope string, parts []string) (object, *refusal) {
	if len(parts) < 2 || !slices.Contains(collections[strings.Split(in.path, "/")[0]], parts[1]) {
		return nil, unknown
	}
	at := scope + "/" + parts[1]
	switch len(parts) {
	case 2:
		return c.collection(in, at)
	case 3:
		return c.object(in, parts[1])
	case 4:
		return c.verb(in, at+"/"+parts[2], parts[1]+"."+parts[3])
	}
	return nil, unknown
}

func (c *Cloud) collection(in *request, at string) (object, *refusal) {
	switch in.method {
	case http.MethodGet:
		return c.list(in, at, len(strings.Split(at, "/"))+1)
	case http.MethodPost:
		return c.insert(in, at)
	}
	return nil, unknown
}

func (c *Cloud) object(in *request, collection string) (object, *refusal) {
	have := c.objects[in.path]
	if have == nil {
		return nil, notFound(in.path)
	}
	switch in.method {
	case http.MethodGet:
		if collection == "operations" { // the in-tree provider asks until it is done, and does not wait
			defer c.finish(in.path)
			return maps.Clone(have), nil
		}
		return have, nil
	case http.MethodDelete:
		if user := c.userOf(in.path, collection); user != "" {
			return nil, refuse(http.StatusBadRequest, "resourceInUseByAnotherResource",
				"The %s resource '%s' is already being used by '%s'", collection, in.path, user)
		}
		return c.operation(in.path, func() { c.drop(in.path) }), nil
	case http.MethodPatch, http.MethodPut:
		if !slices.Contains([]string{"firewalls", "httpHealthChecks", "healthChecks", "backendServices"}, collection) {
			return nil, unknown
		}
		return c.operation(in.path, func() { maps.Copy(have, in.body) }), nil
	}
	return nil, unknown
}

func notFound(path string) *refusal {
	return refuse(http.StatusNotFound, "notFound", "The resource 'projects/%s/%s' was not found", Project, path)
}

func (c *Cloud) get(in *request) (object, *refusal) {
	if in.method != http.MethodGet {
		return nil, unknown
	}
	if found := c.objects[in.path]; found != nil {
		return found, nil
	}
	return nil, notFound(in.path)
}

// condition is one of a filter: "name eq x.*", or "(name eq x) (network eq y)".
var condition = regexp.MustCompile(`^\(?([A-Za-z]+) eq ([^()]*(?:\(\?[^()]*\))?[^()]*)\)?$`)

// matches reports whether an object passes a filter. One that the simulator does not understand is refused.
func matches(o object, filter string) (bool, *refusal) {
	if filter == "" {
		return true, nil
	}
	for _, one := range strings.Split(strings.ReplaceAll(filter, ") (", ")\x00("), "\x00") {
		parts := condition.FindStringSubmatch(one)
		if parts == nil {
			return false, refuse(http.StatusNotImplemented, "unknown", "the simulator does not know the filter %q", filter)
		}
		pattern, err := regexp.Compile("^(?:" + withoutHost(parts[2]) + ")$")
		if err != nil {
			return false, refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'filter': '%s'", filter)
		}
		value, _ := o[parts[1]].(string)
		if !pattern.MatchString(withoutHost(value)) {
			return false, nil
		}
	}
	return true, nil
}

// withoutHost is a link as all clients share it: in a lab, each host reaches the API at an address of its own.
func withoutHost(link string) string {
	if _, below, isLink := strings.Cut(link, computeRoot); isLink {
		return below
	}
	return link
}

// list are the objects below a path, depth parts deep, a page of them.
func (c *Cloud) list(in *request, at string, depth int) (object, *refusal) {
	var all []any
	for _, p := range c.order {
		if !strings.HasPrefix(p, at+"/") || len(strings.Split(p, "/")) != depth {
			continue
		}
		is, refused := matches(c.objects[p], in.query.Get("filter"))
		if refused != nil {
			return nil, refused
		}
		if is {
			all = append(all, c.objects[p])
		}
	}
	part, next, refused := c.page(in, all)
	if refused != nil {
		return nil, refused
	}
	out := object{"items": part}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}

func (c *Cloud) page(in *request, all []any) (part []any, next string, refused *refusal) {
	size, from := 500, 0
	for name, into := range map[string]*int{"maxResults": &size, "pageToken": &from} {
		text := in.query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || name == "maxResults" && n > 500 || name == "pageToken" && n > len(all) {
			return nil, "", refuse(http.StatusBadRequest, "invalid", "Invalid value for field '%s': '%s'", name, text)
		}
		*into = n
	}
	if c.options.PageSize > 0 {
		size = min(size, c.options.PageSize)
	}
	end := min(from+size, len(all))
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[from:end], next, nil
}

// aggregated lists the instances of all zones. Each zone without one on a page has a warning, as in the real API.
func (c *Cloud) aggregated(in *request) (object, *refusal) {
	var all []any
	for _, p := range c.order {
		parts := strings.Split(p, "/")
		if len(parts) != 4 || parts[2] != "instances" || slices.Contains(c.unreachable, parts[1]) {
			continue
		}
		is, refused := matches(c.objects[p], in.query.Get("filter"))
		if refused != nil {
			return nil, refused
		}
		if is {
			all = append(all, c.objects[p])
		}
	}
	part, next, refused := c.page(in, all)
	if refused != nil {
		return nil, refused
	}
	items := object{}
	for _, zone := range c.zones() {
		items["zones/"+zone] = object{"warning": object{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope"}}
		if slices.Contains(c.unreachable, zone) {
			items["zones/"+zone] = object{"warning": object{"code": "UNREACHABLE", "message": "The scope is not reachable"}}
		}
	}
	for _, one := range part {
		instance, _ := one.(object)
		zone, _ := instance["zone"].(string)
		scope, _ := items["zones/"+path.Base(zone)].(object)
		list, _ := scope["instances"].([]any)
		items["zones/"+path.Base(zone)] = object{"instances": append(list, instance)}
	}
	out := object{"items": items}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}
