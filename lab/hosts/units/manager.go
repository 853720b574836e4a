package units

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a running program.
type Process struct {
	PID  int
	Done <-chan syscall.WaitStatus // gets how it ended, once
}

// Launcher starts a program with its output appended to a log; it must be the one that waits for the machine's
// processes.
type Launcher func(argv, env []string, log string) (Process, error)

// States of a service, as systemctl names them.
const (
	Active       = "active"
	Inactive     = "inactive"
	Failed       = "failed"
	Activating   = "activating" // between two starts of a service that ends again and again
	Deactivating = "deactivating"
)

// Manager runs services. All methods may be called concurrently.
type Manager struct {
	root   string
	launch Launcher

	mu       sync.Mutex
	services map[string]*service // by full name, loaded ones only
}

// service is a loaded unit with what runs of it.
type service struct {
	unit    *Unit
	loadErr error
	state   string
	sub     string
	process *Process
	since   time.Time
	restart *time.Timer
	ended   string        // how it ended last
	gone    chan struct{} // closed when the main process of the present start is gone and settled
	starts  int
}

// NewManager returns a manager of the units below root, "/" on a host.
func NewManager(root string, launch Launcher) *Manager {
	return &Manager{root: root, launch: launch, services: map[string]*service{}}
}

// FullName gives a unit name its suffix.
func FullName(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return name + ".service"
}

// errNotFound is a unit without a file.
var errNotFound = errors.New("could not be found")

// get returns a service, loading its unit at its first mention. The caller holds the lock.
func (m *Manager) get(name string) (*service, error) {
	name = FullName(name)
	if s, ok := m.services[name]; ok {
		return s, s.loadErr
	}
	u, err := load(m.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("unit %s %w", name, errNotFound)
	}
	s := &service{unit: u, loadErr: err, state: Inactive, sub: "dead"}
	m.services[name] = s
	return s, err
}

// Reload reads every unit that is known again; what runs goes on with what it was started with.
func (m *Manager) Reload() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(m.services)) {
		s := m.services[name]
		u, err := load(m.root, name)
		if errors.Is(err, fs.ErrNotExist) && s.state != Active {
			delete(m.services, name)
			continue
		}
		s.loadErr = err
		if err == nil {
			s.unit = u
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Start starts a service that does not run.
func (m *Manager) Start(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.get(name)
	if err != nil {
		return err
	}
	if s.state == Active {
		return nil
	}
	s.cancelRestart()
	return m.begin(s)
}

// Stop ends a service and waits for it.
func (m *Manager) Stop(name string) error {
	m.mu.Lock()
	s, err := m.get(name)
	if s == nil {
		m.mu.Unlock()
		return err
	}
	s.cancelRestart()
	if s.process == nil {
		s.set(Inactive, "dead")
		m.mu.Unlock()
		return nil
	}
	pid, gone, patience := s.process.PID, s.gone, s.unit.StopTimeout
	s.set(Deactivating, "stop-sigterm")
	m.mu.Unlock()

	_ = syscall.Kill(pid, syscall.SIGTERM) // it may be gone already: then gone is about to be closed
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-gone:
	case <-late.C:
		_ = syscall.Kill(pid, syscall.SIGKILL)
		<-gone
	}
	return nil
}

// Restart stops a service if it runs, and starts it.
func (m *Manager) Restart(name string) error {
	if err := m.Stop(name); err != nil {
		return err
	}
	return m.Start(name)
}

// begin starts the service's process. The caller holds the lock.
func (m *Manager) begin(s *service) error {
	env, err := s.unit.environment(m.root)
	if err != nil {
		return m.failed(s, err)
	}
	argv, err := commandLine(s.unit.Start, env)
	if err != nil {
		return m.failed(s, err)
	}
	assignments := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		assignments = append(assignments, name+"="+env[name])
	}
	p, err := m.launch(argv, assignments, s.log())
	if err != nil {
		return m.failed(s, err)
	}
	s.process, s.gone = &p, make(chan struct{})
	s.starts++
	s.set(Active, "running")
	go m.watch(s, p, s.gone)
	return nil
}

// failed notes that a service could not be started, and tries again if its unit says so.
func (m *Manager) failed(s *service, err error) error {
	s.ended = err.Error()
	m.again(s, false)
	return fmt.Errorf("starting %s: %w", s.unit.Name, err)
}

// watch waits for a process and does what the unit says about its end.
func (m *Manager) watch(s *service, p Process, gone chan struct{}) {
	status := <-p.Done
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(gone)
	s.process = nil
	s.ended = describe(status)
	if s.state == Deactivating {
		s.set(Inactive, "dead")
		return
	}
	m.again(s, status.Exited() && status.ExitStatus() == 0)
}

// again plans the next start of a service that ended by itself. The caller holds the lock.
func (m *Manager) again(s *service, clean bool) {
	if s.unit.Restart == "no" || s.unit.Restart == "on-failure" && clean {
		s.set(Failed, "failed")
		if clean {
			s.set(Inactive, "dead")
		}
		return
	}
	s.set(Activating, "auto-restart")
	s.restart = time.AfterFunc(s.unit.RestartDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s.state == Activating {
			_ = m.begin(s) // a failure plans the next start itself
		}
	})
}

func (s *service) cancelRestart() {
	if s.restart != nil {
		s.restart.Stop()
		s.restart = nil
	}
}

func (s *service) set(state, sub string) { s.state, s.sub, s.since = state, sub, time.Now() }

// log is where a service's output goes.
func (s *service) log() string {
	return "/var/log/" + strings.TrimSuffix(s.unit.Name, ".service") + ".log"
}

func describe(w syscall.WaitStatus) string {
	if w.Signaled() {
		return fmt.Sprintf("signal %s", w.Signal())
	}
	return fmt.Sprintf("exit code %d", w.ExitStatus())
}
