package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// A kubelet that cannot read its flags ends within a second, and its service manager starts it again.
const (
	// steady is how long one process of the kubelet has to live to be up.
	steady = 10 * time.Second
	// pulse is the time between two looks.
	pulse = 250 * time.Millisecond
)

// restartGuarded restarts the kubelet and puts its files back when it does not stay up. The caller is cut off
// meanwhile, since sessions lead through the kubelet, and asks for the result when there is one again.
func (a *Agent) restartGuarded(ctx context.Context, before []hostaccess.GuardedFile) error {
	why := a.units.RestartKubelet(ctx)
	if why == nil {
		why = a.staysUp(ctx)
	}
	if why == nil {
		return nil
	}
	var errs []error
	for _, f := range before {
		errs = append(errs, a.host.WriteFile(ctx, f.Path, f.Data, f.Mode))
	}
	errs = append(errs, a.units.DaemonReload(ctx), a.units.RestartKubelet(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w; putting its files back did not succeed: %w", why, err)
	}
	return fmt.Errorf("%w: %w", why, hostaccess.ErrPutBack)
}

// staysUp waits until one process of the kubelet has lived for long enough; an error when that does not happen in time.
func (a *Agent) staysUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	ticker := time.NewTicker(min(pulse, a.Steady/4))
	defer ticker.Stop()
	var pid, starts int
	var since time.Time
	for {
		found, err := a.units.Processes(ctx, component.Kubelet)
		switch {
		case err != nil || len(found) != 1:
			pid = 0
		case found[0].PID != pid:
			pid, since = found[0].PID, time.Now()
			starts++
		case time.Since(since) >= a.Steady:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf(
				"the kubelet on host %s did not stay up for %s on end within %s after its restart: %d of its processes were seen",
				a.Name,
				a.Steady,
				a.Patience,
				starts,
			)
		case <-ticker.C:
		}
	}
}
