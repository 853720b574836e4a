package ccmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/simhttp"
)

// EndCloud ends a simulated cloud with the test. The test fails if the simulator did not know a request; if it has
// failed, what was changed is shown.
func EndCloud(t *testing.T, sim interface {
	Calls() []simhttp.Call
	Close()
},
) {
	t.Helper()
	t.Cleanup(func() {
		for _, call := range sim.Calls() {
			if t.Failed() && call.Mutates {
				t.Log(call)
			}
			if call.Unknown {
				t.Errorf("the simulator does not know %s?%s", call, call.Query)
			}
		}
		sim.Close()
	})
}

// clients are those of an API server.
type clients struct {
	cloudprovider.ControllerClientBuilder

	config *rest.Config
}

func (c clients) ClientOrDie(string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(c.config)
}

// ClientsFor are the clients of a provider on an API server that takes events. The objects of other requests that it
// takes are by method and path, where a path that ends with / stands for those below. It knows nothing else.
func ClientsFor(t *testing.T, objects map[string]any) cloudprovider.ControllerClientBuilder {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(pattern string, status int, body any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body) // the client may have left
		})
	}
	event := corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}
	answer("POST /api/v1/namespaces/{namespace}/events", http.StatusCreated, event)
	answer("PATCH /api/v1/namespaces/{namespace}/events/{name}", http.StatusOK, event)
	for pattern, object := range objects {
		answer(pattern, http.StatusOK, object)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the API server is asked %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return clients{config: &rest.Config{Host: server.URL}}
}

// RunController has a controller work, with the caches of a factory, until the test ends. Both have ended then.
func RunController(t testing.TB, factory informers.SharedInformerFactory, run func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
}

// LoadBalancers are those of a provider.
func LoadBalancers(t *testing.T, provider cloudprovider.Interface) cloudprovider.LoadBalancer {
	t.Helper()
	found, ok := provider.LoadBalancer()
	if !ok {
		t.Fatal("the provider has no load balancers")
	}
	return found
}

// Service is one with a load balancer, as the API server has it. Its UID has its name in it.
func Service(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Annotations: annotations,
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", name)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityNone,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports:                 []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

// CheckInventory fails the test unless an inventory has what is wanted and no errors. Machines, routes and load
// balancers are written as "machine ID STATE ZONE", "route CIDR to TARGET" and "SCHEME LISTENERS with MEMBERS".
func CheckInventory(t *testing.T, got *v1.CloudInventory, want ...string) {
	t.Helper()
	var seen []string
	for _, i := range got.Instances {
		seen = append(seen, "machine "+i.ID+" "+i.State+" "+i.Zone)
	}
	for _, r := range got.Routes {
		seen = append(seen, "route "+r.CIDR+" to "+r.Target)
	}
	for _, b := range got.LoadBalancers {
		seen = append(seen, fmt.Sprintf("%s %v with %v", b.Scheme, b.Listeners, b.Members))
	}
	slices.Sort(seen)
	slices.Sort(want)
	if diff := cmp.Diff(want, seen); diff != "" || len(got.Errors) > 0 {
		t.Errorf("the inventory (-want +got), errors %q:\n%s", got.Errors, diff)
	}
}

// CheckPreview fails the test unless a preview of two nodes has found the first one alone, by counted calls that change
// nothing.
func CheckPreview(t *testing.T, provider string, nodes []v1.Node, shown *v1.Preview, calls []simhttp.Call) {
	t.Helper()
	if shown.Error != "" || len(shown.Nodes) != len(nodes) || shown.Provider != provider {
		t.Fatalf("%+v", shown)
	}
	for _, n := range shown.Nodes {
		if n.Error != "" || n.Found != (n.Node == nodes[0].Name) {
			t.Errorf("%+v", n)
		}
	}
	if len(calls) == 0 || len(calls) != shown.Calls {
		t.Errorf("%d calls are counted, and these were made: %v", shown.Calls, calls)
	}
	CheckReads(t, calls)
}

// CheckReads fails the test if a call changes something.
func CheckReads(t *testing.T, calls []simhttp.Call) {
	t.Helper()
	for _, call := range calls {
		if call.Mutates {
			t.Errorf("it sent %s", call)
		}
	}
}
