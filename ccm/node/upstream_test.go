package node

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	fakecloud "k8s.io/cloud-provider/fake"

	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// The cases of upstream's Test_syncNode, as data, run through the whole controller against an API server. The number of calls is upstream's, as an upper bound.
func TestNodesAreInitialisedAsUpstreamDoesIt(t *testing.T) {
	all := []corev1.NodeAddress{hostname("from-cloud"), internal("10.0.0.1"), external("132.143.154.163")}
	ips := all[1:]
	types0 := map[types.NodeName]string{"node0": "t1.micro"}
	id := map[types.NodeName]string{"node0": "12345"}
	fullID := map[types.NodeName]string{"node0": "fake://12345"}
	noID := map[types.NodeName]error{"node0": cloudprovider.NotImplemented}
	west := cloudprovider.Zone{FailureDomain: "us-west-1a", Region: "us-west"}
	westLabels := func(more map[string]string) map[string]string {
		labels := map[string]string{
			"failure-domain.beta.kubernetes.io/region": "us-west", "failure-domain.beta.kubernetes.io/zone": "us-west-1a",
			"topology.kubernetes.io/region": "us-west", "topology.kubernetes.io/zone": "us-west-1a",
		}
		for key, value := range more {
			labels[key] = value
		}
		return labels
	}
	fromKubelet := hostname("from-kubelet")
	noAddresses := withAddresses()
	none := func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, nil }

	for name, test := range map[string]struct {
		cloud  *fakecloud.Cloud
		node   *corev1.Node
		want   *corev1.Node
		calls  int    // if it succeeds, at most
		reason string // of the event that says why it fails; empty if it does not
	}{
		"first generation: the cloud's hostname is taken": {
			cloud: &fakecloud.Cloud{InstanceTypes: types0, ExtID: id, Addresses: all}, node: nodeWith("node0"),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(all...)), calls: 4,
		},
		"first generation: the kubelet's hostname is kept if the cloud has none": {
			cloud: &fakecloud.Cloud{InstanceTypes: types0, ExtID: id, Addresses: ips}, node: nodeWith("node0"),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(ips[0], ips[1], fromKubelet)), calls: 4,
		},
		"first generation: the provider ID is set": {
			cloud: &fakecloud.Cloud{InstanceTypes: types0, ExtID: id, Addresses: all}, node: nodeWith("node0", noAddresses),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(all...)), calls: 4,
		},
		"first generation: a node without the taint gets addresses only": {
			cloud: &fakecloud.Cloud{InstanceTypes: types0, ExtID: id, Addresses: all, Zone: west}, node: nodeWith("node0", untainted, noAddresses),
			want: nodeWith("node0", untainted, withAddresses(all...)), calls: 4,
		},
		"first generation: zone and region become labels": {
			cloud: &fakecloud.Cloud{InstanceTypes: types0, ExtID: id, Addresses: all, Provider: "aws", Zone: west}, node: nodeWith("node0", noAddresses),
			want: nodeWith("node0", untainted, withID("aws://12345"), withLabels(westLabels(nil)), withAddresses(all...)), calls: 4,
		},
		"first generation: addresses are set, other taints stay": {
			cloud: &fakecloud.Cloud{ExtID: id, Addresses: all, ExistsByProviderID: true}, node: nodeWith("node0", noAddresses),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(all...)), calls: 4,
		},
		"nil metadata": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, OverrideInstanceMetadata: none},
			node:  nodeWith("node0", withIP("10.0.0.1"), withID("node0.aws.12345")),
			want:  nodeWith("node0", withIP("10.0.0.1"), withID("node0.aws.12345")), reason: CloudMetadataMissing,
		},
		"first generation: the provided IP is the instance's": {
			cloud: &fakecloud.Cloud{Addresses: ips, ExistsByProviderID: true}, node: nodeWith("node0", withIP("10.0.0.1"), withID("node0.aws.12345")),
			want: nodeWith("node0", untainted, withIP("10.0.0.1"), withID("node0.aws.12345"), withAddresses(ips[0], ips[1], fromKubelet)), calls: 3,
		},
		"first generation: the provided IP is none": {
			cloud: &fakecloud.Cloud{Addresses: ips, ExistsByProviderID: true}, node: nodeWith("node0", withIP("invalid-ip"), withID("node0.aws.12345")),
			want: nodeWith("node0", withIP("invalid-ip"), withID("node0.aws.12345")), reason: ProvidedIPMismatch,
		},
		"first generation: the provided IP is not the instance's": {
			cloud: &fakecloud.Cloud{Addresses: ips, ExistsByProviderID: true}, node: nodeWith("node0", withIP("10.0.0.2"), withID("node0.aws.12345")),
			want: nodeWith("node0", withIP("10.0.0.2"), withID("node0.aws.12345")), reason: ProvidedIPMismatch,
		},
		"first generation: the provider ID that is there stays": {
			cloud: &fakecloud.Cloud{Addresses: all}, node: nodeWith("node0", withID("test-provider-id"), noAddresses),
			want: nodeWith("node0", untainted, withID("test-provider-id"), withAddresses(all...)), calls: 3,
		},
		"first generation: a provider without provider IDs does not keep a node from being initialised": {
			cloud: &fakecloud.Cloud{Provider: "test", ExtIDErr: noID}, node: nodeWith("node0"),
			want: nodeWith("node0", untainted), calls: 4,
		},
		"the provider ID that is there stays and is enough": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, InstanceTypes: types0, ExtID: id, Addresses: all}, node: nodeWith("node0", withID("fake://12345")),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(all...)), calls: 1,
		},
		"a node without the taint gets addresses only": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, InstanceTypes: types0, ExtID: id, Addresses: all, Zone: west}, node: nodeWith("node0", untainted),
			want: nodeWith("node0", untainted, withAddresses(all...)), calls: 1,
		},
		"zone and region become labels": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, InstanceTypes: types0, ProviderID: fullID, Addresses: all, Provider: "aws", Zone: west},
			node:  nodeWith("node0", noAddresses),
			want:  nodeWith("node0", untainted, withID("fake://12345"), withLabels(westLabels(nil)), withAddresses(all...)), calls: 1,
		},
		"addresses are set, other taints stay": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, ProviderID: fullID, Addresses: all, ExistsByProviderID: true}, node: nodeWith("node0", noAddresses),
			want: nodeWith("node0", untainted, withID("fake://12345"), withAddresses(all...)), calls: 1,
		},
		"the provided IP is the instance's": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, Addresses: ips, ExistsByProviderID: true},
			node:  nodeWith("node0", withIP("10.0.0.1"), withID("node0.aws.12345")),
			want:  nodeWith("node0", untainted, withIP("10.0.0.1"), withID("node0.aws.12345"), withAddresses(ips[0], ips[1], fromKubelet)), calls: 1,
		},
		"additional labels are set": {
			cloud: &fakecloud.Cloud{
				EnableInstancesV2: true, Addresses: ips, Zone: west,
				AdditionalLabels: map[string]string{"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar"},
			},
			node: nodeWith("node0", withID("node0.cp.12345")),
			want: nodeWith("node0", untainted, withID("node0.cp.12345"), withAddresses(ips[0], ips[1], fromKubelet),
				withLabels(westLabels(map[string]string{"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar"}))), calls: 1,
		},
		"additional labels that are Kubernetes' own or there already are left out": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, Addresses: ips, Zone: west, AdditionalLabels: map[string]string{
				"topology.kubernetes.io/region": "us-other-west", "topology.k8s.io/region": "us-other-west", "kubernetes.io/region": "us-other-west",
				"k8s.io/region": "us-other-west", "my.custom.label/foo": "bar", "my.custom.label/bar": "foo", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
			}},
			node: nodeWith("node0", withID("node0.cp.12345"), withLabels(map[string]string{"my.custom.label/foo": "fizz", "my.custom.label/bar": "foo"})),
			want: nodeWith("node0", untainted, withID("node0.cp.12345"), withAddresses(ips[0], ips[1], fromKubelet), withLabels(westLabels(map[string]string{
				"my.custom.label/foo": "fizz", "my.custom.label/bar": "foo", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
			}))), calls: 1,
		},
		"the provider ID that is there stays, and the provider's none is no obstacle": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, Addresses: all}, node: nodeWith("node0", withID("test-provider-id"), noAddresses),
			want: nodeWith("node0", untainted, withID("test-provider-id"), withAddresses(all...)), calls: 1,
		},
		"a provider without the node's provider ID": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, Provider: "test", ExtIDErr: noID}, node: nodeWith("node0"),
			want: nodeWith("node0"), reason: ProviderIDMissing,
		},
		"an error of the provider": {
			cloud: &fakecloud.Cloud{EnableInstancesV2: true, Provider: "test", MetadataErr: errors.New("metadata error")}, node: nodeWith("node0"),
			want: nodeWith("node0"), reason: ReadingInstanceFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(test.node)
				c := start(t.Context(), t, api, test.cloud)
				pass(10 * time.Second)
				c.stop()
				if n := len(test.cloud.Calls); test.reason == "" && n > test.calls {
					t.Errorf("made %d calls to the cloud, upstream makes %d: %q", n, test.calls, test.cloud.Calls)
				}
				sameNode(t, test.want, api.Node("node0"))
				var reasons []string
				for _, event := range c.events(api) {
					reasons = append(reasons, event.reason)
				}
				switch {
				case test.reason != "":
					equal(t, "events", []string{test.reason}, reasons)
				case len(test.node.Spec.Taints) > 1:
					equal(t, "events", []string{Synced}, reasons)
				default:
					equal(t, "events", nil, reasons)
				}
				if n := len(writes(api)); n > 2 {
					t.Errorf("made %d writes: %q", n, writes(api))
				}
			})
		})
	}
}

// The cases of upstream's Test_reconcileNodeLabels.
func TestStableLabelsFollowTheirBetaPairs(t *testing.T) {
	want := map[string]string{
		corev1.LabelFailureDomainBetaZone: "foo", corev1.LabelTopologyZone: "foo", corev1.LabelFailureDomainBetaRegion: "bar", corev1.LabelTopologyRegion: "bar",
		corev1.LabelInstanceType: "the-best-type", corev1.LabelInstanceTypeStable: "the-best-type",
	}
	for name, test := range map[string]struct {
		labels map[string]string
		writes []string
	}{
		"those that are missing": {map[string]string{
			corev1.LabelFailureDomainBetaZone: "foo", corev1.LabelFailureDomainBetaRegion: "bar", corev1.LabelInstanceType: "the-best-type",
		}, []string{"PATCH node01"}},
		"not those that are the same": {want, nil},
		"those that are others": {map[string]string{
			corev1.LabelFailureDomainBetaZone: "foo", corev1.LabelTopologyZone: "wrongfoo", corev1.LabelFailureDomainBetaRegion: "bar",
			corev1.LabelTopologyRegion: "wrongbar", corev1.LabelInstanceType: "the-best-type", corev1.LabelInstanceTypeStable: "the-wrong-type",
		}, []string{"PATCH node01"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("node01", untainted, withLabels(test.labels)))
				start(t.Context(), t, api, &fakecloud.Cloud{EnableInstancesV2: true})
				pass(time.Second)
				equal(t, "labels", want, api.Node("node01").Labels)
				equal(t, "requests", test.writes, api.Requests())
			})
		})
	}
}

// The cases of upstream's TestNodeAddressesChangeDetected, and those that it gets wrong.
func TestAddressesAreComparedAsWhatTheyMean(t *testing.T) {
	for name, test := range map[string]struct {
		a, b []corev1.NodeAddress
		same bool
	}{
		"the same":   {list(internal("10.0.0.1"), external("132.143.154.163")), list(internal("10.0.0.1"), external("132.143.154.163")), true},
		"another IP": {list(internal("10.0.0.1"), external("132.143.154.164")), list(internal("10.0.0.1"), external("132.143.154.163")), false},
		"one is gone": {
			list(internal("10.0.0.1"), external("132.143.154.164"), hostname("h")),
			list(internal("10.0.0.1"), external("132.143.154.164")), false,
		},
		"one is new": {
			list(internal("10.0.0.1"), external("132.143.154.164")),
			list(internal("10.0.0.1"), external("132.143.154.164"), hostname("h")), false,
		},
		"other types":                   {list(external("10.0.0.1"), internal("132.143.154.163")), list(internal("10.0.0.1"), external("132.143.154.163")), false},
		"another order of types":        {list(hostname("h"), internal("10.0.0.1")), list(internal("10.0.0.1"), hostname("h")), true},
		"two families":                  {list(internal("10.0.0.1"), internal("fd00::1")), list(internal("10.0.0.1"), internal("fd00::1")), true},
		"the other family is primary":   {list(internal("10.0.0.1"), internal("fd00::1")), list(internal("fd00::1"), internal("10.0.0.1")), false},
		"one twice instead of two":      {list(internal("10.0.0.1"), internal("10.0.0.1")), list(internal("10.0.0.1"), internal("10.0.0.2")), false},
		"the first of a type is new":    {list(internal("10.0.0.9"), internal("10.0.0.2")), list(internal("10.0.0.1"), internal("10.0.0.2")), false},
		"none":                          {nil, nil, true},
		"as many, but of another type":  {list(internal("10.0.0.1"), internal("10.0.0.2")), list(internal("10.0.0.1"), external("10.0.0.2")), false},
		"only one of a type in the old": {list(internal("10.0.0.1"), external("10.0.0.2")), list(internal("10.0.0.1"), internal("10.0.0.2")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hasSameAddresses(test.a, test.b); got != test.same {
				t.Errorf("sameAddresses(%v, %v) = %v", test.a, test.b, got)
			}
		})
	}
}

func list(addresses ...corev1.NodeAddress) []corev1.NodeAddress { return addresses }

// The cases of upstream's TestNodeAddressesNotUpdate and TestNodeAddressesNotUpdateV2: the periodic comparison leaves tainted nodes alone.
func TestAddressesOfTaintedNodesAreNotCompared(t *testing.T) {
	for name, v2 := range map[string]bool{"first generation": false, "second": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(nodeWith("node0", withAddresses()))
				c, provider := lister(10)
				c.Instance = instanceOf
				if !v2 {
					provider = &fakecloud.Cloud{Addresses: list(internal("10.0.0.1")), ExtIDErr: map[types.NodeName]error{"node0": errors.New("no answer")}}
				} else {
					c.Call = func(context.Context, []*corev1.Node) error { return errors.New("no answer") }
				}
				start(t.Context(), t, api, provider)
				pass(11 * time.Minute)
				equal(t, "requests", nil, api.Requests())
			})
		})
	}
}

// The cases of upstream's TestUpdateNodeStatus: 100 nodes cost at most 100 calls, with any number of workers.
func TestComparingAddressesCostsOneCallPerNodeAtMost(t *testing.T) {
	for name, workers := range map[string]int{"a single worker": 1, "5 workers": 5, "10 workers": 10, "30 workers": 30} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(100, untainted, withID("test://n"))...)
				c, _ := lister(0)
				c.Latency = 10 * time.Millisecond
				start(t.Context(), t, api, c, func(config *Config) { config.Workers, config.StatusWorkers = workers, workers })
				pass(2 * time.Second)
				if n := len(c.Calls()); n != 100 {
					t.Errorf("made %d calls for 100 nodes", n)
				}
				if n := len(writes(api)); n != 100 {
					t.Errorf("made %d writes for 100 nodes", n)
				}
			})
		})
	}
}
