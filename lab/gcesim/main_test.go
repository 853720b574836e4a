package gcesim_test

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/provider/gce"
	"github.com/transplant-dev/transplant/provider/gce/client"
)

// clusterID is that of the cluster, in names of shared objects.
const clusterID = "0123456789abcdef"

// TestMain gives upstream's provider a metadata server: its client of TPUs, which is not used, finds Google's default credentials by it.
func TestMain(m *testing.M) {
	sim := gcesim.Start(gcesim.Options{})
	if err := os.Setenv("GCE_METADATA_HOST", sim.MetadataHost()); err != nil {
		panic(err)
	}
	code := m.Run()
	sim.Close()
	os.Exit(code)
}

// clients are those of an API server that has the ConfigMap with the cluster's ID, and takes patches of Services.
func clients(t *testing.T) cloudprovider.ControllerClientBuilder {
	t.Helper()
	return ccmtest.ClientsFor(t, map[string]any{
		"GET /api/v1/namespaces/kube-system/configmaps/ingress-uid": corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "ingress-uid", Namespace: "kube-system", ResourceVersion: "1"},
			Data:       map[string]string{"uid": clusterID, "provider-uid": clusterID},
		},
		"PATCH /api/v1/namespaces/default/services/": corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
	})
}

// open opens the provider on a simulated cloud, as its controllers would.
func open(t *testing.T, sim *gcesim.Cloud, o gce.Options, more ...string) *gce.Cloud {
	t.Helper()
	o.Metadata = client.Metadata{Host: sim.MetadataHost()}
	cloud, err := gce.Open(t.Context(), sim.Config(more...), o)
	if err != nil {
		t.Fatal(err)
	}
	cloud.Initialize(clients(t), t.Context().Done())
	return cloud
}

func start(t *testing.T, o gcesim.Options) *gcesim.Cloud {
	t.Helper()
	sim := gcesim.Start(o)
	ccmtest.EndCloud(t, sim)
	return sim
}

// owner does what the owner of instances does.
type owner struct {
	sim  *gcesim.Cloud
	made int
}

func (o *owner) Create() *corev1.Node {
	o.made++
	name := fmt.Sprintf("node-%d", o.made)
	o.sim.AddInstance(gcesim.Instance{Name: name, IP: fmt.Sprintf("10.0.0.%d", o.made), ExternalIP: fmt.Sprintf("203.0.113.%d", o.made)})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("uid-%d", o.made))}}
}

func (o *owner) Stop(node *corev1.Node)   { o.sim.SetStatus(gcesim.Zone, node.Name, "TERMINATED") }
func (o *owner) Delete(node *corev1.Node) { o.sim.DeleteInstance(gcesim.Zone, node.Name) }
