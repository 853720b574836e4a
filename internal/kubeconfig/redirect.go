package kubeconfig

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// RefuseRedirects makes clients of a configuration take a redirect for an error. API servers send none for what is
// asked here. A foreign one could make this machine ask any server that it reaches, and send the credentials there.
func RefuseRedirects(c *rest.Config) {
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return direct{rt} })
}

type direct struct{ rt http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.rt.RoundTrip(req)
	if err != nil || !isRedirect(resp) {
		return resp, err
	}
	_ = resp.Body.Close()
	return nil, fmt.Errorf(
		"%s answered %s %s with a redirect (status %d), which is not followed: look at what that API server runs",
		req.URL.Host,
		req.Method,
		req.URL.Path,
		resp.StatusCode,
	)
}

func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}
