package local

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	systemctl = "usr/bin/systemctl"
	// maxOutput is how much of a program's output an error shows, in bytes.
	maxOutput = 2048
)

var _ hostaccess.Units = (*Host)(nil)

// RestartKubelet implements hostaccess.Host.
func (l *Host) RestartKubelet(ctx context.Context) error {
	return l.runUnderLock(ctx, "restarting the kubelet", "restart", component.Kubelet)
}

// DaemonReload implements hostaccess.Units.
func (l *Host) DaemonReload(ctx context.Context) error {
	return l.runUnderLock(ctx, "reloading the unit files", "daemon-reload")
}

// runUnderLock is systemctl for what depends on the lock.
func (l *Host) runUnderLock(ctx context.Context, doing string, args ...string) error {
	if err := hostaccess.CheckLock(ctx); err != nil {
		return fmt.Errorf("%s on host %s: %w", doing, l.name, err)
	}
	_, err := l.systemctl(ctx, doing, args...)
	return err
}

// Restart implements hostaccess.Units.
func (l *Host) Restart(ctx context.Context, unit string) error {
	return l.unit(ctx, "restarting", "restart", unit)
}

// Stop implements hostaccess.Units.
func (l *Host) Stop(ctx context.Context, unit string) error {
	return l.unit(ctx, "stopping", "stop", unit)
}

// Start implements hostaccess.Units.
func (l *Host) Start(ctx context.Context, unit string) error {
	return l.unit(ctx, "starting", "start", unit)
}

func (l *Host) unit(ctx context.Context, doing, verb, unit string) error {
	if !hostaccess.CheckUnitName.MatchString(unit) {
		return fmt.Errorf("%s a unit on host %s: %q is no name of a unit", doing, l.name, unit)
	}
	err := l.runUnderLock(ctx, doing+" "+unit, verb, unit)
	if err != nil && !errors.Is(err, hostaccess.ErrLockLost) {
		err = fmt.Errorf("%w: look at it with \"journalctl -u %s\" on that host and run the same command again", err, unit)
	}
	return err
}

// Active implements hostaccess.Units.
func (l *Host) Active(ctx context.Context, unit string) (bool, error) {
	if !hostaccess.CheckUnitName.MatchString(unit) {
		return false, fmt.Errorf("asking for a unit on host %s: %q is no name of a unit", l.name, unit)
	}
	doing := "asking for the state of " + unit
	out, err := l.systemctl(ctx, doing, "show", "--property=LoadState,ActiveState", unit)
	if err != nil {
		return false, err
	}
	state := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			state[name] = value
		}
	}
	switch loaded := state["LoadState"]; loaded {
	case "", "loaded", "masked": // a unit that was masked while it ran still runs
	default:
		return false, fmt.Errorf(
			"%s on host %s: systemd has no such unit (LoadState=%s): see its files with \"systemctl cat %s\" there",
			doing,
			l.name,
			loaded,
			unit,
		)
	}
	switch active := state["ActiveState"]; active {
	case "active", "reloading", "deactivating", "refreshing":
		return true, nil
	case "inactive", "failed", "activating", "maintenance":
		return false, nil
	default:
		return false, fmt.Errorf("%s on host %s: systemctl show gave no state that is known (%q)", doing, l.name, active)
	}
}

// systemctl runs the host's own systemctl and returns what it wrote to its standard output.
func (l *Host) systemctl(ctx context.Context, doing string, args ...string) ([]byte, error) {
	c := hostaccess.Command{Path: "/" + systemctl, Args: args, Timeout: l.restart}
	// reached through a mount, systemctl could take itself to be in an image that is being built, and do nothing
	if l.whole {
		c.Env = []string{"SYSTEMD_IGNORE_CHROOT=1"}
	}
	out, output, err := l.run(ctx, c)
	if err == nil {
		return out, nil
	}
	if errors.Is(err, hostaccess.ErrRunsNoPrograms) {
		return nil, fmt.Errorf("%s on host %s: %w", doing, l.name, err)
	}
	if failure, ok := errors.AsType[*notStartedError](err); ok {
		return nil, fmt.Errorf("%s on host %s: looking for /%s: %w", doing, l.name, systemctl, failure.err)
	}
	return nil, fmt.Errorf("%s on host %s: systemctl %s: %w%s", doing, l.name, strings.Join(args, " "), err, tail(output))
}

// tail is the end of a program's output, for an error.
func tail(out []byte) string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(out[max(0, len(out)-maxOutput):])), "?")
	if text == "" {
		return ""
	}
	return ": " + text
}
