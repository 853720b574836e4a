package azuresim

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

// refusal is an error in the form of Resource Manager.
type refusal struct {
	status        int
	code, message string
}

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

func (r *refusal) body() object {
	return object{"error": object{"code": r.code, "message": r.message}}
}

var unknown = refuse(http.StatusNotImplemented, "Unknown", "the simulator does not know this request")

// request is one to Resource Manager. The path is in lower case.
type request struct {
	method string
	path   string
	given  string // the path as it was sent
	query  url.Values
	ifIs   string // the ETag that the object has to have; empty for any
	body   object
	header http.Header // of the answer
	at     string      // where the request came to, http://host:port: addresses in the answer lead there
}

func (c *Cloud) serveManager(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &request{
		method: r.Method, path: strings.ToLower(r.URL.Path), given: r.URL.Path, query: r.URL.Query(), ifIs: r.Header.Get("If-Match"),
		body: object{}, header: w.Header(), at: "http://" + r.Host,
	}
	identity, fault := c.identityOf(r), c.Fault(w, r)
	status, answer := http.StatusOK, object(nil)
	var refused *refusal
	switch {
	case identity == "":
		refused = refuse(http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	case !fault.HasEffect():
	case len(sent) > 0 && json.Unmarshal(sent, &in.body) != nil:
		refused = refuse(http.StatusBadRequest, "InvalidRequestContent", "The request content was invalid.")
	default:
		status, answer, refused = c.do(in)
	}
	if fault.IsRefusal() {
		refused = refuse(fault.Status, fault.Code, "the fault of a test: %s", fault.Code)
	}
	if refused != nil {
		status, answer = refused.status, refused.body()
	}
	c.Record(simhttp.Call{
		Identity: identity, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Status: status,
		Mutates: r.Method != http.MethodGet && r.Method != http.MethodHead, Unknown: status == http.StatusNotImplemented,
	})
	switch {
	case status == 0:
		panic(http.ErrAbortHandler) // it ends the connection
	case status == http.StatusNoContent || answer == nil:
		w.WriteHeader(status)
	default:
		fault.WriteJSON(w, status, answer)
	}
}

// kinds are those of objects, and what may be done with each but read it.
var kinds = map[string][]string{
	"microsoft.compute/virtualmachines":                                           {},
	"microsoft.compute/availabilitysets":                                          {},
	"microsoft.compute/virtualmachinescalesets":                                   {http.MethodPut, http.MethodPatch},
	"microsoft.compute/virtualmachinescalesets/virtualmachines":                   {http.MethodPut},
	"microsoft.compute/virtualmachinescalesets/virtualmachines/networkinterfaces": {},
	"microsoft.network/networkinterfaces":                                         {http.MethodPut},
	"microsoft.network/publicipaddresses":                                         {http.MethodPut, http.MethodDelete},
	"microsoft.network/loadbalancers":                                             {http.MethodPut, http.MethodDelete},
	"microsoft.network/networksecuritygroups":                                     {http.MethodPut},
	"microsoft.network/routetables":                                               {http.MethodPut},
	"microsoft.network/virtualnetworks/subnets":                                   {},
	"microsoft.network/privatelinkservices":                                       {},
	"microsoft.network/loadbalancers/backendaddresspools":                         {http.MethodPut, http.MethodDelete},
}

// apiVersions are those whose answers the simulator has the form of. What differs between them, none of the providers
// asks for.
var apiVersions = []string{
	"2025-05-01", "2025-04-01", "2024-11-04", "2021-04-01", "2018-10-01", // of upstream's provider and ours
	"2019-06-01", "2019-07-01", "2017-03-30", // network, compute and interfaces of scale sets, of the in-tree provider
}

// do finds what a request is about: an operation, a provider, a list or an object.
func (c *Cloud) do(in *request) (int, object, *refusal) {
	parts := strings.Split(strings.Trim(in.path, "/"), "/")
	if len(parts) < 4 || parts[0] != "subscriptions" || !slices.Contains(apiVersions, in.query.Get("api-version")) {
		return 0, nil, unknown
	}
	if parts[1] != Subscription {
		return 0, nil, refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", parts[1])
	}
	if parts[2] == "providers" {
		return c.global(in, parts[3:])
	}
	if parts[2] != "resourcegroups" || len(parts) < 7 || parts[4] != "providers" {
		return 0, nil, unknown
	}
	if parts[3] != Group {
		return 0, nil, refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", parts[3])
	}
	kind := kindOf(in.path)
	if _, known := kinds[kind]; !known {
		return 0, nil, unknown
	}
	if len(parts)%2 == 1 { // it ends with the kind
		if in.method != http.MethodGet {
			return 0, nil, unknown
		}
		answer, refused := c.list(in)
		return http.StatusOK, answer, refused
	}
	if in.method == http.MethodGet {
		answer, refused := c.get(in)
		return http.StatusOK, answer, refused
	}
	if !slices.Contains(kinds[kind], in.method) {
		return 0, nil, unknown
	}
	return c.change(in, kind)
}

// kindOf is the kind of the object at a path, or of the list there: microsoft.network/loadbalancers.
func kindOf(path string) string {
	_, rest, _ := strings.Cut(path, "/providers/")
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	out := parts[0]
	for i := 1; i < len(parts); i += 2 {
		out += "/" + parts[i]
	}
	return out
}

func nameOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// below is a path below the provider: loadbalancers/lab.
func below(path string) string {
	_, rest, _ := strings.Cut(path, "/providers/")
	_, rest, _ = strings.Cut(rest, "/")
	return rest
}

func (c *Cloud) global(in *request, parts []string) (int, object, *refusal) {
	if in.method != http.MethodGet {
		return 0, nil, unknown
	}
	switch {
	case len(parts) == 1 && parts[0] == "microsoft.compute":
		return http.StatusOK, object{"namespace": "Microsoft.Compute", "resourceTypes": []any{object{
			"resourceType": "virtualMachines", "zoneMappings": []any{object{"location": "West Europe", "zones": []any{"1", "2", "3"}}},
		}}}, nil
	case len(parts) == 5 && parts[3] == "operations":
		return c.askFor(in, parts[4])
	}
	return 0, nil, unknown
}

func notFound(path string) *refusal {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s' under resource group '%s' was not found.",
		below(path), Group)
}

func (c *Cloud) get(in *request) (object, *refusal) {
	if owner, pool, isPool := strings.Cut(in.path, "/backendaddresspools/"); isPool {
		for _, one := range listIn(c.shown(owner), "properties", "backendAddressPools") {
			if strings.EqualFold(text(one, "name"), pool) {
				found, _ := one.(object)
				return found, nil
			}
		}
		return nil, notFound(in.path)
	}
	if c.objects[in.path] == nil {
		return nil, notFound(in.path)
	}
	return without(c.shown(in.path), in.query.Get("$expand")), nil
}

// without leaves the instance view out unless it was asked for.
func without(o object, expand string) object {
	if properties, ok := o["properties"].(object); ok && !strings.EqualFold(expand, "instanceView") {
		delete(properties, "instanceView")
	}
	return o
}

func (c *Cloud) list(in *request) (object, *refusal) {
	owner := in.path[:strings.LastIndex(in.path, "/")]
	if strings.Count(kindOf(in.path), "/") > 1 && c.objects[owner] == nil {
		return nil, refuse(http.StatusNotFound, "ParentResourceNotFound", "The parent resource of '%s' was not found.", below(in.path))
	}
	all := []any{}
	for _, path := range c.order {
		if path[:strings.LastIndex(path, "/")] == in.path {
			all = append(all, without(c.shown(path), in.query.Get("$expand")))
		}
	}
	from, _ := strconv.Atoi(in.query.Get("$skiptoken"))
	if from > len(all) {
		return nil, refuse(http.StatusBadRequest, "InvalidSkipToken", "The skip token is invalid.")
	}
	all = all[from:]
	out := object{"value": all}
	if size := c.options.PageSize; size > 0 && len(all) > size {
		next := in.query
		next.Set("$skiptoken", strconv.Itoa(from+size))
		out["value"], out["nextLink"] = all[:size], in.at+in.given+"?"+next.Encode()
	}
	return out, nil
}

// text is a field of an object, by the names that lead to it.
func text(one any, path ...string) string {
	for _, name := range path {
		in, ok := one.(object)
		if !ok {
			return ""
		}
		one = in[name]
	}
	value, _ := one.(string)
	return value
}

func listIn(one any, path ...string) []any {
	for _, name := range path {
		in, ok := one.(object)
		if !ok {
			return nil
		}
		one = in[name]
	}
	value, _ := one.([]any)
	return value
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
