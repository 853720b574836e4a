//go:build faults

package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Hosts makes hosts that a test can lose and whose disks it can fill. TRANSPLANT_TEST_FAULTS names a directory. As long
// as it has a file lost-HOST, nothing reaches that host. As long as it has one called full-HOST, writing to that host
// ends with ENOSPC.
func Hosts(hosts []hostaccess.Host) []hostaccess.Host {
	dir := os.Getenv("TRANSPLANT_TEST_FAULTS")
	if dir == "" {
		return hosts
	}
	out := make([]hostaccess.Host, 0, len(hosts))
	for _, h := range hosts {
		out = append(out, faulty(h, dir))
	}
	return out
}

// HostProcesses reports whether what runs on a host is seen among this machine's processes: on the hosts whose programs
// may be run.
var HostProcesses = HostPrograms

// HostPrograms reports whether programs in a directory of a host may be run on this machine.
// TRANSPLANT_TEST_HOST_PROGRAMS names a directory: those of the simulated hosts in it may, for a lab's service manager
// is such a program.
func HostPrograms(dir string) bool {
	trusted := os.Getenv("TRANSPLANT_TEST_HOST_PROGRAMS")
	if trusted == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(trusted); err == nil {
		trusted = real
	}
	inside, err := filepath.Rel(trusted, dir)
	return err == nil && filepath.IsLocal(inside) && inside != "."
}

// faulty is a host that fails, and offers no more than the one that it hides. Whether a host can be dialled, or guards
// its kubelet by itself, is answered by the real one.
func faulty(h hostaccess.Host, dir string) hostaccess.Host {
	one := faultyHost{Host: h, dir: dir}
	dialer, dials := h.(hostaccess.Dialer)
	guard, guards := h.(hostaccess.KubeletGuard)
	trier, tries := h.(hostaccess.ImageTrier)
	if dials && guards && tries {
		return faultyPod{
			faultyHost: one,
			dialer:     dialer,
			guard:      guard,
			trier:      trier,
		}
	}
	return one
}

// faultyPod is a faultyHost that is reached through its kubelet.
type faultyPod struct {
	faultyHost
	dialer hostaccess.Dialer
	guard  hostaccess.KubeletGuard
	trier  hostaccess.ImageTrier
}

func (h faultyPod) TryImage(ctx context.Context, image string, command []string) error {
	if err := h.reached(); err != nil {
		return err
	}
	return h.trier.TryImage(ctx, image, command)
}

func (h faultyPod) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := h.reached(); err != nil {
		return nil, err
	}
	return h.dialer.DialContext(ctx, network, address)
}

func (h faultyPod) RestartKubeletGuarded(ctx context.Context, before []hostaccess.GuardedFile) error {
	if err := h.reached(); err != nil {
		return err
	}
	return h.guard.RestartKubeletGuarded(ctx, before)
}

// Clock is a clock that is wrong by TRANSPLANT_TEST_CLOCK, for example -2h.
func Clock() clock.Clock {
	by, err := time.ParseDuration(os.Getenv("TRANSPLANT_TEST_CLOCK"))
	if err != nil || by == 0 {
		return clock.RealClock{}
	}
	return wrongClock{by: by}
}

type wrongClock struct {
	clock.RealClock
	by time.Duration
}

func (c wrongClock) Now() time.Time { return time.Now().Add(c.by) }

func (c wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// faultyHost is a host that goes wrong when a test says so.
type faultyHost struct {
	hostaccess.Host
	dir string
}

var (
	_ hostaccess.Units    = faultyHost{}
	_ hostaccess.Executor = faultyHost{}
	_ hostaccess.Digester = faultyHost{}
	_ hostaccess.Clock    = faultyHost{}
	_ hostaccess.Granter  = faultyHost{}

	_ hostaccess.Dialer       = faultyPod{}
	_ hostaccess.KubeletGuard = faultyPod{}
	_ hostaccess.ImageTrier   = faultyPod{}
)

func (h faultyHost) has(fault string) bool {
	_, err := os.Stat(filepath.Join(h.dir, fault+"-"+h.Name()))
	return err == nil
}

// reached is an error when the host is lost.
func (h faultyHost) reached() error {
	if h.has("lost") {
		return &hostaccess.UnreachableError{Host: h.Name(), Err: errors.New("the access was lost, as a test asked for")}
	}
	return nil
}

func (h faultyHost) ReadFile(ctx context.Context, path string) (hostaccess.File, error) {
	if err := h.reached(); err != nil {
		return hostaccess.File{}, err
	}
	return h.Host.ReadFile(ctx, path)
}

func (h faultyHost) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if err := h.reached(); err != nil {
		return err
	}
	if h.has("full") {
		return fmt.Errorf(
			"no space left on host %s for %s: free some space and run the same command again; nothing was changed (%w)",
			h.Name(),
			path,
			syscall.ENOSPC,
		)
	}
	return h.Host.WriteFile(ctx, path, data, mode)
}

func (h faultyHost) Remove(ctx context.Context, path string) error {
	if err := h.reached(); err != nil {
		return err
	}
	return h.Host.Remove(ctx, path)
}

func (h faultyHost) List(ctx context.Context, dir string) ([]string, error) {
	if err := h.reached(); err != nil {
		return nil, err
	}
	return h.Host.List(ctx, dir)
}

func (h faultyHost) Processes(ctx context.Context, component string) ([]v1.Process, error) {
	if err := h.reached(); err != nil {
		return nil, err
	}
	return h.Host.Processes(ctx, component)
}

func (h faultyHost) RestartKubelet(ctx context.Context) error {
	if err := h.reached(); err != nil {
		return err
	}
	return h.Host.RestartKubelet(ctx)
}

func (h faultyHost) Grant(ctx context.Context, n hostaccess.Need) (func(context.Context), error) {
	if err := h.reached(); err != nil {
		return nil, err
	}
	return hostaccess.Grant(ctx, h.Host, n)
}

func (h faultyHost) Digest(ctx context.Context, path string) (string, fs.FileMode, error) {
	if err := h.reached(); err != nil {
		return "", 0, err
	}
	return hostaccess.Digest(ctx, h.Host, path)
}

func (h faultyHost) Offset(ctx context.Context) (offset, uncertainty time.Duration, err error) {
	c, ok := h.Host.(hostaccess.Clock)
	if err := h.reached(); err != nil || !ok {
		return 0, 0, errors.Join(err, errNotOffered)
	}
	return c.Offset(ctx)
}

func (h faultyHost) Run(ctx context.Context, c hostaccess.Command) ([]byte, error) {
	x, ok := h.Host.(hostaccess.Executor)
	if err := h.reached(); err != nil || !ok {
		return nil, errors.Join(err, errNotOffered)
	}
	return x.Run(ctx, c)
}

var errNotOffered = errors.New("the access to this host does not offer that")

// units is the host's service manager.
func (h faultyHost) units() (hostaccess.Units, error) {
	u, ok := h.Host.(hostaccess.Units)
	if err := h.reached(); err != nil || !ok {
		return nil, errors.Join(err, errNotOffered)
	}
	return u, nil
}

func (h faultyHost) DaemonReload(ctx context.Context) error {
	u, err := h.units()
	if err != nil {
		return err
	}
	return u.DaemonReload(ctx)
}

func (h faultyHost) Restart(ctx context.Context, unit string) error {
	u, err := h.units()
	if err != nil {
		return err
	}
	return u.Restart(ctx, unit)
}

func (h faultyHost) Stop(ctx context.Context, unit string) error {
	u, err := h.units()
	if err != nil {
		return err
	}
	return u.Stop(ctx, unit)
}

func (h faultyHost) Start(ctx context.Context, unit string) error {
	u, err := h.units()
	if err != nil {
		return err
	}
	return u.Start(ctx, unit)
}

func (h faultyHost) Active(ctx context.Context, unit string) (bool, error) {
	u, err := h.units()
	if err != nil {
		return false, err
	}
	return u.Active(ctx, unit)
}
