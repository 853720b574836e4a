package election_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// pods is what an API server does with pods: those that watch one of a namespace are told of it.
type pods struct {
	mu        sync.Mutex
	all       map[types.NamespacedName]*corev1.Pod
	watchers  map[*watch.RaceFreeFakeWatcher]types.NamespacedName
	forbidden bool
	asked     int
}

func newPods() *pods {
	return &pods{all: map[types.NamespacedName]*corev1.Pod{}, watchers: map[*watch.RaceFreeFakeWatcher]types.NamespacedName{}}
}

func (p *pods) Pods(namespace string) corev1client.PodInterface {
	return podsOf{all: p, namespace: namespace}
}

// podsOf are the pods of one namespace.
type podsOf struct {
	corev1client.PodInterface

	all       *pods
	namespace string
}

func (p podsOf) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	name := strings.TrimPrefix(options.FieldSelector, "metadata.name=")
	return p.all.watch(types.NamespacedName{Namespace: p.namespace, Name: name})
}

func (p *pods) watch(key types.NamespacedName) (watch.Interface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.forbidden {
		return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rule allows it"))
	}
	w := watch.NewRaceFreeFake()
	p.watchers[w] = key
	if pod := p.all[key]; pod != nil {
		w.Add(pod.DeepCopy())
	}
	return w, nil
}

// put writes a pod, and remove deletes one of the leases' namespace.
func (p *pods) put(pod *corev1.Pod) { p.tell(pod, false) }

func (p *pods) remove(name string) {
	if pod := p.pod(name); pod != nil {
		p.tell(pod, true)
	}
}

func (p *pods) pod(name string) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy()
}

func (p *pods) tell(pod *corev1.Pod, gone bool) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[key] = pod
	if gone {
		delete(p.all, key)
	}
	for w, watched := range p.watchers {
		switch {
		case w.IsStopped():
			delete(p.watchers, w)
		case watched != key:
		case gone:
			w.Delete(pod.DeepCopy())
		default:
			w.Modify(pod.DeepCopy())
		}
	}
}

// podOf is the pod of a process whose container runs.
func podOf(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "manager", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// in moves a pod to a namespace.
func in(namespace string, pod *corev1.Pod) *corev1.Pod {
	pod.Namespace = namespace
	return pod
}

// ended is a pod whose container has terminated with a message. The kubelet keeps that of the one before, where another
// one has been started in its place.
func ended(pod *corev1.Pod, message string, restarted bool) *corev1.Pod {
	s := &pod.Status.ContainerStatuses[0]
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: 137}}
	if restarted {
		s.LastTerminationState = terminated
	} else {
		s.State = terminated
	}
	return pod
}

// testified gives a process a pod of its own name on node-NAME.
func (p *pods) testified(process *process, config *election.Config) {
	p.put(podOf("pod-"+process.name, "node-"+process.name))
	config.Testimony = &election.Testimony{Self: &testimony.Self{Pod: "pod-" + process.name, Node: "node-" + process.name}, Pods: p}
}

// TestACrashedLeaderIsSucceededWhenItsKubeletSaysSo, whatever else is said of it, or that nothing is.
func TestACrashedLeaderIsSucceededWhenItsKubeletSaysSo(t *testing.T) {
	const told = 2600 * time.Millisecond // 1.25 retry periods after the kubelet's word
	late := leaseDuration + retryPeriod
	a := func() *corev1.Pod { return podOf("pod-a", "node-a") }
	epitaph := testimony.Epitaph("a")
	for name, test := range map[string]struct {
		says  func(p *pods)
		after time.Duration // at most, and no sooner than the lease expires where this is later than told
	}{
		"its container has ended":                 {func(p *pods) { p.put(ended(a(), epitaph, false)) }, told},
		"its container has ended, by its runtime": {func(p *pods) { p.put(ended(a(), "OOM: "+epitaph, false)) }, told},
		"another container runs in its place":     {func(p *pods) { p.put(ended(a(), epitaph, true)) }, told},
		"its pod is deleted after its end":        {func(p *pods) { p.put(ended(a(), epitaph, false)); p.remove("pod-a") }, told},
		"a container beside it has ended":         {func(p *pods) { p.put(ended(a(), "", false)) }, late},
		"the holder before it has ended":          {func(p *pods) { p.put(ended(a(), testimony.Epitaph("b"), true)) }, late},
		"its runtime has lost sight of it": {func(p *pods) {
			pod := ended(a(), epitaph, false)
			pod.Status.ContainerStatuses[0].State.Terminated.ExitCode = 255
			p.put(pod)
		}, late},
		"its runtime does not know its end": {func(p *pods) {
			pod := ended(a(), epitaph, true)
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "Unknown"
			p.put(pod)
		}, late},
		"its end is not known":                        {func(p *pods) { p.put(ended(a(), "The container could not be located", false)) }, late},
		"it wrote more than its identity":             {func(p *pods) { p.put(ended(a(), epitaph+"\npanic", false)) }, late},
		"its pod is deleted by force":                 {func(p *pods) { p.remove("pod-a") }, late},
		"its node is lost":                            {func(*pods) {}, late},
		"a pod of its name, on another node, says so": {func(p *pods) { p.remove("pod-a"); p.put(ended(podOf("pod-a", "worker"), epitaph, false)) }, late},
		"another pod says so":                         {func(p *pods) { p.put(ended(podOf("pod-x", "node-a"), epitaph, false)) }, late},
		"a pod of its name and node, in another namespace, says so": {func(p *pods) {
			p.put(ended(in("tenant", a()), epitaph, false))
		}, late},
		"a pod of its name, in another namespace, says so when its own is gone": {func(p *pods) {
			p.remove("pod-a")
			p.put(ended(in("tenant", a()), epitaph, true))
		}, late},
		"its own pod says so, and one of another namespace that it runs": {func(p *pods) {
			p.put(in("tenant", a()))
			p.put(ended(a(), epitaph, false))
		}, told},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := newPods()
				first := w.start("a", both(), p.testified)
				w.leads(first, migrationLease, time.Second)
				second, third := w.start("b", both(), p.testified), w.start("c", both(), p.testified)
				<-time.After(20*time.Second + time.Duration(rand.Int64N(int64(retryPeriod))))
				first.crash()
				crashed := time.Now()
				test.says(p)
				next := second
				select {
				case <-second.starts[migrationLease]:
				case <-third.starts[migrationLease]:
					next = third
				}
				took := time.Since(crashed)
				if took > test.after || test.after == late && took < leaseDuration-2*retryPeriod {
					t.Errorf("%s leads after %s", next.name, took)
				}
				first.gone()
				second.terminate()
				third.terminate()
			})
		})
	}
}

// TestAManagerOutsideOfTheLeasesNamespaceIsWaitedFor: the pod that its lease names is another one, or none.
func TestAManagerOutsideOfTheLeasesNamespaceIsWaitedFor(t *testing.T) {
	for name, namesake := range map[string]bool{"no pod of the leases' namespace has its name": false, "one has": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := newPods()
				a := w.start("a", one(), p.testified)
				p.remove("pod-a")
				p.put(in("cloud-system", podOf("pod-a", "node-a")))
				if namesake { // which has ended, too, and been another process
					p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a-before"), false))
				}
				w.leads(a, mainLease, time.Second)
				b := w.start("b", one(), p.testified)
				<-time.After(20 * time.Second)
				a.crash()
				crashed := time.Now()
				p.put(ended(in("cloud-system", podOf("pod-a", "node-a")), testimony.Epitaph("a"), false))
				w.leads(b, mainLease, leaseDuration+retryPeriod)
				if took := time.Since(crashed); took < leaseDuration-2*retryPeriod {
					t.Errorf("b leads after %s", took)
				}
				a.gone()
				b.terminate()
			})
		})
	}
}

// TestALivingLeaderKeepsItsLease though pods say that others have ended: those before it in its own pod, and strangers.
func TestALivingLeaderKeepsItsLease(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), p.testified)
		for _, message := range []string{"", testimony.Epitaph(""), testimony.Epitaph("b"), testimony.Epitaph("a-before")} {
			for _, restarted := range []bool{false, true} {
				p.put(ended(podOf("pod-a", "node-a"), message, restarted))
				p.put(ended(podOf("pod-a", "elsewhere"), testimony.Epitaph("a"), restarted))
				<-time.After(20 * time.Second)
				if !a.Leading(mainLease) || b.Leading(mainLease) {
					t.Fatalf("after %q, %s leads", message, w.holder(mainLease))
				}
			}
		}
		a.terminate()
		b.terminate()
	})
}

// TestALeaderThatRenewsHasNotEnded whatever its kubelet says: runtimes have called containers ended that ran on.
func TestALeaderThatRenewsHasNotEnded(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), p.testified)
		for range 50 {
			<-time.After(time.Duration(rand.Int64N(int64(2 * retryPeriod))))
			p.put(podOf("pod-a", "node-a"))
			<-time.After(10 * time.Millisecond)
			p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a"), false))
		}
		<-time.After(leaseDuration)
		if !a.Leading(mainLease) || b.Leading(mainLease) {
			t.Errorf("%s leads", w.holder(mainLease))
		}
		a.crash() // what was said before counts no more
		crashed := time.Now()
		w.leads(b, mainLease, leaseDuration+retryPeriod)
		if took := time.Since(crashed); took < leaseDuration-2*retryPeriod {
			t.Errorf("by a testimony of before, it leads after %s", took)
		}
		a.gone()
		b.terminate()
	})
}

// TestALeaseThatIsLeftToExpireIsNotTestifiedFor: calls of the process may still be on their way.
func TestALeaseThatIsLeftToExpireIsNotTestifiedFor(t *testing.T) {
	for name, test := range map[string]struct {
		busy time.Duration
		end  func(w *world, p *process)
		want string
	}{
		"its workers do not end": {time.Hour, func(_ *world, p *process) { p.stop() }, ""},
		"it is cut off":          {0, func(_ *world, p *process) { p.client.partition(true) }, ""},
		"its lease is deleted":   {0, func(w *world, _ *process) { w.remove(mainLease) }, ""},
		"it releases its lease":  {0, func(_ *world, p *process) { p.stop() }, testimony.Epitaph("a")},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "termination-log")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("POD_NAME", "pod-a")
			t.Setenv("NODE_NAME", "node-a")
			bubble(t, func(w *world) {
				a := w.start("a", one(), func(p *process, config *election.Config) {
					self, err := testimony.Prepare(testimony.Always, path, "a")
					if err != nil {
						t.Fatal(err)
					}
					p.busy = test.busy
					config.Testimony = &election.Testimony{Self: self, Pods: newPods()}
				})
				w.leads(a, mainLease, time.Second)
				<-time.After(5 * time.Second)
				test.end(w, a)
				a.gone()
				<-time.After(2 * time.Hour) // for workers
			})
			if message, err := os.ReadFile(path); err != nil || string(message) != test.want {
				t.Errorf("the termination message is %q, %v", message, err)
			}
		})
	}
}

// TestWithoutLeaveToWatchPodsLeasesAreWaitedFor, and the API server is not asked again and again.
func TestWithoutLeaveToWatchPodsLeasesAreWaitedFor(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		p.forbidden = true
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), p.testified)
		<-time.After(4 * time.Minute)
		if p.asked != 1 {
			t.Errorf("it asked %d times in four minutes", p.asked)
		}
		a.crash()
		p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("a"), false))
		w.leads(b, mainLease, leaseDuration+retryPeriod)
		a.gone()
		b.terminate()
	})
}

// TestAClaimOfAnEarlierHolderIsVoid: a manager that knows no pods leaves annotations of a lease as they are.
func TestAClaimOfAnEarlierHolderIsVoid(t *testing.T) {
	bubble(t, func(w *world) {
		p := newPods()
		a := w.start("a", one(), p.testified)
		w.leads(a, mainLease, time.Second)
		a.terminate()
		other := w.startUpstream("other", false)
		w.until("the other manager leads", leaseDuration+retryPeriod, func() bool { return w.holder(mainLease) == "other" })
		if claim := w.lease(mainLease).Annotations[testimony.Annotation]; claim != "pod-a on node-a by a" {
			t.Errorf("the annotation is %q", claim)
		}
		b := w.start("b", one(), p.testified)
		p.put(ended(podOf("pod-a", "node-a"), testimony.Epitaph("other"), false))
		<-time.After(time.Minute)
		if holder := w.holder(mainLease); holder != "other" {
			t.Errorf("%s holds the lease", holder)
		}
		other.end()
		c := w.start("c", one()) // knows nothing of pods
		w.until("one of ours leads", 2*leaseDuration, func() bool { return b.Leading(mainLease) || c.Leading(mainLease) })
		if claim := w.lease(mainLease).Annotations[testimony.Annotation]; !slices.Contains([]string{"pod-b on node-b by b", ""}, claim) {
			t.Errorf("the annotation is %q", claim)
		}
		b.terminate()
		c.terminate()
	})
}
