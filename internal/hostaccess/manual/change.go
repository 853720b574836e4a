package manual

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	// manualInterval is how often a host is read while a person works on it.
	manualInterval = 200 * time.Millisecond
	// manualReminder is how often a line says that the wait goes on.
	manualReminder = 5 * time.Minute
)

type changeKind string

const (
	changeWrite   changeKind = "writing"
	changeRemove  changeKind = "removing"
	changeBackup  changeKind = "backing up"
	changeReload  changeKind = "reloading"
	changeRestart changeKind = "restarting"
	changeStop    changeKind = "stopping"
	changeStart   changeKind = "starting"
)

// change is what a person has to do on a host.
type change struct {
	kind       changeKind
	path, from string
	data       []byte
	sum        string
	mode       fs.FileMode
	unit       string
	// before are the unit's processes before it is restarted.
	before []v1.Process
}

// recordProcesses looks at what a restart is seen by.
func (c *change) recordProcesses(ctx context.Context, m *manual) error {
	if c.kind != changeRestart {
		return nil
	}
	procs, err := m.Processes(ctx, c.program())
	if err != nil {
		return fmt.Errorf("looking what runs before %s is restarted on host %s: %w", c.unit, m.Name(), err)
	}
	c.before = procs
	return nil
}

// program is what a unit runs.
func (c *change) program() string { return strings.TrimSuffix(c.unit, ".service") }

// missingEffect says why the change does not show on the host; empty when it does. An error means that it is unknown.
func (c *change) missingEffect(ctx context.Context, m *manual) (string, error) {
	switch c.kind {
	case changeWrite, changeBackup:
		return c.missingFile(ctx, m)
	case changeRemove:
		_, _, err := hostaccess.Digest(ctx, m.Host, c.path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return c.path + " is still there", err
	case changeRestart:
		return c.notRestarted(ctx, m)
	case changeStop, changeStart:
		return c.notInState(ctx, m)
	case changeReload:
		return "the unit files have not been read again", nil
	}
	return "", fmt.Errorf("a change of kind %q is not known", c.kind)
}

func (c *change) notRestarted(ctx context.Context, m *manual) (string, error) {
	procs, err := m.Processes(ctx, c.program())
	if err != nil {
		return "", err
	}
	if len(procs) == 0 {
		return "no process of " + c.unit + " runs", nil
	}
	for _, p := range procs {
		if slices.ContainsFunc(c.before, func(b v1.Process) bool { return b.PID == p.PID && b.StartTicks == p.StartTicks }) {
			return c.unit + " has not been restarted", nil
		}
	}
	return "", nil
}

func (c *change) notInState(ctx context.Context, m *manual) (string, error) {
	active, err := m.Active(ctx, c.unit)
	switch {
	case err != nil:
		return "", err
	case active && c.kind == changeStop:
		return c.unit + " still runs", nil
	case !active && c.kind == changeStart:
		return c.unit + " does not run yet", nil
	}
	return "", nil
}

func (c *change) missingFile(ctx context.Context, m *manual) (string, error) {
	sum, mode, err := hostaccess.Digest(ctx, m.Host, c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.path + " is not there yet", nil
	case err != nil:
		return "", err
	case sum != c.sum:
		return fmt.Sprintf(
			"%s does not hold what it shall (it has SHA-256 %s, it shall have %s)",
			c.path,
			short(sum),
			short(c.sum),
		), nil
	case mode.Perm() != c.mode:
		return fmt.Sprintf("%s has mode %04o, not %04o", c.path, mode.Perm(), c.mode), nil
	}
	return "", nil
}

func short(sum string) string { return sum[:min(12, len(sum))] }

// await waits until every change shows. That a host cannot be read for a while ends nothing: a kubelet that is
// restarted takes the way to it along.
func (m *manual) await(ctx context.Context, queue []*change) error {
	clk := m.console.Clock
	told, at := "", clk.Now()
	for {
		why := m.waitsFor(ctx, queue)
		if why == "" {
			return nil
		}
		if told == "" {
			told = why // the block says it
		} else if now := clk.Now(); why != told || now.Sub(at) >= manualReminder {
			told, at = why, now
			hostaccess.Progress(
				ctx,
				"waiting for the commands for host %s, printed above, to be run: %s",
				m.Name(),
				why,
			)
		}
		select {
		case <-hostaccess.Stopping(ctx):
			return fmt.Errorf("waiting for host %s to be changed by hand: %w", m.Name(), hostaccess.ErrStopped)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-clk.After(manualInterval):
		}
	}
}

// waitsFor is the first change that does not show yet. What cannot be seen is taken for done with what follows it in
// the same block.
func (m *manual) waitsFor(ctx context.Context, queue []*change) string {
	for _, c := range queue {
		if c.kind == changeReload {
			continue
		}
		why, err := c.missingEffect(ctx, m)
		if err != nil {
			return err.Error()
		}
		if why != "" {
			return why
		}
	}
	return ""
}
