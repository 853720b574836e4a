package vsphereccm

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/vspheresim"
)

// trial is a real API server and a running vsphere-cloud-controller-manager.
type trial struct {
	dir, program string
	api          *apiserver.Server
	admin        kubernetes.Interface
	started      int
}

func newTrial(t *testing.T, version string) *trial {
	t.Helper()
	w := &trial{dir: t.TempDir()}
	w.api, w.admin = ccmtest.API(t, apiserver.Options{Version: version})
	var err error
	if w.program, err = ccmtest.Build(t.Context(), ".", w.dir, "vsphere-cloud-controller-manager"); err != nil {
		t.Fatal(err)
	}
	return w
}

// run starts the program with a cloud config, and ends it with the test.
func (w *trial) run(t *testing.T, config []byte, flags ...string) (*process.Process, string) {
	t.Helper()
	w.started++
	name := fmt.Sprintf("manager-%d", w.started)
	file := filepath.Join(w.dir, name+".conf")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ccmlab.Start(ccmlab.Options{
		API: w.api, Name: name, Program: w.program, Dir: w.dir,
		Flags: append([]string{
			"--v=2", "--cloud-provider=vsphere", "--cloud-config=" + file, "--allocate-node-cidrs=true",
			"--cluster-cidr=10.244.0.0/16", "--node-monitor-period=500ms", "--node-deletion-grace-after-takeover=0",
		}, flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, name, m.Log)
	t.Cleanup(func() {
		_ = m.Signal(syscall.SIGINT) // it may have ended
		<-m.Done()
	})
	return m.Process, m.Log
}

// register adds a node as a kubelet does.
func (w *trial) register(t *testing.T, name, systemUUID string) {
	t.Helper()
	n := node(name, "", "")
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	made, err := w.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.NodeInfo.SystemUUID = systemUUID
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	if _, err := w.admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// notReady is what kube-controller-manager writes when a kubelet has not been heard of.
func (w *trial) notReady(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
		if _, err := w.admin.CoreV1().Nodes().Patch(t.Context(), name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *trial) untilNode(t *testing.T, name, what string, condition func(*corev1.Node) string) {
	t.Helper()
	poll.EventuallyComplete(t, "node "+name+" to be "+what, func(ctx context.Context) string {
		n, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return condition(n)
	})
}

func taintOf(n *corev1.Node, key string) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

func (w *trial) untilInitialised(t *testing.T, name string, want map[string]string, uuid string, addresses ...corev1.NodeAddress) {
	t.Helper()
	w.untilNode(t, name, "initialised", func(n *corev1.Node) string {
		if taintOf(n, cloudproviderapi.TaintExternalCloudProvider) {
			return "it has its taint"
		}
		got := map[string]string{}
		for key := range want {
			got[key] = n.Labels[key]
		}
		if n.Spec.ProviderID != "vsphere://"+uuid {
			return "its provider ID is " + n.Spec.ProviderID
		}
		return cmp.Diff(want, got) + cmp.Diff(addresses, n.Status.Addresses)
	})
}

var every = flag.Bool("vsphere.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")

// TestTheLifeOfNodesUnderTheProgram runs against the API servers of proven.Short; with -vsphere.all against those of proven.VersionsOf.
func TestTheLifeOfNodesUnderTheProgram(t *testing.T) {
	versions := proven.Short()
	if *every {
		versions = proven.VersionsOf("vsphere")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { nodesLive(t, newTrial(t, version)) })
	}
}

func nodesLive(t *testing.T, w *trial) {
	t.Helper()
	sim := vcenter(t, vspheresim.Options{Machines: 4, Number: 1})
	for category, kind := range map[string]string{"k8s-zone": "ClusterComputeResource", "k8s-region": "Datacenter"} {
		if err := sim.Tag(t.Context(), category, category+"-1", kind); err != nil {
			t.Fatal(err)
		}
	}
	machines, err := sim.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = fmt.Sprintf("worker-%d", i)
		uuid := m.UUID
		if i == 1 {
			uuid = reversed(uuid)
		}
		w.register(t, names[i], uuid)
	}
	data := config(sim.Config("vc", trusted(t, sim)), labels)
	manager, log := w.run(t, data)
	for i, m := range machines {
		address := fmt.Sprintf("10.1.0.%d", i+10)
		w.untilInitialised(t, names[i], map[string]string{
			corev1.LabelTopologyZone: "k8s-zone-1", corev1.LabelTopologyRegion: "k8s-region-1",
			corev1.LabelInstanceTypeStable: "vsphere-vm.cpu-1.mem-0gb.os-other",
		}, m.UUID, corev1.NodeAddress{Type: corev1.NodeHostName, Address: fmt.Sprintf("node-1-%d", i)},
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address})
	}

	if err := sim.PowerOff(t.Context(), machines[0]); err != nil {
		t.Fatal(err)
	}
	w.notReady(t, names[0])
	w.untilNode(t, names[0], "tainted", func(n *corev1.Node) string {
		if !taintOf(n, cloudproviderapi.TaintNodeShutdown) {
			return "it has no shutdown taint"
		}
		return ""
	})

	// all are not ready, and vCenter is away, ends sessions, and comes back
	w.notReady(t, names[1:]...)
	remove := sim.Add(vspheresim.Fault{})
	if err := sim.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	sim.Calls()
	asked := 0
	poll.EventuallyComplete(t, "the manager to ask ten times", func(context.Context) string {
		if asked += len(sim.Calls()); asked < 10 {
			return fmt.Sprintf("%d calls", asked)
		}
		return ""
	})
	remove()
	if err := sim.Destroy(t.Context(), machines[3]); err != nil {
		t.Fatal(err)
	}
	poll.EventuallyComplete(t, "the node of a destroyed machine to be deleted", func(ctx context.Context) string {
		if _, err := w.admin.CoreV1().Nodes().Get(ctx, names[3], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("its Node is there, error ", err)
		}
		return ""
	})
	left, err := w.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 3 {
		t.Errorf("%d nodes are left, error %v", len(left.Items), err)
	}

	_, err = w.admin.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	poll.EventuallyComplete(t, "an event that says that there are no load balancers", func(ctx context.Context) string {
		events, err := w.admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=NoLoadBalancers"})
		if err != nil || len(events.Items) == 0 {
			return fmt.Sprint("there is none, error ", err)
		}
		return ""
	})
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "does not support routes") && !strings.Contains(string(text), "no routes") {
		t.Errorf("the log does not say that there are no routes, error %v", err)
	}
	if sessions, err := sim.Sessions(t.Context()); err != nil || sessions != 1 {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
	if err := manager.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-manager.Done()
	if sessions, err := sim.Sessions(t.Context()); err != nil || sessions != 0 {
		t.Errorf("%d sessions are left when the manager has ended, error %v", sessions, err)
	}
}

func TestTheProgramEndsWhenThePasswordIsWrong(t *testing.T) {
	w := newTrial(t, apiserver.DefaultVersion)
	sim := vcenter(t, vspheresim.Options{Machines: 1, Number: 1})
	data := strings.Replace(string(config(sim.Config("vc", trusted(t, sim)), "")), vspheresim.Password, "hunter2", 1)
	manager, log := w.run(t, []byte(data))
	select {
	case <-manager.Done():
	case <-time.After(poll.Patience):
		t.Fatal("it runs on")
	}
	text, err := os.ReadFile(log)
	if err != nil || manager.ExitCode() != 1 || !strings.Contains(string(text), "it does not take the user and password") ||
		strings.Contains(string(text), "hunter2") {
		t.Errorf("exit code %d, error %v, log:\n%s", manager.ExitCode(), err, text)
	}
}
