// Package ccmlab decides how a cloud-controller-manager runs without a cluster around it: as a process, on a real API
// server that has no machines, next to a simulated cloud. The bench and the tests of managers share it.
package ccmlab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/poll"
)

// Options describe a manager to be started.
type Options struct {
	// API is the server that it works on.
	API *apiserver.Server
	// Name is its user in the API, and what its files are called.
	Name string
	// Program is its path.
	Program string
	// Dir is where its log and its certificates are.
	Dir string
	// Kubeconfig is a file. Default: that of a user of its own who may do everything.
	Kubeconfig string
	// Flags come after those that every manager has, and win over them.
	Flags []string
	// Env is all of its environment.
	Env []string
}

// Manager is a running manager.
type Manager struct {
	*process.Process
	Address string // host:port of its health
	Log     string // a file
}

// ports are given to one manager each. They are far from the default ports of upstream, of which no two may be the
// same.
var ports atomic.Int32

func init() { ports.Store(11000) }

// Start starts a manager, at the API server's own address. It returns before the manager serves.
func Start(o Options) (*Manager, error) {
	if o.Kubeconfig == "" {
		var err error
		if o.Kubeconfig, err = o.API.Kubeconfig(o.Name); err != nil {
			return nil, err
		}
	}
	port := fmt.Sprint(ports.Add(1))
	m := &Manager{Address: net.JoinHostPort(o.API.Host(), port), Log: filepath.Join(o.Dir, o.Name+".log")}
	var err error
	m.Process, err = process.Start(process.Options{
		Name: o.Name, Path: o.Program, Dir: o.Dir, Output: m.Log, Env: o.Env,
		Args: append([]string{
			"--kubeconfig=" + o.Kubeconfig,
			"--authentication-kubeconfig=" + o.Kubeconfig,
			"--authorization-kubeconfig=" + o.Kubeconfig,
			"--bind-address=" + o.API.Host(),
			"--secure-port=" + port,
			"--cert-dir=" + filepath.Join(o.Dir, o.Name+"-certificates"),
			"--leader-elect=true",
		}, o.Flags...),
	})
	return m, err
}

// Alive returns an error once a manager has ended that should be running. It is final for a poll.
func (m *Manager) Alive() error {
	select {
	case <-m.Done():
		return poll.Final(fmt.Errorf("%s has ended with exit code %d", m.Name(), m.ExitCode()))
	default:
		return nil
	}
}

// Get asks the manager as any caller may.
func (m *Manager) Get(ctx context.Context, path string) (code int, text string, err error) {
	code, text, err = Get(ctx, "https://"+m.Address+path, "")
	if err != nil {
		err = errors.Join(err, m.Alive())
	}
	return code, text, err
}

// Get asks a manager, whose certificate is its own, with a bearer token or, where that is empty, without.
func Get(ctx context.Context, url, token string) (code int, text string, err error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// Serves waits until the manager answers.
func (m *Manager) Serves(ctx context.Context, limit time.Duration) error {
	return poll.Within(ctx, 100*time.Millisecond, limit, m.Name()+" to serve", func(ctx context.Context) error {
		_, _, err := m.Get(ctx, "/healthz")
		return err
	})
}
