package election_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// claims are what somebody writes by hand into the lease of process a, and what pods say then.
var claims = map[string]struct {
	claim string
	says  func(p *pods)
}{
	"of a pod that there is not":             {"pod-y on node-y by a", func(*pods) {}},
	"of a pod that runs":                     {"pod-x on node-x by a", func(p *pods) { p.put(podOf("pod-x", "node-x")) }},
	"of a pod that has ended":                {"pod-x on node-x by a", func(p *pods) { p.put(ended(podOf("pod-x", "node-x"), "", false)) }},
	"of a pod with an identity that ended":   {"pod-x on node-x by a", func(p *pods) { p.put(ended(podOf("pod-x", "node-x"), testimony.Epitaph("x"), true)) }},
	"of another holder, whose pod has ended": {"pod-x on node-x by x", func(p *pods) { p.put(ended(podOf("pod-x", "node-x"), testimony.Epitaph("x"), false)) }},
	"of a pod of another namespace by a path": {"../tenant/pod-x on node-x by a", func(p *pods) {
		p.put(ended(in("tenant", podOf("pod-x", "node-x")), testimony.Epitaph("a"), false))
	}},
	"that says nothing":   {"", func(*pods) {}},
	"that cannot be read": {"pod-a on node-a", func(*pods) {}},
}

func claim(text string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[testimony.Annotation] = text }
}

// TestAClaimThatWasEditedByHandHasNoEffect: a leader that lives puts its own back, and one that crashed is waited for.
func TestAClaimThatWasEditedByHandHasNoEffect(t *testing.T) {
	for name, test := range claims {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := newPods()
				a := w.start("a", one(), p.testified)
				w.leads(a, mainLease, time.Second)
				b := w.start("b", one(), p.testified)
				<-time.After(5 * time.Second)
				w.edit(mainLease, claim(test.claim))
				test.says(p)
				<-time.After(2 * retryPeriod)
				if got := w.lease(mainLease).Annotations[testimony.Annotation]; got != "pod-a on node-a by a" || !a.Leading(mainLease) {
					t.Fatalf("%s holds the lease, with the claim %q", w.holder(mainLease), got)
				}
				a.crash()
				crashed := time.Now()
				w.edit(mainLease, claim(test.claim))
				w.leads(b, mainLease, leaseDuration+retryPeriod)
				if took := time.Since(crashed); took < leaseDuration-2*retryPeriod {
					t.Errorf("b leads after %s", took)
				}
				a.gone()
				b.terminate()
			})
		})
	}
}

// TestAForgedTestimonyDoesNotEndALeaderThatLives: somebody edits the lease, and has a pod whose container ends with the
// leader's identity as its message.
func TestAForgedTestimonyDoesNotEndALeaderThatLives(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), p.testified)
		for range 30 {
			<-time.After(retryPeriod + 130*time.Millisecond)
			p.put(ended(podOf("pod-x", "node-x"), testimony.Epitaph("a"), false))
			w.edit(mainLease, claim("pod-x on node-x by a"))
		}
		if !a.Leading(mainLease) || b.Leading(mainLease) {
			t.Errorf("%s holds the lease", w.holder(mainLease))
		}
		a.terminate()
		b.terminate()
	})
}

// TestAStoppedLeaderOfWhichItWasSaidThatItHasEnded: the standby believes it, since a process that is stopped renews no
// more than one that has ended. Once it goes on, the leader's fence closes with what has come for it meanwhile: the event
// of the watch, or the refusal of its renewal. It is closed at the first instruction where the renew deadline has passed.
func TestAStoppedLeaderOfWhichItWasSaidThatItHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		stopped time.Duration
		noWatch bool
		closed  bool // at the first instruction
	}{
		"for less than the renew deadline":                  {4 * time.Second, false, false},
		"for less than the renew deadline, without a watch": {4 * time.Second, true, false},
		"for longer":                  {12 * time.Second, false, true},
		"for longer, without a watch": {12 * time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := newPods()
				a := w.start("a", both(), p.testified, func(a *process, _ *election.Config) { a.client.noWatch = test.noWatch })
				w.leads(a, migrationLease, time.Second)
				b := w.start("b", both(), p.testified)
				<-time.After(20*time.Second + 50*time.Millisecond) // workers write at full tenths of a second
				bound, cancel := a.Fence(mainLease).Bind(t.Context())
				defer cancel()
				a.client.stop()
				stopped := time.Now()
				p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a"), false)) // which is not so
				w.leads(b, migrationLease, 2600*time.Millisecond)
				<-time.After(time.Until(stopped.Add(test.stopped)))
				if err := a.Fence(mainLease).Check(); test.closed != errors.Is(err, election.ErrFenced) {
					t.Errorf("at its first instruction, the fence says: %v", err)
				}
				a.client.goOn()
				synctest.Wait() // no time passes
				for _, lease := range []string{mainLease, migrationLease} {
					if err := a.Fence(lease).Check(); !errors.Is(err, election.ErrFenced) {
						t.Errorf("once it has read what came, the fence of %s says: %v", lease, err)
					}
				}
				if bound.Err() == nil {
					t.Error("its calls go on")
				}
				if err := w.stops(a, time.Second); !errors.Is(err, election.ErrLost) {
					t.Errorf("it ended with: %v", err)
				}
				b.terminate()
			})
		})
	}
}

// TestManyEventsOfALeadersPodChangeNothing: the standby reads them all, asks no more often, and hears what counts after them.
func TestManyEventsOfALeadersPodChangeNothing(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), p.testified)
		<-time.After(time.Second)
		const events, atOnce = 20_000, 50 // a watch of client-go's fake holds a hundred
		for i := range events {
			pod := podOf("pod-a", "node-a")
			pod.Status.ContainerStatuses[0].RestartCount = int32(i)
			p.put(pod)
			if i%atOnce == 0 {
				<-time.After(time.Minute * atOnce / events)
				synctest.Wait()
			}
		}
		if !a.Leading(mainLease) || b.Leading(mainLease) || p.asked > 2 {
			t.Errorf("%s holds the lease; pods were watched %d times", w.holder(mainLease), p.asked)
		}
		a.crash()
		p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a"), false))
		w.leads(b, mainLease, 2600*time.Millisecond)
		a.gone()
		b.terminate()
	})
}
