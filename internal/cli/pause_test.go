package cli

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
)

const controlPath = "/api/v1/namespaces/kube-system/configmaps/transplant-control"

func TestPausingAndResuming(t *testing.T) {
	o := newOnlooker(t)
	for _, command := range []string{"pause", "resume"} {
		fails(t, o.run(command), exitcode.Error, "no migration was started on this cluster: there is nothing to "+command)
	}
	o.begin()
	o.lock(time.Second)
	r := o.run("pause", "--reason", "the shop is open")
	if r.code != exitcode.OK || !strings.Contains(r.errOut, "at 12:00:00 UTC: the shop is open") ||
		!strings.Contains(r.errOut, "ops@bastion pid 4412 finishes the step that is under way, and waits") {
		t.Errorf("pause: %s", r.text(nil))
	}
	by := o.api.Field(controlPath, "data", "paused-by")
	if by == "" || o.api.Field(controlPath, "data", "reason") != "the shop is open" || o.api.Field(controlPath, "data", "run") != o.doc.Run {
		t.Errorf("kept: by %q", by)
	}
	again := o.run("pause", "--reason", "another")
	if again.code != exitcode.OK || !strings.Contains(again.errOut, "the shop is open") || o.api.Field(controlPath, "data", "reason") != "the shop is open" {
		t.Errorf("pausing twice: %s", again.text(nil))
	}
	o.unlock()
	if r := o.run("resume"); r.code != exitcode.OK || !strings.Contains(r.errOut, "no command executes it now\nnext: transplant apply") {
		t.Errorf("resume: %s", r.text(nil))
	}
	if o.api.Field(controlPath, "data", "paused-by") != "" {
		t.Error("it is still paused")
	}
	if r := o.run("resume"); r.code != exitcode.OK || !strings.Contains(r.errOut, "was not paused: nothing to do") {
		t.Errorf("resuming twice: %s", r.text(nil))
	}
	o.doc.Phase = v1.RunApplied
	o.begin()
	fails(t, o.run("pause"), exitcode.Error, "migration 20261121-115500 is applied: there is nothing to pause")
}

func TestPausingTakesTheRightToUpdateOneConfigMap(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	o.paused() // who executes a run makes the ConfigMap
	for _, verb := range []string{"create", "patch", "delete"} {
		o.api.Deny(verb, "configmaps")
	}
	writes := len(o.api.Writes())
	for _, command := range []string{"resume", "pause"} {
		if r := o.run(command); r.code != exitcode.OK {
			t.Errorf("%s", r.text(nil))
		}
	}
	for _, w := range o.api.Writes()[writes:] {
		if w != "update "+controlPath {
			t.Errorf("it wrote %s", w)
		}
	}
	o.api.Deny("update", "configmaps")
	fails(t, o.run("resume"), exitcode.Error, `cannot update resource "configmaps"`)
}

// unlocking runs unlock with a clock that steps when it is waited on; between is what the holder does meanwhile.
func (o *onlooker) unlocking(between func(), args ...string) result {
	o.t.Helper()
	return stepping(between, func() result { return o.run(append([]string{"unlock"}, args...)...) })
}

// stepping runs a command with a clock that steps when it is waited on.
func stepping(between func(), run func() result) result {
	c := clocktesting.NewFakeClock(client.Now())
	was := client.LockClock
	client.LockClock = c
	defer func() { client.LockClock = was }()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if c.HasWaiters() {
				between()
				c.Step(2 * lock.Renewal)
			}
		}
	}()
	r := run()
	close(stop)
	<-done
	return r
}

func TestUnlock(t *testing.T) {
	nothing := func() {}
	for _, c := range []struct {
		name    string
		between func(*onlooker)
		args    []string
		code    int
		words   []string
		gone    bool
	}{
		{"nobody agrees", nil, nil, exitcode.NotApproved, []string{"not approved: there is no terminal on which to ask whether to delete the lock of ops@bastion pid 4412;", "--yes"}, false},
		{"a holder that ended", nil, []string{"--yes"}, exitcode.OK,
			[]string{"the lock is held by ops@bastion, pid 4412 · lock renewed 95s ago", "looking for 10s whether it is renewed", "the lock is gone\nnext: transplant apply, or transplant rollback"}, true},
		{"a holder that is at work", func(o *onlooker) { o.lock(0) }, []string{"--yes"}, exitcode.Locked, []string{"ops@bastion pid 4412 renews its lock, so it is at work", "--force"}, false},
		{"a holder that is at work, by force", func(o *onlooker) { o.lock(0) }, []string{"--yes", "--force"}, exitcode.OK, []string{"will stop in the middle of its step", "the lock is gone"}, true},
		{"a holder that gives the lock up", func(o *onlooker) { o.unlock() }, []string{"--yes"}, exitcode.OK, []string{"its holder gave it up while it was looked at: nothing to do"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOnlooker(t)
			o.begin()
			o.lock(95 * time.Second)
			between := nothing
			if c.between != nil {
				between = func() { c.between(o) }
			}
			r := o.unlocking(between, c.args...)
			fails(t, r, c.code, c.words...)
			if have := o.api.Field("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+lock.LeaseName, "metadata", "name") == ""; have != c.gone {
				t.Errorf("the lock is gone: %v, want %v", have, c.gone)
			}
		})
	}
	if r := newOnlooker(t).run("unlock", "--yes"); r.code != exitcode.OK || !strings.Contains(r.errOut, "the lock is free: nothing to do") {
		t.Errorf("no lock: %s", r.text(nil))
	}
}

// TestARunInASeedIsPausedResumedAndUnlocked where its journal is: nothing is written to the hosted cluster.
func TestARunInASeedIsPausedResumedAndUnlocked(t *testing.T) {
	s := newSeededJournal(t)
	const control = "/api/v1/namespaces/" + seededNamespace + "/configmaps/transplant-control"
	for _, command := range []string{"pause", "resume"} {
		fails(t, s.run(command), exitcode.Error, "no migration was started on this cluster: there is nothing to "+command)
	}
	s.underWay(30 * time.Second)
	s.begin()
	s.seed.Put(t, s.lockOf(time.Second, ""))
	r := s.run("pause", "--reason", "the shop is open")
	fails(t, r, exitcode.OK, "the control plane of cluster x in namespace "+seededNamespace, "the shop is open", "finishes the step that is under way",
		"next: transplant status --watch --seed-namespace cluster-x; transplant resume --seed-namespace cluster-x lets it go on")
	if s.seed.Field(control, "data", "paused-by") == "" || s.seed.Field(control, "data", "run") != s.doc.Run {
		t.Errorf("the ConfigMap says paused-by %q", s.seed.Field(control, "data", "paused-by"))
	}
	fails(t, s.run("pause", "--part", "finish"), exitcode.Error, "no migration was started on this cluster: there is nothing to pause")
	fails(t, s.run("resume"), exitcode.OK, "is lifted", "executes it\nnext: transplant status --watch --seed-namespace cluster-x")
	if by := s.seed.Field(control, "data", "paused-by"); by != "" {
		t.Errorf("it is paused by %s still", by)
	}
	s.seed.Put(t, s.lockOf(time.Hour, ""))
	unlock := func() result { return s.run("unlock", "--yes") }
	fails(t, stepping(func() { s.seed.Put(t, s.lockOf(0, "")) }, unlock), exitcode.Locked, "renews its lock, so it is at work")
	fails(t, stepping(func() {}, unlock), exitcode.OK, "the lock is gone",
		"next: transplant apply --seed-namespace cluster-x, or transplant rollback --seed-namespace cluster-x")
	fails(t, unlock(), exitcode.OK, "the lock is free: nothing to do")
	fails(t, s.run("resume"), exitcode.OK, "was not paused: nothing to do")
	if w := s.user.Writes(); len(w) > 0 {
		t.Errorf("written to the hosted cluster: %q", w)
	}
}
