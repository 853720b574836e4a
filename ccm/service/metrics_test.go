package service

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	upstream "k8s.io/cloud-provider/controllers/service"
	cloudprovider "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/transplant-dev/transplant/ccm/metrics/metricstest"
)

func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	metricstest.Served(t, map[string]metrics.Registerable{
		"loadBalancerSyncCount": loadBalancerSyncCount,
		"nodeSyncErrorCount":    nodeSyncErrorCount,
		"nodeSyncLatency":       nodeSyncLatency,
		"updateHostLatency":     updateHostLatency,
	})
}

// It panics where it finds its series taken.
func TestUpstreamsControllerIsMadeNextToOurs(t *testing.T) {
	registerMetrics()
	client := fake.NewClientset()
	made := informers.NewSharedInformerFactory(client, 0)
	theirs, err := upstream.New(&cloudprovider.Cloud{}, client, made.Core().V1().Services(), made.Core().V1().Nodes(), "kubernetes", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	theirs.Run(ended, 1, controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager")) // ends its queues
}
