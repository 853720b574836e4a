package openstacktrial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/openstackview"
	"github.com/transplant-dev/transplant/lab/poll"
)

// program is the manager under test.
const program = "openstack-cloud-controller-manager"

// patience is how long anything may take: a load balancer of a real Octavia on a busy machine, for example.
const patience = 5 * time.Minute

// until waits for a condition, whose last answer is in the failure.
func until(t *testing.T, what string, condition func(context.Context) string) {
	t.Helper()
	untilWithin(t, patience, what, condition)
}

func untilWithin(t *testing.T, limit time.Duration, what string, condition func(context.Context) string) {
	t.Helper()
	err := poll.Within(t.Context(), 100*time.Millisecond, limit, what, func(ctx context.Context) error {
		if missing := condition(ctx); missing != "" {
			return errors.New(missing)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is a real API server, on which the manager runs.
type cluster struct {
	site

	see   *openstackview.View
	admin kubernetes.Interface
}

func newCluster(t *testing.T, s site, version string) *cluster {
	t.Helper()
	dir := t.TempDir()
	path, err := ccmtest.Build(t.Context(), ".", dir, program)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{site: s, see: look(t, s)}
	api, admin := ccmtest.API(t, apiserver.Options{Version: version})
	c.admin = admin
	config := filepath.Join(dir, "cloud.conf")
	if err := os.WriteFile(config, s.config(), 0o600); err != nil {
		t.Fatal(err)
	}
	manager, err := ccmlab.Start(ccmlab.Options{
		API: api, Name: "manager", Program: path, Dir: dir,
		Flags: []string{
			"--v=2", "--cloud-provider=openstack", "--cloud-config=" + config, "--cluster-name=lab", "--allocate-node-cidrs=true",
			"--cluster-cidr=10.244.0.0/16", "--node-monitor-period=1s", "--route-reconciliation-period=2s",
			"--node-deletion-grace-after-takeover=0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, program, manager.Log)
	t.Cleanup(func() {
		_ = manager.Signal(syscall.SIGINT) // it may have ended
		<-manager.Done()
	})
	return c
}

// register adds the Node of a server as a kubelet and kube-controller-manager do. The UUID of the machine is the
// server's ID.
func (c *cluster) register(t *testing.T, name, id, podCIDR string) {
	t.Helper()
	made, err := c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{
			PodCIDR: podCIDR, PodCIDRs: []string{podCIDR},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.NodeInfo.SystemUUID = id
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	if _, err := c.admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// notReady is what kube-controller-manager writes when a kubelet has not been heard of.
func (c *cluster) notReady(t *testing.T, name string) {
	t.Helper()
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
	_, err := c.admin.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// untilNode waits for a Node to be as wanted; it is nil while there is none.
func (c *cluster) untilNode(t *testing.T, name, what string, condition func(*corev1.Node) string) {
	t.Helper()
	until(t, "node "+name+" to be "+what, func(ctx context.Context) string {
		list, err := c.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return condition(nil)
		}
		return condition(&list.Items[0])
	})
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// expose makes a Service of type LoadBalancer.
func (c *cluster) expose(t *testing.T, name string, annotations map[string]string, ports ...int32) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p-%d", port), Port: port})
	}
	if _, err := c.admin.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change patches the spec of a Service.
func (c *cluster) change(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	c.patch(t, name, map[string]any{"spec": spec})
}

func (c *cluster) patch(t *testing.T, name string, fields map[string]any) {
	t.Helper()
	patch, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.CoreV1().Services("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) service(t *testing.T, name string) *corev1.Service {
	t.Helper()
	s, err := c.admin.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addressRepair is the loop of a kube-apiserver that looks whether the addresses of Services are allocated.
const addressRepair = "ipallocator-repair-controller"

// failures are the warnings of a Service, without those that say that a change is under way.
func (c *cluster) failures(ctx context.Context, name string) (messages []string, err error) {
	events, err := c.admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{
		FieldSelector: "type=Warning,involvedObject.kind=Service,involvedObject.name=" + name,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		if e.ReportingController == addressRepair { // which may look between the writes of a Service and of its address
			continue
		}
		if strings.Contains(e.Message, ") is being ") || strings.Contains(e.Message, ") is PENDING_") {
			continue
		}
		if strings.Contains(e.Message, "Octavia has lost a part") { // Zed does, and each test waits for what is made again
			continue
		}
		messages = append(messages, e.Reason+": "+e.Message)
	}
	return messages, nil
}
