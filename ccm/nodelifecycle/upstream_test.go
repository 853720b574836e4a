package nodelifecycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/transplant-dev/transplant/ccm/node/nodetest"
	"github.com/transplant-dev/transplant/ccm/node/reading"
)

// The cases of upstream's Test_NodesDeleted and Test_NodesShutdown, as data. nil wants the node deleted.
func TestNodesAreDeletedAndTaintedAsUpstreamDoesIt(t *testing.T) {
	errOdd := errors.New("err!")
	unready, ready := nodeWith("node0"), nodeWith("node0", is(corev1.ConditionTrue))
	unreadyNoID, unknownNoID := nodeWith("node0", withoutID), nodeWith("node0", withoutID, is(corev1.ConditionUnknown))
	id := map[types.NodeName]string{"node0": "foo://12345"}

	for name, test := range map[string]struct {
		cloud      says
		node, want *corev1.Node
	}{
		"not Ready, no instance":                       {says{}, unreadyNoID, nil},
		"not Ready, the provider has an error":         {says{err: errOdd}, unready, unready},
		"not Ready, the instance exists":               {says{exists: true}, unready, unready},
		"unknown, no instance":                         {says{}, unknownNoID, nil},
		"unknown, the instance exists":                 {says{exists: true, ids: id}, unknownNoID, unknownNoID},
		"Ready, the provider says there is none":       {says{}, ready, ready},
		"not Ready, shut down":                         {says{shutdown: true, exists: true}, unready, nodeWith("node0", withShutdownTaint)},
		"not Ready, no provider ID, shut down":         {says{shutdown: true, exists: true, ids: id}, unreadyNoID, nodeWith("node0", withoutID, withShutdownTaint)},
		"not Ready, the provider has no ID for it":     {says{ids: map[types.NodeName]string{"node0": ""}}, unreadyNoID, nil},
		"not Ready, no instance, shutdown is an error": {says{shutdownErr: errOdd}, unreadyNoID, nil},
		"not Ready, no instance, not shut down":        {says{}, unreadyNoID, nil},
		"Ready, the provider says it is shut down": {
			says{shutdown: true}, nodeWith("node0", withoutID, is(corev1.ConditionTrue)),
			nodeWith("node0", withoutID, is(corev1.ConditionTrue)),
		},
		"unknown, shut down, but there is no instance":   {says{shutdown: true}, unknownNoID, nil},
		"not Ready, exists, shutdown is an error":        {says{exists: true, shutdownErr: errOdd}, unready, unready},
		"not Ready, exists, shutdown is not implemented": {says{exists: true, shutdownErr: cloudprovider.NotImplemented}, unready, unready},
	} {
		for generation, v2 := range map[string]bool{"first generation": false, "second": true} {
			t.Run(generation+": "+name, func(t *testing.T) { runUpstream(t, test.cloud, v2, test.node, test.want) })
		}
	}
	// What the first generation asks for to find an instance, the second does not.
	for name, test := range map[string]struct {
		err  error
		want *corev1.Node
	}{
		"first generation: not Ready, an error when asking for the provider ID": {errOdd, unreadyNoID},
		"first generation: not Ready, no instance when asking for it":           {cloudprovider.InstanceNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runUpstream(t, says{idErrs: map[types.NodeName]error{"node0": test.err}}, false, unreadyNoID, test.want)
		})
	}
}

// says is what upstream's fake cloud says of every node.
type says struct {
	exists, shutdown bool
	err, shutdownErr error
	ids, metadataIDs map[types.NodeName]string
	idErrs           map[types.NodeName]error
}

func (s says) cloud(v2 bool) *fakecloud.Cloud {
	return &fakecloud.Cloud{
		EnableInstancesV2: v2, ExistsByProviderID: s.exists, NodeShutdown: s.shutdown, ErrByProviderID: s.err, ErrShutdownByProviderID: s.shutdownErr,
		ExtID: s.ids, ProviderID: s.metadataIDs, ExtIDErr: s.idErrs,
	}
}

func runUpstream(t *testing.T, said says, v2 bool, node, want *corev1.Node) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		c := said.cloud(v2)
		api := nodetest.New(node)
		controller := start(t.Context(), t, api, c)
		pass(4 * time.Second) // one tick
		if want == nil {
			if api.Node("node0") == nil {
				t.Error("the node is deleted after one look")
			}
			pass(6 * time.Second) // and another one
		}
		controller.stop()
		equal(t, "node", want, api.Node("node0"))
		if limit := 4; want != nil && len(c.Calls) > limit || v2 && len(c.Calls) > 2 {
			t.Errorf("made the calls %q", c.Calls)
		}
		var events []string
		if want == nil {
			events = []string{"node0 " + DeletingNode}
		}
		equal(t, "events", events, reasons(api))
	})
}

// The cases of upstream's Test_GetProviderID: how a node is found in the cloud, seen by the calls that are made for one that exists.
func TestAnInstanceIsFoundByTheProviderIDOrByWhatTheProviderHas(t *testing.T) {
	for name, test := range map[string]struct {
		cloud says
		node  *corev1.Node
		calls []string
		kept  bool
	}{
		"first generation, by the node's": {
			says{}, nodeWith("node0"), []string{"instance-exists-by-provider-id", "instance-shutdown-by-provider-id"}, true,
		},
		"second, by the node's": {says{}, nodeWith("node0"), []string{"instance-exists", "instance-shutdown"}, true},
		"first generation, by the provider's": {
			says{ids: map[types.NodeName]string{"node0": "12345"}}, nodeWith("node0", withoutID),
			[]string{"instance-id", "instance-exists-by-provider-id", "instance-shutdown-by-provider-id"}, true,
		},
		"second, by what the provider has": {
			says{metadataIDs: map[types.NodeName]string{"node0": "fake://12345"}}, nodeWith("node0", withoutID),
			[]string{"instance-exists", "instance-shutdown"}, true,
		},
		"second, without any": {says{}, nodeWith("node0", withoutID), []string{"instance-exists", "instance-shutdown"}, true},
		"first generation, no instance": {
			says{idErrs: map[types.NodeName]error{"node0": cloudprovider.InstanceNotFound}}, nodeWith("node0", withoutID),
			[]string{"instance-id", "instance-id"}, false,
		},
		"first generation, an error": {
			says{idErrs: map[types.NodeName]error{"node0": errors.New("unknown error")}}, nodeWith("node0", withoutID), []string{"instance-id"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				test.cloud.exists = true
				c := test.cloud.cloud(strings.HasPrefix(name, "second"))
				api := nodetest.New(test.node)
				controller := start(t.Context(), t, api, c)
				pass(4 * time.Second)
				if !test.kept {
					pass(6 * time.Second)
				}
				controller.stop()
				equal(t, "calls", test.calls, c.Calls)
				if kept := api.Node("node0") != nil; kept != test.kept {
					t.Errorf("kept: %v, want %v", kept, test.kept)
				}
			})
		})
	}
}

// The cases of upstream's TestNewCloudNodeLifecycleController and of its constructor's refusals.
func TestAControllerThatCouldNotWorkIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"5 workers":          {func(c *Config) { c.Workers = 5 }, ""},
		"no workers":         {func(c *Config) { c.Workers = 0 }, "--concurrent-node-lifecycle-syncs is 0"},
		"negative workers":   {func(c *Config) { c.Workers = -5 }, "--concurrent-node-lifecycle-syncs is -5"},
		"no period":          {func(c *Config) { c.MonitorPeriod = 0 }, "--node-monitor-period is 0s"},
		"no client":          {func(c *Config) { c.Client = nil }, "there is no client"},
		"no cloud":           {func(c *Config) { c.Cloud = nil }, "there is no cloud provider"},
		"no instances":       {func(c *Config) { c.Cloud = &fakecloud.Cloud{DisableInstances: true} }, reading.ErrUnsupported.Error()},
		"a negative grace":   {func(c *Config) { c.Options.TakeoverGrace = -1 }, "--node-deletion-grace-after-takeover"},
		"a negative limit":   {func(c *Config) { c.Options.DeletionLimit = -1 }, "--node-deletion-limit is -1"},
		"a percentage of -1": {func(c *Config) { c.Options.DeletionLimitPercent = -1 }, "--node-deletion-limit-percent is -1"},
		"more than all":      {func(c *Config) { c.Options.DeletionLimitPercent = 101 }, "--node-deletion-limit-percent is 101"},
		"a negative window":  {func(c *Config) { c.Options.DeletionWindow = -1 }, "--node-deletion-window"},
		"a negative backoff": {func(c *Config) { c.Options.BackoffLimit = -1 }, "--node-monitor-backoff-limit"},
	} {
		t.Run(name, func(t *testing.T) {
			client := nodetest.New().Client()
			config := Config{
				Client: client, Cloud: &fakecloud.Cloud{}, Nodes: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes(),
				MonitorPeriod: time.Second, Workers: 1, Options: NewOptions(),
			}
			test.change(&config)
			_, err := New(config)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("New: %v, want %q", err, test.want)
			}
		})
	}
}

// Upstream's TestMonitorNodesMetrics.
func TestTheMetricsOfUpstreamAreObserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		providerCalls.Reset()
		api := nodetest.New(nodeWith("a", is(corev1.ConditionTrue)), nodeWith("b", is(corev1.ConditionTrue)), nodeWith("c"), nodeWith("gone"))
		c := &nodetest.Cloud{Instance: byName}
		start(t.Context(), t, api, c)
		pass(4 * time.Second)
		equal(t, "calls", map[string]float64{
			"instance_exists success": 1, "instance_exists instance_not_found": 1, "instance_shutdown success": 1,
		}, counters(t, "cloud_node_lifecycle_controller_cloud_provider_calls_total"))
		if _, ok := counters(t, "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds")[""]; !ok {
			t.Error("the duration of ticks is not observed")
		}
	})
}

// counters returns a metric's values by the values of its labels; of a histogram, how many samples it has.
func counters(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			if metric.GetHistogram() != nil {
				value = float64(metric.GetHistogram().GetSampleCount())
			}
			values[strings.Join(labels, " ")] = value
		}
	}
	return values
}
