package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Ports of the components: each one listens on its ordinary port, on an address of its own.
const (
	portAPIServer         = 6443
	portControllerManager = 10257
	portScheduler         = 10259
	portEtcdClient        = 2379
	portEtcdPeer          = 2380
	portCloud             = 4566
	portProxy             = 3128
)

// Places of the components in a block of 256 loopback addresses.
const (
	placeLoadBalancer = 1
	placeCloud        = 2
	placeEtcd         = 3
	placeProxy        = 4
	placeControlPlane = 10 // cp-1 is 11
	placeWorkers      = 20 // worker-1 is 21
	placeEdges        = 100
)

const (
	blockNet  = 50 // 127.50.1.0/24 is the first block that is tried
	podNet    = 51 // 127.51.1.0/24 has the pods of that lab
	lastBlock = 64 // how many are tried
)

// block is a /24 of the loopback network that belongs to one lab as long as its lock is held, so that labs can run side
// by side. The kernel drops the lock when the process ends, however it ends.
type block struct {
	prefix string // for example "127.50.1."
	lock   *os.File
}

// reserveBlock takes the first free block. The locks are files below dir.
func reserveBlock(dir string) (*block, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating directory for address locks: %w", err)
	}
	var taken []error
	for i := 1; i <= lastBlock; i++ {
		b, err := tryBlock(dir, fmt.Sprintf("127.%d.%d.", blockNet, i))
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, errBlockTaken) {
			return nil, err
		}
		taken = append(taken, err)
	}
	return nil, fmt.Errorf(
		"no loopback addresses are free for the lab: %w; stop another lab, or what listens on the lab's ports on all addresses",
		taken[len(taken)-1],
	)
}

var errBlockTaken = errors.New("addresses are taken")

func tryBlock(dir, prefix string) (*block, error) {
	f, err := os.OpenFile(filepath.Join(dir, prefix+"0.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening address lock: %w", err)
	}
	b := &block{prefix: prefix, lock: f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b.release()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s0/24 belongs to another lab", errBlockTaken, prefix)
		}
		return nil, fmt.Errorf("locking %q: %w", f.Name(), err)
	}
	if err := b.usable(); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// usable tries one address per port: a program that listens on a port of all addresses is in the way everywhere.
func (b *block) usable() error {
	for place, port := range map[int]int{
		placeLoadBalancer: portAPIServer, placeCloud: portCloud, placeEtcd: portEtcdClient,
		placeControlPlane + 1: portControllerManager, placeControlPlane + 2: portScheduler,
	} {
		l, err := net.Listen("tcp", b.endpoint(place, port))
		if err != nil {
			return fmt.Errorf("%w: %w", errBlockTaken, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("closing trial listener: %w", err)
		}
	}
	return nil
}

func (b *block) release() { _ = b.lock.Close() } // closing the only descriptor drops the lock

// address is the IP address at a place of the block.
func (b *block) address(place int) string { return b.prefix + strconv.Itoa(place) }

// podAddress is the address of a pod. It lies in a network next to that of the blocks, and belongs to the block's lab.
func (b *block) podAddress(n int) string {
	return strings.Replace(b.prefix, fmt.Sprintf("127.%d.", blockNet), fmt.Sprintf("127.%d.", podNet), 1) + strconv.Itoa(n)
}

// endpoint is the host:port at a place of the block.
func (b *block) endpoint(place, port int) string {
	return net.JoinHostPort(b.address(place), strconv.Itoa(port))
}
