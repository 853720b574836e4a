package kubelet

import (
	"log/slog"
	"sync"
	"time"
)

// States of the kubelet's service.
const (
	stateActive     = "active"
	stateInactive   = "inactive"
	stateActivating = "activating" // it ended with an error and is waiting for the next try
)

// service is the kubelet's unit in the host's service manager. Like kubeadm's, it is always restarted, unless it was
// stopped. Unlike it, a start fails if the kubelet ends at once: a wrong flag shall be an error where it was caused,
// not a line in a log.
type service struct {
	boot  func() (*run, error)
	delay time.Duration // before the next try
	log   *slog.Logger

	jobs sync.Mutex // one start or stop at a time

	mu     sync.Mutex // guards what follows
	run    *run
	state  string
	since  time.Time
	starts int
	err    error
	retry  *time.Timer
	open   bool // the host is up
}

func newService(boot func() (*run, error), delay time.Duration) *service {
	return &service{boot: boot, delay: delay, state: stateInactive, since: time.Now()}
}

func (s *service) current() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// start starts the kubelet unless it runs.
func (s *service) start() error {
	s.jobs.Lock()
	defer s.jobs.Unlock()
	if s.current() != nil {
		return nil
	}
	s.end() // the tries
	return s.begin()
}

func (s *service) restart() error {
	s.jobs.Lock()
	defer s.jobs.Unlock()
	s.end()
	return s.begin()
}

func (s *service) stop() {
	s.jobs.Lock()
	defer s.jobs.Unlock()
	s.end()
}

// power opens the service for jobs, or closes it; off stops the kubelet as well.
func (s *service) power(on bool) {
	s.mu.Lock()
	s.open = on
	s.mu.Unlock()
	if !on {
		s.stop()
	}
}

// begin boots a kubelet, and plans another try if it does not come up. The job lock is held.
func (s *service) begin() error {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if !open {
		return errStopped
	}
	r, err := s.boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.run, s.err, s.since = r, err, time.Now()
	if err == nil {
		s.state = stateActive
		return nil
	}
	s.state = stateActivating
	s.log.Error("Kubelet ended", "err", err)
	s.retry = time.AfterFunc(s.delay, s.again)
	return err
}

// again is the automatic restart.
func (s *service) again() {
	s.jobs.Lock()
	defer s.jobs.Unlock()
	if s.unit().state == stateActivating {
		_ = s.begin() // logged and kept there; nobody waits for it
	}
}

// end stops the kubelet and the tries to start it. The job lock is held.
func (s *service) end() {
	s.mu.Lock()
	r := s.run
	s.run, s.state, s.err, s.since = nil, stateInactive, nil, time.Now()
	if s.retry != nil {
		s.retry.Stop()
		s.retry = nil
	}
	s.mu.Unlock()
	if r != nil {
		r.stop()
		s.log.Info("Kubelet stopped")
	}
}

// unitState is a service as systemctl shows it.
type unitState struct {
	state  string
	since  time.Time
	starts int
	err    error
}

func (s *service) unit() unitState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unitState{state: s.state, since: s.since, starts: s.starts, err: s.err}
}
