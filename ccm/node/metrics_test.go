package node

import (
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	upstream "k8s.io/cloud-provider/controllers/node"
	cloudprovider "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/transplant-dev/transplant/ccm/metrics/metricstest"
)

func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	metricstest.Served(t, map[string]metrics.Registerable{
		"taintRemovalDelay": taintRemovalDelay,
		"initialSyncDelay":  initialSyncDelay,
	})
}

// It panics where it finds its series taken.
func TestUpstreamsControllerIsMadeNextToOurs(t *testing.T) {
	registerMetrics()
	client := fake.NewClientset()
	made := informers.NewSharedInformerFactory(client, 0)
	theirs, err := upstream.NewCloudNodeController(made.Core().V1().Nodes(), client, &cloudprovider.Cloud{EnableInstancesV2: true}, time.Second, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	close(stopped)
	theirs.Run(stopped, controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager")) // ends its queue
}
