package handover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const leaseName = "kube-controller-manager"

var started = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// world is a host with a manager on it, a lease, and what a test does to them.
type world struct {
	client *fake.Clientset
	leases Leases
	procs  []v1.Process
	procMu error
	looked v1.Manager
	lookMu error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	acquired := metav1.NewMicroTime(started.Add(time.Minute))
	w := &world{
		client: fake.NewSimpleClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: "kube-system", ResourceVersion: "7"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("cp_1"), LeaseTransitions: ptr.To[int32](3), AcquireTime: &acquired, RenewTime: &acquired,
				LeaseDurationSeconds: ptr.To[int32](15)},
		}),
		procs:  []v1.Process{{PID: 41, StartTicks: 1000, Started: started, State: "S"}},
		looked: v1.Manager{Leads: []string{leaseName}, ProcessStarted: ptr.To(started)},
	}
	w.leases = Leases{Client: w.client.CoordinationV1().Leases("kube-system"), Now: func() time.Time { return started.Add(time.Hour) }}
	return w
}

func (w *world) processes(context.Context) ([]v1.Process, error) { return w.procs, w.procMu }

func (w *world) candidate(host string) Candidate {
	return Candidate{Component: leaseName, Host: host, Processes: w.processes, Look: func(context.Context) (v1.Manager, error) { return w.looked, w.lookMu }}
}

func (w *world) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l, err := w.leases.Client.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) bind(t *testing.T) Binding {
	t.Helper()
	b, err := w.leases.Bind(t.Context(), leaseName, []Candidate{w.candidate("cp-1")})
	if err != nil || b == nil {
		t.Fatalf("binding: %v, %v", b, err)
	}
	return *b
}

func TestAHolderWhoseProcessIsGoneIsReleased(t *testing.T) {
	w := newWorld(t)
	b := w.bind(t)
	w.procs = nil
	out, err := w.leases.Release(t.Context(), b, w.processes)
	if err != nil || !out.Released {
		t.Fatalf("release: %+v, %v", out, err)
	}
	if got := ptr.Deref(w.lease(t).Spec.HolderIdentity, "-"); got != "" {
		t.Errorf("holder after the release is %q", got)
	}
}

func TestAHolderThatEndedLongBeforeItsSuccessorOnTheHostBeganIsReleased(t *testing.T) {
	w := newWorld(t)
	b := w.bind(t)
	w.procs = []v1.Process{{PID: 52, StartTicks: 2000, Started: started.Add(time.Hour)}} // the last renewal is from a minute after the first start
	if out, err := w.leases.Release(t.Context(), b, w.processes); err != nil || !out.Released {
		t.Fatalf("release: %+v, %v", out, err)
	}
}

// A kubelet restarts a kube-controller-manager within a second, often less than that after its last renewal. The new process has an identity of its own.
func TestAHolderOfARandomNameIsReleasedThoughItsSuccessorRunsAlready(t *testing.T) {
	for holder, want := range map[string]bool{
		"cp-1_4b1ffe2c-1f8f-4e5d-9d2a-0c9f0e9b7a11": true,
		"cp-1_4b1ffe2c-1f8f-1e5d-9d2a-0c9f0e9b7a11": false, // of the time and the network card, which are the same again
		"4b1ffe2c1f8f4e5d9d2a0c9f0e9b7a11":          false,
		"cp-1_ccm":                                  false,
	} {
		w := newWorld(t)
		l := w.lease(t)
		l.Spec.HolderIdentity = &holder
		update(t, w, l)
		b := w.bind(t)
		w.procs = []v1.Process{{PID: 52, StartTicks: 2000, Started: l.Spec.RenewTime.Add(300 * time.Millisecond)}}
		if out, err := w.leases.Release(t.Context(), b, w.processes); err != nil || out.Released != want {
			t.Errorf("release of %s: %+v, %v", holder, out, err)
		}
		b.Component = "cloud-controller-manager" // of anybody, with a name of its own making
		update(t, w, l)
		if out, err := w.leases.Release(t.Context(), b, w.processes); err != nil || out.Released {
			t.Errorf("release of another component's %s: %+v, %v", holder, out, err)
		}
	}
}

// The five cases in which a lease must not be touched.
func TestALeaseIsLeftAloneWhen(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world){
		"its holder is alive":  func(*testing.T, *world) {},
		"its holder is paused": func(_ *testing.T, w *world) { w.procs[0].State = "T" },
		"its host cannot be asked": func(_ *testing.T, w *world) {
			w.procMu = errors.New("connection refused")
		},
		"its holder was restarted and leads again under the same name": func(t *testing.T, w *world) {
			w.procs = []v1.Process{{PID: 52, StartTicks: 2000, Started: started.Add(time.Hour)}}
			l := w.lease(t)
			l.Spec.LeaseTransitions = ptr.To[int32](4)
			update(t, w, l)
		},
		"its holder was restarted and renews it under the same name, in the same term": func(t *testing.T, w *world) {
			w.procs = []v1.Process{{PID: 52, StartTicks: 2000, Started: started.Add(time.Hour)}}
			renewed := metav1.NewMicroTime(started.Add(time.Hour + time.Second))
			l := w.lease(t)
			l.Spec.RenewTime = &renewed
			update(t, w, l)
		},
		"it got another holder in between": func(t *testing.T, w *world) {
			w.procs = nil
			l := w.lease(t)
			l.Spec.HolderIdentity = ptr.To("cp_2")
			update(t, w, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.bind(t)
			change(t, w)
			before := w.lease(t)
			out, err := w.leases.Release(t.Context(), b, w.processes)
			if out.Released {
				t.Errorf("it was released")
			}
			if err == nil && out.Reason == "" {
				t.Errorf("neither an error nor a reason: %+v", out)
			}
			if diff := cmp.Diff(before, w.lease(t)); diff != "" {
				t.Errorf("the lease was touched (-before +after):\n%s", diff)
			}
		})
	}
}

func TestARenewalBetweenTheLastLookAndTheWriteWins(t *testing.T) {
	w := newWorld(t)
	b := w.bind(t)
	w.procs = nil
	w.client.PrependReactor("update", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, conflict()
	})
	out, err := w.leases.Release(t.Context(), b, w.processes)
	if err != nil || out.Released || out.Reason == "" {
		t.Errorf("release: %+v, %v", out, err)
	}
}

func TestAHolderIsNotBoundWhen(t *testing.T) {
	other := func(w *world) Candidate {
		c := w.candidate("cp-2")
		c.Processes = func(context.Context) ([]v1.Process, error) { return []v1.Process{{PID: 99, StartTicks: 5}}, nil }
		return c
	}
	for name, set := range map[string]func(w *world) []Candidate{
		"two managers claim the lease, as after a paused one resumed": func(w *world) []Candidate {
			c := other(w)
			c.Look = func(context.Context) (v1.Manager, error) { return v1.Manager{Leads: []string{leaseName}}, nil }
			return []Candidate{w.candidate("cp-1"), c}
		},
		"another candidate does not answer": func(w *world) []Candidate {
			c := other(w)
			c.Look = func(context.Context) (v1.Manager, error) { return v1.Manager{}, errors.New("connection refused") }
			return []Candidate{w.candidate("cp-1"), c}
		},
		"nobody claims it": func(w *world) []Candidate {
			w.looked.Leads = nil
			return []Candidate{w.candidate("cp-1")}
		},
		"two processes run on its host": func(w *world) []Candidate {
			w.procs = append(w.procs, v1.Process{PID: 42, StartTicks: 1001})
			return []Candidate{w.candidate("cp-1")}
		},
		"the process is younger than the one that answered": func(w *world) []Candidate {
			w.procs[0].Started = started.Add(time.Minute)
			return []Candidate{w.candidate("cp-1")}
		},
		"the holder changes while it is asked": func(w *world) []Candidate {
			c := w.candidate("cp-1")
			c.Look = func(ctx context.Context) (v1.Manager, error) {
				l, err := w.leases.Client.Get(ctx, leaseName, metav1.GetOptions{})
				if err != nil {
					return v1.Manager{}, err
				}
				l.Spec.HolderIdentity = ptr.To("cp_2")
				_, err = w.leases.Client.Update(ctx, l, metav1.UpdateOptions{})
				return w.looked, err
			}
			return []Candidate{c}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if b, err := w.leases.Bind(t.Context(), leaseName, set(w)); !IsUnbound(err) {
				t.Errorf("bound to %+v, error %v", b, err)
			}
		})
	}
}

func TestALeaseThatNobodyHoldsNeedsNoBinding(t *testing.T) {
	w := newWorld(t)
	l := w.lease(t)
	l.Spec.HolderIdentity = ptr.To("")
	update(t, w, l)
	for _, name := range []string{leaseName, "cloud-provider-extraction-migration"} {
		if b, err := w.leases.Bind(t.Context(), name, nil); b != nil || err != nil {
			t.Errorf("lease %s: %+v, %v", name, b, err)
		}
	}
}

func update(t *testing.T, w *world, l *coordinationv1.Lease) {
	t.Helper()
	if _, err := w.leases.Client.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestALeaseIsExpiredWhenItWasLookedAtInVainForLongerThanItLasts(t *testing.T) {
	w := newWorld(t)
	now := started.Add(time.Hour)
	w.leases.Now = func() time.Time { return now }
	var s Silence
	look := func(after time.Duration, want bool) {
		t.Helper()
		now = now.Add(after)
		if is, err := w.leases.Expired(t.Context(), leaseName, &s); err != nil || is != want {
			t.Errorf("after %s: expired %v, %v, want %v", after, is, err, want)
		}
	}
	look(0, false) // whatever the time in it says
	look(14*time.Second, false)
	l := w.lease(t)
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(started.Add(2 * time.Minute)))
	update(t, w, l)
	look(10*time.Second, false)
	look(16*time.Second, false)
	look(2*time.Second, true)
}
