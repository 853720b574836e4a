// Package preview decides what the new manager would find and write about a cluster's nodes. It asks the cloud through
// the code that the new manager itself has. That is the provider, the reading of instances in batches, and the choice
// of addresses and labels. It writes nothing, neither to the cloud nor to the API. The cloud's provider is opened
// without a fence, so that it sends no request that changes something.
package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node"
)

// Bounds of a preview: of one call to the cloud, and of all of it. A call that the cloud throttles is made again until
// then; what is not answered by then is unknown.
const (
	callTimeout = 30 * time.Second
	timeout     = 90 * time.Second
)

// Source is a provider that was opened for previews: without a fence, so that it sends no request that changes
// something.
type Source struct {
	cloudprovider.Interface
	// Calls is how many requests were sent to the cloud so far.
	Calls func() int64
	// Finish ends what the provider has opened in the cloud; nil for nothing.
	Finish func(context.Context)
}

// Preview asks the source about nodes, and counts the calls to the cloud.
func (s *Source) Preview(ctx context.Context, nodes []v1.Node) *v1.Preview {
	if s.Finish != nil {
		defer s.Finish(ctx)
	}
	before := s.Calls()
	out := Preview(ctx, s.Interface, nodes)
	out.Calls = int(s.Calls() - before)
	return out
}

// Preview asks a provider about nodes. It works with any provider that can describe instances, in one call for many
// nodes where the provider has that (cloud.InstancesLister), else node by node. What concerns one node alone is in that
// node's Error; Error of the preview is why nothing is known.
func Preview(ctx context.Context, provider cloudprovider.Interface, nodes []v1.Node) *v1.Preview {
	out := &v1.Preview{Provider: provider.ProviderName()}
	instances, ok := cloud.InstancesOf(cloud.New(provider, cloud.Options{CallTimeout: callTimeout}).For(nil))
	if !ok {
		out.Error = fmt.Sprintf(
			"provider %s describes no instances: it has neither InstancesV2 nor Instances",
			provider.ProviderName(),
		)
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	objects := make([]*corev1.Node, len(nodes))
	for i := range nodes {
		objects[i] = object(&nodes[i])
	}
	states := instances.Read(ctx, objects, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata, 0)
	for i, state := range states {
		out.Nodes = append(out.Nodes, foresee(objects[i], state))
	}
	slices.SortFunc(out.Nodes, func(a, b v1.NodePreview) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// object is the Node as far as a provider and the node controller look at it.
func object(n *v1.Node) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:              n.Name,
			UID:               types.UID(n.UID),
			Labels:            n.Labels,
			Annotations:       n.Annotations,
			CreationTimestamp: metav1.NewTime(n.Created),
		},
		Spec: corev1.NodeSpec{ProviderID: n.ProviderID, PodCIDRs: n.PodCIDRs},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.SystemUUID, OperatingSystem: n.OS, KubeletVersion: n.KubeletVersion},
		},
	}
	for _, a := range n.Addresses {
		kind, address, _ := strings.Cut(a, "=")
		out.Status.Addresses = append(
			out.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address},
		)
	}
	return out
}

// topology are the labels that zone, region and type are written to.
var topology = []string{
	corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone,
	corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType,
	corev1.LabelInstanceTypeStable,
}

func foresee(n *corev1.Node, state cloud.InstanceState) v1.NodePreview {
	out := v1.NodePreview{Node: n.Name}
	if state.Err != nil {
		out.Error = state.Err.Error()
		return out
	}
	out.Found, out.Shutdown = state.Exists, state.Shutdown
	m := state.Metadata
	if !state.Exists {
		return out
	}
	if m == nil {
		out.Error = "the provider says nothing about the instance"
		return out
	}
	out.ProviderID, out.Zone, out.Region, out.Type = m.ProviderID, m.Zone, m.Region, m.InstanceType
	addresses, labels, err := node.Foresee(n, m)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for _, a := range addresses {
		out.Addresses = append(out.Addresses, string(a.Type)+"="+a.Address)
	}
	for key, value := range labels {
		if slices.Contains(topology, key) {
			continue
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[key] = value
	}
	return out
}
