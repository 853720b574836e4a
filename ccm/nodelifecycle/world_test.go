package nodelifecycle

import (
	"context"
	"fmt"
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
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // which discards
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	os.Exit(0)
}

// nodeWith returns a node that was made long ago and is not Ready since; changes make it another.
func nodeWith(name string, changes ...func(*corev1.Node)) *corev1.Node {
	long := metav1.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: long},
		Spec:       corev1.NodeSpec{ProviderID: "test://" + name, Taints: []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: long, LastHeartbeatTime: long,
		}}},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func is(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Conditions[0].Status = status }
}

func since(when time.Time) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(when) }
}

func withShutdownTaint(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, *ShutdownTaint)
}

func withoutID(node *corev1.Node) { node.Spec.ProviderID = "" }

func many(n int, prefix string, changes ...func(*corev1.Node)) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		nodes[i] = nodeWith(fmt.Sprintf("%s%04d", prefix, i), changes...)
	}
	return nodes
}

// byName is a cloud in which the instances of nodes whose name begins with "gone" or "parked" are, and all others run.
func byName(node *corev1.Node) cloud.InstanceState {
	return cloud.InstanceState{Exists: !strings.HasPrefix(node.Name, "gone"), Shutdown: strings.HasPrefix(node.Name, "parked")}
}

// lister returns a cloud that lists instances, and its provider.
func lister(batch int) (*nodetest.Cloud, cloudprovider.Interface) {
	c := &nodetest.Cloud{Instance: byName, Batch: batch}
	return c, nodetest.Lister{Cloud: c}
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// pass lets time pass and then everybody come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

type atWork struct {
	*Controller
	stop func() // returns when it has stopped
}

// start runs a controller under a lease that was adopted long ago, or the context's, until the test ends or stop is called.
func start(ctx context.Context, t *testing.T, api *nodetest.API, provider cloudprovider.Interface, changes ...func(*Config)) *atWork {
	t.Helper()
	if election.FromContext(ctx) == nil {
		ctx = election.NewContext(ctx, election.Unfenced(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	factory := informers.NewSharedInformerFactory(api.Client(), 0)
	config := Config{
		Client: api.Client(), Cloud: provider, Nodes: factory.Core().V1().Nodes(), MonitorPeriod: 5 * time.Second, Workers: 10, Options: NewOptions(),
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
		pass(time.Second) // an event that was being written
		stopWatching()
		factory.Shutdown()
	})
	t.Cleanup(stop)
	return &atWork{c, stop}
}

// unlimited lets any number of nodes be deleted.
func unlimited(config *Config) { config.Options.DeletionLimitPercent = 100 }

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	ignored := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion")
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), ignored); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// reasons returns the events as "node reason".
func reasons(api *nodetest.API) []string {
	var reasons []string
	for _, event := range api.Events() {
		parts := strings.Fields(event)
		reasons = append(reasons, strings.Trim(parts[0], ":")+" "+strings.Trim(parts[2], ":"))
	}
	return reasons
}
