// Package supervise is the part of a cluster of hosts that is none of them: the simulated AWS account and the load
// balancer in front of the API servers, in one process that outlives the command that started it.
package supervise

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/loadbalancer"
)

// Config says what a cluster's supervisor serves. Every address is one of the cluster's bridge.
type Config struct {
	API      string         `json:"api"`      // host:port of the load balancer
	Backends []string       `json:"backends"` // host:port of the API servers
	Cloud    string         `json:"cloud"`    // host:port of the account's APIs and its metadata service
	Admin    string         `json:"admin"`    // host:port of the account's controls
	Account  awssim.Options `json:"account"`
}

// Load reads a Config.
func Load(file string) (Config, error) {
	var c Config
	data, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("reading configuration of supervisor: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading configuration of supervisor from %q: %w", file, err)
	}
	return c, nil
}

// Run serves until ctx ends; ready is called when everything listens.
func Run(ctx context.Context, c Config, ready func() error) (err error) {
	sim, err := awssim.New(c.Account)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	failed := make(chan error, 2)
	for address, handler := range map[string]http.Handler{c.Cloud: sim, c.Admin: sim.AdminHandler()} {
		stop, err := serve(ctx, address, handler, failed)
		if err != nil {
			return err
		}
		defer stop()
	}
	lb, err := loadbalancer.Start(loadbalancer.Options{ //nolint:contextcheck // a balancer lives until Close
		Listen: c.API, Backends: c.Backends,
		// The balancer starts before kubeadm has made the cluster's authority, and only asks who is ready.
		TLS: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above; clients verify the API server themselves
	})
	if err != nil {
		return err
	}
	defer lb.Close()
	if err := ready(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// serve starts a server and returns what ends it.
func serve(ctx context.Context, address string, handler http.Handler, failed chan<- error) (func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving simulated AWS: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving simulated AWS on %s: %w", address, err)
		}
	}()
	return func() { _ = server.Close() }, nil // its connections need no farewell
}
