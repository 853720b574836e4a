package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func TestANodeHasItsAddressesBeforeTheTaintGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		_, provider := lister(1000)
		c := start(t.Context(), t, api, provider)
		pass(time.Second)
		sameNode(t, nodeWith("n", initialised), api.Node("n"))
		equal(t, "requests", []string{"PATCH n/status", "PATCH n"}, api.Requests())
		c.stop()
		equal(t, "events", []seenEvent{{"n", "Normal", Synced, "Node synced successfully"}}, c.events(api))
	})
}

func TestALoneNodeWaitsForOthersForLessThanATenthOfASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New()
		c, provider := lister(1000)
		start(t.Context(), t, api, provider)
		pass(time.Second)
		for i := range 20 {
			api.Put(nodeWith(fmt.Sprint("n", i)))
			pass(99 * time.Millisecond)
			if hasCloudTaint(api.Node(fmt.Sprint("n", i))) {
				t.Fatalf("node %d is not initialised, calls: %q", i, c.Calls())
			}
			pass(2 * time.Second)
		}
	})
}

func TestNodesWithNothingToDoCostNoWrites(t *testing.T) {
	for name, addresses := range map[string][]corev1.NodeAddress{
		"single stack": {internal("10.0.0.1"), hostname("h")},
		"dual stack":   {internal("10.0.0.1"), internal("fd00::1"), external("192.0.2.1"), external("2001:db8::1"), hostname("h")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(500, untainted, withAddresses(addresses...))...)
				c, provider := lister(200)
				c.Instance = func(node *corev1.Node) cloud.InstanceState {
					state := instanceOf(node)
					state.Metadata.NodeAddresses = addresses
					return state
				}
				start(t.Context(), t, api, provider)
				pass(time.Hour)
				equal(t, "requests", nil, api.Requests())
				if n := len(c.Calls()); n < 3*10 || n > 3*13 {
					t.Errorf("made %d calls in an hour for 500 nodes, of which one call serves 200, every 5 minutes", n)
				}
			})
		})
	}
}

func TestWhatTheProviderDoesNotSayYetIsAskedForAgainAndTold(t *testing.T) {
	for name, test := range map[string]struct {
		state  cloud.InstanceState
		reason string
		says   string
	}{
		"nil metadata": {cloud.InstanceState{Exists: true}, CloudMetadataMissing, `the cloud provider has no metadata for node "n"`},
		"no provider ID": {cloud.InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{}}, ProviderIDMissing,
			`the cloud provider has no provider ID for node "n"`},
		"no instance": {cloud.InstanceState{}, InstanceMissing, `the cloud has no instance for node "n"`},
		"no instance, as an error": {
			cloud.InstanceState{Err: fmt.Errorf("asking: %w", cloudprovider.InstanceNotFound)}, InstanceMissing, `the cloud has no instance for node "n"`,
		},
		"an error about the node": {cloud.InstanceState{Err: errors.New("odd")}, ReadingInstanceFailed, `reading the instance of node "n": odd`},
		"an IP that is not provided": {
			instanceOf(nodeWith("n")), ProvidedIPMismatch,
			`finding the addresses of node "n": failed to get node address from cloud provider that matches ip: 10.0.0.7`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				node := nodeWith("n")
				if test.reason == ProvidedIPMismatch {
					withIP("10.0.0.7")(node)
				}
				api := nodetest.New(node, nodeWith("other"))
				c, provider := lister(1000)
				var well atomic.Bool
				c.Instance = func(node *corev1.Node) cloud.InstanceState {
					state := instanceOf(node)
					if node.Name == "n" && !well.Load() {
						return test.state
					}
					if node.Name == "n" && test.reason == ProvidedIPMismatch {
						state.Metadata.NodeAddresses = list(internal("10.0.0.7"))
					}
					return state
				}
				controller := start(t.Context(), t, api, provider)
				pass(time.Minute)
				if !hasCloudTaint(api.Node("n")) || hasCloudTaint(api.Node("other")) {
					t.Fatalf("taints: %v, %v", api.Node("n").Spec.Taints, api.Node("other").Spec.Taints)
				}
				pass(10 * time.Minute)
				asked := len(c.Calls())
				if asked > 20 {
					t.Errorf("asked %d times in 11 minutes", asked)
				}
				// A heartbeat is no reason to ask again.
				api.Change("n", func(node *corev1.Node) { node.Status.Conditions[0].Message = "beat" })
				pass(time.Second)
				well.Store(true)
				pass(2 * time.Minute)
				if hasCloudTaint(api.Node("n")) {
					t.Error("the node has its taint still")
				}
				controller.stop()
				want := []seenEvent{{"n", "Warning", test.reason, test.says}, {"n", "Normal", Synced, "Node synced successfully"}}
				var got []seenEvent
				for _, event := range controller.events(api) {
					if event.node == "n" {
						got = append(got, event)
					}
				}
				equal(t, "events", want, got)
			})
		})
	}
}

func TestAChangeOfTheNodeEndsTheBackOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n", withIP("10.0.0.7")))
		_, provider := lister(1000)
		start(t.Context(), t, api, provider)
		pass(10*time.Minute + 7*time.Second)
		api.Change("n", withIP("10.0.0.1"))
		pass(99 * time.Millisecond)
		if hasCloudTaint(api.Node("n")) {
			t.Error("the node has its taint still")
		}
	})
}

func TestWithoutAddressesFromTheCloudANodeKeepsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n", withAddresses(internal("10.9.9.9"))))
		c, provider := lister(1000)
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			state := instanceOf(node)
			state.Metadata.NodeAddresses = nil
			return state
		}
		start(t.Context(), t, api, provider)
		pass(11 * time.Minute)
		sameNode(t, nodeWith("n", initialised, withAddresses(internal("10.9.9.9"))), api.Node("n"))
		equal(t, "requests", []string{"PATCH n"}, api.Requests())
	})
}

func TestLabelsThatTheAPIServerWouldRefuseAreLeftOutAndNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		c, provider := lister(1000)
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			state := instanceOf(node)
			state.Metadata.Zone = "nova az"
			state.Metadata.AdditionalLabels = map[string]string{"good.test/key": "good", "bad.test/value": "-", "bad.test/a/b": "good"}
			return state
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Second)
		want := nodeWith("n", initialised)
		delete(want.Labels, corev1.LabelFailureDomainBetaZone)
		delete(want.Labels, corev1.LabelTopologyZone)
		want.Labels["good.test/key"] = "good"
		sameNode(t, want, api.Node("n"))
		controller.stop()
		events := controller.events(api)
		if len(events) != 2 || events[0].reason != InvalidLabel || events[1].reason != Synced {
			t.Fatalf("events: %q", api.Events())
		}
		for _, words := range []string{`topology.kubernetes.io/zone="nova az"`, `bad.test/value="-"`, `"bad.test/a/b"`} {
			if !strings.Contains(events[0].message, words) {
				t.Errorf("the event does not name %s: %s", words, events[0].message)
			}
		}
	})
}

func TestADualStackNodeGetsItsAddressesInTheOrderThatTheKubeletWasTold(t *testing.T) {
	all := list(internal("10.0.0.1"), internal("10.0.0.2"), internal("fd00::1"), external("192.0.2.1"), hostname("from-cloud"))
	for provided, want := range map[string][]corev1.NodeAddress{
		"10.0.0.1":         list(internal("10.0.0.1"), external("192.0.2.1"), hostname("from-cloud")),
		"fd00::1":          list(internal("fd00::1"), external("192.0.2.1"), hostname("from-cloud")),
		"10.0.0.2,fd00::1": list(internal("10.0.0.2"), internal("fd00::1"), external("192.0.2.1"), hostname("from-cloud")),
		"fd00::1,10.0.0.1": list(internal("fd00::1"), internal("10.0.0.1"), external("192.0.2.1"), hostname("from-cloud")),
	} {
		t.Run(provided, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("n", withIP(provided)))
				c, provider := lister(1000)
				c.Instance = func(node *corev1.Node) cloud.InstanceState {
					state := instanceOf(node)
					state.Metadata.NodeAddresses = all
					return state
				}
				start(t.Context(), t, api, provider)
				pass(time.Hour)
				equal(t, "addresses", want, api.Node("n").Status.Addresses)
				equal(t, "requests", []string{"PATCH n/status", "PATCH n"}, api.Requests())
			})
		})
	}
}

func TestAddressesFollowTheInstanceAfterAPeriod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		c, provider := lister(1000)
		var moved atomic.Bool
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			state := instanceOf(node)
			if moved.Load() {
				state.Metadata.NodeAddresses = list(internal("10.0.0.9"), internal("fd00::9"))
				state.Metadata.Zone = "b" // labels are for initialisation only
			}
			return state
		}
		start(t.Context(), t, api, provider)
		pass(time.Minute)
		moved.Store(true)
		pass(6 * time.Minute)
		sameNode(t, nodeWith("n", initialised, withAddresses(internal("10.0.0.9"), internal("fd00::9"), hostname("from-kubelet"))), api.Node("n"))
		equal(t, "requests", []string{"PATCH n/status", "PATCH n", "PATCH n/status"}, api.Requests())
	})
}

func TestAddressesThatCouldNotBeWrittenAreWrittenSoon(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"while a node is initialised": nodeWith("n"), "of a node that is initialised": nodeWith("n", initialised, withAddresses()),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(node)
				_, provider := lister(1000)
				broken := 2
				api.Fault = func(request string) error {
					if request == "PATCH n/status" && broken > 0 {
						broken--
						return apierrors.NewInternalError(errors.New("the store is slow"))
					}
					if request == "PATCH n" && broken > 0 {
						t.Error("the taint is removed though the addresses are not written")
					}
					return nil
				}
				start(t.Context(), t, api, provider)
				pass(time.Second)
				if len(api.Node("n").Status.Addresses) < 2 || hasCloudTaint(api.Node("n")) {
					t.Errorf("the node is not as wanted after a second: %v", api.Node("n"))
				}
			})
		})
	}
}

func TestAWriterBesideUsLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		_, provider := lister(1000)
		beats := 0
		api.Fault = func(request string) error {
			if request == "PATCH n" && beats < 3 { // between our reading and our write, three times
				beats++
				api.Change("n", func(node *corev1.Node) {
					node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: fmt.Sprint("taint-", beats), Effect: corev1.TaintEffectNoExecute})
				})
			}
			return nil
		}
		start(t.Context(), t, api, provider)
		pass(199 * time.Millisecond) // before the first retry of the queue
		want := nodeWith("n", initialised)
		for i := range 3 {
			want.Spec.Taints = append(want.Spec.Taints, corev1.Taint{Key: fmt.Sprint("taint-", i+1), Effect: corev1.TaintEffectNoExecute})
		}
		sameNode(t, want, api.Node("n"))
	})
}

func TestANodeThatTookTheNameOfAnotherGetsNothingOfIt(t *testing.T) {
	stale := func(request, at string) bool { return request == at }
	for name, test := range map[string]struct {
		first *corev1.Node
		at    string // the request of ours before which the other takes its place
	}{
		"before addresses are written at first": {nodeWith("n"), "PATCH n/status"},
		"before the taint goes":                 {nodeWith("n", withAddresses(internal("10.0.0.1"), external("192.0.2.1"), hostname("from-kubelet"))), "PATCH n"},
		"before its labels are written":         {nodeWith("n", initialised, func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) }), "PATCH n"},
		"before its addresses are compared":     {nodeWith("n", initialised, withAddresses(internal("10.9.9.9"), hostname("from-kubelet"))), "PATCH n/status"},
	} {
		for refusal, invalid := range map[string]bool{"refused as a conflict": false, "refused as invalid": true} {
			t.Run(name+", "+refusal, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					api := nodetest.New(test.first)
					c, provider := lister(1000)
					c.Instance = func(node *corev1.Node) cloud.InstanceState {
						state := instanceOf(node)
						if node.UID == "second" {
							state.Metadata.Zone, state.Metadata.NodeAddresses = "second-zone", list(internal("10.0.0.2"))
						}
						return state
					}
					second := nodeWith("n", func(n *corev1.Node) { n.UID = "second" })
					replaced, harmed := false, false
					api.Fault = func(request string) error {
						if stale(request, test.at) && !replaced {
							replaced = true
							api.Put(second)
							if invalid {
								return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil)
							}
						}
						if node := api.Node("n"); replaced && (node.Labels[corev1.LabelTopologyZone] == "a" || len(node.Status.Addresses) > 2) {
							harmed = true
						}
						return nil
					}
					start(t.Context(), t, api, provider)
					pass(10 * time.Second)
					if !replaced || harmed {
						t.Errorf("replaced: %v, harmed: %v", replaced, harmed)
					}
					want := nodeWith("n", initialised, withAddresses(internal("10.0.0.2"), hostname("from-kubelet")))
					want.Labels[corev1.LabelTopologyZone], want.Labels[corev1.LabelFailureDomainBetaZone] = "second-zone", "second-zone"
					sameNode(t, want, api.Node("n"))
				})
			})
		}
	}
}

func TestANodeThatIsDeletedMeanwhileIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		c, provider := lister(1000)
		api.Fault = func(request string) error {
			if request == "PATCH n/status" {
				api.Remove("n")
			}
			return nil
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Hour)
		equal(t, "calls", []string{"list 1"}, c.Calls())
		controller.stop()
		equal(t, "events", nil, api.Events())
	})
}

func TestANodeOfSomebodyElseIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("n"))
		c, provider := lister(1000)
		c.Instance = func(*corev1.Node) cloud.InstanceState {
			return cloud.InstanceState{Err: fmt.Errorf("asking: %w", cloudprovider.ImplementedElsewhere)}
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Hour)
		equal(t, "calls", []string{"list 1"}, c.Calls())
		controller.stop()
		equal(t, "events", nil, api.Events())
		equal(t, "requests", nil, api.Requests())
	})
}

func TestOneNodeThatTheProviderStumblesOverDoesNotKeepOthersWaiting(t *testing.T) {
	stumble := map[string]func(ctx context.Context) error{
		"an error": func(context.Context) error { return errors.New("malformed ID") },
		"a panic":  func(context.Context) error { panic("index out of range") },
	}
	for what, do := range stumble {
		for kind, batch := range map[string]int{"with a list": 1000, "without": 1} {
			t.Run(what+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					api := nodetest.New(append(many(100), nodeWith("bad"))...)
					c, provider := lister(batch)
					if batch == 1 {
						provider = c
					}
					c.Call = func(ctx context.Context, nodes []*corev1.Node) error {
						for _, node := range nodes {
							if node.Name == "bad" {
								return do(ctx)
							}
						}
						return nil
					}
					controller := start(t.Context(), t, api, provider)
					pass(time.Minute)
					for _, node := range api.Nodes() {
						if hasCloudTaint(node) != (node.Name == "bad") {
							t.Errorf("node %s has taints %v", node.Name, node.Spec.Taints)
						}
					}
					controller.stop()
					var told []string
					for _, event := range controller.events(api) {
						if event.kind == "Warning" {
							told = append(told, event.node+" "+event.reason)
						}
					}
					equal(t, "warnings", []string{"bad " + ReadingInstanceFailed}, told)
				})
			})
		}
	}
}

func TestACallThatHangsKeepsOnlyItsOwnNodesWaitingAndMakesUsUnhealthy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("bad"))
		c, _ := lister(1)
		never := make(chan struct{})
		controller := start(t.Context(), t, api, c, func(config *Config) { config.Instances = hanging{c, never} })
		pass(time.Second)
		for _, node := range many(30) {
			api.Put(node)
		}
		pass(time.Second)
		for _, node := range many(30) {
			if hasCloudTaint(api.Node(node.Name)) {
				t.Fatalf("node %s is not initialised", node.Name)
			}
		}
		if err := controller.HealthChecker().Check(nil); err != nil {
			t.Errorf("too early: %v", err)
		}
		pass(5 * time.Minute)
		err := controller.HealthChecker().Check(nil)
		if err == nil || !strings.Contains(err.Error(), `reading the instance of node "bad" has been going on`) {
			t.Errorf("health: %v", err)
		}
		close(never)
	})
}

// hanging does not even return when its context ends.
type hanging struct {
	*nodetest.Cloud
	never chan struct{}
}

func (hanging) BatchSize() int { return 1 }

func (h hanging) Read(_ context.Context, nodes []*corev1.Node, _ cloud.Want, _ time.Duration) []cloud.InstanceState {
	if nodes[0].Name == "bad" {
		<-h.never
	}
	return []cloud.InstanceState{instanceOf(nodes[0])}
}
