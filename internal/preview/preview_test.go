package preview

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a provider of the simplest kind: InstancesV2 and nothing else.
type fake struct {
	cloudprovider.Interface
	instances cloudprovider.InstancesV2
}

func (f *fake) ProviderName() string { return "fake" }
func (f *fake) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return f.instances, f.instances != nil
}
func (f *fake) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (f *fake) HasClusterID() bool                               { return true }
func (f *fake) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
func (f *fake) Routes() (cloudprovider.Routes, bool)             { return nil, false }
func (f *fake) Zones() (cloudprovider.Zones, bool)               { return nil, false }

// oneByOne answers by the node's name.
type oneByOne struct{}

func (oneByOne) InstanceExists(_ context.Context, n *corev1.Node) (bool, error) {
	if n.Name == "refused" {
		return false, errors.New("not authorized")
	}
	return n.Name != "gone", nil
}

func (oneByOne) InstanceShutdown(_ context.Context, n *corev1.Node) (bool, error) {
	return n.Name == "off", nil
}

func (oneByOne) InstanceMetadata(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{
		ProviderID: "fake://" + n.Name, InstanceType: "m5.large", Zone: "z1", Region: "r", AdditionalLabels: map[string]string{"fake.example.com/rack": "7"},
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.2"}},
	}, nil
}

func TestPreviewOfAnyProvider(t *testing.T) {
	nodes := []v1.Node{
		{
			Name:        "told",
			Annotations: map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.0.0.2"},
			Addresses:   []string{"Hostname=told", "InternalIP=10.0.0.2"},
		},
		{Name: "mistold", Annotations: map[string]string{"alpha.kubernetes.io/provided-node-ip": "192.0.2.1"}},
		{Name: "gone"},
		{Name: "off"},
		{Name: "refused"},
	}
	got := Preview(t.Context(), &fake{instances: oneByOne{}}, nodes)
	for i := range got.Nodes {
		if i > 0 && got.Nodes[i].Node < got.Nodes[i-1].Node {
			t.Error("the nodes are not sorted")
		}
	}
	both, rack := []string{"InternalIP=10.0.0.1", "InternalIP=10.0.0.2"}, map[string]string{"fake.example.com/rack": "7"}
	want := map[string]v1.NodePreview{
		"gone": {Node: "gone"},
		"off":  {Node: "off", Found: true, Shutdown: true, ProviderID: "fake://off", Zone: "z1", Region: "r", Type: "m5.large", Addresses: both, Labels: rack},
		"told": {
			Node:       "told",
			Found:      true,
			ProviderID: "fake://told",
			Zone:       "z1",
			Region:     "r",
			Type:       "m5.large",
			Addresses:  []string{"InternalIP=10.0.0.2", "Hostname=told"},
			Labels:     rack,
		},
	}
	for _, n := range got.Nodes {
		switch n.Node {
		case "refused":
			if !strings.Contains(n.Error, "not authorized") || n.Found {
				t.Errorf("got %+v", n)
			}
		case "mistold":
			if !strings.Contains(n.Error, "192.0.2.1") || !n.Found {
				t.Errorf("got %+v", n)
			}
		default:
			if diff := cmp.Diff(want[n.Node], n); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

func TestAProviderWithoutInstancesSaysSo(t *testing.T) {
	if got := Preview(t.Context(), &fake{}, []v1.Node{{Name: "a"}}); !strings.Contains(got.Error, "provider fake describes no instances") || got.Nodes != nil {
		t.Errorf("got %+v", got)
	}
}

// stuck never answers before its caller gives up.
type stuck struct{ oneByOne }

func (stuck) InstanceExists(ctx context.Context, _ *corev1.Node) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func TestAPreviewEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := Preview(ctx, &fake{instances: stuck{}}, []v1.Node{{Name: "a"}, {Name: "b"}})
	for _, n := range got.Nodes {
		if n.Error == "" || n.Found {
			t.Errorf("got %+v", n)
		}
	}
}
