package client

import (
	"net/http"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/provider/transport"
)

// service is what requests are counted as.
const service = "compute"

// reads are the last parts of addresses that are asked with POST and change nothing.
var reads = []string{"wait", "listInstances", "getHealth"}

// Describe says what a request to Compute Engine is: "GET zones/instances/{name}".
func Describe(r *http.Request) transport.Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if at := slices.Index(parts, "projects"); at >= 0 {
		parts = parts[min(at+2, len(parts)):]
	}
	verb := ""
	if len(parts) > 0 {
		verb = parts[len(parts)-1]
	}
	isRead := r.Method == http.MethodGet || r.Method == http.MethodPost && slices.Contains(reads, verb)
	return transport.Request{Service: service, Operation: r.Method + " " + pattern(parts), Mutates: !isRead}
}

// pattern is the address of an object without names: each name would become a series of the metrics.
func pattern(parts []string) string {
	if len(parts) == 0 {
		return "projects/{name}"
	}
	rest := parts
	switch parts[0] {
	case "zones", "regions":
		if len(parts) < 3 { // the zones themselves
			return parts[0] + strings.Repeat("/{name}", len(parts)-1)
		}
		rest = append([]string{parts[0]}, parts[2:]...)
	case "global", "aggregated":
	default:
		return "other"
	}
	out := rest[:min(2, len(rest))]
	if len(rest) > 2 {
		out = append(slices.Clone(out), "{name}")
	}
	if len(rest) > 3 {
		out = append(out, rest[3])
	}
	return strings.Join(out, "/")
}

func isWait(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/wait")
}
