package transport

import (
	"net/http"
	"sync/atomic"
)

// counting counts the requests that are sent by next.
type counting struct {
	next http.RoundTripper
	sent *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.next.RoundTrip(r)
}
