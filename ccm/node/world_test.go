package node

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // which discards
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	os.Exit(0)
}

var created = time.Date(2012, 1, 1, 0, 0, 0, 0, time.UTC)

// nodeWith returns a node that the kubelet has just registered; changes make it another.
func nodeWith(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "other", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
			Addresses:  []corev1.NodeAddress{hostname("from-kubelet")},
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func untainted(node *corev1.Node) { node.Spec.Taints = node.Spec.Taints[:1] }

func withID(id string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.ProviderID = id }
}

func withIP(ip string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: ip}
	}
}

func withLabels(labels map[string]string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels = labels }
}

func withAddresses(addresses ...corev1.NodeAddress) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Addresses = addresses }
}

func hostname(name string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func external(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
}

// instanceOf is what a cloud says of a node that it has an instance for.
func instanceOf(node *corev1.Node) cloud.InstanceState {
	return cloud.InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{
		ProviderID: "test://" + node.Name, InstanceType: "large", Zone: "a", Region: "west",
		NodeAddresses: []corev1.NodeAddress{internal("10.0.0.1"), external("192.0.2.1")},
	}}
}

// initialised is what becomes of a node with that instance.
func initialised(node *corev1.Node) {
	untainted(node)
	node.Spec.ProviderID = "test://" + node.Name
	node.Labels = map[string]string{
		corev1.LabelInstanceType: "large", corev1.LabelInstanceTypeStable: "large", corev1.LabelFailureDomainBetaZone: "a", corev1.LabelTopologyZone: "a",
		corev1.LabelFailureDomainBetaRegion: "west", corev1.LabelTopologyRegion: "west",
	}
	node.Status.Addresses = []corev1.NodeAddress{internal("10.0.0.1"), external("192.0.2.1"), hostname("from-kubelet")}
}

// lister returns a cloud that lists instances, and its provider.
func lister(batch int) (*nodetest.Cloud, cloudprovider.Interface) {
	c := &nodetest.Cloud{Instance: instanceOf, Batch: batch}
	return c, nodetest.Lister{Cloud: c}
}

// bubble runs a test in a bubble, where time passes only when everybody waits.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// pass lets time pass and then everybody come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// running is a controller at work.
type running struct {
	*Controller
	stop func() // returns when it has stopped
}

// start runs a controller until the test ends or stop is called. The context's fence, if there is one, is the controller's.
func start(ctx context.Context, t *testing.T, api *nodetest.API, provider cloudprovider.Interface, changes ...func(*Config)) *running {
	t.Helper()
	factory := informers.NewSharedInformerFactory(api.Client(), 0)
	config := Config{
		Client: api.Client(), Cloud: provider, Nodes: factory.Core().V1().Nodes(), StatusUpdateFrequency: 5 * time.Minute, Workers: 10, Options: NewOptions(),
	}
	for _, change := range changes {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	factory.Start(watching.Done())
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { c.Run(ctx) })
	stop := sync.OnceFunc(func() {
		cancel()
		group.Wait()
		stopWatching()
		factory.Shutdown()
	})
	t.Cleanup(stop)
	return &running{c, stop}
}

// sameNode compares a node of the API server with what is wanted, apart from what the server alone decides.
func sameNode(t *testing.T, want, got *corev1.Node) {
	t.Helper()
	ignored := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp")
	if diff := cmp.Diff(want, got, ignored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the node is not as wanted (-want +got):\n%s", diff)
	}
}

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(seenEvent{})); diff != "" {
		t.Errorf("%s: (-want +got):\n%s", what, diff)
	}
}

func writes(api *nodetest.API) []string {
	var writes []string
	for _, request := range api.Requests() {
		if !strings.HasPrefix(request, "GET ") {
			writes = append(writes, request)
		}
	}
	return writes
}
