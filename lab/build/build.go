// Package build decides where the lab's programs come from: real etcd and Kubernetes components, compiled from their
// Go modules at pinned versions and kept in the user's cache directory.
//
// Each set of programs is an embedded go.mod, go.sum and import list. It is compiled with -mod=readonly, so every
// module is verified by the embedded go.sum, whatever the machine's Go settings are; nothing is downloaded in any other
// way. A set is published by one rename after all of its programs were built, so that a set that exists is complete.
package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// sourcesVariable holds a hash of the checkout when the Makefile runs the tests. go test remembers the result of a test
// as long as the variables that it asks for have the same values. A test that asks for programs compiles further ones
// of the checkout, behind go test's back, and is to be run again when that has changed.
const sourcesVariable = "TRANSPLANT_SOURCES"

// Options says what to build and where to keep it. The zero value builds everything into the user's cache directory.
type Options struct {
	// CacheDir holds the finished sets. Default: transplant-lab below the user's cache directory.
	CacheDir string
	// Progress receives one line per stage and heartbeats while a set is built. Default: nothing is written.
	Progress io.Writer
	// Sets are the sets to build, by ID. Default: DefaultSets.
	Sets []string
	// Heartbeat is the time between two progress lines of a running build. Default: 5 s.
	Heartbeat time.Duration
	// Background compiles at the lowest priority, next to something that must not become slow.
	Background bool
	// Go is the go command. Default: "go" from the PATH.
	Go string

	known []Set // the sets that can be chosen from; tests bring their own
}

// Ensure returns the programs of the chosen sets, building first what the cache does not have. A second call only
// looks. Two processes that call it at once build once: the other one waits.
func Ensure(ctx context.Context, o Options) (Binaries, error) {
	_ = os.Getenv(sourcesVariable)
	o, err := o.withDefaults()
	if err != nil {
		return Binaries{}, err
	}
	tc, err := findToolchain(ctx, o.Go)
	if err != nil {
		return Binaries{}, err
	}
	sets, err := choose(o.known, o.Sets)
	if err != nil {
		return Binaries{}, err
	}
	c := cache{dir: o.CacheDir}
	out := newBinaries()
	for _, set := range sets {
		dir, err := ensureSet(ctx, o, tc, c, set)
		if err != nil {
			return Binaries{}, fmt.Errorf("preparing %s: %w", set.ID(), explain(err, o.CacheDir))
		}
		out.add(set, dir)
	}
	return out, nil
}

// ensureSet returns the directory of a complete set, building it under the set's lock when it is not there.
func ensureSet(ctx context.Context, o Options, tc toolchain, c cache, set Set) (string, error) {
	key, err := set.key(tc)
	if err != nil {
		return "", err
	}
	if dir, ok := c.lookup(set, key); ok {
		return dir, nil
	}
	unlock, err := c.lock(ctx, set, key, o.Progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, ok := c.lookup(set, key); ok { // the process that held the lock has built it
		return dir, nil
	}
	return c.publish(set, key, func(work string) error {
		b := builder{set: set, toolchain: tc, progress: o.Progress, heartbeat: o.Heartbeat, background: o.Background}
		return b.run(ctx, work)
	})
}

func (o Options) withDefaults() (Options, error) {
	if o.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("finding the user's cache directory (set another one explicitly): %w", err)
		}
		o.CacheDir = filepath.Join(user, "transplant-lab")
	}
	dir, err := filepath.Abs(o.CacheDir)
	if err != nil {
		return o, fmt.Errorf("resolving cache directory %q: %w", o.CacheDir, err)
	}
	o.CacheDir = dir
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 5 * time.Second
	}
	if o.Go == "" {
		o.Go = "go"
	}
	if o.known == nil {
		o.known = Sets
	}
	return o, nil
}
