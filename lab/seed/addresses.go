package seed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Places in the first 256 addresses of a lab, and the ports there.
const (
	placeProxy    = 2
	placeManager  = 3
	placeNode     = 4
	placeAccounts = 20
	placeAPIs     = 120
	placeBackends = 180 // behind the edges of APIs
	maxClusters   = 60

	portProxy    = "3128"
	portAccount  = "4566"
	portMachines = "4567"
	portAPI      = "6443"
)

const (
	firstNet = 60 // 127.60.0.0/16
	lastNet  = 99
)

// addresses is a /16 of the loopback network that belongs to one lab as long as its lock is held. The kernel drops the
// lock when the process ends.
type addresses struct {
	net  int
	lock *os.File
	pods atomic.Int32
}

var errNoNet = errors.New("no loopback network is free for the lab: stop another lab")

// reserve takes the first free network. The locks are files below dir.
func reserve(dir string) (*addresses, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding the user's cache directory: %w", err)
		}
		dir = filepath.Join(user, "transplant-lab", "blocks")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating directory for address locks: %w", err)
	}
	for n := firstNet; n <= lastNet; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("127.%d.0.0.lock", n)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("opening address lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &addresses{net: n, lock: f}, nil
		}
		_ = f.Close() // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %q: %w", f.Name(), err)
		}
	}
	return nil, errNoNet
}

func (a *addresses) release() { _ = a.lock.Close() } // closing the only descriptor drops the lock

// at is the address of a place.
func (a *addresses) at(place int) string { return fmt.Sprintf("127.%d.0.%d", a.net, place) }

// pod is an address that no pod had before.
func (a *addresses) pod() (string, error) {
	n := int(a.pods.Add(1))
	if n >= 255*254 {
		return "", errors.New("the lab has run out of addresses for pods")
	}
	return fmt.Sprintf("127.%d.%d.%d", a.net, 1+n/254, 1+n%254), nil
}
