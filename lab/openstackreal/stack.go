// Package openstackreal decides how a test gets a real OpenStack. It is Keystone, Nova, Neutron, Octavia, Placement and
// Glance of Debian 12's packages on loopback, with MariaDB and RabbitMQ of their own. Servers are of Nova's FakeDriver,
// and amphorae have no haproxy. Everything else is what a cloud runs: schedulers, queues, databases, policies, workers.
//
//	Start --stdin--> cloud.sh --start/NAME--> services, each a session of its own
//	  Go ends -> stdin ends -> cloud.sh stops what it has recorded
//
// State is below one directory of the user's cache, never in the checkout.
package openstackreal

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/transplant-dev/transplant/lab/poll"
)

//go:embed files
var files embed.FS

// Options are the settings of a Stack.
type Options struct {
	// Dir has the state; empty for one below the user's cache directory.
	Dir string
	// Progress gets what is done, line by line.
	Progress io.Writer
	// Fresh makes all databases again, also where a snapshot of them is there.
	Fresh bool
}

// Stack is an OpenStack that runs.
type Stack struct {
	dir   string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	ids   map[string]string
}

// startTimeout bounds a start, with 328 packages installed on a slow machine.
const startTimeout = 30 * time.Minute

// Start brings OpenStack up, and waits until every service answers. The error says what the machine lacks.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding the user's cache directory: %w", err)
		}
		o.Dir = filepath.Join(user, "transplant-lab", "openstack")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving directory %q: %w", o.Dir, err)
	}
	if err := writeFiles(dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Stack{dir: filepath.Join(dir, "run"), ended: make(chan struct{})}
	output := &follower{to: o.Progress, ready: make(chan struct{})}
	s.cmd = exec.Command(filepath.Join(dir, "cloud.sh"))
	s.cmd.Env = append(os.Environ(), "OSTACK_RUN="+s.dir, "OSTACK_SNAP="+filepath.Join(dir, "snapshot.tar.zst"))
	if o.Fresh {
		s.cmd.Env = append(s.cmd.Env, "FRESH=1")
	}
	s.cmd.Stdout, s.cmd.Stderr = output, output
	s.cmd.WaitDelay = 10 * time.Second
	// Ctrl-C is for the test: its end is what the script waits for.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting OpenStack in %q: %w", dir, err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // what it says is in the output
	}()
	select {
	case <-output.ready:
		return s, s.readIDs()
	case <-s.ended:
		return nil, fmt.Errorf("OpenStack has not started in %q (logs are in run/log): %s", dir, output.tail())
	case <-ctx.Done():
		s.Stop()
		return nil, fmt.Errorf("starting OpenStack in %q: %w: %s", dir, ctx.Err(), output.tail())
	}
}

// Take takes an OpenStack that another process runs in a directory. Stop leaves it running.
func Take(dir string) (*Stack, error) {
	s := &Stack{dir: filepath.Join(dir, "run")}
	return s, s.readIDs()
}

// Stop ends every service, and waits for that.
func (s *Stack) Stop() {
	if s.stdin == nil {
		return
	}
	_ = s.stdin.Close() // the script may have ended
	<-s.ended
}

func writeFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of OpenStack: %w", err)
	}
	for _, name := range []string{"cloud.sh", "seed.py", "agent.py"} {
		data, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil { //nolint:gosec // it is run
			return fmt.Errorf("writing what starts OpenStack: %w", err)
		}
	}
	return nil
}

// readIDs reads what the script has made.
func (s *Stack) readIDs() error {
	data, err := os.ReadFile(filepath.Join(s.dir, "cloud", "ids.env"))
	if err != nil {
		return fmt.Errorf("no OpenStack runs in %q: %w", s.dir, err)
	}
	s.ids = map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			s.ids[name] = value
		}
	}
	return nil
}

const keystone = "127.0.0.1:15000"

// AuthURL is Keystone's address.
const AuthURL = "http://" + keystone + "/v3"

// Endpoints are the addresses of the services, by their types in Keystone's catalog.
var Endpoints = map[string]string{
	"identity": keystone, "compute": "127.0.0.1:18774", "network": "127.0.0.1:19696",
	"load-balancer": "127.0.0.1:19876", "image": "127.0.0.1:19292", "placement": "127.0.0.1:18778",
}

// The names and the password of the project's user, and of the administrator.
const (
	User          = "demo"
	Project       = "demo"
	Administrator = "admin"
	Password      = "secret"
	Region        = "RegionOne"
)

// Network is the ID of the network of the project's servers.
func (s *Stack) Network() string { return s.ids["NET"] }

// Subnet is the ID of the subnet of that network, 10.0.0.0/16.
func (s *Stack) Subnet() string { return s.ids["SUBNET"] }

// ExternalNetwork is the ID of the network of floating IPs.
func (s *Stack) ExternalNetwork() string { return s.ids["EXT_NET"] }

// Router is the ID of the project's router.
func (s *Stack) Router() string { return s.ids["ROUTER"] }

// Image is the ID of an image of servers.
func (s *Stack) Image() string { return s.ids["IMAGE"] }

// Flavor is the ID of the flavor of servers; FlavorName is its name.
func (s *Stack) Flavor() string { return s.ids["FLAVOR"] }

// FlavorName is the name of Flavor.
const FlavorName = "m1.tiny"

// The services of Octavia.
const (
	OctaviaAPI    = "octavia-api"
	OctaviaWorker = "octavia-worker"
)

// Kill ends a service at once, with all of its processes. It waits until they are gone: a process that is dying still
// holds its port, and a service that is started in that moment ends with "address already in use".
func (s *Stack) Kill(ctx context.Context, name string) error {
	pid, err := s.pid(name)
	if err != nil {
		return err
	}
	const often, limit = 10 * time.Millisecond, time.Minute
	return poll.Within(ctx, often, limit, "the end of OpenStack's "+name, func(context.Context) error {
		switch err := syscall.Kill(-pid, syscall.SIGKILL); {
		case errors.Is(err, syscall.ESRCH):
			return nil
		case err != nil:
			return poll.Final(fmt.Errorf("ending process group %d: %w", pid, err))
		}
		return fmt.Errorf("process group %d is still there", pid)
	})
}

// Launch starts a service that was killed. The script stops it with the others.
func (s *Stack) Launch(name string) error {
	cmd := exec.Command(filepath.Join(s.dir, "start", name))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting OpenStack's %s again: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // so that no zombie keeps its process group
	file := filepath.Join(s.dir, "pids", name)
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return fmt.Errorf("recording OpenStack's %s: %w", name, err)
	}
	return nil
}

// FailBalancer sets a load balancer to ERROR in Octavia's database. Octavia has no command for one that stays PENDING.
func (s *Stack) FailBalancer(ctx context.Context, id string) error {
	if err := uuid.Validate(id); err != nil {
		return fmt.Errorf("load balancer %q: %w", id, err)
	}
	socket := filepath.Join(s.dir, "mysql.sock")
	statement := "UPDATE load_balancer SET provisioning_status='ERROR' WHERE id='" + id + "'"
	cmd := exec.CommandContext(ctx, "mariadb", "--no-defaults", "-uroot", "-S", socket, "octavia", "-e", statement)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("setting load balancer %s to ERROR: %w: %s", id, err, out)
	}
	return nil
}

func (s *Stack) pid(name string) (int, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, "pids", name))
	if err != nil {
		return 0, fmt.Errorf("OpenStack has no service %s: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err == nil && pid <= 1 {
		err = fmt.Errorf("%d is no process of it", pid)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the process of OpenStack's %s: %w", name, err)
	}
	return pid, nil
}
