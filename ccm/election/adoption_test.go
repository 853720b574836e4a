package election_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election"
)

// adopted is what a process that has just won the main lease is told.
func (w *world) adopted(p *process) election.Tenure {
	w.t.Helper()
	w.leads(p, mainLease, 25*time.Second)
	return p.Fence(mainLease).Tenure()
}

func TestARestartDoesNotMoveTheAdoption(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		began := time.Now()
		for epoch, next := range []string{"b", "c", "d"} {
			tenure := w.adopted(a)
			if !tenure.AdoptedAt.Equal(began) || tenure.Epoch != int64(epoch) || tenure.IsInherited != (epoch > 0) {
				t.Errorf("%s: tenure %+v; want adoption at %s, epoch %d", a.name, tenure, began, epoch)
			}
			<-time.After(time.Minute)
			if next == "c" { // one that crashes
				a.crash()
				a.gone()
			} else {
				a.terminate()
			}
			<-time.After(time.Minute)
			a = w.start(next, one())
		}
		w.adopted(a)
		a.terminate()
	})
}

func TestAReleaseByTheCommandLineDoesNotMoveTheAdoption(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		first := w.adopted(a)
		<-time.After(time.Minute)
		a.crash()
		a.gone()
		w.edit(mainLease, func(l *coordinationv1.Lease) { // as internal/handover does
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
		})
		b := w.start("b", one())
		if second := w.adopted(b); !second.AdoptedAt.Equal(first.AdoptedAt) || second.Epoch != first.Epoch+1 {
			t.Errorf("tenure %+v after %+v", second, first)
		}
		b.terminate()
	})
}

func TestAnotherManagerInBetweenMovesTheAdoption(t *testing.T) {
	for name, release := range map[string]bool{"that releases the lease": true, "that lets it expire": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.start("a", one())
				first := w.adopted(a)
				<-time.After(time.Minute)
				a.terminate()
				u := w.startUpstream("u", release)
				w.within("client-go leads", u.started, 5*time.Second)
				<-time.After(time.Minute)
				u.end()
				b := w.start("b", one())
				second := w.adopted(b)
				if second.Epoch != first.Epoch+2 || time.Since(second.AdoptedAt) > time.Second || second.IsInherited {
					t.Errorf("tenure %+v after %+v at %s", second, first, time.Now())
				}
				b.terminate()
			})
		})
	}
}

func TestAnAdoptionThatCannotBeReadIsNew(t *testing.T) {
	for name, text := range map[string]string{
		"no annotation":       "",
		"not a time":          "yesterday term 7",
		"no term":             "2000-01-01T00:00:00Z",
		"term of another one": "1999-12-31T00:00:00Z term 6",
		"in the future":       "2000-01-02T00:00:00Z term 7",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) { // which begins at 2000-01-01
				w.edit(mainLease, func(l *coordinationv1.Lease) {
					l.Spec.LeaseTransitions = ptr.To[int32](7)
					l.Annotations = map[string]string{election.AdoptedAnnotation: text}
				})
				a := w.start("a", one())
				if tenure := w.adopted(a); time.Since(tenure.AdoptedAt) > time.Second || tenure.Epoch != 8 {
					t.Errorf("tenure %+v at %s", tenure, time.Now())
				}
				a.terminate()
			})
		})
	}
}

func TestALeaderPutsARemovedAnnotationBack(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		first := w.adopted(a)
		<-time.After(time.Hour)
		w.edit(mainLease, func(l *coordinationv1.Lease) { l.Annotations = nil })
		<-time.After(2 * retryPeriod)
		want := first.AdoptedAt.UTC().Format(time.RFC3339Nano) + " term 0"
		if got := w.lease(mainLease).Annotations[election.AdoptedAnnotation]; got != want {
			t.Errorf("annotation %q, want %q", got, want)
		}
		if got := a.Fence(mainLease).Tenure(); got != first {
			t.Errorf("tenure %+v, want %+v", got, first)
		}
		a.terminate()
	})
}

func FuzzAnyAnnotationIsSurvived(f *testing.F) {
	f.Add("2026-11-21T12:00:00.5Z term 7", int32(7))
	f.Add("", int32(0))
	f.Add("9999-12-31T23:59:59Z term -1", int32(-1))
	f.Fuzz(func(t *testing.T, text string, transitions int32) {
		w := newWorld(t)
		w.edit(mainLease, func(l *coordinationv1.Lease) {
			l.Spec.LeaseTransitions = &transitions
			l.Annotations = map[string]string{election.AdoptedAnnotation: text}
		})
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		tenure := a.Fence(mainLease).Tenure()
		if tenure.AdoptedAt.After(time.Now()) {
			t.Errorf("it will have been adopted at %s", tenure.AdoptedAt)
		}
		if !strings.Contains(w.lease(mainLease).Annotations[election.AdoptedAnnotation], " term ") {
			t.Errorf("annotation %q", w.lease(mainLease).Annotations[election.AdoptedAnnotation])
		}
		a.terminate()
	})
}
