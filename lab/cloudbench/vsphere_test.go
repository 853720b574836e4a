package cloudbench

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// machines is how many nodes a cluster on vSphere has.
const machines = 500

// clients are those of a cluster, as a manager gives them to a provider.
type clients struct {
	cloudprovider.ControllerClientBuilder

	api kubernetes.Interface
}

func (c clients) Client(string) (kubernetes.Interface, error) { return c.api, nil }

func (c clients) ClientOrDie(string) kubernetes.Interface { return c.api }

// period is what looks at all nodes once cost a vCenter.
type period struct {
	calls, sessions int
	took            time.Duration
}

// BenchmarkFiveHundredNodesOnVSphere describes each of 500 nodes with zones from tags, once in a period: by our provider's list, and
// one by one by upstream's. The first period, with logins and what is read once, is not counted.
func BenchmarkFiveHundredNodesOnVSphere(b *testing.B) {
	for b.Loop() {
		ours, theirs := describe(b, ourProvider), describe(b, upstreamProvider)
		ratio := float64(theirs.calls) / float64(ours.calls)
		b.ReportMetric(float64(ours.calls), "calls")
		b.ReportMetric(float64(ours.sessions), "sessions")
		b.ReportMetric(float64(theirs.calls), "upstream-calls")
		b.ReportMetric(ratio, "x-fewer-calls")
		b.Logf("%d nodes: %d calls and %d session a period in %.2f s (goals: 3 calls, 1 session); upstream's provider %d calls, %d sessions and %.2f s: "+
			"%.0f times as many calls", machines, ours.calls, ours.sessions, ours.took.Seconds(), theirs.calls, theirs.sessions, theirs.took.Seconds(), ratio)
	}
}

// look describes all nodes once.
type look func(ctx context.Context, nodes []*corev1.Node) error

// describe measures the second look of a provider at a vCenter of its own.
func describe(b *testing.B, open func(*testing.B, []byte, *fake.Clientset) look) period {
	b.Helper()
	sim, err := vspheresim.Start(b.Context(), vspheresim.Options{Machines: machines, Number: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer sim.Close()
	for category, kind := range map[string]string{"k8s-zone": "ClusterComputeResource", "k8s-region": "Datacenter"} {
		if err := sim.Tag(b.Context(), category, category+"-1", kind); err != nil {
			b.Fatal(err)
		}
	}
	made, err := sim.Machines(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	api, nodes := fake.NewClientset(), []*corev1.Node{}
	for i, m := range made {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-1-%d", i)}, Spec: corev1.NodeSpec{ProviderID: "vsphere://" + m.UUID}}
		node.Status.NodeInfo.SystemUUID = m.UUID
		nodes = append(nodes, node)
		if _, err := api.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	config := "global: {insecureFlag: true}\nvcenter:\n" + sim.Config("bench", "datacenters: [DC0]") + "labels: {zone: k8s-zone, region: k8s-region}\n"
	all := open(b, []byte(config), api)
	// Upstream's provider finds machines by events of Nodes, which take their time.
	first := func(ctx context.Context) error { return all(ctx, nodes) }
	if err := poll.Within(b.Context(), time.Second, poll.Patience, "all nodes to be described", first); err != nil {
		b.Fatal(err)
	}
	sim.Calls()
	begin := time.Now()
	if err := all(b.Context(), nodes); err != nil {
		b.Fatal(err)
	}
	out := period{took: time.Since(begin), calls: len(sim.Calls())}
	if out.sessions, err = sim.Sessions(b.Context()); err != nil {
		b.Fatal(err)
	}
	return out
}

func ourProvider(b *testing.B, config []byte, _ *fake.Clientset) look {
	b.Helper()
	made, err := vsphere.Open(config, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, nodes []*corev1.Node) error {
		states, err := made.ListInstances(ctx, nodes, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
		for _, s := range states {
			if s.Err != nil || s.Metadata == nil || s.Metadata.Zone != "k8s-zone-1" {
				return fmt.Errorf("a node is described as %+v", s)
			}
		}
		return err
	}
}

func upstreamProvider(b *testing.B, config []byte, api *fake.Clientset) look {
	b.Helper()
	made, err := cloudprovider.GetCloudProvider(upstream.RegisteredProviderName, bytes.NewReader(config))
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop) })
	made.Initialize(clients{api: api}, stop)
	instances, ok := made.InstancesV2()
	if !ok {
		b.Fatal("upstream's provider has no InstancesV2")
	}
	return func(ctx context.Context, nodes []*corev1.Node) error {
		for _, n := range nodes {
			metadata, err := instances.InstanceMetadata(ctx, n)
			if err != nil {
				return fmt.Errorf("describing node %s: %w", n.Name, err)
			}
			if metadata.Zone != "k8s-zone-1" {
				return fmt.Errorf("node %s is described as %+v", n.Name, metadata)
			}
		}
		return nil
	}
}
