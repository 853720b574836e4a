package node

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
	"github.com/transplant-dev/transplant/ccm/node/reading"
)

func TestAFullJoinCostsFewCallsAndTwoWritesPerNode(t *testing.T) {
	for name, test := range map[string]struct {
		nodes int
		over  time.Duration
	}{"at once": {1000, 0}, "over 5 seconds": {5000, 5 * time.Second}, "over 20 seconds": {1000, 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				nodes := test.nodes
				api := nodetest.New()
				c, provider := lister(1000)
				c.Latency = 50 * time.Millisecond
				controller := start(t.Context(), t, api, provider)
				pass(time.Second)
				for i, node := range many(nodes) {
					api.Put(node)
					if i%50 == 49 {
						<-time.After(test.over * 50 / time.Duration(nodes))
					}
				}
				pass(10 * time.Second)
				for _, node := range api.Nodes() {
					if hasCloudTaint(node) {
						t.Fatalf("node %s is not initialised", node.Name)
					}
				}
				if n := len(c.Calls()); n > 50 {
					t.Errorf("made %d calls", n)
				}
				if n := len(api.Requests()); n != 2*nodes {
					t.Errorf("made %d requests, want 2 for each of %d nodes", n, nodes)
				}
				controller.stop()
				if n := len(api.Events()); n > nodes {
					t.Errorf("made %d events", n)
				}
			})
		})
	}
}

func TestAllNodesAreInitialisedWhenTheCloudAnswersAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(600)...)
		c, provider := lister(200)
		var down atomic.Bool
		down.Store(true)
		c.Call = func(context.Context, []*corev1.Node) error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		}
		controller := start(t.Context(), t, api, provider)
		pass(5 * time.Minute)
		if n := len(c.Calls()); n > 300 {
			t.Errorf("made %d calls in 5 minutes", n)
		}
		down.Store(false)
		pass(2*time.Minute + 5*time.Second)
		for _, node := range api.Nodes() {
			if hasCloudTaint(node) {
				t.Fatalf("node %s is not initialised", node.Name)
			}
		}
		controller.stop()
	})
}

func TestAStopFinishesWhatIsBeingWrittenAndBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(100)...)
		api.Latency = 100 * time.Millisecond
		_, provider := lister(1000)
		controller := start(t.Context(), t, api, provider, func(config *Config) { config.Workers = 10 })
		for len(api.Requests()) == 0 {
			pass(10 * time.Millisecond)
		}
		controller.stop()
		pass(time.Second) // an event that was being written
		done, begun := 0, 0
		for _, node := range api.Nodes() {
			switch {
			case !hasCloudTaint(node):
				done++
			case len(node.Status.Addresses) > 1:
				begun++
			}
		}
		if done != 10 || begun != 0 {
			t.Errorf("%d nodes are initialised and %d half, want the 10 that were being written", done, begun)
		}
	})
}

func TestAClosedFenceEndsEverythingWithoutRetriesOrEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(100)...)
		c, provider := lister(1000)
		fence := election.Unfenced(time.Now())
		client := api.Client(func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) })
		n := 0
		api.Fault = func(string) error {
			if n++; n == 20 {
				fence.Revoke("the test says so")
			}
			return nil
		}
		ctx := election.NewContext(t.Context(), fence)
		controller := start(ctx, t, api, provider, func(config *Config) { config.Client, config.Workers = client, 1 })
		pass(time.Hour)
		if got := len(api.Requests()); got > 20 {
			t.Errorf("%d requests reached the API server, the fence was closed with the 20th", got)
		}
		if got := len(c.Calls()); got > 1 {
			t.Errorf("the cloud was asked again: %q", c.Calls())
		}
		for _, event := range controller.events(api) {
			if event.reason != Synced {
				t.Errorf("unexpected event %v", event)
			}
		}
	})
}

func TestAControllerThatCouldNotWorkIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no workers":            {func(c *Config) { c.Workers = 0 }, "--concurrent-node-syncs is 0"},
		"negative workers":      {func(c *Config) { c.StatusWorkers = -1 }, "--concurrent-node-status-updates is -1"},
		"no period":             {func(c *Config) { c.StatusUpdateFrequency = 0 }, "--node-status-update-frequency is 0s"},
		"a negative window":     {func(c *Config) { c.Options.GatherWindow = -1 }, "--node-sync-gather-window"},
		"no limit of retries":   {func(c *Config) { c.Options.RetryLimit = 0 }, "--node-sync-retry-limit"},
		"no instances":          {func(c *Config) { c.Cloud = &fakecloud.Cloud{DisableInstances: true} }, reading.ErrUnsupported.Error()},
		"no cloud":              {func(c *Config) { c.Cloud = nil }, "there is no cloud provider"},
		"everything that is so": {func(c *Config) { c.Workers, c.StatusUpdateFrequency = 0, 0 }, "--concurrent-node-syncs"},
	} {
		t.Run(name, func(t *testing.T) {
			client := nodetest.New().Client()
			config := Config{
				Client: client, Cloud: &fakecloud.Cloud{}, Nodes: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes(),
				StatusUpdateFrequency: time.Minute, Workers: 1, Options: NewOptions(),
			}
			test.change(&config)
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheMetricsOfUpstreamAreObserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		before := [2]uint64{samples(t, "node_controller_cloud_provider_taint_removal_delay_seconds"), samples(t, "node_controller_initial_node_sync_delay_seconds")}
		api := nodetest.New(nodeWith("n", func(node *corev1.Node) { node.CreationTimestamp = metav1.Now() }))
		_, provider := lister(1000)
		start(t.Context(), t, api, provider)
		pass(time.Minute)
		after := [2]uint64{samples(t, "node_controller_cloud_provider_taint_removal_delay_seconds"), samples(t, "node_controller_initial_node_sync_delay_seconds")}
		equal(t, "samples", [2]uint64{before[0] + 1, before[1] + 1}, after)
	})
}

func samples(t *testing.T, name string) uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// The cases of upstream's TestGetInstanceMetadata: what is read for a node, and whether the node may be initialised with it.
func TestMetadataIsReadAsUpstreamReadsIt(t *testing.T) {
	addresses := []corev1.NodeAddress{hostname("from-cloud"), internal("10.0.0.1"), external("132.143.154.163")}
	for name, test := range map[string]struct {
		cloud    *fakecloud.Cloud
		nodeID   string
		metadata *cloudprovider.InstanceMetadata
		id       string
		refused  bool
	}{
		"first generation": {
			cloud:    &fakecloud.Cloud{ExtID: map[types.NodeName]string{"node0": "12345"}, Addresses: addresses},
			metadata: &cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: addresses}, id: "fake://12345",
		},
		"first generation without provider IDs": {
			cloud:    &fakecloud.Cloud{ExtIDErr: map[types.NodeName]error{"node0": cloudprovider.NotImplemented}, Addresses: addresses},
			metadata: &cloudprovider.InstanceMetadata{NodeAddresses: addresses},
		},
		"first generation without provider IDs, node with one": {
			cloud:    &fakecloud.Cloud{ExtIDErr: map[types.NodeName]error{"node0": cloudprovider.NotImplemented}, Addresses: addresses},
			nodeID:   "fake://asdasd",
			metadata: &cloudprovider.InstanceMetadata{ProviderID: "fake://asdasd", NodeAddresses: addresses},
		},
		"with a provider ID": {
			cloud:    &fakecloud.Cloud{EnableInstancesV2: true, ProviderID: map[types.NodeName]string{"node0": "fake://12345"}, Addresses: addresses},
			metadata: &cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: addresses}, id: "fake://12345",
		},
		"without a provider ID": {
			cloud:    &fakecloud.Cloud{EnableInstancesV2: true, Addresses: addresses},
			metadata: &cloudprovider.InstanceMetadata{NodeAddresses: addresses}, refused: true,
		},
		"without a provider ID, node with one": {
			cloud:  &fakecloud.Cloud{EnableInstancesV2: true, Addresses: addresses, InstanceTypes: map[types.NodeName]string{"fake://12345": "t1.micro"}},
			nodeID: "fake://12345", metadata: &cloudprovider.InstanceMetadata{InstanceType: "t1.micro", NodeAddresses: addresses},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				instances, ok := cloud.InstancesOf(test.cloud)
				if !ok {
					t.Fatal("the cloud has no instances")
				}
				node := nodeWith("node0", withID(test.nodeID))
				state := instances.Read(t.Context(), []*corev1.Node{node}, cloud.WantMetadata, 0)[0]
				if state.Err != nil {
					t.Fatal(state.Err)
				}
				equal(t, "metadata", test.metadata, state.Metadata)
				does, err := judgeInitialisation(node, state, idsOptional(test.cloud))
				if (err != nil) != test.refused {
					t.Fatalf("refused: %v, want: %v", err, test.refused)
				}
				if err == nil && does.providerID != test.id {
					t.Errorf("provider ID %q, want %q", does.providerID, test.id)
				}
			})
		})
	}
}

// BenchmarkJoin initialises 5,000 nodes with a cloud that takes 50 ms per call and an API server in memory.
func BenchmarkJoin(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		api := nodetest.New(many(5000)...)
		c := &nodetest.Cloud{Instance: instanceOf, Batch: 1000, Latency: 50 * time.Millisecond}
		factory := informers.NewSharedInformerFactory(api.Client(), 0)
		controller, err := New(Config{
			Client: api.Client(), Cloud: nodetest.Lister{Cloud: c}, Nodes: factory.Core().V1().Nodes(),
			StatusUpdateFrequency: time.Hour, Workers: 50, Options: NewOptions(),
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		b.StartTimer()
		factory.Start(ctx.Done())
		done := make(chan struct{})
		go func() {
			defer close(done)
			controller.Run(ctx)
		}()
		for len(api.Requests()) < 10000 {
			<-time.After(5 * time.Millisecond)
		}
		b.StopTimer()
		cancel()
		<-done
		factory.Shutdown()
		b.ReportMetric(float64(len(c.Calls())), "cloudcalls/op")
		b.StartTimer()
	}
}
