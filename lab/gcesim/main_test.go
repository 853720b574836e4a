package gcesim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

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

// startAPI is an API server that has the ConfigMap with the cluster's ID, takes events and patches of Services, and nothing else.
func startAPI(t *testing.T) *rest.Config {
	t.Helper()
	ids := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "ingress-uid", Namespace: "kube-system", ResourceVersion: "1"},
		Data:       map[string]string{"uid": clusterID, "provider-uid": clusterID},
	}
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may have left
	}
	refuse := func(w http.ResponseWriter, status int, reason metav1.StatusReason) {
		answer(w, status, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(status), Reason: reason,
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/namespaces/kube-system/configmaps/ingress-uid" && r.Method == http.MethodGet:
			answer(w, http.StatusOK, ids)
		case r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/default/services/"):
			answer(w, http.StatusOK, corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}})
		case strings.HasSuffix(r.URL.Path, "/events"):
			answer(w, http.StatusCreated, corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}})
		default:
			t.Errorf("the API server is asked %s %s", r.Method, r.URL)
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

// clients are those of the cluster.
type clients struct {
	cloudprovider.ControllerClientBuilder

	config *rest.Config
}

func (c clients) ClientOrDie(string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(c.config)
}

// open opens the provider on a simulated cloud, as its controllers would.
func open(t *testing.T, sim *gcesim.Cloud, o gce.Options, more ...string) *gce.Cloud {
	t.Helper()
	o.Metadata = client.Metadata{Host: sim.MetadataHost()}
	cloud, err := gce.Open(t.Context(), sim.Config(more...), o)
	if err != nil {
		t.Fatal(err)
	}
	cloud.Initialize(clients{config: startAPI(t)}, t.Context().Done())
	return cloud
}

func start(t *testing.T, o gcesim.Options) *gcesim.Cloud {
	t.Helper()
	sim := gcesim.Start(o)
	t.Cleanup(func() {
		for _, call := range sim.Calls() {
			if call.Unknown {
				t.Errorf("the simulator does not know %s?%s", call, call.Query)
			}
		}
		sim.Close()
	})
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
