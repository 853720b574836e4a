package cloud

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// balancers is a cloudprovider.LoadBalancer of which a test says what its methods do.
type balancers struct {
	get    func(context.Context) (*corev1.LoadBalancerStatus, bool, error)
	name   func() string
	ensure func(context.Context) (*corev1.LoadBalancerStatus, error)
	update func(context.Context) error
	remove func(context.Context) error
}

func (b balancers) GetLoadBalancer(ctx context.Context, _ string, _ *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return b.get(ctx)
}

func (b balancers) GetLoadBalancerName(context.Context, string, *corev1.Service) string {
	return b.name()
}

func (b balancers) EnsureLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return b.ensure(ctx)
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) error {
	return b.update(ctx)
}

func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, _ *corev1.Service) error {
	return b.remove(ctx)
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "5b2f"}}
}

// guardedCloud are the load balancers behind a guard, under a fence that is open.
func guardedCloud(b balancers, o Options) (cloudprovider.LoadBalancer, *Guard) {
	guard := New(&provider{balancer: b}, o)
	balancer, _ := guard.For(election.Unfenced(time.Now())).LoadBalancer()
	return balancer, guard
}

func TestAProviderThatIgnoresItsContextCostsItsCallerOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		balancer, guard := guardedCloud(balancers{
			ensure: func(context.Context) (*corev1.LoadBalancerStatus, error) {
				<-hang
				return &corev1.LoadBalancerStatus{}, nil
			},
			get:    func(context.Context) (*corev1.LoadBalancerStatus, bool, error) { return nil, false, nil },
			remove: func(context.Context) error { return nil },
		}, Options{LoadBalancerTimeout: 10 * time.Minute})
		begun := time.Now()
		_, err := balancer.EnsureLoadBalancer(t.Context(), "c", service("web"), nil)
		if took := time.Since(begun); took != 10*time.Minute+grace {
			t.Errorf("the caller waited for %s", took)
		}
		want := `calling EnsureLoadBalancer of the cloud provider for the load balancer of service "default/web": no answer within 10m0s: context deadline exceeded`
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" || !errors.Is(err, context.DeadlineExceeded) || Classify(err) != OutcomeTimeout {
			t.Errorf("error (-want +got):\n%s", diff)
		}

		// Nothing is asked or done about this load balancer until the call has returned: it may yet be made.
		term.SleepUnlessDone(t.Context(), time.Minute)
		_, _, getErr := balancer.GetLoadBalancer(t.Context(), "c", service("web"))
		removeErr := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("web"))
		if !errors.Is(getErr, ErrStillRunning) || !errors.Is(removeErr, ErrStillRunning) {
			t.Errorf("GetLoadBalancer says %v, EnsureLoadBalancerDeleted %v", getErr, removeErr)
		}
		want = `calling EnsureLoadBalancerDeleted of the cloud provider for the load balancer of service "default/web": ` +
			`a call that was given up has not returned yet: EnsureLoadBalancer for the load balancer of service "default/web" was given up 1m0s ago`
		if diff := cmp.Diff(want, fmt.Sprint(removeErr)); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if err := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("other")); err != nil {
			t.Errorf("another load balancer: %v", err)
		}
		if err := guard.Check(nil); err != nil {
			t.Errorf("unhealthy already: %v", err)
		}
		term.SleepUnlessDone(t.Context(), stuckAfter)
		want = `EnsureLoadBalancer of the cloud provider for the load balancer of service "default/web" was given up 11m0s ago and has not returned`
		if diff := cmp.Diff(want, fmt.Sprint(guard.Check(nil))); diff != "" {
			t.Errorf("health (-want +got):\n%s", diff)
		}

		close(hang)
		synctest.Wait()
		if err := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("web")); err != nil || guard.Check(nil) != nil {
			t.Errorf("once it has returned: %v, health %v", err, guard.Check(nil))
		}
	})
}

func TestACallThatWasGivenUpHoldsItsLeaseIfItChangesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		fence, other := openFor(time.Hour), openFor(time.Hour)
		balancer, _ := New(&provider{balancer: balancers{
			get:    func(context.Context) (*corev1.LoadBalancerStatus, bool, error) { <-hang; return nil, false, nil },
			update: func(context.Context) error { <-hang; return nil },
		}}, Options{CallTimeout: time.Second, LoadBalancerTimeout: time.Second}).For(fence).LoadBalancer()
		held := func(f *election.Fence) bool {
			select {
			case <-f.AbandonedReturned():
				return false
			default:
				return true
			}
		}
		if _, _, err := balancer.GetLoadBalancer(t.Context(), "c", service("read")); err == nil || held(fence) {
			t.Errorf("a read that was given up (%v) holds the lease", err)
		}
		if err := balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil); err == nil || !held(fence) {
			t.Errorf("a call that changes something and was given up (%v) does not hold the lease", err)
		}
		ctx := election.NewContext(t.Context(), other)
		if err := balancer.UpdateLoadBalancer(ctx, "c", service("other"), nil); err == nil || !held(other) {
			t.Errorf("a call that was given up (%v) does not hold the lease of its context", err)
		}
		close(hang)
		synctest.Wait()
		if held(fence) || held(other) {
			t.Error("calls that have returned hold the lease")
		}
	})
}

func TestReadsThatHangAreMadeAgainButNotWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var made atomic.Int64
		balancer, _ := guardedCloud(balancers{get: func(context.Context) (*corev1.LoadBalancerStatus, bool, error) {
			made.Add(1)
			<-hang
			return nil, false, nil
		}}, Options{CallTimeout: time.Second})
		var last error
		for range 5 {
			_, _, last = balancer.GetLoadBalancer(t.Context(), "c", service("web"))
		}
		if made.Load() != hungReadsOfOne || !errors.Is(last, ErrStillRunning) {
			t.Errorf("%d calls of one load balancer, the last of five says %v", made.Load(), last)
		}
		for i := range hungReads + 5 {
			_, _, last = balancer.GetLoadBalancer(t.Context(), "c", service(fmt.Sprint("web-", i)))
		}
		if made.Load() != hungReads || !errors.Is(last, ErrStillRunning) {
			t.Errorf("%d calls in all, the last says %v", made.Load(), last)
		}
		close(hang)
	})
}

func TestACallThatEndsShortlyAfterItsContextIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		balancer, guard := guardedCloud(balancers{ensure: func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
			<-ctx.Done()
			term.SleepUnlessDone(t.Context(), grace/2)
			return nil, fmt.Errorf("creating the listener: %w", ctx.Err())
		}}, Options{LoadBalancerTimeout: time.Minute})
		_, err := balancer.EnsureLoadBalancer(t.Context(), "c", service("web"), nil)
		want := `calling EnsureLoadBalancer of the cloud provider for the load balancer of service "default/web": no answer within 1m0s: ` +
			`creating the listener: context deadline exceeded`
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if len(guard.caller.abandoned.calls) != 0 {
			t.Error("the call is taken for one that still runs")
		}
	})
}

func TestACallerThatIsCancelledIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		balancer, _ := guardedCloud(balancers{update: func(context.Context) error { <-hang; return nil }}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := balancer.UpdateLoadBalancer(ctx, "c", service("web"), nil)
		if took := time.Since(begun); took != time.Second+grace || Classify(err) != OutcomeCancelled && Classify(err) != OutcomeTimeout {
			t.Errorf("after %s: %v", took, err)
		}
		close(hang)
	})
}

// brokenError is an error whose method panics on a nil pointer, as many do.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func TestWhatAProviderMayDoInACallIsAnErrorOfThatCall(t *testing.T) {
	for name, c := range map[string]struct {
		provider func(context.Context) error
		want     string
	}{
		"it panics": {func(context.Context) error { panic("no such subnet") },
			`the cloud provider panicked: no such subnet`},
		"it dereferences nil": {func(context.Context) error { var s *corev1.Service; _ = s.Name; return nil },
			`the cloud provider panicked: runtime error: invalid memory address or nil pointer dereference`},
		"it ends its goroutine": {func(context.Context) error { runtime.Goexit(); return nil },
			`the cloud provider panicked: it ended the goroutine that it was called in`},
		"its error cannot be printed": {func(context.Context) error { var e *brokenError; return e },
			`the cloud provider panicked: runtime error: invalid memory address or nil pointer dereference`},
	} {
		t.Run(name, func(t *testing.T) {
			balancer, _ := guardedCloud(balancers{update: c.provider}, Options{})
			err := balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil)
			want := `calling UpdateLoadBalancer of the cloud provider for the load balancer of service "default/web": ` + c.want
			if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" || !errors.Is(err, ErrPanic) || Classify(err) != OutcomePanic {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAProviderThatPanicsOverANameGetsTheUsualOne(t *testing.T) {
	balancer, _ := guardedCloud(balancers{name: func() string { panic("no name") }}, Options{})
	if got := balancer.GetLoadBalancerName(t.Context(), "c", service("web")); got != "a5b2f" {
		t.Errorf("got %q", got)
	}
	balancer, _ = guardedCloud(balancers{name: func() string { return "its own" }}, Options{})
	if got := balancer.GetLoadBalancerName(t.Context(), "c", service("web")); got != "its own" {
		t.Errorf("got %q", got)
	}
}

func TestErrorsThatControllersKnowReachThemBareAndOthersUntouched(t *testing.T) {
	plain := errors.New("quota of listeners is used up")
	retry := api.NewRetryError("the load balancer is pending", 7*time.Second)
	for name, c := range map[string]struct{ given, want error }{
		"elsewhere":          {cloudprovider.ImplementedElsewhere, cloudprovider.ImplementedElsewhere},
		"elsewhere, wrapped": {fmt.Errorf("class %q: %w", "x", cloudprovider.ImplementedElsewhere), cloudprovider.ImplementedElsewhere},
		"not found, wrapped": {fmt.Errorf("server: %w", cloudprovider.InstanceNotFound), cloudprovider.InstanceNotFound},
		"no disk, wrapped":   {fmt.Errorf("disk: %w", cloudprovider.DiskNotFound), cloudprovider.DiskNotFound},
		"unimplemented":      {fmt.Errorf("x: %w", cloudprovider.NotImplemented), cloudprovider.NotImplemented},
		"retry":              {retry, retry},
		"another":            {plain, plain},
		"none":               {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			balancer, _ := guardedCloud(balancers{remove: func(context.Context) error { return c.given }}, Options{})
			if got := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("web")); got != c.want { //nolint:errorlint // upstream compares so
				t.Errorf("got %v, want exactly %v", got, c.want)
			}
		})
	}
	wrapped := fmt.Errorf("ensuring: %w", retry)
	balancer, _ := guardedCloud(balancers{remove: func(context.Context) error { return wrapped }}, Options{})
	var got *api.RetryError
	if err := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("web")); !errors.As(err, &got) || got.RetryAfter() != 7*time.Second {
		t.Errorf("a wrapped RetryError is %v", err)
	}
}

// fenceClock is the clock of a fence in a test.
type fenceClock struct{ begun time.Time }

func (c fenceClock) Now() time.Duration { return time.Since(c.begun) }

// openFor returns a fence that is open for some time.
func openFor(d time.Duration) *election.Fence {
	fence := election.NewFence("kube-system/test", fenceClock{time.Now()})
	fence.Extend(d, election.Tenure{Epoch: 1})
	return fence
}

func TestMutatingCallsStopAtAClosedFenceAndReadsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []string
		p := recorded(&made)
		fence := openFor(time.Minute)
		cloud := New(p, Options{}).For(fence)
		open := callAll(t.Context(), cloud)
		fence.Revoke("another process holds it")
		made = nil
		closed := callAll(t.Context(), cloud)
		for operation, err := range open {
			if err != nil {
				t.Errorf("%s with an open fence: %v", operation, err)
			}
		}
		refused := map[string]bool{}
		for operation, err := range closed {
			if errors.Is(err, election.ErrFenced) {
				refused[operation] = true
			}
			if refused[operation] != (Classify(err) == OutcomeFenced) {
				t.Errorf("%s: %v is %s", operation, err, Classify(err))
			}
		}
		want := map[string]bool{
			"EnsureLoadBalancer": true, "UpdateLoadBalancer": true, "EnsureLoadBalancerDeleted": true, "CreateRoute": true, "DeleteRoute": true,
			"AddSSHKeyToAllInstances": true,
		}
		if diff := cmp.Diff(want, refused); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		for _, operation := range made {
			if want[operation] {
				t.Errorf("%s was made", operation)
			}
		}
		if len(made) != len(open)-len(want) {
			t.Errorf("made %v", made)
		}
	})
}

func TestAMutatingCallEndsWithTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context) error { <-ctx.Done(); return errors.New("request cancelled") }
		fence := openFor(10 * time.Second)
		balancer, _ := New(&provider{balancer: balancers{update: wait}}, Options{}).For(fence).LoadBalancer()
		begun := time.Now()
		err := balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil)
		if took := time.Since(begun); took != 10*time.Second || !errors.Is(err, election.ErrFenced) || !strings.HasSuffix(err.Error(), "request cancelled") {
			t.Errorf("after %s: %v", took, err)
		}

		// A context that carries a fence is judged by that one, and ends as whoever made it wants.
		carried := openFor(20 * time.Second)
		ctx, cancel := carried.Bind(t.Context())
		defer cancel()
		begun = time.Now()
		err = balancer.UpdateLoadBalancer(ctx, "c", service("web"), nil)
		if took := time.Since(begun); took != 20*time.Second || !errors.Is(err, election.ErrFenced) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestACallThatWaitsForTheBudgetIsRefusedWhenTheFenceClosesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		fence := openFor(10 * time.Second)
		guard := New(&provider{balancer: balancers{update: func(context.Context) error { made++; return nil }}}, Options{MaxQPS: 0.05})
		balancer, _ := guard.For(fence).LoadBalancer()
		first := balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil)
		begun := time.Now()
		second := balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil)
		if first != nil || !errors.Is(second, election.ErrFenced) || made != 1 || time.Since(begun) != 10*time.Second {
			t.Errorf("first %v, second %v after %s, %d made", first, second, time.Since(begun), made)
		}
	})
}

func TestACallWithoutFenceObeysItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		balancer, _ := guardedCloud(balancers{update: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		err := balancer.UpdateLoadBalancer(ctx, "c", service("web"), nil)
		if took := time.Since(begun); took != time.Second || !errors.Is(err, context.Canceled) || errors.Is(err, election.ErrFenced) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
