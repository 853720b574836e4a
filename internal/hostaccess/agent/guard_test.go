package agent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

// machine is a host whose kubelet does as it is told.
type machine struct {
	local.Machine     // what is not needed
	pid               func() int
	restart, write    error
	restarts, reloads int
	written           map[string]string
}

func (m *machine) RestartKubelet(context.Context) error {
	m.restarts++
	return m.restart
}

func (m *machine) DaemonReload(context.Context) error {
	m.reloads++
	return nil
}

func (m *machine) Processes(context.Context, string) ([]v1.Process, error) {
	if pid := m.pid(); pid != 0 {
		return []v1.Process{{PID: pid}}, nil
	}
	return nil, nil
}

func (m *machine) WriteFile(_ context.Context, path string, data []byte, _ fs.FileMode) error {
	m.written[path] = string(data)
	return m.write
}

func TestAKubeletThatDoesNotStayUpIsPutBackOnItsHost(t *testing.T) {
	steady := func() int { return 7 }
	n := 0
	dying := func() int {
		n++
		return n
	}
	for name, c := range map[string]struct {
		machine machine
		back    bool   // its files were put back
		says    string // "" for no error
	}{
		"one that stays up is left alone":           {machine: machine{pid: steady}},
		"one that is started again and again":       {machine: machine{pid: dying}, back: true, says: "did not stay up"},
		"one that is not there":                     {machine: machine{pid: func() int { return 0 }}, back: true, says: "0 of its processes"},
		"one that the service manager cannot start": {machine: machine{pid: steady, restart: errors.New("exit status 1")}, says: "did not succeed"},
		"a file that cannot be written":             {machine: machine{pid: dying, write: fs.ErrPermission}, says: "did not succeed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.machine
			m.written = map[string]string{}
			a := &Agent{Options: Options{Name: "cp-1", Steady: 30 * time.Millisecond, Patience: 300 * time.Millisecond}, host: &m, units: &m}
			err := a.restartGuarded(t.Context(), []hostaccess.GuardedFile{{Path: "/etc/default/kubelet", Data: []byte("old"), Mode: 0o644}})
			if c.says == "" && (err != nil || m.restarts != 1 || len(m.written) > 0) {
				t.Fatalf("%v, %d restarts, %v", err, m.restarts, m.written)
			}
			if c.says == "" {
				return
			}
			there := encodeError(err, "/").Err() // as whoever asked gets it
			if !strings.Contains(there.Error(), c.says) || errors.Is(there, hostaccess.ErrPutBack) != c.back {
				t.Errorf("%v, put back: %t", there, errors.Is(there, hostaccess.ErrPutBack))
			}
			if m.written["/etc/default/kubelet"] != "old" || m.restarts != 2 || m.reloads != 1 {
				t.Errorf("%v, %d restarts, %d reloads", m.written, m.restarts, m.reloads)
			}
		})
	}
}
