package pod

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const kubeSystem = "kube-system"

// In a large cluster the first agents wait for the last ones, for longer than they live when nobody asks them.
func TestAnAgentLivesWhileOtherHostsAreWaitedFor(t *testing.T) {
	c := newCluster(t, "cp-1", "slow")
	c.pending = func(p *corev1.Pod) bool { return p.Spec.NodeName == "slow" }
	begun := time.Now()
	const idle = 1500 * time.Millisecond
	hosts := c.open(func(o *Options) { o.Idle, o.Start = idle, 2*idle })
	if took := time.Since(begun); took < 2*idle {
		t.Fatalf("opening took %s: nobody was waited for", took)
	}
	look := hosts[0].(*host).reader
	look.mu.Lock()
	defer look.mu.Unlock()
	if look.session == nil || look.session.isOver() || look.generation != 1 {
		t.Errorf("the agent of cp-1 has ended: nobody asked it while the other host was waited for (%d pods)", look.generation)
	}
}

// TestAnAgentThatReadsNothingHoldsNobody: HTTP/2 writes while it reads, under a lock that closing needs. Neither a context nor the ping ended that.
func TestAnAgentThatReadsNothingHoldsNobody(t *testing.T) {
	c, far := newConn(100 * time.Millisecond)
	if _, err := c.Write([]byte("to somebody who does not read")); err == nil {
		t.Error("a write that nobody reads has ended well")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	far.close()
}

// collect is the garbage collector: it takes pods whose Job is gone.
func (c *cluster) collect(p *corev1.Pod) {
	owner := p.OwnerReferences[0]
	if j, err := c.kube.BatchV1().Jobs(kubeSystem).Get(context.Background(), owner.Name, metav1.GetOptions{}); err == nil && j.UID == owner.UID {
		return
	}
	if err := c.kube.CoreV1().Pods(kubeSystem).Delete(context.Background(), p.Name, metav1.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
}

func TestAJobThatSomebodyTookAwayIsMadeAnewForTheNextPod(t *testing.T) {
	c := newCluster(t, "cp-1", "cp-2")
	hosts := c.open(nil)
	jobs := c.kube.BatchV1().Jobs(kubeSystem)
	list, err := jobs.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d jobs: %v", len(list.Items), err)
	}
	if err := jobs.Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	collected := make(chan struct{}, 100)
	c.mu.Lock()
	c.pending = func(p *corev1.Pod) bool {
		go func() { c.collect(p); collected <- struct{}{} }()
		return false
	}
	c.mu.Unlock()
	for _, name := range c.pods() {
		if err := c.kube.CoreV1().Pods(kubeSystem).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
			t.Error(err)
		}
		<-collected
	}
	list, err = jobs.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || len(c.pods()) != 2 {
		t.Fatalf("%d jobs and the pods %q: %v", len(list.Items), c.pods(), err)
	}
	for _, name := range c.pods() {
		p, err := c.kube.CoreV1().Pods(kubeSystem).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.OwnerReferences[0].UID != list.Items[0].UID {
			t.Errorf("pod %s belongs to job %s, not %s (%v)", name, p.OwnerReferences[0].UID, list.Items[0].UID, err)
		}
	}
}

func TestAChangePodThatNobodyWaitsForAnyLongerIsNotMadeAnew(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0].(*host)
	c.mu.Lock()
	c.pending = func(p *corev1.Pod) bool { return p.Labels[LabelAccess] == AccessChange }
	c.mu.Unlock()
	s := h.reader.spec
	s.Change, s.Parts = true, []string{"/etc/kubernetes"}
	change := newPodSession(h.a, h.name, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel() // whoever asked gives up when the pod is there
		eventually(t, "the change pod to be made", func() bool { return len(c.pods()) == 2 })
	}()
	if _, _, err := change.get(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a session: %v", err)
	}
	if err := change.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody to open a session any longer", func() bool {
		change.mu.Lock()
		defer change.mu.Unlock()
		return change.opening == nil
	})
	if pods := c.pods(); len(pods) != 1 || slices.Contains(pods, change.pod) {
		t.Errorf("the pods %q are there", pods)
	}
	if _, _, err := change.get(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("one that was closed: %v", err)
	}
}
