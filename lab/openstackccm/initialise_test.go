package openstackccm

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudproviderapi "k8s.io/cloud-provider/api"

	nodecontroller "github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// Two hundred nodes that wait for a manager get providerID, addresses and labels by its node controller with at most ten requests to OpenStack in all.
func TestTwoHundredNodesAreInitialisedWithTenRequests(t *testing.T) {
	f := start(t, openstacksim.Options{})
	client := fake.NewClientset()
	for _, n := range f.addServers(200) {
		n.Spec.ProviderID, n.Status.Addresses = "", nil
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	options := nodecontroller.NewOptions()
	options.GatherWindow = 2 * time.Second // on a busy machine two hundred nodes are not in the queue within the usual 50 ms
	made, err := nodecontroller.New(nodecontroller.Config{
		Client: client, Cloud: f.cloud, Nodes: factory.Core().V1().Nodes(), StatusUpdateFrequency: time.Hour, Workers: 1, Options: options,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { made.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	left := 200
	initialised := func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left = 0
		for _, n := range list.Items {
			if tainted(&n) || n.Spec.ProviderID == "" || n.Labels[corev1.LabelTopologyZone] != "nova" || n.Labels[corev1.LabelInstanceTypeStable] != "m1.small" ||
				len(n.Status.Addresses) == 0 {
				left++
			}
		}
		return left == 0, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, initialised); err != nil {
		t.Fatalf("%d nodes are not initialised: %v", left, err)
	}
	if calls := f.Calls(); len(calls) > 10 {
		t.Errorf("%d requests: %v", len(calls), calls)
	} else {
		t.Logf("%d requests: %v", len(calls), calls)
	}
}

func tainted(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}
