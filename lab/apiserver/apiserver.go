// Package apiserver decides what a test gets that needs a real API and nothing else: one etcd, one kube-apiserver of a
// chosen version, a user for every process that the audit log has to tell apart, and no limits that would slow down
// what is measured.
//
// It listens on a loopback address of its own, writes below one directory, and ends with the process that started it.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/auditlog"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/pki"
)

// DefaultVersion is the version that runs unless another is asked for: the last one with an in-tree cloud provider for
// AWS.
const DefaultVersion = "v1.26.0"

// Options describe a server.
type Options struct {
	// Dir holds everything that is written. It must exist.
	Dir string
	// Version is that of kube-apiserver: of a set of package build. Default: DefaultVersion.
	Version string
	// Progress is told what has to be built first. Default: nobody.
	Progress io.Writer
	// Audit makes the server keep a log of every request that may change something; see Server.Audit.
	Audit bool
	// AuditReads makes the log hold reads too; see Server.Reads. It includes Audit.
	AuditReads bool
	// Flags are further flags of kube-apiserver. They win over those that it has anyway.
	Flags []string
	// Env is the environment of kube-apiserver, as NAME=value: a proxy for its webhooks, for example. Default: empty.
	Env []string
}

// Server is a running API.
type Server struct {
	dir     string
	address string
	pki     *pki.PKI
	etcd    *process.Process
	api     *process.Process

	mu      sync.Mutex
	configs map[string][]byte // kubeconfigs by user and server, so that a user has one certificate

	audit audit
}

// startTimeout bounds a start once the programs are built: what takes longer, on however slow a machine, does not come
// up at all.
const startTimeout = 3 * time.Minute

// Start builds what the cache does not have, starts a server and waits until it is ready. On an error nothing is left
// running.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	programs, err := ensure(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{dir: o.Dir, configs: map[string][]byte{}}
	if err := s.start(ctx, o, programs); err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting kube-apiserver %s in %q: %w", o.Version, o.Dir, err)
	}
	return s, nil
}

type programs struct{ etcd, api string }

// ensure finds or builds etcd and the kube-apiserver of a version, from whichever set has it.
func ensure(ctx context.Context, o Options) (programs, error) {
	ids, etcdVersion, err := sets(o.Version)
	if err != nil {
		return programs{}, err
	}
	binaries, err := build.Ensure(ctx, build.Options{Sets: ids, Progress: o.Progress})
	if err != nil {
		return programs{}, err
	}
	etcd, err := binaries.Path("etcd", etcdVersion)
	if err != nil {
		return programs{}, err
	}
	api, err := binaries.Path("kube-apiserver", o.Version)
	return programs{etcd, api}, err
}

// sets names the sets that have etcd and a kube-apiserver of a version; kubelets of the same version are in another
// one. Of two with a kube-apiserver it is the one with less to compile.
func sets(version string) (ids []string, etcdVersion string, err error) {
	var etcd, api build.Set
	for _, set := range build.Sets {
		has := func(program string) bool {
			return slices.ContainsFunc(set.Commands, func(c build.Command) bool { return c.Name == program })
		}
		switch {
		case has("etcd"):
			etcd = set
		case set.Version == version && has("kube-apiserver") &&
			(len(api.Commands) == 0 || len(set.Commands) < len(api.Commands)):
			api = set
		}
	}
	if len(api.Commands) == 0 {
		return nil, "", fmt.Errorf("kube-apiserver %s is not among the sets that can be built", version)
	}
	return []string{etcd.ID(), api.ID()}, etcd.Version, nil
}

func (s *Server) start(ctx context.Context, o Options, programs programs) error {
	var err error
	if s.address, err = freeAddress(); err != nil {
		return err
	}
	if s.pki, err = pki.New("lab", time.Now()); err != nil {
		return err
	}
	addresses := []string{s.address, "127.0.0.1"} // the second is for proxies, see KubeconfigVia
	if err := s.pki.WriteControlPlane(
		s.path("pki"),
		pki.APIServer{NodeName: "localhost", Addresses: addresses},
	); err != nil {
		return err
	}
	if err := s.pki.WriteEtcd(s.path("etcd"), addresses); err != nil {
		return err
	}
	policy := auditlog.Writes
	if o.AuditReads {
		policy = auditlog.Everything
	}
	if err := os.WriteFile(s.path("audit-policy.yaml"), []byte(policy), 0o644); err != nil {
		return fmt.Errorf("writing audit policy: %w", err)
	}
	s.etcd, err = process.Start(process.Options{
		Name: "etcd", Path: programs.etcd, Args: s.etcdFlags(), Dir: s.dir, Output: s.path("etcd.log"),
	})
	if err != nil {
		return err
	}
	s.api, err = process.Start(process.Options{
		Name:   "kube-apiserver",
		Path:   programs.api,
		Args:   append(s.flags(o.Audit || o.AuditReads), o.Flags...),
		Env:    o.Env,
		Dir:    s.dir,
		Output: s.path("kube-apiserver.log"),
	})
	if err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// Stop ends the server at once: nobody looks at its data afterwards. What it has written stays, the audit log for
// example.
func (s *Server) Stop() {
	for _, p := range []*process.Process{s.api, s.etcd} {
		if p != nil {
			p.Kill()
		}
	}
}

// Address is the host:port that the API is served at, for a proxy to lead to.
func (s *Server) Address() string { return net.JoinHostPort(s.address, portAPI) }

// Host is the loopback address of the server alone: what else listens there needs no free port.
func (s *Server) Host() string { return s.address }

// Processes are the programs, etcd and kube-apiserver: to be stopped and continued by signals, or to see what they
// used.
func (s *Server) Processes() (etcd, api *process.Process) { return s.etcd, s.api }

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// config returns the client settings of a user, without any limit of its own.
func (s *Server) config(user string, groups []string) (*rest.Config, error) {
	data, err := s.kubeconfig(s.Address(), user, groups)
	if err != nil {
		return nil, err
	}
	config, err := loadConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig of %q: %w", user, err)
	}
	config.QPS = -1
	config.UserAgent = "lab"
	return config, nil
}

// ended reports whether a program has ended, and with what it said last: it cannot become ready then.
func (s *Server) ended() error {
	for _, p := range []*process.Process{s.etcd, s.api} {
		select {
		case <-p.Done():
			return errors.Join(fmt.Errorf("%s ended: %w", p.Name(), p.Err()), s.lastWords(p.Name()))
		default:
		}
	}
	return nil
}

// lastWords are the last lines of a program's log.
func (s *Server) lastWords(name string) error {
	data, err := os.ReadFile(s.path(name + ".log"))
	if err != nil {
		return fmt.Errorf("reading log of %s: %w", name, err)
	}
	const few = 5
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return errors.New(strings.Join(lines[max(0, len(lines)-few):], "\n"))
}
