package stage

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
)

// nextVersion is what the control plane is taken to on the way; its images were given to the hosts.
const nextVersion = "v1.27.4"

// The control plane goes from one minor version to the next in the restarts of the migration, and back to the first one with it.
func TestRealHostsGoToTheNextVersionOnTheWay(t *testing.T) {
	s := badStage(t, 3, 0)
	before, cloud := settledFacts(t, s)
	judged(t, s, false, func() { must(t, s, append(s.apply(), "--target-version", nextVersion)...) })
	must(t, s, "verify", "--cloud", Cloud)
	runsExternal(t, s)
	hasVersion(t, s, nextVersion)
	if err := s.Check(t.Context(), cloud); err != nil {
		t.Error(err)
	}
	judged(t, s, true, func() { must(t, s, "rollback", "--yes", "--cloud", Cloud) })
	must(t, s, "verify", "--cloud", Cloud)
	runsInTree(t, s)
	hasVersion(t, s, hosts.Version)
	asBefore(t, s, before, ofAPIServers)
}

// ofAPIServers are facts that an API server writes for itself when it starts: what its version adds to the roles that Kubernetes comes with stays behind with
// an older one, which takes nothing away; and each process has a lease for its identity, which the next one deletes an hour later.
func ofAPIServers(fact string) bool {
	return strings.HasPrefix(fact, "clusterrole /system:") || strings.HasPrefix(fact, "lease kube-system/apiserver-")
}

// hasVersion fails the test unless every part of the control plane that goes from version to version is ready with this one.
func hasVersion(t *testing.T, s *Stage, version string) {
	t.Helper()
	for _, h := range s.controlPlanes() {
		for _, component := range []string{cluster.APIServer, cluster.ControllerManager} {
			pod, err := s.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(t.Context(), component+"-"+h.NodeName, metav1.GetOptions{})
			switch {
			case err != nil:
				t.Error(err)
			case len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready || !strings.HasSuffix(pod.Status.ContainerStatuses[0].Image, ":"+version):
				t.Errorf("%s on %s is not ready with %s: %+v", component, h.Name, version, pod.Status.ContainerStatuses)
			}
		}
	}
}

// The control-plane host that owns the loops loses its power for good in the middle of a migration. What cannot be done without it is said, nothing hangs, it
// can be given up when it has been silent for long enough, and the others end the migration. Its cluster is of no use afterwards: this test is the last.
func TestRealHostsLoseAControlPlaneForGood(t *testing.T) {
	s := badStage(t, 3, 0)
	must(t, s, append(s.apply(), "--until", "leader-migration")...)
	owner := s.owner(t)
	t.Logf("host %s owns the loops", owner.NodeName)

	// It goes when the first host has been handed over.
	cut := &once{mark: "✓ external/kube-controller-manager@", do: func() error { return owner.Down(context.WithoutCancel(t.Context())) }}
	again := []string{"apply", "--yes", "--cloud", Cloud}
	r := stopsTelling(
		t,
		s,
		io.MultiWriter(told(s.Cluster.Name), cut),
		5,
		[]string{"host " + owner.NodeName + " is out of reach", "--without-host=" + owner.NodeName},
		again...)
	if err := cut.wait(); err != nil {
		t.Fatalf("cutting the power of host %s: %v\n%s", owner.Name, err, r.Stderr)
	}

	living := s.another(t, owner)
	stops(t, s, 1, []string{"host " + living.NodeName + " stays in the migration", "it can be reached"}, append(again, "--without-host="+living.NodeName)...)
	// It may come back with its in-tree manager as long as its node is there: the migration is not called done before.
	stops(
		t,
		s,
		4,
		[]string{"host " + owner.NodeName + " was excluded from the migration", "kubectl delete node " + owner.NodeName},
		append(again, "--without-host="+owner.NodeName)...)
	if err := s.Client.CoreV1().Nodes().Delete(t.Context(), owner.NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, s, again...)
	must(t, s, "verify", "--cloud", Cloud)
	for component, want := range map[string]string{cluster.ControllerManager: "--cloud-provider=external", cluster.CloudControllerManager: "--cloud-provider=aws"} {
		for _, h := range s.controlPlanes() {
			if h.Running() {
				flags(t, s, component, []*hosts.Host{h}, []string{want}, nil)
			}
		}
	}
}

// owner is the host whose kube-controller-manager runs the loops.
func (s *Stage) owner(t *testing.T) *hosts.Host {
	t.Helper()
	lease, err := s.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), cluster.ControllerManager, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		t.Fatalf("the lease of %s tells no holder (%v)", cluster.ControllerManager, err)
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	h, err := s.Host(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (s *Stage) another(t *testing.T, not *hosts.Host) *hosts.Host {
	t.Helper()
	for _, h := range s.controlPlanes() {
		if h != not {
			return h
		}
	}
	t.Fatal("there is one control-plane host")
	return nil
}

var errNotSeen = errors.New("the moment for it never came")

// once does something when a mark has been written to it.
type once struct {
	mark string
	do   func() error

	mu   sync.Mutex
	seen strings.Builder
	done chan error
}

func (o *once) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Write(p)
	if o.done == nil && strings.Contains(o.seen.String(), o.mark) {
		o.done = make(chan error, 1)
		go func() { o.done <- o.do() }()
	}
	return len(p), nil
}

// wait is what it ended with.
func (o *once) wait() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		return errNotSeen
	}
	select {
	case err := <-o.done:
		return err
	case <-time.After(time.Minute):
		return context.DeadlineExceeded
	}
}
