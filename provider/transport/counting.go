package transport

import (
	"net/http"
	"sync/atomic"
)

// Counting counts the requests that are sent by next.
func Counting(next http.RoundTripper, sent *atomic.Int64) http.RoundTripper {
	return &counting{next, sent}
}

type counting struct {
	next http.RoundTripper
	sent *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.next.RoundTrip(r)
}
