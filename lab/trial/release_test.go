package trial

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// A real kube-controller-manager's lease: untouched while its holder is alive, paused or unreachable and after somebody else has it; released when
// its process was killed.
func TestALeaseIsReleasedOnlyForAnOwnerThatEnded(t *testing.T) {
	lab := theLab(t)
	leases := handover.Leases{Client: lab.Client().CoordinationV1().Leases("kube-system"), Now: time.Now}
	b, processes := bound(t, lab, leases)

	untouched := func(t *testing.T, processes func(context.Context) ([]v1.Process, error)) {
		t.Helper()
		out, err := leases.Release(t.Context(), b, processes)
		if out.Released {
			t.Fatalf("the lease of %s@%s was released", b.Component, b.Host)
		}
		if err == nil && out.Reason == "" {
			t.Error("neither an error nor a reason")
		}
		if holder := holderOf(t, leases); holder != b.Holder && out.Holder == b.Holder {
			t.Errorf("the holder is %q, it was %q", holder, b.Holder)
		}
	}
	t.Run("alive", func(t *testing.T) { untouched(t, processes) })
	t.Run("paused", func(t *testing.T) {
		signal(t, b.PID, syscall.SIGSTOP)
		defer signal(t, b.PID, syscall.SIGCONT)
		until(t, func(ctx context.Context) (bool, error) { // the kernel stops its threads one after the other
			procs, err := processes(ctx)
			return len(procs) == 1 && procs[0].State == "T", err
		})
		untouched(t, processes)
	})
	t.Run("unreachable", func(t *testing.T) {
		untouched(t, func(context.Context) ([]v1.Process, error) { return nil, errors.New("host is unreachable") })
	})
	t.Run("killed", func(t *testing.T) {
		// On a busy machine the pause outlasted the lease: the process ends by itself then, and another manager leads.
		resumed := time.Now()
		until(t, func(ctx context.Context) (bool, error) {
			l, err := leases.Client.Get(ctx, cluster.ControllerManager, metav1.GetOptions{})
			return err == nil && l.Spec.RenewTime != nil && l.Spec.RenewTime.After(resumed), err
		})
		b, processes = bound(t, lab, leases)
		// No successor is started on the host: one that starts within moments of the last renewal might be the holder for all that times show, and the
		// lease is rightly left alone.
		host, err := lab.Host(b.Host)
		if err != nil {
			t.Fatal(err)
		}
		host.Kubelet.StopKubelet()
		defer func() {
			if err := host.Kubelet.StartKubelet(); err != nil {
				t.Error(err)
			}
		}()
		signal(t, b.PID, syscall.SIGKILL)
		until(t, func(ctx context.Context) (bool, error) { return handover.Gone(ctx, b, processes) })
		out, err := leases.Release(t.Context(), b, processes)
		if err != nil || !out.Released {
			t.Fatalf("releasing the lease of a killed owner: %+v, %v", out, err)
		}
		until(t, func(context.Context) (bool, error) { h := holderOf(t, leases); return h != "" && h != b.Holder, nil })
	})
	t.Run("somebody else has it", func(t *testing.T) { untouched(t, processes) })
	if err := lab.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// bound binds the main lease of kube-controller-manager to its process, as a migration would.
func bound(t *testing.T, lab *Trial, leases handover.Leases) (handover.Binding, func(context.Context) ([]v1.Process, error)) {
	t.Helper()
	hosts, err := local.Open(lab.HostAccess())
	if err != nil {
		t.Fatal(err)
	}
	targets, err := manager.Targets(t.Context(), hosts, cluster.ControllerManager)
	if err != nil {
		t.Fatal(err)
	}
	client := recorder.NewClient(nil)
	t.Cleanup(client.CloseIdleConnections)
	looks := map[string]func(context.Context) ([]v1.Process, error){}
	for _, h := range hosts {
		looks[h.Name()] = func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, cluster.ControllerManager) }
	}
	var candidates []handover.Candidate
	for _, target := range targets {
		candidates = append(candidates, handover.Candidate{
			Component: target.Component, Host: target.Host, Processes: looks[target.Host],
			Look: func(ctx context.Context) (v1.Manager, error) {
				return recorder.Scrape(ctx, client, target.Address, lab.MetricsToken())
			},
		})
	}
	b, err := leases.Bind(t.Context(), cluster.ControllerManager, candidates)
	if err != nil || b == nil {
		t.Fatalf("binding the lease: %+v, %v", b, err)
	}
	return *b, looks[b.Host]
}

func holderOf(t *testing.T, leases handover.Leases) string {
	t.Helper()
	l, err := leases.Client.Get(t.Context(), cluster.ControllerManager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("sending %s to process %d: %v", s, pid, err)
	}
}

func until(t *testing.T, f func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, f); err != nil {
		t.Fatal(err)
	}
}
