package election_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// wall is the wall clock of a process: the bubble's time, unless it is set wrong.
type wall struct {
	mu     sync.Mutex
	ahead  time.Duration
	frozen time.Time // zero while it goes
}

func (c *wall) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return c.frozen
	}
	return time.Now().Add(c.ahead)
}

func (c *wall) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *wall) freeze() {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = now
}

// given gives a process the clock.
func (c *wall) given(_ *process, config *election.Config) { config.SetWall(c.Now) }

const jump = 5 * time.Hour

// jumps are what wall clocks of a leader and a standby can do. Each is done once in every few seconds.
var jumps = map[string]func(leader, standby *wall, round int){
	"nothing jumps":                     func(_, _ *wall, _ int) {},
	"the leader's clock goes ahead":     func(l, _ *wall, _ int) { l.jump(jump) },
	"the leader's clock goes back":      func(l, _ *wall, _ int) { l.jump(-jump) },
	"the leader's goes to and fro":      func(l, _ *wall, round int) { l.jump(jump * time.Duration(1-2*(round%2))) },
	"the leader's repeats each period":  func(l, _ *wall, _ int) { l.jump(-retryPeriod) },
	"the leader's stands still":         func(l, _ *wall, round int) { l.freeze() },
	"the standby's clock goes ahead":    func(_, s *wall, _ int) { s.jump(jump) },
	"the standby's clock goes back":     func(_, s *wall, _ int) { s.jump(-jump) },
	"the clocks go apart, leader ahead": func(l, s *wall, _ int) { l.jump(jump); s.jump(-jump) },
	"the clocks go apart, leader back":  func(l, s *wall, _ int) { l.jump(-jump); s.jump(jump) },
}

// TestWallClocksThatJumpChangeNothing: a leader that lives keeps its lease, and one that crashed is waited for as long
// as ever. What is adopted stays so, in terms of the clock of who reads it.
func TestWallClocksThatJumpChangeNothing(t *testing.T) {
	for name, move := range jumps {
		for _, told := range []bool{false, true} {
			what := ", and the lease is waited for"
			if told {
				what = ", and a kubelet testifies"
			}
			t.Run(name+what, func(t *testing.T) {
				bubble(t, func(w *world) { jumping(w, move, told) })
			})
		}
	}
}

func jumping(w *world, move func(leader, standby *wall, round int), told bool) {
	first, second, p := &wall{}, &wall{}, newPods()
	a := w.start("a", both(), p.testified, first.given)
	w.leads(a, migrationLease, time.Second)
	adopted := a.Fence(mainLease).Tenure().AdoptedAt
	b := w.start("b", both(), p.testified, second.given)
	for round := range 40 {
		<-time.After(retryPeriod)
		move(first, second, round)
		if !a.Leading(mainLease) || !a.Leading(migrationLease) || b.Leading(mainLease) || a.Fence(mainLease).Check() != nil {
			w.t.Fatalf("after %d jumps, %s holds the lease; the fence says %v", round+1, w.holder(mainLease), a.Fence(mainLease).Check())
		}
	}
	if got := a.Fence(mainLease).Tenure(); !got.AdoptedAt.Equal(adopted) || got.Epoch != 0 {
		w.t.Errorf("the leader's tenure became %+v", got)
	}
	a.crash()
	crashed := time.Now()
	least, most := leaseDuration-2*retryPeriod, leaseDuration+retryPeriod
	if told {
		p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a"), false))
		least, most = retryPeriod*5/4, 2600*time.Millisecond
	}
	move(first, second, 40)
	w.leads(b, migrationLease, most)
	if took := time.Since(crashed); took < least {
		w.t.Errorf("b leads after %s", took)
	}
	tenure, now := b.Fence(mainLease).Tenure(), second.Now()
	if now.Before(adopted) { // its clock says that the adoption is still to come
		adopted = tenure.AdoptedAt
	}
	if !tenure.AdoptedAt.Equal(adopted) || tenure.AdoptedAt.After(now) || tenure.Epoch != 1 || !tenure.IsInherited {
		w.t.Errorf("at %s by its clock, b's tenure is %+v; a adopted the lease at %s", now, tenure, adopted)
	}
	a.gone()
	b.terminate()
}

// TestAnAdoptionByAClockThatWasAheadIsInherited all the same: what the process before deleted is not known.
func TestAnAdoptionByAClockThatWasAheadIsInherited(t *testing.T) {
	for name, end := range map[string]func(p *process){
		"it releases the lease": func(p *process) { p.terminate() },
		"it crashes":            func(p *process) { p.crash(); p.gone() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				ahead := &wall{ahead: jump}
				a := w.start("a", one(), ahead.given)
				w.adopted(a)
				<-time.After(time.Minute)
				end(a)
				b := w.start("b", one())
				if tenure := w.adopted(b); !tenure.IsInherited || time.Since(tenure.AdoptedAt) > time.Second || tenure.AdoptedAt.After(time.Now()) {
					t.Errorf("at %s, b's tenure is %+v", time.Now(), tenure)
				}
				b.terminate()
			})
		})
	}
}

// TestALostAnswerWhileTheClockStandsStillIsNotTakenForAnotherProcess: each write is told apart by its time.
func TestALostAnswerWhileTheClockStandsStillIsNotTakenForAnotherProcess(t *testing.T) {
	bubble(t, func(w *world) {
		c := &wall{}
		c.freeze()
		a := w.start("a", one(), c.given, func(p *process, _ *election.Config) { p.client.noWatch = true })
		w.leads(a, mainLease, time.Second)
		var n atomic.Int64
		w.lose(func(verb string) bool { return n.Add(1)%3 != 0 && verb == "update" })
		b := w.start("b", one())
		<-time.After(5 * time.Minute)
		if n.Load() < 100 || !a.Leading(mainLease) || b.Leading(mainLease) {
			t.Errorf("after %d writes, %s holds the lease", n.Load(), w.holder(mainLease))
		}
		w.lose(nil)
		a.terminate()
		b.terminate()
	})
}

// TestAStandbyThatMissedRenewalsSeesThatTheLeaderLives though the leader's clock stands still: no two renewals are alike.
func TestAStandbyThatMissedRenewalsSeesThatTheLeaderLives(t *testing.T) {
	bubble(t, func(w *world) {
		c := &wall{}
		c.freeze()
		a := w.start("a", one(), c.given)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one())
		<-time.After(5 * time.Second)
		for missed := time.Duration(0); missed < leaseDuration; missed += 50 * time.Millisecond {
			b.client.partition(true)
			<-time.After(missed)
			b.client.partition(false)
			<-time.After(leaseDuration - missed + retryPeriod/2)
			if !a.Leading(mainLease) || b.Leading(mainLease) {
				t.Errorf("after %s without news, %s holds the lease", missed, w.holder(mainLease))
				break
			}
		}
		a.stop()
		a.gone()
		b.terminate()
	})
}
