package stage

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
)

var (
	crashes = flag.Int("hosts.crashes", 4, "how often the leader is killed")
	crashed = flag.String("hosts.crash-subnet", "10.86.0.0/24", "network of the cluster whose leaders are killed")
)

// The leader's process is killed, again and again. Its kubelet says that the container has ended, and the successor does not wait for the lease.
func TestRealHostsTakeOverByTheKubeletsWord(t *testing.T) {
	s := ownStage(t, hosts.Options{Name: *name + "k", Subnet: *crashed, ControlPlanes: 2, Workers: 0})
	must(t, s, s.apply()...)
	var waits []time.Duration
	for range *crashes {
		within(t, 5*time.Minute, "two managers that are ready", func() error { return s.managersReady(t.Context()) })
		before := s.managersLease(t)
		leader := ptr.Deref(before.Spec.HolderIdentity, "")
		host, _, _ := strings.Cut(leader, "_")
		h, err := s.Host(host)
		if err != nil {
			t.Fatalf("the leader is %q: %v", leader, err)
		}
		running, err := h.Processes(t.Context(), cluster.CloudControllerManager)
		if err != nil || len(running) != 1 {
			t.Fatalf("host %s runs %d managers (%v)", h.Name, len(running), err)
		}
		killed := time.Now()
		if err := syscall.Kill(running[0].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		after := s.nextLeader(t, leader)
		took := after.Spec.AcquireTime.Sub(killed)
		waits = append(waits, took)
		successor, _, _ := strings.Cut(*after.Spec.HolderIdentity, "_")
		t.Logf("%s after %s: %.2f s after the kill, %.2f s after the last renewal", successor, host, took.Seconds(),
			after.Spec.AcquireTime.Sub(before.Spec.RenewTime.Time).Seconds())
		within(t, time.Minute, "the successor's log", func() error { return s.tookByTestimony(t.Context(), successor, leader) })
	}
	slices.Sort(waits)
	t.Logf("%d takeovers after kills: p50 %.2f s, max %.2f s", len(waits), waits[len(waits)/2].Seconds(), waits[len(waits)-1].Seconds())
}

// managersReady returns why the managers of the control-plane hosts are not all ready.
func (s *Stage) managersReady(ctx context.Context) error {
	for _, h := range s.controlPlanes() {
		pod, err := s.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, managerPod(h.NodeName), metav1.GetOptions{})
		if err != nil {
			return err
		}
		isReady := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
		if !slices.ContainsFunc(pod.Status.Conditions, isReady) {
			return fmt.Errorf("pod %s is not ready", pod.Name)
		}
	}
	return nil
}

func managerPod(node string) string { return cluster.CloudControllerManager + "-" + node }

func (s *Stage) managersLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := s.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), cluster.CloudControllerManager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// nextLeader waits until another process than before has the lease.
func (s *Stage) nextLeader(t *testing.T, before string) *coordinationv1.Lease {
	t.Helper()
	var lease *coordinationv1.Lease
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		lease = s.managersLease(t)
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		return holder != "" && holder != before, nil
	})
	if err != nil {
		t.Fatalf("%s was killed, and nothing took its lease: %v", before, err)
	}
	return lease
}

// tookByTestimony returns why the log of a node's manager does not say that it believed the kubelet of an earlier leader.
func (s *Stage) tookByTestimony(ctx context.Context, node, leader string) error {
	log, err := s.Client.CoreV1().Pods(metav1.NamespaceSystem).GetLogs(managerPod(node), &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "The holder of the lease has ended, says its kubelet") && strings.Contains(line, leader) {
			return nil
		}
	}
	return fmt.Errorf("it does not say that the kubelet of %s was believed", leader)
}
