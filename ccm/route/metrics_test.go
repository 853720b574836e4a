package route

import (
	"net"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	upstream "k8s.io/cloud-provider/controllers/route"
	cloudprovider "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics"
	_ "k8s.io/controller-manager/pkg/features/register" // New asks for one of its gates

	"github.com/transplant-dev/transplant/ccm/metrics/metricstest"
)

func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	metricstest.Served(t, map[string]metrics.Registerable{
		"syncs": syncs,
	})
}

// It panics where it finds its series taken.
func TestUpstreamsControllerIsMadeNextToOurs(t *testing.T) {
	registerMetrics()
	client := fake.NewClientset()
	made := informers.NewSharedInformerFactory(client, 0)
	if _, err := upstream.New(&cloudprovider.Cloud{}, client, made.Core().V1().Nodes(), "kubernetes", []*net.IPNet{{}}); err != nil {
		t.Fatal(err)
	}
}
