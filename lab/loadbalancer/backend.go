package loadbalancer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what a balancer knows about a backend.
type Status struct {
	Address     string
	Ready       bool
	Err         error // why it is not ready
	Since       time.Time
	Connections int64 // open ones that were sent there
}

// backend is one API server.
type backend struct {
	addr        string
	connections atomic.Int64

	mu    sync.Mutex
	ready bool
	err   error
	since time.Time
}

func (b *backend) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{Address: b.addr, Ready: b.ready, Err: b.err, Since: b.since, Connections: b.connections.Load()}
}

// watch checks the backend again and again until ctx ends.
func (b *backend) watch(ctx context.Context, client *http.Client, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		b.note(check(ctx, client, b.addr))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *backend) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ready := err == nil; ready != b.ready || b.since.IsZero() {
		b.ready, b.since = ready, time.Now()
	}
	b.err = err
}

// check asks the API server whether it is ready; the path is open to everybody by RBAC's default roles.
func check(ctx context.Context, client *http.Client, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("building health check: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("checking API server: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return fmt.Errorf("reading health of API server: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("API server %s says %s", addr, resp.Status)
	}
	return nil
}
