package vsphereccm

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
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// initialise has the node controller work on the Nodes of a client.
func (f *fixture) initialise(t *testing.T, api *fake.Clientset) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(api, 0)
	made, err := nodecontroller.New(nodecontroller.Config{
		Client: api, Cloud: f.cloud, Nodes: factory.Core().V1().Nodes(), StatusUpdateFrequency: time.Hour, Workers: 1,
		Options: nodecontroller.NewOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.RunController(t, factory, made.Run)
}

// eventsOf are the warnings of Nodes, by their names.
func eventsOf(ctx context.Context, api *fake.Clientset) (map[string]string, error) {
	said := map[string]string{}
	events, err := api.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "Node" {
			said[e.InvolvedObject.Name] += e.Reason + ": " + e.Message + "\n"
		}
	}
	return said, nil
}

func isTainted(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

// A machine that was copied to another vCenter has the same UUID there. The event of its Node names both and what to
// do. The Node waits with its taint, and no other waits for it.
func TestAnEventWhenTwoVCentersHaveOneUUID(t *testing.T) {
	a, b := vcenter(t, vspheresim.Options{Machines: 2, Number: 1}), vcenter(t, vspheresim.Options{Machines: 1, Number: 2})
	f := &fixture{cloud: open(t, config(a.Config("left", trusted(t, a))+b.Config("right", trusted(t, b)), ""), client.Options{})}
	inA, _ := nodes(t, a)
	inB, _ := nodes(t, b)
	b.SetUUID(inB[0], inA[0].UUID)

	api := fake.NewClientset()
	for name, uuid := range map[string]string{"copied": inA[0].UUID, "good": inA[1].UUID} {
		n := node(name, "", uuid)
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		if _, err := api.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.initialise(t, api)
	missing := ""
	told := func(ctx context.Context) (bool, error) {
		said, err := eventsOf(ctx, api)
		if err != nil {
			return false, err
		}
		missing = ""
		for _, part := range []string{
			inA[0].Name, "of vCenter left and", inB[0].Name, "of vCenter right", strings.ToLower(inA[0].UUID), "give all but one another, or remove them",
		} {
			if !strings.Contains(said["copied"], part) {
				missing += fmt.Sprintf("%q is not in the events: %v\n", part, said)
			}
		}
		good, err := api.CoreV1().Nodes().Get(ctx, "good", metav1.GetOptions{})
		if err != nil || isTainted(good) {
			missing += fmt.Sprintf("node good is %+v, error %v\n", good, err)
		}
		return missing == "", nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, told); err != nil {
		t.Fatalf("%v: %s", err, missing)
	}
	if copied, err := api.CoreV1().Nodes().Get(t.Context(), "copied", metav1.GetOptions{}); err != nil || !isTainted(copied) || copied.Spec.ProviderID != "" {
		t.Errorf("the node is %+v, error %v", copied, err)
	}

	b.SetUUID(inB[0], "4204"+inA[0].UUID[4:])
	initialised := func(ctx context.Context) (bool, error) {
		copied, err := api.CoreV1().Nodes().Get(ctx, "copied", metav1.GetOptions{})
		return err == nil && !isTainted(copied) && copied.Spec.ProviderID == "vsphere://"+inA[0].UUID, err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, initialised); err != nil {
		t.Errorf("with a UUID of its own: %v", err)
	}
}
