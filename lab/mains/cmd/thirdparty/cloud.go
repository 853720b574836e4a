package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

const (
	provider   = "thirdparty"
	controlled = "thirdparty-controller"
	// period of the two loops: short, so that a loop which goes on too long is seen.
	period = 200 * time.Millisecond
)

// cloud knows every node.
type cloud struct{ region string }

// Initialize writes, and starts a loop that writes.
func (c *cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	client := clients.ClientOrDie("thirdparty-provider")
	if err := write(context.Background(), client, "thirdparty-initialized"); err != nil {
		klog.Fatalf("writing in Initialize: %v", err)
	}
	go wait.Until(func() {
		if err := write(context.Background(), client, "thirdparty-loop"); err != nil {
			klog.ErrorS(err, "Writing in the provider's loop")
		}
	}, period, stop)
}

func (c *cloud) ProviderName() string                             { return provider }
func (c *cloud) HasClusterID() bool                               { return true }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
func (c *cloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)               { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)         { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)             { return nil, false }

func (c *cloud) InstanceExists(context.Context, *corev1.Node) (bool, error)   { return true, nil }
func (c *cloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }
func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{
		ProviderID: provider + ":///" + node.Name, InstanceType: "large", Zone: c.region + "-a", Region: c.region,
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.21"}},
	}, nil
}

// write counts in a ConfigMap of this name.
func write(ctx context.Context, client kubernetes.Interface, name string) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	patch := fmt.Appendf(nil, `{"data":{"at":%q}}`, time.Now().Format(time.RFC3339Nano))
	_, err := maps.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}
