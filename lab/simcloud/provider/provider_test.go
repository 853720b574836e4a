package provider

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a cloud and a provider for it.
func start(t *testing.T, settings simcloud.Settings, config Config) (*simcloud.Cloud, cloudprovider.Interface) {
	t.Helper()
	c, err := simcloud.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Set(settings); err != nil {
		t.Fatal(err)
	}
	config.Endpoint, config.Caller = c.URL(), "test"
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	return c, p
}

func node(name, id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
}

var machines = []api.Instance{
	{
		Name: "n1", ProviderID: "sim:///1", Type: "small", Zone: "z", Region: "r", Labels: map[string]string{"rack": "7"},
		Addresses: []api.Address{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "ExternalIP", Address: "192.0.2.1"}},
	},
	{Name: "n2", ProviderID: "sim:///2", Shutdown: true},
}

var first = &cloudprovider.InstanceMetadata{
	ProviderID: "sim:///1", InstanceType: "small", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"rack": "7"},
	NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.1"}},
}

func TestManyInstancesAreDescribedInOneCallAndTheSameAsOneByOne(t *testing.T) {
	c, p := start(t, simcloud.Settings{}, Config{})
	if err := c.Apply(simcloud.Change{PutInstances: machines}); err != nil {
		t.Fatal(err)
	}
	nodes := []*corev1.Node{node("n2", "sim:///2"), node("n1", ""), node("n3", "sim:///3"), node("n4", "")}
	got, err := p.(cloud.InstancesLister).ListInstances(t.Context(), nodes, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.InstanceState{
		{Exists: true, Shutdown: true, Metadata: &cloudprovider.InstanceMetadata{ProviderID: "sim:///2"}}, {Exists: true, Metadata: first}, {}, {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if calls := c.Calls(simcloud.Filter{}); len(calls) != 1 || calls[0].Count != 4 {
		t.Errorf("calls are %+v, want one for four instances", calls)
	}
	v2, _ := p.InstancesV2()
	for i, n := range nodes {
		exists, err := v2.InstanceExists(t.Context(), n)
		if err != nil || exists != want[i].Exists {
			t.Errorf("%s exists: %t, %v", n.Name, exists, err)
		}
		shutdown, err := v2.InstanceShutdown(t.Context(), n)
		if shutdown != want[i].Shutdown || errors.Is(err, cloudprovider.InstanceNotFound) == want[i].Exists {
			t.Errorf("%s is shut down: %t, %v", n.Name, shutdown, err)
		}
		meta, err := v2.InstanceMetadata(t.Context(), n)
		if !cmp.Equal(meta, want[i].Metadata) || errors.Is(err, cloudprovider.InstanceNotFound) == want[i].Exists {
			t.Errorf("%s: %+v, %v", n.Name, meta, err)
		}
	}
	if none, err := p.(cloud.InstancesLister).ListInstances(t.Context(), nil, cloud.WantExists); none != nil || err != nil {
		t.Errorf("of no nodes: %v, %v", none, err)
	}
	if _, ok := any(p.(Lister).Provider).(cloud.InstancesLister); ok {
		t.Error("the provider without a lister has one")
	}
}

func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234", Annotations: map[string]string{"other.example/x": "y"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestALoadBalancersLife(t *testing.T) {
	c, p := start(t, simcloud.Settings{}, Config{EnsureRequests: 3})
	lbs, _ := p.LoadBalancer()
	s := service(func(s *corev1.Service) {
		s.Annotations[AnnotationIngress], s.Annotations[AnnotationIPMode] = api.KindIP, "Proxy"
		s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "198.51.100.0/24"}
		s.Spec.HealthCheckNodePort = 30099
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30080})
	})
	nodes := []*corev1.Node{node("n2", "sim:///2"), node("n1", "sim:///1"), node("new", "")}
	got, err := lbs.EnsureLoadBalancer(t.Context(), "kubernetes", s, nodes)
	if err != nil {
		t.Fatal(err)
	}
	proxy := corev1.LoadBalancerIPModeProxy
	status := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{
		IP: "198.18.0.1", IPMode: &proxy,
		Ports: []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}, {Port: 80, Protocol: corev1.ProtocolUDP}},
	}}}
	if diff := cmp.Diff(status, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	want := []api.LoadBalancer{{
		Name: "a1234", Service: "default/web", Members: []string{"sim:///1", "sim:///2"},
		Ports: []api.Port{{Protocol: "TCP", Port: 80, NodePort: 30080}, {Protocol: "UDP", Port: 80, NodePort: 30080}},
		Settings: map[string]string{
			AnnotationIngress: "ip", AnnotationIPMode: "Proxy", "sourceRanges": "192.0.2.0/24,198.51.100.0/24", "healthCheckNodePort": "30099",
		},
		Ingress: api.Ingress{Kind: "ip", IP: "198.18.0.1", IPMode: "Proxy"},
	}}
	if diff := cmp.Diff(want, c.State().LoadBalancers); diff != "" {
		t.Errorf("load balancer (-want +got):\n%s", diff)
	}
	if calls := c.Calls(simcloud.Filter{}); len(calls) != 3 {
		t.Errorf("%d requests, want the three that are configured", len(calls))
	}
	if again, exists, err := lbs.GetLoadBalancer(t.Context(), "kubernetes", s); err != nil || !exists || !cmp.Equal(again, status) {
		t.Errorf("looking: %+v, %t, %v", again, exists, err)
	}
	if err := lbs.UpdateLoadBalancer(t.Context(), "kubernetes", s, nodes[:1]); err != nil || !cmp.Equal(c.State().LoadBalancers[0].Members, []string{"sim:///2"}) {
		t.Errorf("updating: %v, %+v", err, c.State().LoadBalancers[0].Members)
	}
	for range 2 {
		if err := lbs.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", s); err != nil {
			t.Error(err)
		}
	}
	if _, exists, err := lbs.GetLoadBalancer(t.Context(), "kubernetes", s); err != nil || exists {
		t.Errorf("after its deletion: %t, %v", exists, err)
	}
	plain, err := lbs.EnsureLoadBalancer(t.Context(), "kubernetes", service(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.LoadBalancerIngress{{Hostname: "a1234.lb.sim.example"}}, plain.Ingress); diff != "" {
		t.Errorf("ingress (-want +got):\n%s", diff)
	}
}

func TestRoutesAreWhatWasMade(t *testing.T) {
	c, p := start(t, simcloud.Settings{}, Config{})
	if err := c.Apply(simcloud.Change{PutInstances: machines}); err != nil {
		t.Fatal(err)
	}
	rs, _ := p.Routes()
	if err := rs.CreateRoute(t.Context(), "kubernetes", "uid", &cloudprovider.Route{TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	got, err := rs.ListRoutes(t.Context(), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{{Name: "kubernetes-uid", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if err := rs.DeleteRoute(t.Context(), "kubernetes", got[0]); err != nil {
		t.Error(err)
	}
	refused := &Error{}
	if err := rs.DeleteRoute(t.Context(), "kubernetes", got[0]); !errors.As(err, &refused) || refused.HTTPStatusCode() != http.StatusNotFound {
		t.Errorf("deleting it again: %v", err)
	}
}

// stopped is a clock that stands still.
type stopped struct{}

func (stopped) Now() time.Duration { return 0 }

func TestARequestThatChangesSomethingIsNotSentOnceTheFenceIsClosed(t *testing.T) {
	c, p := start(t, simcloud.Settings{}, Config{EnsureRequests: 3})
	lbs, _ := p.LoadBalancer()
	ctx := election.NewContext(t.Context(), election.NewFence("lease", stopped{}))
	if _, err := lbs.EnsureLoadBalancer(ctx, "kubernetes", service(nil), nil); !errors.Is(err, election.ErrFenced) {
		t.Errorf("error is %v, want that of the fence", err)
	}
	if _, _, err := lbs.GetLoadBalancer(ctx, "kubernetes", service(nil)); err != nil {
		t.Errorf("looking changes nothing: %v", err)
	}
	want := []simcloud.Call{{Seq: 1, Caller: "test", Operation: api.GetLoadBalancer, Object: "a1234", Outcome: simcloud.OK}}
	if diff := cmp.Diff(want, c.Calls(simcloud.Filter{}), cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestErrorsSayWhatTheCloudAnswered(t *testing.T) {
	c, p := start(t, simcloud.Settings{Throttles: []simcloud.Throttle{{Rate: 0.001, Burst: 1}}}, Config{})
	probe := p.(interface{ Probe(context.Context) error })
	if err := probe.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	err := probe.Probe(t.Context())
	if !IsThrottled(err) || err.Error() != "GetLoadBalancer: rate exceeded (429 Too Many Requests)" {
		t.Errorf("error is %v", err)
	}
	if err := c.Set(simcloud.Settings{Faults: []simcloud.Fault{{Hang: true}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := probe.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want that of the context", err)
	}
	c.Close()
	if err := probe.Probe(t.Context()); err == nil || IsThrottled(err) || !strings.Contains(err.Error(), "calling GetLoadBalancer") {
		t.Errorf("error is %v, want that nobody is there", err)
	}
}

func TestTheConfigFileIsReadStrictly(t *testing.T) {
	want := Config{Endpoint: "http://127.0.0.1:1", Caller: "a", EnsureRequests: 12, NoLister: true}
	path := filepath.Join(t.TempDir(), "cloud.yaml")
	if err := want.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if p, err := New(got); err != nil {
		t.Error(err)
	} else if _, ok := p.(cloud.InstancesLister); ok {
		t.Error("it lists instances although it was told not to")
	}
	t.Setenv(CallerVariable, "b")
	if got, err := ReadConfig(strings.NewReader("endpoint: http://127.0.0.1:1")); err != nil || got.Caller != "b" {
		t.Errorf("with a caller in the environment: %+v, %v", got, err)
	}
	t.Setenv(CallerVariable, "")
	for text, says := range map[string]string{
		"":                                       "is not a URL",
		"endpoint: http://127.0.0.1:1":           "caller of the cloud config is empty",
		"endpoint: [":                            "reading cloud config",
		"endpont: http://127.0.0.1:1\ncaller: a": "unknown field",
		"caller: a\nendpoint: http://127.0.0.1:1\nensureRequests: -1": "is negative",
	} {
		if _, err := ReadConfig(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error is %v, want %q in it", text, err, says)
		}
	}
	if _, err := ReadConfigFile(path + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
