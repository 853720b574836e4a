package processlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/faults"
)

var _ faults.Disturbable = (*Lab)(nil)

// keysOfManagers are the access keys under which managers of control planes call the cloud. The lab's own reads, and
// those of the command, go on.
const keysOfManagers = "AKIALABCP*"

// cloudFaults are what the simulated cloud does to all calls of managers.
var cloudFaults = map[faults.Kind]awssim.Fault{
	faults.CloudThrottled: {Key: keysOfManagers, Rate: &awssim.Rate{PerSecond: 2, Burst: 2}},
	faults.CloudFailing:   {Key: keysOfManagers, Code: "InternalError"},
	faults.CloudGone:      {Key: keysOfManagers, Hang: true},
}

// howDisturbed says how what managers depend on goes wrong.
var howDisturbed = map[faults.Kind]string{
	faults.ManagersFrozen: "SIGSTOP to the managers of the step's control-plane host, or of all, and SIGCONT",
	faults.APIFrozen:      "SIGSTOP to every kube-apiserver, and SIGCONT: connections hang, and nothing answers",
	faults.CloudThrottled: "two calls of managers a second pass, the others get RequestLimitExceeded",
	faults.CloudFailing:   fmt.Sprintf("every call of a manager gets InternalError (%d)", http.StatusInternalServerError),
	faults.CloudGone:      "no call of a manager is answered",
	faults.InstanceStopped: "SIGKILL to the kubelet and every process of the host, while the cloud says that its instance is stopped, " +
		"until it is booted again",
}

// Disturb makes one of faults.OfTheSurroundings.
func (l *Lab) Disturb(ctx context.Context, kind faults.Kind, host string) (faults.Heal, error) {
	switch kind {
	case faults.ManagersFrozen:
		return freeze(l.processes(host, func(component string) bool {
			return strings.HasSuffix(component, "controller-manager")
		}))
	case faults.APIFrozen:
		return freeze(l.processes("", func(component string) bool { return component == "kube-apiserver" }))
	case faults.InstanceStopped:
		return l.stopInstance(ctx, host)
	default:
		return l.disturbCloud(kind)
	}
}

// disturbCloud makes the cloud answer managers as a fault says, where the lab has such a cloud.
func (l *Lab) disturbCloud(kind faults.Kind) (faults.Heal, error) {
	fault, ok := cloudFaults[kind]
	if !ok || l.AWS() == nil {
		return nil, faults.ErrNotHere
	}
	remove := l.AWS().Inject(fault)
	return func(context.Context) error { remove(); return nil }, nil
}

// processes are the process IDs of components on a control-plane host; on all of them where the host is none.
func (l *Lab) processes(host string, isMeant func(component string) bool) (pids []int) {
	hosts := l.ControlPlanes()
	for _, h := range hosts {
		if h.Name == host {
			hosts = []*cluster.Host{h}
			break
		}
	}
	for _, h := range hosts {
		for _, pod := range h.Kubelet.Pods() {
			for _, c := range pod.Containers {
				if c.PID != 0 && isMeant(c.Component) {
					pids = append(pids, c.PID)
				}
			}
		}
	}
	return pids
}

// freeze stops processes. One that ends meanwhile needs no healing, and no other process that has its ID gets a signal.
func freeze(pids []int) (faults.Heal, error) {
	if len(pids) == 0 {
		return nil, faults.ErrNotHere // the step has stopped them
	}
	var stopped []*os.Process
	heal := func(context.Context) error {
		var errs []error
		for _, p := range stopped {
			if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, fmt.Errorf("continuing process %d: %w", p.Pid, err))
			}
		}
		return errors.Join(errs...)
	}
	for _, pid := range pids {
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Signal(syscall.SIGSTOP)
		}
		switch {
		case errors.Is(err, os.ErrProcessDone), errors.Is(err, syscall.ESRCH):
		case err != nil:
			return heal, fmt.Errorf("stopping process %d: %w", pid, err)
		default:
			stopped = append(stopped, p)
		}
	}
	return heal, nil
}

// stopInstance cuts a host's power, and has the cloud say that its instance is stopped.
func (l *Lab) stopInstance(ctx context.Context, host string) (faults.Heal, error) {
	h, err := l.Host(host)
	if err != nil {
		return nil, err
	}
	cloud := l.AWS()
	if cloud == nil {
		return nil, faults.ErrNotHere
	}
	boot, err := l.Reboot(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := cloud.SetInstanceState(h.InstanceID, "stopped"); err != nil {
		return boot, fmt.Errorf("stopping the instance of host %s: %w", host, err)
	}
	return func(ctx context.Context) error {
		return errors.Join(cloud.SetInstanceState(h.InstanceID, "running"), boot(ctx))
	}, nil
}
