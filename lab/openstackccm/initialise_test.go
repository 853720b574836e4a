package openstackccm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudproviderapi "k8s.io/cloud-provider/api"

	nodecontroller "github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// initialise has the node controller work on the Nodes of a client.
func initialise(t *testing.T, f *fixture, client *fake.Clientset, change func(*nodecontroller.Options)) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	options := nodecontroller.NewOptions()
	change(&options)
	made, err := nodecontroller.New(nodecontroller.Config{
		Client: client, Cloud: f.cloud, Nodes: factory.Core().V1().Nodes(), StatusUpdateFrequency: time.Hour, Workers: 1, Options: options,
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.RunController(t, factory, made.Run)
}

func uninitialised(n *corev1.Node) *corev1.Node {
	n.Spec.ProviderID, n.Status.Addresses = "", nil
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// Two hundred nodes that wait for a manager get providerID, addresses and labels by its node controller with at most ten requests to OpenStack in all.
func TestTwoHundredNodesAreInitialisedWithTenRequests(t *testing.T) {
	f := start(t, openstacksim.Options{})
	client := fake.NewClientset()
	for _, n := range f.addServers(200) {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), uninitialised(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	initialise(t, f, client, func(o *nodecontroller.Options) {
		o.GatherWindow = 2 * time.Second // on a busy machine two hundred nodes are not in the queue within the usual 50 ms
	})
	left := 200
	initialised := func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left = 0
		for _, n := range list.Items {
			if tainted(&n) || n.Spec.ProviderID == "" || n.Labels[corev1.LabelTopologyZone] != "nova" || n.Labels[corev1.LabelInstanceTypeStable] != "m1.small" ||
				len(n.Status.Addresses) == 0 {
				left++
			}
		}
		return left == 0, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, initialised); err != nil {
		t.Fatalf("%d nodes are not initialised: %v", left, err)
	}
	if calls := f.Calls(); len(calls) > 10 {
		t.Errorf("%d requests: %v", len(calls), calls)
	} else {
		t.Logf("%d requests: %v", len(calls), calls)
	}
}

func tainted(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

// What is wrong with a server is said by an event of its Node, with the object and what to do. The Node waits with its
// taint, and the others do not wait for it.
func TestEventsOfNodesWhoseServersAreWrong(t *testing.T) {
	f := start(t, openstacksim.Options{})
	twins := []string{f.AddServer(openstacksim.Server{Name: "twin"}), f.AddServer(openstacksim.Server{Name: "twin"})}
	bare := f.AddServer(openstacksim.Server{Name: "bare"})
	foreign := node("foreign", "")
	foreign.Spec.ProviderID = "aws:///eu-west-1a/i-1"
	wrong := map[string][]string{
		"twin":    {`2 servers have the name of node "twin"`, twins[0], twins[1], "rename or delete all but one", "--provider-id"},
		"bare":    {"server " + bare + " (bare, ACTIVE) has no address", "none of its 0 ports is ACTIVE", "Attach a port to it", "[Networking]"},
		"foreign": {`the providerID "aws:///eu-west-1a/i-1" of node "foreign"`, "delete the Node, and have its kubelet register it again"},
	}
	client := fake.NewClientset()
	taint := uninitialised(node("", "")).Spec.Taints
	foreign.Spec.Taints = taint
	nodes := []*corev1.Node{
		uninitialised(f.addServers(1)[0]), uninitialised(node("twin", "")), uninitialised(node("bare", "")), foreign,
	}
	for _, n := range nodes {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	initialise(t, f, client, func(*nodecontroller.Options) {})
	missing := ""
	told := func(ctx context.Context) (bool, error) {
		events, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		said := map[string]string{}
		for _, e := range events.Items {
			if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "Node" {
				said[e.InvolvedObject.Name] += e.Reason + ": " + e.Message + "\n"
			}
		}
		missing = ""
		for name, parts := range wrong {
			for _, part := range parts {
				if !strings.Contains(said[name], part) {
					missing += fmt.Sprintf("%q is not in the events of node %s: %s\n", part, name, said[name])
				}
			}
		}
		return missing == "", nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, told); err != nil {
		t.Fatalf("%v: %s", err, missing)
	}
	for _, n := range nodes {
		now, err := client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if waits := wrong[n.Name] != nil; tainted(now) != waits {
			t.Errorf("node %s has the taint: %v", n.Name, tainted(now))
		}
	}
	for _, call := range f.Calls() {
		if call.Mutates() {
			t.Errorf("something was changed: %s", call)
		}
	}
}
