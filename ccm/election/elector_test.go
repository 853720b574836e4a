package election_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestALeaderThatCrashesIsSucceededWhenItsLeaseHasExpired(t *testing.T) {
	var worst time.Duration
	bubble(t, func(w *world) {
		for range 300 {
			w.api, w.writes = newAPI(), nil
			pause := func(d time.Duration) { <-time.After(time.Duration(rand.Int64N(int64(d)))) }
			a := w.start("a", one())
			w.leads(a, mainLease, time.Second)
			pause(4 * time.Second)
			b := w.start("b", one(), func(p *process, _ *election.Config) { p.client.noWatch = rand.IntN(2) == 0 })
			c := w.start("c", one())
			pause(30 * time.Second)
			a.crash()
			crashed := time.Now()
			select {
			case <-b.starts[mainLease]:
			case <-c.starts[mainLease]:
			}
			worst = max(worst, time.Since(crashed))
			a.gone()
			b.terminate()
			c.terminate()
			w.exclusive()
		}
	})
	t.Logf("longest gap of 300: %s", worst)
	if limit := leaseDuration + retryPeriod/10; worst > limit {
		t.Errorf("the longest gap is %s, more than %s", worst, limit)
	}
}

func TestAReleasedLeaseIsTakenUpWithinMilliseconds(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		for _, next := range []string{"b", "c", "d"} {
			b := w.start(next, one())
			<-time.After(7 * time.Second)
			a.terminate()
			w.leads(b, mainLease, 5*time.Millisecond)
			a = b
		}
		a.terminate()
	})
}

func TestWithoutLeaveToWatchAReleasedLeaseIsTakenUpAfterOnePoll(t *testing.T) {
	bubble(t, func(w *world) {
		blind := func(p *process, _ *election.Config) { p.client.noWatch = true }
		a := w.start("a0", one(), blind)
		w.leads(a, mainLease, time.Second)
		var worst time.Duration
		for i := range 100 {
			b := w.start(string(rune('b'+i%20))+"1", one(), blind)
			<-time.After(5*time.Second + time.Duration(rand.Int64N(int64(4*time.Second))))
			a.terminate()
			released := time.Now()
			w.leads(b, mainLease, 4400*time.Millisecond)
			worst = max(worst, time.Since(released))
			a = b
			w.forget()
		}
		a.terminate()
		t.Logf("longest gap of 100: %s", worst)
		if asked := w.count("a0", "watch"); asked != 1 {
			t.Errorf("it asked for a watch %d times in 9 s", asked)
		}
	})
}

func TestAfterACrashUnderMigrationBothLeasesAreTakenInOneLeaseDuration(t *testing.T) {
	bubble(t, func(w *world) {
		for range 50 {
			w.api, w.writes = newAPI(), nil
			a := w.start("a", both())
			w.leads(a, migrationLease, time.Second)
			b := w.start("b", both())
			<-time.After(3*time.Second + time.Duration(rand.Int64N(int64(4*time.Second))))
			a.crash()
			w.leads(b, mainLease, 16*time.Second)
			w.leads(b, migrationLease, time.Second)
			a.gone()
			b.terminate()
		}
	})
}

func TestTheMigrationLeaseIsReleasedBeforeTheMainLease(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", both(), func(p *process, _ *election.Config) { p.busy = 3 * time.Second })
		w.leads(a, migrationLease, time.Second)
		b := w.start("b", both())
		<-time.After(5 * time.Second)
		a.terminate()
		w.leads(b, migrationLease, 10*time.Millisecond)
		want := []string{
			mainLease + " a", migrationLease + " a",
			migrationLease + " ", mainLease + " ",
			mainLease + " b", migrationLease + " b",
		}
		if diff := cmp.Diff(want, w.holders()); diff != "" {
			t.Errorf("holders (-want +got):\n%s", diff)
		}
		b.terminate()
	})
}

func TestALeaseIsHeldWhileWorkersDrain(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one(), func(p *process, _ *election.Config) { p.busy = 18 * time.Second })
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one())
		<-time.After(5 * time.Second)
		began := time.Now()
		a.terminate()
		if took := time.Since(began); took < 18*time.Second || took > 18200*time.Millisecond {
			t.Errorf("it ended after %s", took)
		}
		w.leads(b, mainLease, 5*time.Millisecond)
		b.terminate()
	})
}

func TestWorkersThatDoNotEndAreCutOffAndTheLeaseIsLeftToExpire(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one(), func(p *process, _ *election.Config) { p.busy = time.Hour })
		w.leads(a, mainLease, time.Second)
		bound, cancel := a.Fence(mainLease).Bind(t.Context())
		defer cancel()
		a.stop()
		began := time.Now()
		<-bound.Done()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("calls were cut off after %s", took)
		}
		err := w.stops(a, 3*time.Second)
		if err == nil || errors.Is(err, election.ErrLost) {
			t.Errorf("it ended with: %v", err)
		}
		if w.holder(mainLease) != "a" {
			t.Errorf("the lease was released under a worker that goes on")
		}
		<-time.After(time.Hour)
	})
}

func TestALeaderThatWasSuspendedMayNotWriteAnyMore(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", both())
		w.leads(a, migrationLease, time.Second)
		bound, cancel := a.Fence(mainLease).Bind(t.Context())
		defer cancel()
		a.clock.suspend(30 * time.Second)
		if err := a.Fence(mainLease).Check(); !errors.Is(err, election.ErrFenced) {
			t.Errorf("its first write: %v", err)
		}
		if cause := context.Cause(bound); !errors.Is(cause, election.ErrFenced) {
			t.Errorf("its calls ended with: %v", cause)
		}
		if err := w.stops(a, 2*retryPeriod); !errors.Is(err, election.ErrLost) {
			t.Errorf("it ended with: %v", err)
		}
		synctest.Wait()
		if a.endedAt(mainLease).IsZero() || a.endedAt(migrationLease).IsZero() {
			t.Errorf("its workers were not told")
		}
	})
}

func TestALeaderThatIsCutOffStopsBeforeItsSuccessorStarts(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one())
		<-time.After(9 * time.Second)
		began := time.Now()
		a.client.partition(true)
		if err := w.stops(a, 11*time.Second); !errors.Is(err, election.ErrLost) {
			t.Errorf("it ended with: %v", err)
		}
		stopped := time.Since(began)
		w.leads(b, mainLease, 16*time.Second)
		if gap := time.Since(began) - stopped; gap < 4*time.Second {
			t.Errorf("only %s lay between the leaders", gap)
		}
		b.terminate()
	})
}
