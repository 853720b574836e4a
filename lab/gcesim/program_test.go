package gcesim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/provider/gce/inventory"
)

var every = flag.Bool("gce.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")

// TestTheLifeOfAClusterUnderTheProgram runs against the newest API server; with -gce.all against those of proven.VersionsOf.
func TestTheLifeOfAClusterUnderTheProgram(t *testing.T) {
	versions := []string{apiserver.DefaultVersion}
	if *every {
		versions = proven.VersionsOf("gce")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { clusterLives(t, version) })
	}
}

// started is the program at work on a real API server and a simulated project.
type started struct {
	*process.Process

	log   string
	admin kubernetes.Interface
}

func startProgram(t *testing.T, version string, sim *gcesim.Cloud, config []byte, more ...string) *started {
	t.Helper()
	dir := t.TempDir()
	api, admin := ccmtest.API(t, apiserver.Options{Version: version})
	program, err := ccmtest.Build(t.Context(), ".", dir, "gce-cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "gce.conf")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ccmlab.Start(ccmlab.Options{
		API: api, Name: "manager", Program: program, Dir: dir, Env: []string{"GCE_METADATA_HOST=" + sim.MetadataHost(), "HTTPS_PROXY=http://127.0.0.1:9"},
		Flags: append([]string{
			"--v=2", "--cloud-provider=gce", "--cloud-config=" + file, "--cluster-name=lab", "--allocate-node-cidrs=true", "--configure-cloud-routes=true",
			"--cluster-cidr=10.244.0.0/16", "--node-monitor-period=500ms", "--node-deletion-grace-after-takeover=0",
		}, more...),
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

// join adds a node as a kubelet does, with the range of pods that kube-controller-manager gives it; empty for none.
func (s *started) join(t *testing.T, name, podCIDR string) {
	t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if podCIDR != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = podCIDR, []string{podCIDR}
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
	sim := start(t, gcesim.Options{})
	for i, name := range []string{"cp-1", "worker-1", "worker-2"} {
		sim.AddInstance(gcesim.Instance{Name: name, IP: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	s := startProgram(t, version, sim, sim.Config())
	for i, name := range []string{"cp-1", "worker-1", "worker-2"} {
		s.join(t, name, fmt.Sprintf("10.244.%d.0/24", i))
	}
	for _, name := range []string{"cp-1", "worker-1", "worker-2"} {
		s.untilNode(t, name, "initialised, with a route", func(n *corev1.Node) bool {
			return !hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) &&
				n.Spec.ProviderID == "gce://"+gcesim.Project+"/"+gcesim.Zone+"/"+name && n.Labels[corev1.LabelTopologyZone] == gcesim.Zone &&
				slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
				})
		})
	}

	services := s.admin.CoreV1().Services(metav1.NamespaceDefault)
	for name, annotations := range map[string]map[string]string{"web": nil, "inside": {"networking.gke.io/load-balancer-type": "Internal"}} {
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

	inventoried(t, sim, s)

	sim.SetStatus(gcesim.Zone, "worker-1", "TERMINATED")
	s.setReady(t, "worker-1", corev1.ConditionUnknown)
	s.untilNode(t, "worker-1", "tainted as shut down", func(n *corev1.Node) bool { return hasTaint(n, cloudproviderapi.TaintNodeShutdown) })
	sim.DeleteInstance(gcesim.Zone, "worker-2")
	s.setReady(t, "worker-2", corev1.ConditionUnknown)
	poll.EventuallyComplete(t, "the node of a deleted instance to be deleted", func(ctx context.Context) string {
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
		left := slices.DeleteFunc(sim.Objects(), func(path string) bool { return strings.Contains(path, "/routes/") })
		if err != nil || len(list.Items) > 0 || len(left) > 0 {
			return fmt.Sprintf("%d Services and %q are there, error %v", len(list.Items), left, err)
		}
		return ""
	})
}

// TestTheProgramTakesPodCIDRsFromAliasRanges runs node IPAM with CloudAllocator on a real API server, whose podCIDRs cannot be changed.
func TestTheProgramTakesPodCIDRsFromAliasRanges(t *testing.T) {
	sim := start(t, gcesim.Options{})
	sim.AddInstance(gcesim.Instance{Name: "has", IP: "10.0.0.1", AliasRanges: []string{"10.244.1.0/24"}})
	sim.AddInstance(gcesim.Instance{Name: "differs", IP: "10.0.0.2", AliasRanges: []string{"10.244.2.0/24"}})
	sim.AddInstance(gcesim.Instance{Name: "new", IP: "10.0.0.3", AliasRanges: []string{"10.244.3.0/24", "10.9.0.0/28"}})
	sim.AddInstance(gcesim.Instance{Name: "without", IP: "10.0.0.4"})
	s := startProgram(t, apiserver.DefaultVersion, sim, sim.Config(), "--controllers=*,node-ipam-controller",
		"--cidr-allocator-type=CloudAllocator", "--configure-cloud-routes=false")
	for name, podCIDR := range map[string]string{"has": "10.244.1.0/24", "differs": "10.244.7.0/24", "new": "", "without": ""} {
		s.join(t, name, podCIDR)
	}
	isReached := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated"
		})
	}
	hasRange := func(n *corev1.Node, podCIDR string) bool {
		return n.Spec.PodCIDR == podCIDR && slices.Equal(n.Spec.PodCIDRs, []string{podCIDR})
	}
	s.untilNode(t, "new", "given the range of its instance", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.3.0/24") })
	s.untilNode(t, "has", "reached", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.1.0/24") })
	s.untilEvent(t, "differs", "CIDRConflict", "10.244.2.0/24")
	s.untilEvent(t, "without", "CIDRNotAvailable", "gives its instance no IPv4 range")
	s.untilNode(t, "differs", "left alone", func(n *corev1.Node) bool { return !isReached(n) && hasRange(n, "10.244.7.0/24") })
	s.untilNode(t, "without", "left alone", func(n *corev1.Node) bool { return !isReached(n) && len(n.Spec.PodCIDRs) == 0 })
	sim.SetAliasRanges(gcesim.Zone, "without", "10.244.4.0/24")
	s.untilNode(t, "without", "given the range that it has now", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.4.0/24") })
	for _, path := range sim.Objects() {
		t.Errorf("the program has made %s", path)
	}
}

func (s *started) untilEvent(t *testing.T, node, reason, part string) {
	t.Helper()
	poll.EventuallyComplete(t, "an event "+reason+" of node "+node, func(ctx context.Context) string {
		list, err := s.admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + node})
		if err != nil {
			return fmt.Sprint("error ", err)
		}
		var all []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, part) {
				return ""
			}
			all = append(all, e.Reason+": "+e.Message)
		}
		return fmt.Sprintf("there are %q", all)
	})
}

// inventoried fails the test unless check --cloud=gce sees what there is.
func inventoried(t *testing.T, sim *gcesim.Cloud, s *started) {
	t.Helper()
	t.Setenv("GCE_METADATA_HOST", sim.MetadataHost())
	file := filepath.Join(t.TempDir(), "gce.conf")
	if err := os.WriteFile(file, sim.Config(), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := inventory.Open(t.Context(), map[string]string{"config": file})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []v1.Node
	for _, n := range list.Items {
		nodes = append(nodes, v1.Node{Name: n.Name, ProviderID: n.Spec.ProviderID})
	}
	got := source.Inventory(t.Context(), nodes)
	var seen []string
	for _, i := range got.Instances {
		seen = append(seen, "instance "+i.ID+" "+i.State+" "+i.Zone)
	}
	for _, r := range got.Routes {
		seen = append(seen, "route "+r.CIDR+" to "+r.Target)
	}
	var schemes []string
	for _, b := range got.LoadBalancers {
		schemes = append(schemes, fmt.Sprintf("%s %v with %v", b.Scheme, b.Listeners, b.Members))
	}
	slices.Sort(schemes)
	want := []string{
		"instance cp-1 running " + gcesim.Zone, "instance worker-1 running " + gcesim.Zone, "instance worker-2 running " + gcesim.Zone,
		"route 10.244.0.0/24 to cp-1", "route 10.244.1.0/24 to worker-1", "route 10.244.2.0/24 to worker-2",
		"internal [80/TCP->80] with [cp-1 worker-1 worker-2]", "internet-facing [80-80/TCP->80-80] with [cp-1 worker-1 worker-2]",
	}
	if diff := cmp.Diff(want, append(seen, schemes...)); diff != "" || len(got.Errors) > 0 {
		t.Errorf("the inventory (-want +got), errors %q:\n%s", got.Errors, diff)
	}
	for _, part := range errorsElsewhere(t, sim, nodes) {
		if !strings.Contains(part, "another-project") {
			t.Errorf("of a project that is not there, the error is %q", part)
		}
	}
}

// errorsElsewhere are those of an inventory whose cloud config has another project.
func errorsElsewhere(t *testing.T, sim *gcesim.Cloud, nodes []v1.Node) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gce.conf")
	wrong := strings.Replace(string(sim.Config()), gcesim.Project, "another-project", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := inventory.Open(t.Context(), map[string]string{"config": file})
	if err != nil {
		t.Fatal(err)
	}
	got := source.Inventory(t.Context(), nodes)
	if len(got.Errors) != 3 || len(got.LoadBalancers)+len(got.Routes)+len(got.Instances) > 0 {
		t.Errorf("of a project that is not there: %+v", got)
	}
	return got.Errors
}

func TestTheProgramNamesAProjectThatIsNotThere(t *testing.T) {
	sim := start(t, gcesim.Options{})
	config := strings.Replace(string(sim.Config()), gcesim.Project, "another-project", 1)
	s := startProgram(t, apiserver.DefaultVersion, sim, []byte(config))
	poll.EventuallyComplete(t, "the log to name the project", func(context.Context) string {
		text, err := os.ReadFile(s.log)
		if err != nil || !strings.Contains(string(text), "another-project") {
			return fmt.Sprint("it does not, error ", err)
		}
		return ""
	})
}
