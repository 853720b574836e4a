package migrate

import (
	"context"
	"errors"
	"io/fs"
	"net"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// apply carries a step's edits out on the files of its unit and returns those that change. A flag that is new goes into the step's own file, of which
// there is a backup.
func (x unit) apply(ctx context.Context, s v1.Step) (map[string][]byte, error) {
	u, err := x.readUnit(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := x.allowedOn(s, u.Command()); err != nil {
		return nil, err
	}
	return controlplane.ApplyUnitIn(u, s.Path, s.Edits)
}

// flags are those that the files of a unit say it runs with.
func (x unit) flags(ctx context.Context, s v1.Step) (map[string]string, error) {
	u, err := x.readUnit(ctx, s)
	if err != nil {
		return nil, err
	}
	return u.Flags(), nil
}

func (x unit) readUnit(ctx context.Context, s v1.Step) (*controlplane.Unit, error) {
	h, err := x.host(s.Host)
	if err != nil {
		return nil, err
	}
	return controlplane.ReadUnit(hostaccess.Reading(ctx, h), s.Unit)
}

// unitTarget finds a manager that a systemd unit runs. A unit whose process is not there is stopped, and no manager that should answer.
func unitTarget(ctx context.Context, h hostaccess.Host, component string) (Target, bool, error) {
	u, err := controlplane.ReadUnit(hostaccess.Reading(ctx, h), component+".service")
	if errors.Is(err, fs.ErrNotExist) && component == ccm {
		return processTarget(ctx, h)
	} else if err != nil {
		return Target{}, false, nil //nolint:nilerr // check names a unit that cannot be read
	}
	procs, err := h.Processes(ctx, component)
	if err != nil || len(procs) == 0 {
		return Target{}, false, err
	}
	return Target{component, h.Name(), u.Address(), u.Home()}, true, nil
}

// processTarget finds a cloud-controller-manager that a DaemonSet put on a host: its process is all that the host knows of it.
func processTarget(ctx context.Context, h hostaccess.Host) (Target, bool, error) {
	procs, err := h.Processes(ctx, ccm)
	if err != nil || len(procs) == 0 {
		return Target{}, false, err
	}
	flags := controlplane.FlagsOf(procs[len(procs)-1].Args)
	host, port := flags["bind-address"], flags["secure-port"]
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if port == "" {
		port = ccmPort
	}
	return Target{ccm, h.Name(), net.JoinHostPort(host, port), ""}, true, nil
}

// ccmPort is where a cloud-controller-manager serves unless it is told otherwise.
const ccmPort = "10258"
