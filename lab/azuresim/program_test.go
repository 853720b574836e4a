package azuresim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/poll"
)

var every = flag.Bool("azure.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")

// TestTheLifeOfAClusterUnderTheProgram runs against the newest API server; with -azure.all against those of proven.VersionsOf.
func TestTheLifeOfAClusterUnderTheProgram(t *testing.T) {
	versions := []string{apiserver.DefaultVersion}
	if *every {
		versions = proven.VersionsOf("azure")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { clusterLives(t, version) })
	}
}

// program is built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	return ccmtest.Build(context.Background(), ".", shared, "azure-cloud-controller-manager")
})

// started is the program at work on a real API server and a simulated subscription.
type started struct {
	*process.Process

	log   string
	admin kubernetes.Interface
}

func startProgram(t *testing.T, version string, sim *azuresim.Cloud, config []byte) *started {
	t.Helper()
	dir := t.TempDir()
	api, admin := ccmtest.API(t, apiserver.Options{Version: version})
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "azure.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HTTPS_PROXY=http://127.0.0.1:9", "SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE")} // nothing is reached but the simulated cloud
	for name, value := range sim.Env() {
		env = append(env, name+"="+value)
	}
	m, err := ccmlab.Start(ccmlab.Options{
		API: api, Name: "manager", Program: program, Dir: dir, Env: env,
		Flags: []string{
			"--v=2", "--cloud-provider=azure", "--cloud-config=" + file, "--cluster-name=lab", "--allocate-node-cidrs=true", "--configure-cloud-routes=true",
			"--cluster-cidr=10.244.0.0/16", "--node-monitor-period=500ms", "--node-deletion-grace-after-takeover=0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, "manager", m.Log)
	t.Cleanup(func() {
		_ = m.Signal(syscall.SIGINT) // it may have ended
		<-m.Done()
	})
	return &started{m.Process, m.Log, admin}
}

// join adds a node as a kubelet does, with the range of pods that kube-controller-manager gives it.
func (s *started) join(t *testing.T, name, podCIDR string) {
	t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}, Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if _, err := s.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.setReady(t, name, corev1.ConditionTrue)
}

func (s *started) setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test"}]}}`, status)
	if _, err := s.admin.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func (s *started) untilNode(t *testing.T, name, what string, isIt func(*corev1.Node) bool) {
	t.Helper()
	poll.EventuallyComplete(t, "node "+name+" to be "+what, func(ctx context.Context) string {
		n, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !isIt(n) {
			return fmt.Sprint("it is not, error ", err)
		}
		return ""
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func clusterLives(t *testing.T, version string) {
	t.Helper()
	sim := start(t, azuresim.Options{})
	ids := map[string]string{}
	for i, name := range []string{"cp-1", "worker-1", "worker-2"} {
		ids[name] = sim.AddMachine(azuresim.Machine{Name: name, IP: fmt.Sprintf("10.0.0.%d", i+1), Zone: fmt.Sprint(i + 1)})
	}
	s := startProgram(t, version, sim, sim.Config(nil))
	for i, name := range []string{"cp-1", "worker-1", "worker-2"} {
		s.join(t, name, fmt.Sprintf("10.244.%d.0/24", i))
	}
	for _, name := range []string{"cp-1", "worker-1", "worker-2"} {
		s.untilNode(t, name, "initialised, with a route", func(n *corev1.Node) bool {
			return !hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) &&
				n.Spec.ProviderID == ids[name] && strings.HasPrefix(n.Labels[corev1.LabelTopologyZone], azuresim.Location+"-") &&
				slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
				})
		})
	}

	services := s.admin.CoreV1().Services(metav1.NamespaceDefault)
	for name, annotations := range map[string]map[string]string{"web": nil, "inside": {"service.beta.kubernetes.io/azure-load-balancer-internal": "true"}} {
		_, err := services.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"web", "inside"} {
		poll.EventuallyComplete(t, "Service "+name+" to have an address", func(ctx context.Context) string {
			got, err := services.Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(got.Status.LoadBalancer.Ingress) != 1 {
				return fmt.Sprint("it has none, error ", err)
			}
			return ""
		})
	}

	inventoried(t, sim, ids)

	sim.SetPower(ids["worker-1"], "deallocated")
	s.setReady(t, "worker-1", corev1.ConditionUnknown)
	s.untilNode(t, "worker-1", "tainted as shut down", func(n *corev1.Node) bool { return hasTaint(n, cloudproviderapi.TaintNodeShutdown) })
	sim.DeleteMachine(ids["worker-2"])
	s.setReady(t, "worker-2", corev1.ConditionUnknown)
	poll.EventuallyComplete(t, "the node of a deleted machine to be deleted", func(ctx context.Context) string {
		if _, err := s.admin.CoreV1().Nodes().Get(ctx, "worker-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("its Node is there, error ", err)
		}
		return ""
	})

	for _, name := range []string{"web", "inside"} {
		if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	poll.EventuallyComplete(t, "nothing to be left of the Services", func(ctx context.Context) string {
		list, err := services.List(ctx, metav1.ListOptions{LabelSelector: "component!=apiserver"})
		left := slices.DeleteFunc(sim.Objects(), func(path string) bool { return strings.HasPrefix(path, "routetables/") })
		if err != nil || len(list.Items) > 0 || len(left) > 0 {
			return fmt.Sprintf("%d Services and %q are there, error %v", len(list.Items), left, err)
		}
		return ""
	})
}

// inventoried fails the test unless transplant sees what there is, through the program.
func inventoried(t *testing.T, sim *azuresim.Cloud, ids map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "azure.json")
	if err := os.WriteFile(file, sim.Config(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	source, err := cloudprogram.Programs{Cloud: "azure:config=" + file, Path: path}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var nodes []v1.Node
	for _, name := range []string{"cp-1", "worker-1", "worker-2"} {
		nodes = append(nodes, v1.Node{Name: name, ProviderID: ids[name]})
	}
	got := source.Inventory(t.Context(), nodes)
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
	want := []string{
		"internal [80/TCP->80] with [cp-1 worker-1 worker-2]", "internet-facing [80/TCP->80] with [cp-1 worker-1 worker-2]",
		"machine cp-1 running westeurope-1", "machine worker-1 running westeurope-2", "machine worker-2 running westeurope-3",
		"route 10.244.0.0/24 to cp-1", "route 10.244.1.0/24 to worker-1", "route 10.244.2.0/24 to worker-2",
	}
	if diff := cmp.Diff(want, seen); diff != "" || len(got.Errors) > 0 {
		t.Errorf("the inventory (-want +got), errors %q:\n%s", got.Errors, diff)
	}
}

// TestTheProgramSaysWhatIsWrongWithItsConfig runs it with what an administrator can get wrong.
func TestTheProgramSaysWhatIsWrongWithItsConfig(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"another subscription":   {map[string]any{"subscriptionId": "00000000-0000-0000-0000-000000000000"}, "check subscriptionId"},
		"another resource group": {map[string]any{"resourceGroup": "elsewhere"}, "check resourceGroup"},
		"another secret": {map[string]any{
			"useManagedIdentityExtension": false, "aadClientId": azuresim.ClientID, "aadClientSecret": "wrong",
		}, "check tenantId, aadClientId and its secret"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, azuresim.Options{})
			s := startProgram(t, apiserver.DefaultVersion, sim, sim.Config(c.change))
			s.join(t, "worker-1", "10.244.1.0/24")
			poll.EventuallyComplete(t, "the log to name the setting", func(context.Context) string {
				text, err := os.ReadFile(s.log)
				if err != nil || !strings.Contains(string(text), c.says) || strings.Contains(string(text), azuresim.Secret) {
					return fmt.Sprint("it does not, error ", err)
				}
				return ""
			})
		})
	}
}
