package bundle

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// RefuseSecrets has clients of a configuration read no Secret. Many parts of the program read what a bundle is made of.
// None of them can put into it what it never had.
func RefuseSecrets(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutSecrets{next} })
}

type withoutSecrets struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w withoutSecrets) RoundTrip(req *http.Request) (*http.Response, error) {
	if isOfSecrets(req.URL.Path) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("a support bundle reads no Secret, and %s was not asked for", req.URL.Path)
	}
	return w.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (w withoutSecrets) WrappedRoundTripper() http.RoundTripper { return w.next }

// isOfSecrets reports whether a path is that of Secrets of the API. A server may be reached below a path of its own,
// which may look like the API of another one.
func isOfSecrets(path string) bool {
	const api = "/api/v1/"
	for rest := path + "/"; ; {
		_, below, found := strings.Cut(rest, api)
		if !found {
			return false
		}
		object := strings.TrimPrefix(below, "watch/")
		if in, ok := strings.CutPrefix(object, "namespaces/"); ok {
			_, object, _ = strings.Cut(in, "/")
		}
		if strings.HasPrefix(object, "secrets/") {
			return true
		}
		rest = "/" + below
	}
}
