// Package manual reaches hosts that people change. It reads them through another access, prints what is to be changed
// as commands, and waits until reading shows it.
package manual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Prefix is how a host access begins whose changes people make.
const Prefix = "manual"

// ParseSpec reports whether a host access is manual, and what it reads through: "manual:local:DIR" reads through
// local:DIR, and "manual" alone through pods.
func ParseSpec(spec string) (inner string, manual bool, err error) {
	if spec == Prefix {
		return "pod", true, nil
	}
	inner, manual = strings.CutPrefix(spec, Prefix+":")
	if !manual {
		return spec, false, nil
	}
	const ways = "use manual (which reads through pods), manual:pod:SELECTOR or manual:local:DIR"
	switch kind, _, _ := strings.Cut(inner, ":"); kind {
	case "":
		return "", false, fmt.Errorf("%q does not say what hosts are read through: %s", spec, ways)
	case Prefix:
		return "", false, fmt.Errorf("%q is manual twice: %s", spec, ways)
	case "none":
		return "", false, fmt.Errorf(
			"%q would print commands and never see their effect, since no host is read: %s",
			spec,
			ways,
		)
	}
	return inner, true, nil
}

// Options say where a manual access prints and stages.
type Options struct {
	// Out is where the commands are printed. What is written to it at once is one block, and a script for a shell as it
	// is.
	Out io.Writer
	// StateDir is a directory of this machine. Files on their way to a host are staged in a directory of it that no other
	// user may enter.
	StateDir string
	// Unattended reports whether there is no terminal, and so perhaps no reader; the first block says so.
	Unattended bool
	// Clock is the real one when nil.
	Clock clock.Clock
}

// New makes hosts that are read through the inner ones and changed by people. Each change is printed as exact commands,
// and is made when reading shows it. Only its context, or Stopping's, ends the wait for that.
func New(inner []hostaccess.Host, o Options) []hostaccess.Host {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &console{Options: o}
	out := make([]hostaccess.Host, len(inner))
	for i, h := range inner {
		out[i] = &manual{Host: h, console: c}
	}
	return out
}

// manual is a host that people change.
type manual struct {
	hostaccess.Host
	console *console

	mu      sync.Mutex // held while a change is queued, or the queue is worked off
	queue   []*change
	purpose string
}

var (
	_ hostaccess.Host      = (*manual)(nil)
	_ hostaccess.Units     = (*manual)(nil)
	_ hostaccess.Executor  = (*manual)(nil)
	_ hostaccess.Limited   = (*manual)(nil)
	_ hostaccess.Distant   = (*manual)(nil)
	_ hostaccess.Digester  = (*manual)(nil)
	_ hostaccess.Clock     = (*manual)(nil)
	_ hostaccess.Dialer    = (*manual)(nil)
	_ hostaccess.Granter   = (*manual)(nil)
	_ hostaccess.Committer = (*manual)(nil)
	_ hostaccess.Backer    = (*manual)(nil)
)

// Grant remembers what for, to print it. The inner access is asked for nothing: it only reads.
func (m *manual) Grant(_ context.Context, n hostaccess.Need) (release func(context.Context), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purpose = n.Purpose
	return func(context.Context) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.queue, m.purpose = nil, "" // a step that ended well has committed; what another one still owes is in its record
	}, nil
}

func (m *manual) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if _, err := hostaccess.RelativePath(path); err != nil {
		return fmt.Errorf("writing on host %s: %w", m.Name(), err)
	}
	return m.add(ctx, &change{
		kind: changeWrite,
		path: path,
		data: data,
		sum:  hostaccess.SHA256(data),
		mode: mode.Perm(),
	})
}

func (m *manual) Remove(ctx context.Context, path string) error {
	if _, err := hostaccess.RelativePath(path); err != nil {
		return fmt.Errorf("removing on host %s: %w", m.Name(), err)
	}
	return m.add(ctx, &change{kind: changeRemove, path: path})
}

func (m *manual) Backup(ctx context.Context, from, to, sum string) error {
	return m.add(ctx, &change{
		kind: changeBackup,
		path: to,
		from: from,
		sum:  sum,
		mode: 0o600,
	})
}

func (m *manual) RestartKubelet(ctx context.Context) error {
	return m.now(ctx, &change{kind: changeRestart, unit: component.Kubelet})
}

func (m *manual) DaemonReload(ctx context.Context) error {
	return m.add(ctx, &change{kind: changeReload})
}

func (m *manual) Restart(ctx context.Context, unit string) error {
	return m.service(ctx, changeRestart, unit)
}

func (m *manual) Stop(ctx context.Context, unit string) error {
	return m.service(ctx, changeStop, unit)
}

func (m *manual) Start(ctx context.Context, unit string) error {
	return m.service(ctx, changeStart, unit)
}

func (m *manual) service(ctx context.Context, kind changeKind, unit string) error {
	if !hostaccess.CheckUnitName.MatchString(unit) {
		return fmt.Errorf("%s on host %s: %q is no name of a unit", kind, m.Name(), unit)
	}
	return m.now(ctx, &change{kind: kind, unit: unit})
}

// Active asks the inner access; one that cannot tell is asked for the unit's process.
func (m *manual) Active(ctx context.Context, unit string) (bool, error) {
	if u, ok := m.Host.(hostaccess.Units); ok {
		return u.Active(ctx, unit)
	}
	procs, err := m.Processes(ctx, strings.TrimSuffix(unit, ".service"))
	return len(procs) > 0, err
}

// Run is asked of the inner access: a program that a snapshot asks changes nothing.
func (m *manual) Run(ctx context.Context, c hostaccess.Command) ([]byte, error) {
	if x, ok := m.Host.(hostaccess.Executor); ok {
		return x.Run(ctx, c)
	}
	return nil, fmt.Errorf("running %s on host %s: the access that it is read through runs no programs", c.Path, m.Name())
}

// CanRun is what the inner access says.
func (m *manual) CanRun() error {
	if l, ok := m.Host.(hostaccess.Limited); ok {
		return l.CanRun()
	}
	return nil
}

// SeesProcesses is what the inner access says.
func (m *manual) SeesProcesses() error { return hostaccess.SeesProcesses(m.Host) }

// CanRestart returns nil: people restart units, whatever the host is read through.
func (m *manual) CanRestart() error { return nil }

func (m *manual) Digest(ctx context.Context, path string) (string, fs.FileMode, error) {
	return hostaccess.Digest(ctx, m.Host, path)
}

func (m *manual) Offset(ctx context.Context) (offset, uncertainty time.Duration, err error) {
	if c, ok := m.Host.(hostaccess.Clock); ok {
		return c.Offset(ctx)
	}
	return 0, 0, fmt.Errorf("reading the clock of host %s: the access that it is read through cannot", m.Name())
}

// DialContext goes through the inner access where it has a way of its own, and else from this machine, as it would
// without manual.
func (m *manual) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d, ok := m.Host.(hostaccess.Dialer); ok {
		return d.DialContext(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// add queues a change of a file. One of the same path is made before.
func (m *manual) add(ctx context.Context, c *change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.queue {
		if c.path != "" && other.path == c.path {
			if err := m.commit(ctx); err != nil {
				return err
			}
			break
		}
	}
	m.queue = append(m.queue, c)
	return nil
}

// now queues a change and makes everything that is queued.
func (m *manual) now(ctx context.Context, c *change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := c.recordProcesses(ctx, m); err != nil {
		return err
	}
	m.queue = append(m.queue, c)
	return m.commit(ctx)
}

func (m *manual) Commit(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commit(ctx)
}

// commit prints what is to be done and waits until it was; the caller holds the lock.
func (m *manual) commit(ctx context.Context) error {
	queue, err := m.left(ctx)
	if err != nil || len(queue) == 0 {
		return err
	}
	staged, err := m.console.stage(m.Name(), queue)
	defer staged.remove()
	if err != nil {
		return err
	}
	text, err := m.block(ctx, queue, staged)
	if err != nil {
		return err
	}
	if err := m.console.print(text); err != nil {
		return fmt.Errorf("printing the commands for host %s: %w", m.Name(), err)
	}
	if err := m.await(ctx, queue); err != nil {
		return err
	}
	m.queue = nil
	return nil
}

// left is what of the queue does not show on the host yet.
func (m *manual) left(ctx context.Context) ([]*change, error) {
	var out []*change
	files := false
	for _, c := range m.queue {
		why, err := c.missingEffect(ctx, m)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err // before anything is printed: a host that cannot be read would never show anything
		}
		if why == "" {
			continue
		}
		if c.kind != changeReload {
			files = true
		}
		out = append(out, c)
	}
	if !files {
		m.queue = nil // nothing has changed that would have to be read again
		return nil, nil
	}
	return out, nil
}
