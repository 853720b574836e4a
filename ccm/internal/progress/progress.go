// Package progress decides whether a controller is stuck: whether one piece of its work has been going on for longer
// than any should.
//
// A health check that only says that the process answers is green while a provider's call hangs for ever and no Service
// is served.
package progress

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/controller-manager/pkg/healthz"
)

// Open is a health check of this library. Its reasons name objects and durations only, so that anybody may read them.
type Open struct{ healthz.UnnamedHealthChecker }

// Tracker follows pieces of work. The zero value is not usable. It is safe for concurrent use.
type Tracker struct {
	limit time.Duration
	now   func() time.Time

	mu      sync.Mutex
	next    uint64
	running map[uint64]work
	last    time.Time
}

type work struct {
	what  string
	since time.Time
}

// New returns a tracker that takes a controller for stuck when a piece of its work takes longer than limit.
func New(limit time.Duration) *Tracker {
	return &Tracker{limit: limit, now: time.Now, running: map[uint64]work{}}
}

// Start notes that a piece of work, for example "service default/web", has begun. The caller calls done when it has
// ended, whatever its outcome.
func (t *Tracker) Start(what string) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.next
	t.next++
	t.running[id] = work{what, t.now()}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, id)
		t.last = t.now()
	}
}

// Last is when a piece of work last ended; zero before the first.
func (t *Tracker) Last() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Stuck returns an error that names the piece of work that has been going on for longest, if that is longer than the
// limit.
func (t *Tracker) Stuck() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var oldest work
	for _, w := range t.running {
		if oldest.what == "" || w.since.Before(oldest.since) {
			oldest = w
		}
	}
	if age := t.now().Sub(oldest.since); oldest.what != "" && age > t.limit {
		return fmt.Errorf("%s has been going on for %s, longer than %s", oldest.what, age.Round(time.Second), t.limit)
	}
	return nil
}

// Check is Stuck as an unnamed health check.
func (t *Tracker) Check(*http.Request) error { return t.Stuck() }
