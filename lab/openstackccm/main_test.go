package openstackccm

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a simulated cloud, and our provider on it.
type fixture struct {
	*openstacksim.Cloud

	cloud *openstack.Cloud
	clock *testclock.FakePassiveClock // the provider's
}

func start(t *testing.T, o openstacksim.Options, more ...string) *fixture {
	t.Helper()
	sim := openstacksim.Start(o)
	t.Cleanup(sim.Close)
	return startOn(t, sim, sim.Config(more...))
}

// startOn is our provider on a simulated cloud, by a cloud config.
func startOn(t *testing.T, sim *openstacksim.Cloud, config []byte, change ...func(*openstack.Options)) *fixture {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	t.Cleanup(transport.CloseIdleConnections)
	clock := testclock.NewFakePassiveClock(time.Now())
	options := openstack.Options{Client: client.Options{Next: transport}, Clock: clock}
	for _, c := range change {
		c(&options)
	}
	cloud, err := openstack.Open(config, options)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Cloud: sim, cloud: cloud, clock: clock}
}

// wait lets time pass for the provider.
func (f *fixture) wait(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// addServers adds servers n-0, n-1, ..., each with a port in the network nodes, and returns their nodes with provider IDs.
func (f *fixture) addServers(count int) (nodes []*corev1.Node) {
	for i := range count {
		name, address := fmt.Sprintf("n-%d", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200+10)
		id := f.AddServer(openstacksim.Server{Name: name})
		f.AddPort(openstacksim.Port{Network: "nodes", DeviceID: id, Addresses: []string{address}})
		nodes = append(nodes, node(name, id, address))
	}
	return nodes
}

func node(name, server string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if server != "" {
		n.Spec.ProviderID = "openstack:///" + server
		n.Status.NodeInfo.SystemUUID = server
	}
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return n
}

// know gives the provider a cache of nodes.
func (f *fixture) know(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	f.cloud.SetInformers(factory)
	for _, n := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetStore().Add(n); err != nil {
			t.Fatal(err)
		}
	}
}

// opens is the error that a cloud config gives.
func opens(config []byte) error {
	_, err := openstack.Open(config, openstack.Options{})
	return err
}
