// Command fakecloud is no program by itself: this file is added to the main package of one that has no provider.
package main

import (
	"context"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
)

// The library's fake provider knows every node, and gives load balancers an address.
func init() {
	cloudprovider.RegisterCloudProvider("fake", func(io.Reader) (cloudprovider.Interface, error) {
		return &fake.Cloud{
			EnableInstancesV2:  true,
			ExistsByProviderID: true,
			ExternalIP:         net.IPv4(192, 0, 2, 1),
			RouteMap:           map[string]*fake.Route{},
			OverrideInstanceMetadata: func(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
				return &cloudprovider.InstanceMetadata{
					ProviderID: "fake:///" + node.Name, InstanceType: "fake.large", Zone: "fake-1a", Region: "fake-1",
					NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.21"}},
				}, nil
			},
		}, nil
	})
}
