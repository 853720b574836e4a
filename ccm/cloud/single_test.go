package cloud

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// oldCloud is cloudprovider.Instances and Zones of which a test says how the methods fail.
type oldCloud struct {
	recorder
	fails  map[string]error // by operation
	exists bool
}

func (o oldCloud) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	_, _ = o.recorder.InstanceID(ctx, name)
	return "id-of-" + string(name), o.fails["InstanceID"]
}

func (o oldCloud) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	a, _ := o.recorder.NodeAddresses(ctx, name)
	return a, o.fails["NodeAddresses"]
}

func (o oldCloud) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	a, _ := o.recorder.NodeAddressesByProviderID(ctx, id)
	return a, o.fails["NodeAddressesByProviderID"]
}

func (o oldCloud) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	a, _ := o.recorder.InstanceTypeByProviderID(ctx, id)
	return a, o.fails["InstanceTypeByProviderID"]
}

func (o oldCloud) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	a, _ := o.recorder.GetZoneByProviderID(ctx, id)
	return a, o.fails["GetZoneByProviderID"]
}

func (o oldCloud) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	a, _ := o.recorder.GetZoneByNodeName(ctx, name)
	return a, o.fails["GetZoneByNodeName"]
}

func (o oldCloud) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	_, _ = o.recorder.InstanceExistsByProviderID(ctx, id)
	return o.exists, o.fails["InstanceExistsByProviderID"]
}

func (o oldCloud) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	_, _ = o.recorder.InstanceShutdownByProviderID(ctx, id)
	return o.fails["InstanceShutdownByProviderID"] == nil, o.fails["InstanceShutdownByProviderID"]
}

var errBroken = errors.New("broken")

// same takes errors for equal when the one that is wanted is in the other.
var same = cmp.Options{cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) }), cmpopts.EquateEmpty()}

func TestAProviderOfTheFirstInterfaceIsAskedAsUpstreamDoes(t *testing.T) {
	const id = "test://n"
	addresses := func(a string) []corev1.NodeAddress { return []corev1.NodeAddress{{Address: a}} }
	notFound := cloudprovider.InstanceNotFound
	for name, c := range map[string]struct {
		unnamed bool // the node has no providerID
		want    Want
		fails   map[string]error
		gone    bool
		noZones bool
		state   InstanceState
		calls   []string
	}{
		"existence": {want: WantExists, state: InstanceState{Exists: true}, calls: []string{"InstanceExistsByProviderID"}},
		"gone":      {want: WantExists | WantShutdown, gone: true, calls: []string{"InstanceExistsByProviderID"}},
		"existence and shutdown": {want: WantExists | WantShutdown, state: InstanceState{Exists: true, Shutdown: true},
			calls: []string{"InstanceExistsByProviderID", "InstanceShutdownByProviderID"}},
		"shutdown is not implemented": {want: WantExists | WantShutdown, fails: map[string]error{"InstanceShutdownByProviderID": cloudprovider.NotImplemented},
			state: InstanceState{Exists: true, ShutdownUnknown: true}, calls: []string{"InstanceExistsByProviderID", "InstanceShutdownByProviderID"}},
		"existence is not known": {want: WantExists, fails: map[string]error{"InstanceExistsByProviderID": errBroken},
			state: InstanceState{Err: errBroken}, calls: []string{"InstanceExistsByProviderID"}},
		"an error that says not found does not delete": {want: WantExists, fails: map[string]error{"InstanceExistsByProviderID": notFound},
			state: InstanceState{Err: notFound}, calls: []string{"InstanceExistsByProviderID"}},
		"existence by name": {unnamed: true, want: WantExists | WantShutdown, state: InstanceState{Exists: true, Shutdown: true, IDAsked: true},
			calls: []string{"InstanceID", "InstanceExistsByProviderID", "InstanceShutdownByProviderID"}},
		"no such name": {unnamed: true, want: WantExists, fails: map[string]error{"InstanceID": notFound},
			state: InstanceState{IDAsked: true, IDNotFound: true}, calls: []string{"InstanceID"}},
		"the name is not known": {unnamed: true, want: WantExists, fails: map[string]error{"InstanceID": errBroken},
			state: InstanceState{Err: errBroken, IDAsked: true}, calls: []string{"InstanceID"}},
		"metadata": {want: WantMetadata,
			state: InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{
				ProviderID: id, InstanceType: id, NodeAddresses: addresses(id), Region: id,
			}},
			calls: []string{"NodeAddressesByProviderID", "InstanceTypeByProviderID", "GetZoneByProviderID"}},
		"addresses": {want: WantAddresses, fails: map[string]error{"GetZoneByProviderID": errBroken, "GetZoneByNodeName": errBroken},
			state: InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{ProviderID: id, NodeAddresses: addresses(id)}},
			calls: []string{"NodeAddressesByProviderID"}},
		"metadata without zones": {want: WantMetadata, noZones: true,
			state: InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{ProviderID: id, InstanceType: id, NodeAddresses: addresses(id)}},
			calls: []string{"NodeAddressesByProviderID", "InstanceTypeByProviderID"}},
		"metadata by name where the provider ID does not do": {want: WantMetadata,
			fails: map[string]error{"NodeAddressesByProviderID": errBroken, "InstanceTypeByProviderID": notFound, "GetZoneByProviderID": errBroken},
			state: InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{
				ProviderID: id, InstanceType: "n", NodeAddresses: addresses("n"), Region: "n",
			}},
			calls: []string{"NodeAddressesByProviderID", "NodeAddresses", "InstanceTypeByProviderID", "InstanceType", "GetZoneByProviderID", "GetZoneByNodeName"}},
		"metadata of a node without provider ID": {unnamed: true, want: WantMetadata, noZones: true,
			state: InstanceState{Exists: true, IDAsked: true, Metadata: &cloudprovider.InstanceMetadata{
				ProviderID: "test://id-of-n", InstanceType: "test://id-of-n", NodeAddresses: addresses("test://id-of-n"),
			}},
			calls: []string{"InstanceID", "NodeAddressesByProviderID", "InstanceTypeByProviderID"}},
		"metadata of a cloud without provider IDs": {unnamed: true, want: WantMetadata, noZones: true,
			fails: map[string]error{"InstanceID": cloudprovider.NotImplemented},
			state: InstanceState{Exists: true, IDAsked: true, Metadata: &cloudprovider.InstanceMetadata{InstanceType: "n", NodeAddresses: addresses("n")}},
			calls: []string{"InstanceID", "NodeAddresses", "InstanceType"}},
		"metadata of nothing": {want: WantMetadata, fails: map[string]error{"NodeAddressesByProviderID": notFound, "NodeAddresses": notFound},
			calls: []string{"NodeAddressesByProviderID", "NodeAddresses"}},
		"metadata of what may be nothing": {want: WantMetadata, fails: map[string]error{"NodeAddressesByProviderID": notFound, "NodeAddresses": errBroken},
			state: InstanceState{Err: errBroken}, calls: []string{"NodeAddressesByProviderID", "NodeAddresses"}},
		"metadata of what was there a moment ago": {want: WantExists | WantMetadata,
			fails: map[string]error{"NodeAddressesByProviderID": notFound, "NodeAddresses": notFound},
			state: InstanceState{Err: notFound}, calls: []string{"InstanceExistsByProviderID", "NodeAddressesByProviderID", "NodeAddresses"}},
		"the zone is not known": {want: WantMetadata, fails: map[string]error{"GetZoneByProviderID": errBroken, "GetZoneByNodeName": notFound},
			state: InstanceState{Err: errBroken},
			calls: []string{"NodeAddressesByProviderID", "InstanceTypeByProviderID", "GetZoneByProviderID", "GetZoneByNodeName"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			old := oldCloud{recorder: recorder{&calls}, fails: c.fails, exists: !c.gone}
			p := &provider{instances: old, zones: old}
			if c.noZones {
				p.zones = nil
			}
			asked := node("n")
			if c.unnamed {
				asked.Spec.ProviderID = ""
			}
			got := readerOf(t, p).Read(t.Context(), []*corev1.Node{asked}, c.want, 0)
			if diff := cmp.Diff([]InstanceState{c.state}, got, same); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// newCloud is cloudprovider.InstancesV2 of which a test says what the methods return.
type newCloud struct {
	recorder
	exists, shutdown bool
	metadata         *cloudprovider.InstanceMetadata
	fails            map[string]error
}

func (n newCloud) call(operation string) error {
	n.note(operation)
	return n.fails[operation]
}

func (n newCloud) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	return n.exists, n.call("InstanceExists")
}

func (n newCloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return n.shutdown, n.call("InstanceShutdown")
}

func (n newCloud) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return n.metadata, n.call("InstanceMetadata")
}

func TestAProviderOfTheSecondInterfaceIsAskedForWhatIsWantedAndNoMore(t *testing.T) {
	metadata := &cloudprovider.InstanceMetadata{InstanceType: "m"}
	notFound := cloudprovider.InstanceNotFound
	for name, c := range map[string]struct {
		want  Want
		cloud newCloud
		state InstanceState
		calls []string
	}{
		"existence": {WantExists, newCloud{exists: true}, InstanceState{Exists: true}, []string{"InstanceExists"}},
		"gone":      {everyWant, newCloud{}, InstanceState{}, []string{"InstanceExists"}},
		"metadata":  {WantMetadata, newCloud{metadata: metadata}, InstanceState{Exists: true, Metadata: metadata}, []string{"InstanceMetadata"}},
		"metadata of nothing": {WantMetadata, newCloud{fails: map[string]error{"InstanceMetadata": notFound}}, InstanceState{},
			[]string{"InstanceMetadata"}},
		"addresses":            {WantAddresses, newCloud{metadata: metadata}, InstanceState{Exists: true, Metadata: metadata}, []string{"InstanceMetadata"}},
		"metadata that is nil": {WantMetadata, newCloud{}, InstanceState{Exists: true}, []string{"InstanceMetadata"}},
		"everything": {everyWant, newCloud{exists: true, shutdown: true, metadata: metadata}, InstanceState{Exists: true, Shutdown: true, Metadata: metadata},
			[]string{"InstanceExists", "InstanceShutdown", "InstanceMetadata"}},
		"shutdown is not implemented": {WantExists | WantShutdown, newCloud{exists: true, fails: map[string]error{"InstanceShutdown": cloudprovider.NotImplemented}},
			InstanceState{Exists: true, ShutdownUnknown: true}, []string{"InstanceExists", "InstanceShutdown"}},
		"shutdown is not known": {everyWant, newCloud{exists: true, fails: map[string]error{"InstanceShutdown": errBroken}},
			InstanceState{Err: errBroken}, []string{"InstanceExists", "InstanceShutdown"}},
		"an error that says not found does not delete": {WantExists, newCloud{fails: map[string]error{"InstanceExists": notFound}},
			InstanceState{Err: notFound}, []string{"InstanceExists"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			c.cloud.recorder = recorder{&calls}
			got := readerOf(t, &provider{instancesV2: c.cloud, instances: c.cloud}).Read(t.Context(), nodes(1), c.want, 0)
			if diff := cmp.Diff([]InstanceState{c.state}, got, same); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// counted counts calls, and how many there are at the same time.
type counted struct{ now, most, all atomic.Int64 }

func (c *counted) around(d time.Duration) func() func() {
	return func() func() {
		c.all.Add(1)
		if n := c.now.Add(1); n > c.most.Load() {
			c.most.Store(n)
		}
		<-time.After(d)
		return func() { c.now.Add(-1) }
	}
}

// countingV2 counts calls and lets each take some time.
type countingV2 struct {
	counted *counted
	takes   time.Duration
	call    func(context.Context) error
}

func (c countingV2) one(ctx context.Context) error {
	defer c.counted.around(c.takes)()()
	if c.call != nil {
		return c.call(ctx)
	}
	return nil
}

func (c countingV2) InstanceExists(ctx context.Context, _ *corev1.Node) (bool, error) {
	return true, c.one(ctx)
}

func (c countingV2) InstanceShutdown(ctx context.Context, _ *corev1.Node) (bool, error) {
	return false, c.one(ctx)
}

func (c countingV2) InstanceMetadata(ctx context.Context, _ *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{}, c.one(ctx)
}

func TestNodesAreAskedForOneByOneWithBoundedParallelism(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &counted{}
		reader := readerOf(t, &provider{instancesV2: countingV2{counted, 50 * time.Millisecond, nil}})
		if reader.BatchSize() != 1 {
			t.Errorf("the batch size is %d", reader.BatchSize())
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 2 { // two callers share the calls
			wg.Go(func() { reader.Read(t.Context(), nodes(1000), WantMetadata, time.Minute) })
		}
		wg.Wait()
		got := []int64{counted.all.Load(), counted.most.Load(), int64(time.Since(begun) / time.Second)}
		if diff := cmp.Diff([]int64{1000, singles, 1}, got); diff != "" {
			t.Errorf("calls, at the same time, seconds (-want +got):\n%s", diff)
		}
	})
}

func TestReadsThatTheCloudThrottlesAreMadeAgainByTheShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newBucket(20, 100, 50*time.Millisecond)
		reader := readerOf(t, &provider{instancesV2: countingV2{&counted{}, 0, cloud.call}})
		begun := time.Now()
		for i, state := range reader.Read(t.Context(), nodes(1000), WantMetadata, 0) {
			if state.Err != nil {
				t.Errorf("node %d: %v", i, state.Err)
			}
		}
		took, refused := time.Since(begun), float64(cloud.refused)/float64(cloud.served+cloud.refused)
		t.Logf("1000 calls in %s, %.1f%% refused", took, 100*refused)
		if took > 56*time.Second || refused > 0.15 { // 45 seconds are possible
			t.Errorf("1000 calls in %s, %.2f refused", took, refused)
		}
	})
}

func TestACloudThatThrottlesForEverIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newBucket(0, 0, 50*time.Millisecond)
		reader := readerOf(t, &provider{instancesV2: countingV2{&counted{}, 0, cloud.call}})
		begun := time.Now()
		got := reader.Read(t.Context(), nodes(1), WantMetadata, 0)
		if took := time.Since(begun); Classify(got[0].Err) != OutcomeThrottled || took > retryFor+10*time.Second || cloud.refused > 50 {
			t.Errorf("after %s and %d calls: %v", took, cloud.refused, got[0].Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		got = reader.Read(ctx, nodes(1), WantMetadata, 0)
		if took := time.Since(begun); got[0].Err == nil || took > 2*time.Second {
			t.Errorf("after %s: %v", took, got[0].Err)
		}
	})
}
