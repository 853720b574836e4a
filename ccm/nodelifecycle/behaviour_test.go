package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// withPrefix counts nodes.
func withPrefix(api *nodetest.API, prefix string) int {
	n := 0
	for _, node := range api.Nodes() {
		if strings.HasPrefix(node.Name, prefix) {
			n++
		}
	}
	return n
}

func TestVanishedNodesAmongManyAreFoundSoon(t *testing.T) {
	for name, test := range map[string]struct {
		alive, gone, batch int
		latency            time.Duration
		within             time.Duration
		calls              int // in that time, at most
	}{
		"50 of 500, listed":        {450, 50, 1000, 50 * time.Millisecond, 7 * time.Second, 2},
		"50 of 500, one by one":    {450, 50, 1, 50 * time.Millisecond, 11 * time.Second, 3 * 950},
		"400 of 4400, 1000 a call": {4000, 400, 1000, 50 * time.Millisecond, 17 * time.Second, 2 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(append(many(test.alive, "alive"), many(test.gone, "gone")...)...)
				c, provider := lister(test.batch)
				if test.batch == 1 {
					provider = c
				}
				c.Latency = test.latency
				controller := start(t.Context(), t, api, provider)
				pass(150 * time.Millisecond) // the cache is synced, the first tick begins
				pass(test.within)
				if n := withPrefix(api, "gone"); n > 0 {
					t.Errorf("%d nodes are left", n)
				}
				if n := len(c.Calls()); n > test.calls {
					t.Errorf("made %d calls, want %d at most", n, test.calls)
				}
				controller.stop()
				pass(time.Minute)
				if n := withPrefix(api, "alive"); n != test.alive {
					t.Errorf("%d nodes are left of %d whose instance runs", n, test.alive)
				}
				if n := len(api.Requests()); n != test.gone {
					t.Errorf("made %d requests to delete %d nodes", n, test.gone)
				}
			})
		})
	}
}

func TestATickMakesTwoCallsAtMostAndAllNodesHaveTheirTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(100, "alive")...)
		c, provider := lister(10)
		var mu sync.Mutex
		asked := map[string]int{}
		c.Call = func(_ context.Context, nodes []*corev1.Node) error {
			mu.Lock()
			defer mu.Unlock()
			for _, node := range nodes {
				asked[node.Name]++
			}
			return nil
		}
		start(t.Context(), t, api, provider)
		pass(30 * time.Minute)
		ticks := 30 * 60 / 5
		if n := len(c.Calls()); n > 2*ticks+2 {
			t.Errorf("made %d calls in %d ticks", n, ticks)
		}
		least, most := ticks, 0
		for _, node := range api.Nodes() {
			least, most = min(least, asked[node.Name]), max(most, asked[node.Name])
		}
		if most-least > 1 || least < ticks/5-10 {
			t.Errorf("some nodes were asked for %d times and others %d times in %d ticks", least, most, ticks)
		}
	})
}

func TestParkedNodesCostLittle(t *testing.T) {
	for name, test := range map[string]struct{ batch, calls int }{"listed": {1000, 70}, "one by one": {1, 6600}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(100, "parked")...)
				c, provider := lister(test.batch)
				if test.batch == 1 {
					provider = c
				}
				start(t.Context(), t, api, provider)
				pass(time.Hour)
				if n := len(c.Calls()); n > test.calls {
					t.Errorf("made %d calls in an hour for 100 parked nodes", n)
				}
				if n := len(api.Requests()); n != 100 {
					t.Errorf("made %d requests to taint 100 nodes", n)
				}
				for _, node := range api.Nodes() {
					if !hasShutdownTaint(node) || len(node.Spec.Taints) != 2 {
						t.Errorf("node %s has the taints %v", node.Name, node.Spec.Taints)
					}
				}
			})
		})
	}
}

func TestBackOffEndsWhenItMatters(t *testing.T) {
	for name, test := range map[string]struct {
		first  cloud.InstanceState
		batch  int
		change func(*corev1.Node)
		within time.Duration
	}{
		"listed, running, vanishes":                {cloud.InstanceState{Exists: true}, 10, nil, 12 * time.Second},
		"listed, parked, vanishes":                 {cloud.InstanceState{Exists: true, Shutdown: true}, 10, nil, 72 * time.Second},
		"one by one, running, vanishes":            {cloud.InstanceState{Exists: true}, 1, nil, 72 * time.Second},
		"one by one, vanishes and its node change": {cloud.InstanceState{Exists: true}, 1, is(corev1.ConditionUnknown), 12 * time.Second},
		"listed, parked, vanishes and is cordoned": {
			cloud.InstanceState{Exists: true, Shutdown: true}, 10, func(node *corev1.Node) { node.Spec.Unschedulable = true }, 12 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("n"))
				c, provider := lister(test.batch)
				if test.batch == 1 {
					provider = c
				}
				var vanished atomic.Bool
				c.Instance = func(*corev1.Node) cloud.InstanceState {
					if vanished.Load() {
						return cloud.InstanceState{}
					}
					return test.first
				}
				start(t.Context(), t, api, provider)
				pass(time.Hour)
				vanished.Store(true)
				if test.change != nil {
					api.Change("n", test.change)
				}
				pass(test.within)
				if api.Node("n") != nil {
					t.Error("the node is there still")
				}
			})
		})
	}
}

func TestAReadyNodeLosesTheTaintAndTheCloudIsNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("parked", is(corev1.ConditionTrue), withShutdownTaint), nodeWith("gone", is(corev1.ConditionTrue)))
		c, provider := lister(10)
		start(t.Context(), t, api, provider)
		pass(time.Hour)
		equal(t, "calls", nil, c.Calls())
		equal(t, "requests", []string{"PATCH parked"}, api.Requests())
		equal(t, "node", nodeWith("parked", is(corev1.ConditionTrue)), api.Node("parked"))
	})
}

func TestANodeThatTookTheNameOfAnotherIsNotHarmed(t *testing.T) {
	// The second node is Ready in one half of the cases: then nothing is to be done for it at all.
	for name, test := range map[string]struct {
		first *corev1.Node
		at    string
	}{
		"before the deletion": {nodeWith("gone"), "DELETE gone"},
		"before the taint":    {nodeWith("parked"), "PATCH parked"},
		"before the taint goes": {
			nodeWith("parked", is(corev1.ConditionTrue), withShutdownTaint), "PATCH parked",
		},
	} {
		for refusal, invalid := range map[string]bool{"refused as a conflict": false, "refused as invalid": true} {
			t.Run(name+", "+refusal, func(t *testing.T) {
				if invalid && strings.HasPrefix(test.at, "DELETE") {
					return // preconditions of a deletion are never that
				}
				bubble(t, func(t *testing.T) {
					api := nodetest.New(test.first)
					_, provider := lister(10)
					second := nodeWith(test.first.Name, is(corev1.ConditionTrue), func(node *corev1.Node) { node.UID = "second" })
					replaced := false
					api.Fault = func(request string) error {
						if request == test.at && !replaced {
							replaced = true
							api.Put(second)
							if invalid {
								return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, test.first.Name, nil)
							}
						}
						return nil
					}
					start(t.Context(), t, api, provider)
					pass(time.Minute)
					equal(t, "node", second, api.Node(test.first.Name))
					if n := len(api.Requests()); !replaced || n > 2 {
						t.Errorf("replaced: %v, requests: %q", replaced, api.Requests())
					}
				})
			})
		}
	}
}

func TestANodeThatHasChangedIsJudgedAgainBeforeItIsDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		kept   bool
	}{
		"it is Ready":        {is(corev1.ConditionTrue), true},
		"it got a heartbeat": {func(node *corev1.Node) { node.Status.Conditions[0].Message = "beat" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("gone"))
				_, provider := lister(10)
				changed := false
				api.Fault = func(request string) error {
					if request == "DELETE gone" && !changed {
						changed = true
						api.Change("gone", test.change)
					}
					return nil
				}
				start(t.Context(), t, api, provider)
				pass(7 * time.Second)
				if kept := api.Node("gone") != nil; kept != test.kept {
					t.Errorf("kept: %v, want %v", kept, test.kept)
				}
			})
		})
	}
}

func TestANodeThatGotAProviderIDAfterItWasJudgedIsNotDeletedByItsName(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			return cloud.InstanceState{Exists: node.Spec.ProviderID != ""} // it has another name in the cloud
		}
		api := nodetest.New(append(many(5, "alive", isReady), nodeWith("joining", withoutID))...)
		joined := false
		api.Fault = func(request string) error {
			if request == "DELETE joining" && !joined {
				joined = true
				api.Change("joining", func(node *corev1.Node) { node.Spec.ProviderID = "test://i-1" }) // as the node controller does
			}
			return nil
		}
		start(t.Context(), t, api, provider)
		pass(time.Minute)
		if !joined || api.Node("joining") == nil {
			t.Errorf("the node was to be deleted: %v, and was kept: %v", joined, api.Node("joining") != nil)
		}
		equal(t, "requests", []string{"DELETE joining", "GET joining"}, api.Requests())
	})
}

func TestTaintsOfOthersAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("parked"))
		_, provider := lister(10)
		extra, added := corev1.Taint{Key: "extra", Effect: corev1.TaintEffectNoExecute}, false
		api.Fault = func(request string) error {
			if request == "PATCH parked" && !added {
				added = true
				api.Change("parked", func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, extra) })
			}
			return nil
		}
		start(t.Context(), t, api, provider)
		pass(time.Second)
		equal(t, "taints", append(nodeWith("parked").Spec.Taints, extra, *ShutdownTaint), api.Node("parked").Spec.Taints)
	})
}

func TestADeletionThatIsRefusedIsToldOnceAndRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("gone"))
		_, provider := lister(10)
		refusals := 3
		api.Fault = func(string) error {
			if refusals == 0 {
				return nil
			}
			refusals--
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "gone", errors.New("a webhook says so"))
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Minute)
		if api.Node("gone") != nil {
			t.Error("the node is there still")
		}
		controller.stop()
		equal(t, "events", []string{"gone " + DeletingNode, "gone " + DeletingNodeFailed}, reasons(api))
	})
}

func TestANodeThatWaitsForFinalizersIsDeletedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("gone", func(node *corev1.Node) { node.Finalizers = []string{"test/held"} }))
		c, provider := lister(10)
		controller := start(t.Context(), t, api, provider)
		pass(time.Hour)
		equal(t, "requests", []string{"DELETE gone"}, api.Requests())
		equal(t, "calls", []string{"list 1", "list 1"}, c.Calls())
		controller.stop()
		equal(t, "events", []string{"gone " + DeletingNode}, reasons(api))
	})
}

func TestANodeIsDeletedOnlyWhenTheCloudHasSaidItTwice(t *testing.T) {
	for name, times := range map[string]int{"the cloud errs once": 1, "the instance is gone": 1000} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("n"))
				c, provider := lister(10)
				c.Instance = func(*corev1.Node) cloud.InstanceState {
					times--
					return cloud.InstanceState{Exists: times < 0}
				}
				start(t.Context(), t, api, provider)
				pass(4 * time.Second)
				if api.Node("n") == nil {
					t.Error("the node is deleted after one answer")
				}
				pass(6 * time.Second)
				if kept := api.Node("n") != nil; kept != (times < 0) {
					t.Errorf("kept: %v", kept)
				}
			})
		})
	}
}

func TestANodeThatTheProviderStumblesOverDoesNotKeepOthersFromBeingFound(t *testing.T) {
	for what, stumble := range map[string]func(ctx context.Context) error{
		"an error":           func(context.Context) error { return errors.New("malformed ID") },
		"a panic":            func(context.Context) error { panic("index out of range") },
		"a call that hangs":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"a wrapped sentinel": func(context.Context) error { return fmt.Errorf("asking: %w", cloudprovider.ImplementedElsewhere) },
	} {
		for kind, batch := range map[string]int{"listed": 100, "one by one": 1} {
			if batch > 1 && (what == "a call that hangs" || what == "a wrapped sentinel") {
				continue // a call for many that hangs says nothing about any; a sentinel is about one
			}
			t.Run(what+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					api := nodetest.New(append(append(many(20, "gone"), nodeWith("bad")), many(200, "alive", is(corev1.ConditionTrue))...)...)
					c, provider := lister(batch)
					if batch == 1 {
						provider = c
					}
					c.Call = func(ctx context.Context, nodes []*corev1.Node) error {
						if slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.Name == "bad" }) {
							return stumble(ctx)
						}
						return nil
					}
					controller := start(t.Context(), t, api, provider)
					pass(20 * time.Second)
					if n := withPrefix(api, "gone"); n > 0 {
						t.Errorf("%d nodes are left whose instance is gone", n)
					}
					api.Put(nodeWith("gone-later"))
					pass(20 * time.Second)
					if n := withPrefix(api, "gone"); n > 0 {
						t.Error("a node that came later is left")
					}
					pass(20 * time.Minute)
					if api.Node("bad") == nil {
						t.Error("a node is deleted that nothing is known of")
					}
					if err := controller.HealthChecker().Check(nil); err != nil {
						t.Errorf("health: %v", err)
					}
					controller.stop()
					var told []string
					for _, reason := range reasons(api) {
						if strings.HasPrefix(reason, "bad ") {
							told = append(told, reason)
						}
					}
					var want []string
					if what != "a wrapped sentinel" {
						want = []string{"bad " + ReadingInstanceFailed}
					}
					equal(t, "events", want, told)
				})
			})
		}
	}
}

func TestWrappedSentinelsAreUnderstood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("theirs"), nodeWith("none"))
		c, provider := lister(10)
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			return cloud.InstanceState{Err: fmt.Errorf("asking: %w", map[string]error{
				"theirs": cloudprovider.ImplementedElsewhere, "none": cloudprovider.NotImplemented,
			}[node.Name])}
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Hour)
		if api.Node("theirs") == nil || api.Node("none") == nil {
			t.Errorf("left: %v", api.Nodes())
		}
		if n := len(c.Calls()); n > 70 {
			t.Errorf("asked %d times for nodes of somebody else", n)
		}
		controller.stop()
		equal(t, "events", nil, reasons(api))
	})
}

// Upstream keeps the node in each of the cases.
func TestAnErrorThatSaysNotFoundDeletesNoNode(t *testing.T) {
	for name, test := range map[string]struct {
		cloud says
		v2    bool
	}{
		"exists says it":                            {says{err: cloudprovider.InstanceNotFound}, true},
		"exists wraps it":                           {says{err: fmt.Errorf("asking: %w", cloudprovider.InstanceNotFound)}, true},
		"exists says it, first generation":          {says{err: cloudprovider.InstanceNotFound}, false},
		"it exists, shutdown says it":               {says{exists: true, shutdownErr: cloudprovider.InstanceNotFound}, true},
		"it exists, shutdown says it, first of all": {says{exists: true, shutdownErr: cloudprovider.InstanceNotFound}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("node0"))
				controller := start(t.Context(), t, api, test.cloud.cloud(test.v2))
				pass(time.Minute)
				controller.stop()
				equal(t, "node", nodeWith("node0"), api.Node("node0"))
				equal(t, "events", []string{"node0 " + ReadingInstanceFailed}, reasons(api))
			})
		})
	}
	t.Run("a list says it", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			api := nodetest.New(nodeWith("node0"))
			c, provider := lister(10)
			c.Instance = func(*corev1.Node) cloud.InstanceState {
				return cloud.InstanceState{Err: cloudprovider.InstanceNotFound}
			}
			controller := start(t.Context(), t, api, provider)
			pass(time.Minute)
			controller.stop()
			equal(t, "node", nodeWith("node0"), api.Node("node0"))
		})
	})
}

func TestACloudThatFailsForAllIsNotToldOnEveryNodeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(500, "n")...)
		c, provider := lister(1000)
		var mu sync.Mutex
		calls := 0
		c.Call = func(context.Context, []*corev1.Node) error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return errors.New("dial tcp: connection refused")
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Minute)
		controller.stop()
		if n := len(api.Events()); n > 150 {
			t.Errorf("%d events", n)
		}
	})
}
