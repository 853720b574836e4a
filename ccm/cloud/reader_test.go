package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// readerOf returns the reader of a provider behind a guard.
func readerOf(t *testing.T, p cloudprovider.Interface) Instances {
	t.Helper()
	reader, ok := InstancesOf(New(p, Options{}).For(nil))
	if !ok {
		t.Fatal("the provider is not taken for one that describes instances")
	}
	return reader
}

// taking makes a list that takes some time.
func taking(d time.Duration) func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) {
	return func(ctx context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
		if !term.SleepUnlessDone(ctx, d) {
			return nil, ctx.Err()
		}
		return running(nodes), nil
	}
}

const everyWant = WantExists | WantShutdown | WantMetadata

func TestManyCallersShareFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 1000, list: taking(50 * time.Millisecond)}
		reader := readerOf(t, p)
		begun := time.Now()
		var wg sync.WaitGroup
		for i, one := range nodes(5000) { // they join at 500 a second
			wg.Go(func() {
				term.SleepUnlessDone(t.Context(), time.Duration(i)*2*time.Millisecond)
				got := reader.Read(t.Context(), []*corev1.Node{one}, WantMetadata, 0)
				if diff := cmp.Diff(running([]*corev1.Node{one}), got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", one.Name, diff)
				}
			})
		}
		wg.Wait()
		if calls, took := len(p.sizes()), time.Since(begun); calls > 50 || took > 11500*time.Millisecond {
			t.Errorf("%d calls in %s: %v", calls, took, p.sizes())
		}
	})
}

func TestWorkersThatEachWaitForOneNodeAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 1000, list: taking(50 * time.Millisecond)}
		reader := readerOf(t, p)
		begun := time.Now()
		work := make(chan *corev1.Node)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for one := range work {
					reader.Read(t.Context(), []*corev1.Node{one}, WantMetadata, 0)
				}
			})
		}
		for _, one := range nodes(5000) {
			work <- one
		}
		close(work)
		wg.Wait()
		if took := time.Since(begun); took > 12*time.Second || len(p.sizes()) > 110 {
			t.Errorf("%d calls in %s", len(p.sizes()), took)
		}
	})
}

func TestManyNodesOfOneCallerAreAskedForAtOnceInPartsThatTheProviderTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 1000, list: taking(50 * time.Millisecond)}
		begun := time.Now()
		got := readerOf(t, p).Read(t.Context(), nodes(2500), everyWant, 0)
		if diff := cmp.Diff(running(nodes(2500)), got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		sizes := p.sizes()
		slices.Sort(sizes)
		if diff := cmp.Diff([]int{500, 1000, 1000}, sizes); diff != "" || time.Since(begun) != 50*time.Millisecond {
			t.Errorf("after %s, sizes (-want +got):\n%s", time.Since(begun), diff)
		}
	})
}

func TestAStateIsGivenAgainWhileItIsYoungEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 10}
		reader := readerOf(t, p)
		var got []int // calls after each step
		read := func(one *corev1.Node, want Want, maxAge time.Duration) {
			reader.Read(t.Context(), []*corev1.Node{one}, want, maxAge)
			got = append(got, len(p.sizes()))
		}
		again := node("a")
		again.UID = "another"
		unnamed := node("a")
		unnamed.Spec.ProviderID = ""
		read(node("a"), everyWant, time.Minute)    // 1: asked
		read(node("a"), everyWant, time.Minute)    // 1: known
		read(node("a"), WantExists, time.Minute)   // 1: a part of what is known
		read(node("a"), WantExists, 0)             // 2: the truth is wanted
		read(node("a"), WantMetadata, time.Minute) // 2: a younger answer without metadata does not end the older one with it
		read(again, WantExists, time.Minute)       // 3: another node of the same name
		read(unnamed, WantExists, time.Minute)     // 4: before it had a provider ID
		read(node("b"), WantExists, time.Minute)   // 5: another node
		read(node("b"), WantMetadata, time.Minute) // 6: more than is known
		term.SleepUnlessDone(t.Context(), 30*time.Second)
		read(node("a"), WantExists, 20*time.Second) // 7: too old for this caller
		term.SleepUnlessDone(t.Context(), 31*time.Second)
		read(node("b"), WantMetadata, time.Minute) // 8: too old for all
		if diff := cmp.Diff([]int{1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8}, got); diff != "" {
			t.Errorf("calls after each step (-want +got):\n%s", diff)
		}
	})
}

func TestWhatNobodyWouldAcceptIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := New(&withLister{provider: &provider{}, max: 1000}, Options{}).reader
		size := func() int {
			reader.mu.Lock()
			defer reader.mu.Unlock()
			return len(reader.cache.states)
		}
		reader.Read(t.Context(), nodes(500), WantExists, 0)
		got := []int{size()} // nobody ever took an old state
		reader.Read(t.Context(), nodes(500), WantExists, time.Minute)
		got = append(got, size())
		term.SleepUnlessDone(t.Context(), time.Minute+time.Second)
		reader.Read(t.Context(), nodes(1), WantExists, time.Minute)
		got = append(got, size())
		if diff := cmp.Diff([]int{0, 500, 1}, got); diff != "" {
			t.Errorf("states kept (-want +got):\n%s", diff)
		}
	})
}

func TestACallUnderWayServesThoseWhoAcceptItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 10, list: taking(time.Second)}
		reader := readerOf(t, p)
		var wg sync.WaitGroup
		read := func(after, maxAge time.Duration) {
			wg.Go(func() {
				term.SleepUnlessDone(t.Context(), after)
				reader.Read(t.Context(), []*corev1.Node{node("a"), node("a")}, WantExists, maxAge)
			})
		}
		read(0, 0)
		read(0, 0)
		read(500*time.Millisecond, time.Second) // the call began half a second ago: young enough
		read(500*time.Millisecond, 0)           // an answer that may be half a second old is not wanted: a second call
		read(600*time.Millisecond, 0)           // shares the second
		wg.Wait()
		if diff := cmp.Diff([]listed{{[]string{"a"}, WantExists}, {[]string{"a"}, WantExists}}, p.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestNobodysAnswerCanBeChangedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := readerOf(t, &withLister{provider: &provider{}, max: 10, list: func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) {
			return []InstanceState{{Exists: true, Metadata: &cloudprovider.InstanceMetadata{
				NodeAddresses: []corev1.NodeAddress{{Address: "10.0.0.1"}}, AdditionalLabels: map[string]string{"rack": "7"},
			}}}, nil
		}})
		read := func() *cloudprovider.InstanceMetadata {
			return reader.Read(t.Context(), nodes(1), WantMetadata, time.Minute)[0].Metadata
		}
		want, first := read(), read()
		first.ProviderID, first.NodeAddresses[0].Address, first.AdditionalLabels["rack"] = "x", "y", "z"
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
}

func TestPodCIDRsAreGivenToThoseWhoWantThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(_ context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
			states := running(nodes)
			for i := range states {
				states[i].PodCIDRs = []string{"10.4.0.0/24"} // whether it is wanted or not
			}
			return states, nil
		}
		p := podLister{&withLister{provider: &provider{}, max: 1000, list: list}}
		cloud := New(p, Options{}).For(nil)
		if !CanListPodCIDRs(p) || !CanListPodCIDRs(cloud) || CanListPodCIDRs(p.withLister) || CanListPodCIDRs(nil) {
			t.Error("who lists pod CIDRs is not known")
		}
		reader, _ := InstancesOf(cloud)
		ask := func(want Want, maxAge time.Duration) InstanceState {
			return reader.Read(t.Context(), nodes(1), want, maxAge)[0]
		}
		if got := ask(WantMetadata, time.Hour); got.PodCIDRs != nil || got.Metadata == nil {
			t.Errorf("%+v", got)
		}
		got := ask(WantExists|WantPodCIDRs, time.Hour)
		if len(got.PodCIDRs) != 1 || got.Metadata != nil || len(p.sizes()) != 2 {
			t.Errorf("by %d calls: %+v", len(p.sizes()), got)
		}
		got.PodCIDRs[0] = "changed"
		if again := ask(WantPodCIDRs, time.Hour); !slices.Equal(again.PodCIDRs, []string{"10.4.0.0/24"}) || len(p.sizes()) != 2 {
			t.Errorf("by %d calls: %+v", len(p.sizes()), again)
		}
		if got := ask(WantExists, time.Hour); got.PodCIDRs != nil || len(p.sizes()) != 2 {
			t.Errorf("by %d calls: %+v", len(p.sizes()), got)
		}
	})
}

// podLister is a provider that lists pod CIDRs.
type podLister struct{ *withLister }

func (podLister) ListsPodCIDRs() bool { return true }

func TestANodeThatTheCloudDoesNotLikeDoesNotHideTheOthers(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func() error // for a call with the node in it
		calls int          // at most
		hides bool         // all nodes have the error
	}{
		"a refusal":              {func() error { return statusError(400) }, 22, false},
		"a panic":                {func() error { panic("malformed ID") }, 22, false},
		"an error of no kind":    {func() error { return errors.New("parsing the ID") }, 22, false},
		"a cloud that is broken": {func() error { return statusError(500) }, 1, true},
		"missing credentials":    {func() error { return statusError(401) }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := nodes(1000)
				odd := all[617]
				p := &withLister{provider: &provider{}, max: 1000, list: func(_ context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
					if slices.Contains(nodes, odd) {
						if err := c.fail(); err != nil {
							return nil, err
						}
					}
					return running(nodes), nil
				}}
				states := readerOf(t, p).Read(t.Context(), all, WantExists, 0)
				var failed []string
				for i, state := range states {
					if state.Err != nil {
						failed = append(failed, all[i].Name)
					}
				}
				want := []string{odd.Name}
				if c.hides {
					want = names(all)
				}
				if diff := cmp.Diff(want, failed); diff != "" || len(p.sizes()) > c.calls {
					t.Errorf("%d calls, want at most %d; nodes without a state (-want +got):\n%s", len(p.sizes()), c.calls, diff)
				}
			})
		})
	}
}

// typedLister is a lister that keeps the types of its SDK's errors.
type typedLister struct{ *withLister }

func (typedLister) HasTypedErrors() bool { return true }

// An error of one node may quote a text that sounds like a throttling cloud.
func TestATextThatSoundsThrottledDoesNotHideTheOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := nodes(10)
		p := typedLister{&withLister{provider: &provider{}, max: 10, list: func(_ context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
			if slices.Contains(nodes, all[3]) {
				return nil, errors.New("two servers have the name throttled")
			}
			return running(nodes), nil
		}}}
		for i, state := range readerOf(t, p).Read(t.Context(), all, WantExists, 0) {
			if (state.Err != nil) != (i == 3) {
				t.Errorf("node %d: %v", i, state.Err)
			}
		}
	})
}

func TestAListerThatFailsForEveryNodeIsNotAskedForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &withLister{provider: &provider{}, max: 1000, list: func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) {
			return make([]InstanceState, 1001), nil
		}}
		states := readerOf(t, p).Read(t.Context(), nodes(1000), WantExists, time.Minute)
		if len(p.sizes()) > spareCalls+1 {
			t.Errorf("%d calls", len(p.sizes()))
		}
		want := "listing instances: the cloud provider returned 1001 states for "
		for _, state := range states {
			if state.Err == nil || state.Err.Error()[:len(want)] != want {
				t.Fatalf("got %+v", state)
			}
		}
		p.list = nil
		for _, state := range readerOf(t, p).Read(t.Context(), nodes(10), WantExists, time.Minute) {
			if state.Err != nil {
				t.Errorf("an error was kept: %v", state.Err)
			}
		}
	})
}

func TestOnlyWhatIsValidInAStateIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metadata := &cloudprovider.InstanceMetadata{InstanceType: "m"}
		failed := errors.New("no")
		reader := readerOf(t, &withLister{provider: &provider{}, max: 10, list: func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) {
			return []InstanceState{
				{Exists: true, Shutdown: true, Terminated: true, Metadata: metadata}, {Shutdown: true, Metadata: metadata},
				{Exists: true, Shutdown: true, Terminated: true, Metadata: metadata, Err: failed}, {Exists: true}, {Terminated: true, Metadata: metadata},
			}, nil
		}})
		want := []InstanceState{{Exists: true, Shutdown: true, Metadata: metadata}, {}, {Err: failed}, {Exists: true}, {Terminated: true}}
		equal := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
		if diff := cmp.Diff(want, reader.Read(t.Context(), nodes(5), everyWant, 0), equal); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want[0].Metadata = nil
		if diff := cmp.Diff(want, reader.Read(t.Context(), nodes(5), WantExists, 0), equal); diff != "" {
			t.Errorf("without metadata (-want +got):\n%s", diff)
		}
	})
}

func TestAReadEndsWithItsContextAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := 0
		p := &withLister{provider: &provider{}, max: 10, list: func(ctx context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
			if !term.SleepUnlessDone(ctx, 10*time.Second) {
				cancelled++
				return nil, ctx.Err()
			}
			return running(nodes), nil
		}}
		reader := readerOf(t, p)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // the first caller leaves, and the call goes on for the second
			got := reader.Read(short, []*corev1.Node{node("a")}, WantExists, 0)
			if !errors.Is(got[0].Err, context.DeadlineExceeded) {
				t.Errorf("got %+v", got)
			}
		})
		wg.Go(func() {
			got := reader.Read(t.Context(), []*corev1.Node{node("a")}, WantExists, 0)
			if diff := cmp.Diff([]InstanceState{{Exists: true}}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
		wg.Wait()
		if cancelled != 0 {
			t.Error("the call ended with its first caller")
		}
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reader.Read(short, []*corev1.Node{node("b")}, WantExists, 0)
		synctest.Wait()
		if cancelled != 1 {
			t.Error("a call that nobody waits for goes on")
		}
	})
}

func TestOneListThatHangsDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := &withLister{provider: &provider{}, max: 10, list: func(_ context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
			if slices.Contains(names(nodes), "bad") {
				<-hang
			}
			return running(nodes), nil
		}}
		reader := readerOf(t, p)
		var wg sync.WaitGroup
		begun := time.Now()
		wg.Go(func() {
			got := reader.Read(t.Context(), []*corev1.Node{node("bad")}, WantExists, 0)
			if took := time.Since(begun); Classify(got[0].Err) != OutcomeTimeout || took > DefaultCallTimeout+2*time.Second {
				t.Errorf("after %s: %+v", took, got)
			}
		})
		term.SleepUnlessDone(t.Context(), time.Second)
		got := reader.Read(t.Context(), []*corev1.Node{node("good")}, WantExists, 0)
		if took := time.Since(begun); got[0].Err != nil || took > 3*time.Second {
			t.Errorf("after %s: %+v", took, got)
		}
		wg.Wait()
		close(hang)
	})
}

// A join of 5,000 nodes against a cloud that takes 20 calls a second, which load balancers use up.
func TestAJoinIsDoneInTimeInAThrottledCloud(t *testing.T) {
	for name, busy := range map[string]bool{"alone": false, "next to load balancers that are throttled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newBucket(20, 100, 50*time.Millisecond)
				made := 0
				p := &withLister{
					provider: &provider{balancer: balancers{update: cloud.call}}, max: 1000,
					list: func(ctx context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
						made++
						return running(nodes), cloud.call(ctx)
					},
				}
				guard := New(p, Options{})
				ctx, cancel := context.WithCancel(t.Context())
				var others, wg sync.WaitGroup
				if busy {
					balancer, _ := guard.For(openFor(time.Hour)).LoadBalancer()
					for i := range 200 {
						others.Go(func() {
							for ctx.Err() == nil {
								_ = balancer.UpdateLoadBalancer(ctx, "c", service(fmt.Sprint("web-", i)), nil)
							}
						})
					}
					term.SleepUnlessDone(ctx, 30*time.Second)
				}
				begun := time.Now()
				var mu sync.Mutex
				var took []time.Duration
				for i, one := range nodes(5000) {
					wg.Go(func() {
						term.SleepUnlessDone(ctx, time.Duration(i)*2*time.Millisecond)
						begun := time.Now()
						if got := guard.reader.Read(ctx, []*corev1.Node{one}, WantMetadata, 0); got[0].Err != nil {
							t.Errorf("%s: %v", one.Name, got[0].Err)
						}
						mu.Lock()
						defer mu.Unlock()
						took = append(took, time.Since(begun))
					})
				}
				wg.Wait()
				total := time.Since(begun)
				cancel()
				others.Wait()
				slices.Sort(took)
				t.Logf("%d nodes in %s with %d calls, p99 %s", len(took), total, made, took[len(took)*99/100])
				if p99 := took[len(took)*99/100]; len(took) != 5000 || p99 > 10*time.Second || made > 60 {
					t.Errorf("%d nodes in %s with %d calls, p99 %s", len(took), total, made, p99)
				}
			})
		})
	}
}

// One retry, which takes an answer of a moment ago, does not have the states of all nodes kept for good.
func TestStatesAreKeptAsLongAsTheyAreTakenAndNoLonger(t *testing.T) {
	c := cache{states: map[nodeKey]remembered{}}
	key, start := nodeKey{name: "a"}, time.Unix(1_800_000_000, 0)
	at := func(after time.Duration) time.Time { return start.Add(after) }
	keep := func(after time.Duration) {
		c.putState(key, InstanceState{Exists: true}, WantExists, at(after), at(after))
	}
	keep(0)
	if len(c.states) != 0 {
		t.Errorf("states are kept that are not taken: %v", c.states)
	}
	c.noteMaxAge(10*time.Second, at(0))
	keep(time.Second)
	c.noteMaxAge(0, at(2*time.Second)) // by one who wants the truth
	if _, ok := c.get(key, WantExists, at(5*time.Second), 10*time.Second); !ok {
		t.Error("a state is not kept that is taken")
	}
	keep(forgetLongest * 10 * time.Second)
	if len(c.states) != 1 {
		t.Errorf("it is forgotten too early: %v", c.states)
	}
	keep(forgetLongest*10*time.Second + 1)
	if len(c.states) != 0 {
		t.Errorf("states are kept that were not taken for long: %v", c.states)
	}
}
