package nodelifecycle

import (
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	upstream "k8s.io/cloud-provider/controllers/nodelifecycle"
	cloudprovider "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics"

	"github.com/transplant-dev/transplant/ccm/metrics/metricstest"
)

func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	metricstest.Served(t, map[string]metrics.Registerable{
		"monitorDuration": monitorDuration,
		"providerCalls":   providerCalls,
	})
}

// It panics where it finds its series taken.
func TestUpstreamsControllerIsMadeNextToOurs(t *testing.T) {
	registerMetrics()
	client := fake.NewClientset()
	made := informers.NewSharedInformerFactory(client, 0)
	cloud := &cloudprovider.Cloud{EnableInstancesV2: true}
	if _, err := upstream.NewCloudNodeLifecycleController(made.Core().V1().Nodes(), client, cloud, time.Second, 1); err != nil {
		t.Fatal(err)
	}
}
