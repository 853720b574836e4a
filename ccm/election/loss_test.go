package election_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election"
)

// What ends leadership at once, and the words for it.
var losses = []struct {
	name   string
	change func(w *world)
	reason string
}{
	{"another holder is seen", func(w *world) {
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") })
	}, "it is held by b"},
	{"somebody released it", func(w *world) {
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
	}, "another client released it"},
	{"it was deleted", func(w *world) { w.remove(mainLease) }, "it was deleted"},
	{"it was deleted and somebody created it", func(w *world) {
		w.remove(mainLease)
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") })
	}, "was deleted|it is held by b"},
	{"another process has the same identity", func(w *world) {
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.RenewTime.Time = l.Spec.RenewTime.Add(time.Microsecond) })
	}, "another process renews it as a"},
}

func TestLeadershipEndsAtOnceWhen(t *testing.T) {
	for _, c := range losses {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.start("a", both())
				w.leads(a, migrationLease, time.Second)
				<-time.After(5 * time.Second)
				bound, cancel := a.Fence(migrationLease).Bind(t.Context())
				defer cancel()
				began := time.Now()
				c.change(w)
				err := <-a.done
				w.lost(err, c.reason)
				if took := time.Since(began); took != 0 {
					t.Errorf("Run returned after %s", took)
				}
				for _, l := range []string{mainLease, migrationLease} {
					if err := a.Fence(l).Check(); !errors.Is(err, election.ErrFenced) {
						t.Errorf("the fence of %s is open", l)
					}
					if a.Leading(l) {
						t.Errorf("it says that it leads %s", l)
					}
				}
				if !errors.Is(context.Cause(bound), election.ErrFenced) {
					t.Errorf("calls ended with: %v", context.Cause(bound))
				}
				<-time.After(time.Minute) // the workers end
				if w.holder(migrationLease) != "a" {
					t.Errorf("a lease whose workers may be in a call was released")
				}
			})
		})
	}
}

func TestWithoutAWatchLeadershipEndsAtTheNextRenewalWhen(t *testing.T) {
	for _, c := range losses {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.start("a", one(), func(p *process, _ *election.Config) { p.client.noWatch = true })
				w.leads(a, mainLease, time.Second)
				<-time.After(5 * time.Second)
				c.change(w)
				w.lost(w.stops(a, retryPeriod), c.reason)
			})
		})
	}
}

func (w *world) lost(err error, reasons string) {
	w.t.Helper()
	if !errors.Is(err, election.ErrLost) {
		w.t.Errorf("it ended with: %v", err)
		return
	}
	for reason := range strings.SplitSeq(reasons, "|") {
		if strings.Contains(err.Error(), reason) {
			return
		}
	}
	w.t.Errorf("it ended with: %v; want %s", err, reasons)
}

func TestWhatOthersWriteBesideTheHolderCostsNoLeadershipAndStays(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		<-time.After(5 * time.Second)
		w.edit(mainLease, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"team": "x"}
			l.Annotations["note"] = "y"
		})
		<-time.After(20 * time.Second)
		if !a.Leading(mainLease) || a.Fence(mainLease).Check() != nil {
			t.Errorf("it does not lead any more")
		}
		a.terminate()
		b := w.start("b", one())
		w.leads(b, mainLease, time.Second)
		l := w.lease(mainLease)
		if diff := cmp.Diff(map[string]string{"team": "x"}, l.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if l.Annotations["note"] != "y" {
			t.Errorf("annotations: %v", l.Annotations)
		}
		b.terminate()
	})
}

func TestARenewalThatConflictsReadsAndTriesAgain(t *testing.T) {
	bubble(t, func(w *world) {
		slow := "leader_election_slowpath_total " + mainLease
		before := series(t)[slow]
		a := w.start("a", one(), func(p *process, c *election.Config) {
			p.client.noWatch, c.Drained = true, nil
		})
		w.leads(a, mainLease, time.Second)
		<-time.After(retryPeriod / 2) // between two renewals
		for range 5 {
			<-time.After(retryPeriod)
			w.edit(mainLease, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"at": time.Now().String()} })
		}
		<-time.After(retryPeriod)
		if got := series(t)[slow] - before; got != 5 || !a.Leading(mainLease) {
			t.Errorf("%v slow renewals after 5 labels; it leads: %v", got, a.Leading(mainLease))
		}
		a.terminate()
	})
}

func TestAnAnswerThatIsLostCostsNoLeadership(t *testing.T) {
	bubble(t, func(w *world) {
		n := 0
		w.lose(func(string) bool {
			n++
			return n%2 == 1 // the first create is among them
		})
		a := w.start("a", one())
		w.leads(a, mainLease, 10*time.Second)
		<-time.After(2 * time.Minute)
		if !a.Leading(mainLease) {
			t.Errorf("it does not lead any more")
		}
		if l := w.lease(mainLease); *l.Spec.LeaseTransitions != 0 {
			t.Errorf("%d changes of holder were counted", *l.Spec.LeaseTransitions)
		}
		w.lose(nil)
		a.terminate()
		if w.holder(mainLease) != "" {
			t.Errorf("it was not released")
		}
	})
}

func TestALeaseThatMayHaveBeenWonIsReleasedAtTheEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.lose(func(verb string) bool { return verb == "create" })
		a := w.start("a", one(), func(p *process, _ *election.Config) { p.client.noWatch = true })
		w.until("the lease is written", time.Second, func() bool { return w.holder(mainLease) == "a" })
		a.terminate()
		if got := w.holder(mainLease); got != "" {
			t.Errorf("it is held by %q", got)
		}
	})
}

func TestALeaderOutlivesAShortOutageOfTheAPI(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", both())
		w.leads(a, migrationLease, time.Second)
		for range 10 {
			<-time.After(5 * time.Second)
			a.client.partition(true)
			<-time.After(5 * time.Second)
			a.client.partition(false)
		}
		w.mu.Lock()
		for i := 1; i < len(w.writes); i++ {
			if gap := w.writes[i].at.Sub(w.writes[i-1].at); gap > 110*time.Millisecond {
				t.Errorf("no writes for %s", gap)
			}
		}
		w.mu.Unlock()
		a.terminate()
	})
}

func TestAReleaseThatFailsIsBoundedAndReported(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", both())
		w.leads(a, migrationLease, time.Second)
		w.fail(apierrors.NewInternalError(errors.New("etcd is away")))
		a.stop()
		err := w.stops(a, renewDeadline+time.Second)
		if err == nil || !strings.Contains(err.Error(), `releasing lease "`+mainLease) || !strings.Contains(err.Error(), `releasing lease "`+migrationLease) {
			t.Errorf("it ended with: %v", err)
		}
	})
}

func TestVersionsThatAreNoNumbersAreOrderedByReading(t *testing.T) {
	bubble(t, func(w *world) {
		w.opaque = true
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one())
		<-time.After(10 * time.Second)
		a.terminate()
		w.leads(b, mainLease, 100*time.Millisecond)
		<-time.After(30 * time.Second)
		if !b.Leading(mainLease) {
			t.Errorf("it does not lead any more")
		}
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("c") })
		w.lost(w.stops(b, time.Second), "it is held by c")
	})
}

func TestAfterARestoreOfTheAPIsDataTheLeaseIsContendedForAsBefore(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.version = 1000
		w.edit(mainLease, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To("x"), ptr.To[int32](15)
		})
		a := w.start("a", one())
		<-time.After(5 * time.Second)
		w.api.mu.Lock()
		w.api.version = 10 // older than all that was seen
		w.api.mu.Unlock()
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
		w.leads(a, mainLease, 2*retryPeriod)
		<-time.After(time.Minute)
		if !a.Leading(mainLease) {
			t.Errorf("it does not lead any more")
		}
		a.terminate()
	})
}

// A leader without a watch knows only at its next renewal that its lease was deleted.
func TestADeletedLeaseIsTakenOnceItsHolderKnows(t *testing.T) {
	bubble(t, func(w *world) {
		for range 50 {
			w.api, w.writes = newAPI(), nil
			a := w.start("a", one(), func(p *process, _ *election.Config) { p.client.noWatch = true })
			w.leads(a, mainLease, time.Second)
			b := w.start("b", one())
			<-time.After(5*time.Second + time.Duration(rand.Int64N(int64(2*time.Second))))
			w.remove(mainLease)
			deleted := time.Now()
			w.leads(b, mainLease, 3*time.Second)
			if took := time.Since(deleted); took < 2500*time.Millisecond {
				t.Errorf("it was taken after %s, its holder may know of it after 2 s", took)
			}
			w.lost(<-a.done, "deleted|it is held by b")
			w.exclusive()
			b.terminate()
			w.forget()
		}
	})
}
