package pod

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/boottime"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

// A command whose machine slept may not write on a host when it wakes up, nor may what it sent before.
func TestAChangeThatComesTooLateForTheLockIsNotBegun(t *testing.T) {
	c := newCluster(t, "a")
	var ahead atomic.Int64 // of the host's clock
	ahead.Store(int64(1000 * time.Hour))
	c.clock = func() time.Duration { return boottime.Now() + time.Duration(ahead.Load()) }
	h := c.open(nil)[0]
	release, err := h.(hostaccess.Granter).Grant(t.Context(), hostaccess.Need{Write: []string{"/etc/kubernetes/manifests"}})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t.Context())
	const path = "/etc/kubernetes/manifests/a.yaml"
	content := func() string {
		data, err := os.ReadFile(filepath.Join(c.root, path))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(data)
	}
	held := func(until time.Duration, err error) context.Context {
		return hostaccess.WithLock(t.Context(), func(context.Context) (time.Duration, error) { return until, err })
	}
	if err := h.WriteFile(held(boottime.Now()+time.Minute, nil), path, []byte("1"), 0o600); err != nil || content() != "1" {
		t.Fatalf("while the lock is held: %q, %v", content(), err)
	}
	if err := h.WriteFile(held(0, hostaccess.ErrLockLost), path, []byte("2"), 0o600); !errors.Is(err, hostaccess.ErrLockLost) || content() != "1" {
		t.Errorf("when it is lost, as this machine knows: %q, %v", content(), err)
	}
	ahead.Add(int64(2 * time.Minute)) // for which what is sent next is held up, by a machine that slept or on its way
	if err := h.WriteFile(held(boottime.Now()+time.Minute, nil), path, []byte("3"), 0o600); !errors.Is(err, hostaccess.ErrLockLost) || content() != "1" {
		t.Errorf("when it arrives too late: %q, %v", content(), err)
	}
	if err := h.Remove(held(boottime.Now()+time.Minute, nil), path); !errors.Is(err, hostaccess.ErrLockLost) || content() != "1" {
		t.Errorf("a removal that arrives too late: %q, %v", content(), err)
	}
	if _, err := h.ReadFile(held(0, hostaccess.ErrLockLost), path); err != nil {
		t.Errorf("looking depends on no lock: %v", err)
	}
	if err := h.WriteFile(held(boottime.Now()+time.Hour, nil), path, []byte("4"), 0o600); err != nil || content() != "4" {
		t.Errorf("with a lock that lasts longer: %q, %v", content(), err)
	}
}

func TestAMomentComesNeverTooLateOnTheClockOfAnAgent(t *testing.T) {
	now := time.Duration(0)
	c := remoteClock{now: func() time.Duration { return now }}
	const ahead = 500 * time.Hour
	hear := func(read, heard time.Duration) {
		now = heard
		c.learn(&agent.Hello{Clock: read + ahead})
	}
	check := func(what string, at, earlierBy time.Duration) {
		t.Helper()
		if got := at + ahead - c.translate(at); got != earlierBy {
			t.Errorf("%s: %s early, want %s", what, got, earlierBy)
		}
	}
	hear(10*time.Second, 13*time.Second) // an answer that was on its way for 3 s
	check("known by a slow answer", 13*time.Second, 3*time.Second+drift)
	hear(20*time.Second, 20*time.Second)
	check("known by a quick one", 20*time.Second, drift)
	hear(60*time.Second, 80*time.Second)
	check("a slow one after it", 80*time.Second, 60*drift+drift+drift)
	check("a minute ahead", 140*time.Second, 60*drift+60*drift+drift+drift)
	c.learn(nil)
}
