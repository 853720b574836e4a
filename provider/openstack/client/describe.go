package client

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/transplant-dev/transplant/provider/transport"
)

// id is a segment of a path that names one object: a UUID, with or without dashes.
var id = regexp.MustCompile(`^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$`)

// collections are the first segments of the APIs' paths, with the service that they belong to. What is in front of them
// (versions, projects, prefixes of proxies) is not a part of an operation.
var collections = map[string]string{
	"auth":            "identity",
	"servers":         "compute",
	"flavors":         "compute",
	"ports":           "network",
	"networks":        "network",
	"subnets":         "network",
	"routers":         "network",
	"floatingips":     "network",
	"security-groups": "network",

	"security-group-rules": "network",

	"extensions": "network",
	"lbaas":      "load-balancer",
}

// Describe says what a request to OpenStack is. Everything but a GET, a HEAD and a login changes something.
func Describe(r *http.Request) transport.Request {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	described := transport.Request{Service: "identity", Operation: r.Method + " versions"}
	login := false
	for i, segment := range segments {
		service, known := collections[segment]
		if !known {
			continue
		}
		path := make([]string, 0, len(segments)-i)
		for _, part := range segments[i:] {
			if id.MatchString(part) {
				part = "{id}"
			}
			path = append(path, part)
		}
		described = transport.Request{Service: service, Operation: r.Method + " " + strings.Join(path, "/")}
		login = strings.Join(segments[i:], "/") == "auth/tokens"
		break
	}
	described.Mutates = r.Method != http.MethodGet && r.Method != http.MethodHead && !login
	return described
}
