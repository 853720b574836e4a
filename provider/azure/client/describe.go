package client

import (
	"net/http"
	"strings"

	"github.com/transplant-dev/transplant/provider/transport"
)

// Describe says what a request to Resource Manager is: service "network" and operation
// "GET loadBalancers/{name}/backendAddressPools/{name}".
func Describe(r *http.Request) transport.Request {
	service, types := addressed(r.URL.Path)
	return transport.Request{Service: service, Operation: r.Method + " " + types, Mutates: mutates(r.Method)}
}

func mutates(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// services are the parts of Resource Manager that are counted on their own.
var services = map[string]string{"microsoft.compute": "compute", "microsoft.network": "network"}

// addressed is what an address is of, without the names in it: each name would become a series of the metrics.
func addressed(path string) (service, types string) {
	_, below, found := strings.Cut(path, "/providers/")
	parts := strings.Split(strings.Trim(below, "/"), "/")
	service = services[strings.ToLower(parts[0])]
	if !found || service == "" {
		return "manager", "other"
	}
	if len(parts) == 1 {
		return service, "provider"
	}
	parts = parts[1:]
	if parts[0] == "locations" {
		return service, "operations/{name}"
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "{name}"
	}
	return service, strings.Join(parts[:min(len(parts), maxTypes)], "/")
}

// maxTypes is how many parts of an address are kept: a longer one is of no API that is used.
const maxTypes = 8
