package client

import (
	"context"
	"io"
	"net/http"
	"time"
)

// limiting bounds each request with its answer.
type limiting struct {
	next    http.RoundTripper
	timeout time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l *limiting) RoundTrip(in *http.Request) (*http.Response, error) {
	timeout := l.timeout
	if isWait(in) {
		timeout = waitTimeout
	}
	ctx, cancel := context.WithTimeout(in.Context(), timeout)
	out, err := l.next.RoundTrip(in.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	out.Body = &ending{out.Body, cancel}
	return out, nil
}

// ending is the body of an answer whose context ends when it is closed.
type ending struct {
	io.ReadCloser

	end func()
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
