package awsccm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/provider/aws"
)

// The provider's batchers, and its broadcaster of events, are never told to stop.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CA_BUNDLE": "", "AWS_CONFIG_FILE": os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/cloud-provider-aws/pkg/providers/v1/batcher.(*Batcher[...]).run"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"))
}

// bench is a simulated account with our provider over it and a cache of Nodes.
type bench struct {
	*awssim.Server
	cloud *aws.Cloud
	nodes []*corev1.Node
	// served is told of every request before its answer is complete.
	served func(action string)
}

// inTree is the cloud config of an in-tree manager of Kubernetes 1.26, as it is.
func inTree(at string) string {
	return "[Global]\nZone = us-east-1a\nVPC = vpc-lab\nSubnetID = subnet-a\nKubernetesClusterID = lab\nDisableStrictZoneCheck = true\n" +
		section("1", "ec2", at) + section("2", "elasticloadbalancing", at)
}

func section(name, service, at string) string {
	return fmt.Sprintf("[ServiceOverride %q]\nService = %s\nRegion = us-east-1\nURL = %s\nSigningRegion = us-east-1\nSigningMethod = v4\n", name, service, at)
}

// set is a bench with instances, one Node for each, and a cloud config made from the account's URL.
func set(t *testing.T, instances int, config func(at string) string) *bench {
	t.Helper()
	o := awssim.Options{}
	for i := range instances {
		o.Instances = append(o.Instances, awssim.Instance{ID: fmt.Sprintf("i-%017x", i+1), PrivateIP: fmt.Sprintf("10.0.%d.%d", i/200, i%200+10)})
	}
	sim, err := awssim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Server: sim}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		sim.ServeHTTP(w, r)
		if form, err := url.ParseQuery(string(body)); err == nil && b.served != nil {
			b.served(form.Get("Action"))
		}
	}))
	t.Cleanup(func() {
		server.Close()
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
		for _, call := range sim.Unknown() {
			t.Errorf("a call that the simulator does not know: %+v", call)
		}
	})
	if b.cloud, err = aws.Open(t.Context(), []byte(config(server.URL)), aws.Options{HTTPClient: server.Client()}); err != nil {
		t.Fatal(err)
	}
	for _, i := range sim.Instances() {
		b.nodes = append(b.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: i.PrivateDNS,
			},
			Spec: corev1.NodeSpec{ProviderID: "aws:///" + i.Zone + "/" + i.ID, PodCIDR: fmt.Sprintf("10.244.%d.0/24", len(b.nodes))},
		})
	}
	return b
}

// know gives the provider its cache of Nodes.
func (b *bench) know(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	api := fake.NewClientset()
	for _, n := range nodes {
		if err := api.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(api, 0)
	b.cloud.SetInformers(factory)
	b.cloud.Initialize(builder{api}, t.Context().Done())
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
}

// builder gives every controller the same client.
type builder struct{ api kubernetes.Interface }

func (b builder) Config(string) (*restclient.Config, error) {
	return nil, fmt.Errorf("there is no configuration of the fake client")
}
func (b builder) ConfigOrDie(string) *restclient.Config       { return nil }
func (b builder) Client(string) (kubernetes.Interface, error) { return b.api, nil }
func (b builder) ClientOrDie(string) kubernetes.Interface     { return b.api }

// calls are the actions of the calls since a number of them, without those of the lab.
func (b *bench) calls(since int, only ...func(v1alpha1.CloudCall) bool) []string {
	var out []string
	for _, c := range b.Audit().Calls(awssim.Filter{Keys: []string{"AKIATEST"}})[since:] {
		if !slices.ContainsFunc(only, func(keep func(v1alpha1.CloudCall) bool) bool { return !keep(c) }) {
			out = append(out, c.Service+":"+c.Action)
		}
	}
	return out
}

func (b *bench) count() int { return len(b.Audit().Calls(awssim.Filter{Keys: []string{"AKIATEST"}})) }

func mutating(c v1alpha1.CloudCall) bool { return c.Mutating }

// web is a Service of type LoadBalancer; kind is its annotation, "nlb" or "".
func web(kind string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID("a1b2c3d4-" + strings.Repeat("0", 8)), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityNone, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: 30080},
		}},
	}
	if kind != "" {
		s.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"] = kind
	}
	return s
}
