package skew

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

var (
	all     = flag.Bool("skew.all", false, "try every version that can be built, not only the ends of the range")
	program string // aws-cloud-controller-manager, built once
)

func TestMain(m *testing.M) { ccmtest.Main(m, ".", "aws-cloud-controller-manager", &program) }

const (
	clusterCIDR = "10.244.0.0/16"
	lease       = "cloud-controller-manager"
	// migrationLease holds the loops of a manager that runs with leader migration.
	migrationLease = "cloud-provider-extraction-migration"
)

// world is a cluster without machines: an API server of some version, a cloud, and no kubelet.
type world struct {
	api     *apiserver.Server
	admin   kubernetes.Interface
	cloud   *awssim.Server
	cloudAt string // URL
}

// run starts a manager, whose user in the API, and whose access key in the cloud, is its name.
func (w *world) run(t *testing.T, name string) *ccmlab.Manager {
	t.Helper()
	dir := t.TempDir()
	return ccmtest.Run(t, ccmlab.Options{
		API: w.api, Name: name, Program: program, Dir: dir, Env: ccmtest.Environment(w.cloudAt, name),
		Flags: []string{
			"--v=2",
			"--cloud-provider=aws",
			"--cloud-config=" + ccmtest.CloudConfig(t, w.cloudAt, dir),
			"--authorization-always-allow-paths=/healthz,/readyz,/metrics",
			"--cluster-name=" + cluster.Name,
			"--cluster-cidr=" + clusterCIDR,
			"--configure-cloud-routes=true",
			"--enable-leader-migration=true",
		},
	})
}

// TestTheManagerServesEveryAPIServerOfItsRange runs one binary against real API servers. Without -skew.all it takes one that is built anyway.
func TestTheManagerServesEveryAPIServerOfItsRange(t *testing.T) {
	versions := buildable()
	if !*all {
		versions = proven.Short()
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, version)
			a := w.run(t, "manager-a")
			w.leads(t, a)
			b := w.run(t, "manager-b")

			node := w.nodeLives(t, "10.0.0.21", "10.244.1.0/24")
			w.loadBalancerLives(t, "first", node)
			w.leaseMoves(t, a, b)
			second := w.nodeLives(t, "10.0.0.22", "10.244.2.0/24")
			w.loadBalancerLives(t, "second", node, second)
			w.nodeDies(t, second)
			w.nothingWasRefused(t)
		})
	}
}

// TestTheBinaryCarriesTheRange holds what the program says of itself to what is tested here.
func TestTheBinaryCarriesTheRange(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	out, err := exec.CommandContext(t.Context(), program, "--version=json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got ccm.Version
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if diff := cmp.Diff(ccm.Kubernetes{Min: "1.24", Max: "1.37", Tested: proven.Versions()}, got.Kubernetes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// buildable are the versions of kube-apiserver that a lab can build, one for each minor, oldest first.
func buildable() []string {
	var out []string
	for _, set := range build.Sets {
		if slices.ContainsFunc(set.Commands, func(c build.Command) bool { return c.Name == "kube-apiserver" }) {
			out = append(out, set.Version)
		}
	}
	return out
}

// TestWhatIsSaidToBeProvenIsTried holds the list that the program carries to what -skew.all runs.
func TestWhatIsSaidToBeProvenIsTried(t *testing.T) {
	for _, v := range proven.Versions() {
		if !slices.Contains(buildable(), v) {
			t.Errorf("kube-apiserver %s is said to be proven, and cannot be built here", v)
		}
	}
}

// newWorld starts an API server of a version and a cloud, with two instances that no node stands for yet.
func newWorld(t *testing.T, version string) *world {
	t.Helper()
	w := &world{}
	w.api, w.admin = ccmtest.API(t, apiserver.Options{Version: version, Audit: true})
	w.cloudAt, w.cloud = ccmtest.Account(t, "10.0.0.21", "10.0.0.22")
	return w
}

// leads waits until a manager holds both leases.
func (w *world) leads(t *testing.T, m *ccmlab.Manager) {
	t.Helper()
	for _, name := range []string{lease, migrationLease} {
		poll.Eventually(t, m.Name()+" to hold lease "+name, func(ctx context.Context) error {
			_, err := w.holder(ctx, name)
			return err
		})
	}
}

func (w *world) holder(ctx context.Context, name string) (string, error) {
	l, err := w.admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return "", errors.New("nobody holds it")
	}
	return *l.Spec.HolderIdentity, nil
}

// leaseMoves stops the leader as a rollout does. The standby must take both leases, and act.
func (w *world) leaseMoves(t *testing.T, from, to *ccmlab.Manager) {
	t.Helper()
	before := map[string]string{}
	for _, name := range []string{lease, migrationLease} {
		holder, err := w.holder(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = holder
	}
	if err := from.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for name := range before {
		poll.Eventually(t, to.Name()+" to take lease "+name, func(ctx context.Context) error {
			holder, err := w.holder(ctx, name)
			if err == nil && holder == before[name] {
				err = fmt.Errorf("%s still holds it", holder)
			}
			return err
		})
	}
	<-from.Done()
	if code := from.ExitCode(); code != 0 {
		t.Errorf("%s ended with exit code %d", from.Name(), code)
	}
}

// nodeLives registers a node as a kubelet with --cloud-provider=external does, and waits for what the cloud loops give it.
func (w *world) nodeLives(t *testing.T, address, podCIDR string) string {
	t.Helper()
	name := "ip-" + strings.ReplaceAll(address, ".", "-") + ".ec2.internal"
	_, err := w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}, Taints: []corev1.Taint{
			{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.setReady(t, name, corev1.ConditionTrue)
	poll.Eventually(t, "node "+name+" to be initialised", func(ctx context.Context) error {
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return initialised(node, address)
	})
	poll.Eventually(t, "the route to "+name, func(ctx context.Context) error {
		if !w.hasRoute(podCIDR) {
			return errors.New("the cloud has none")
		}
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeNetworkUnavailable })
		if i < 0 || node.Status.Conditions[i].Status != corev1.ConditionFalse {
			return fmt.Errorf("the conditions are %v", node.Status.Conditions)
		}
		return nil
	})
	return name
}

// initialised says what an initialised node lacks.
func initialised(node *corev1.Node, address string) error {
	got := map[string]string{"providerID": node.Spec.ProviderID}
	for _, label := range []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable} {
		got[label] = node.Labels[label]
	}
	for _, a := range node.Status.Addresses {
		got[string(a.Type)] = a.Address
	}
	for _, taint := range node.Spec.Taints {
		if strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/") {
			got["taint"] = taint.Key
		}
	}
	zone := got[corev1.LabelTopologyZone]
	want := map[string]string{
		"providerID": got["providerID"], corev1.LabelTopologyRegion: cluster.Region, corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "m5.large",
		string(corev1.NodeInternalIP): address, string(corev1.NodeInternalDNS): node.Name, string(corev1.NodeHostName): node.Name,
	}
	if !strings.HasPrefix(got["providerID"], "aws:///"+cluster.Region) || !strings.HasPrefix(zone, cluster.Region) {
		return fmt.Errorf("it has provider ID %q and zone %q", got["providerID"], zone)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-want +got):\n%s", diff)
	}
	return nil
}

func (w *world) setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.CoreV1().Nodes().Patch(t.Context(), name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func (w *world) hasRoute(cidr string) bool {
	for _, table := range w.cloud.State().EC2.RouteTables {
		for _, route := range table.Routes {
			if route.CIDR == cidr {
				return true
			}
		}
	}
	return false
}

// loadBalancerLives creates a Service, waits for its load balancer with these members, and deletes it again.
func (w *world) loadBalancerLives(t *testing.T, name string, members ...string) {
	t.Helper()
	services := w.admin.CoreV1().Services(metav1.NamespaceDefault)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "the load balancer of "+name, func(ctx context.Context) error {
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 || service.Status.LoadBalancer.Ingress[0].Hostname == "" {
			return fmt.Errorf("its status is %v", service.Status.LoadBalancer)
		}
		return w.serves(service.Status.LoadBalancer.Ingress[0].Hostname, members)
	})
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "Service "+name+" and its load balancer to be gone", func(ctx context.Context) error {
		if n := len(w.cloud.State().ELB); n > 0 {
			return fmt.Errorf("the cloud has %d load balancers", n)
		}
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
}

// serves says what is wrong with the load balancer of a name.
func (w *world) serves(hostname string, members []string) error {
	state := w.cloud.State()
	for _, balancer := range state.ELB {
		if balancer.DNSName != hostname {
			continue
		}
		var got []string
		for _, id := range balancer.Instances {
			got = append(got, state.EC2.Instances[id].PrivateDNS)
		}
		slices.Sort(got)
		if diff := cmp.Diff(members, got); diff != "" {
			return fmt.Errorf("its members (-want +got):\n%s", diff)
		}
		return nil
	}
	return fmt.Errorf("the cloud has no load balancer %s, but %v", hostname, slices.Sorted(maps.Keys(state.ELB)))
}

// nodeDies lets a node's instance vanish: its node and its route must go.
func (w *world) nodeDies(t *testing.T, name string) {
	t.Helper()
	node, err := w.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cloud.SetInstanceState(node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:], "terminated"); err != nil {
		t.Fatal(err)
	}
	w.setReady(t, name, corev1.ConditionFalse)
	poll.Eventually(t, "node "+name+" and its route to be gone", func(ctx context.Context) error {
		if w.hasRoute(node.Spec.PodCIDR) {
			return errors.New("the route is there")
		}
		_, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the node is there: %w", err)
	})
}

// nothingWasRefused looks for writes that an API server of this version did not understand or allow. A conflict is no such thing, nor is a second
// try to create what another process has created, nor a request whose process ended before the answer.
func (w *world) nothingWasRefused(t *testing.T) {
	t.Helper()
	writes, err := w.api.Audit()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, write := range writes {
		if !strings.HasPrefix(write.User, "manager-") {
			continue
		}
		seen++
		if write.Code >= 400 && write.Code < 500 && write.Code != http.StatusConflict {
			t.Errorf("refused: %+v", write)
		}
	}
	if seen == 0 {
		t.Error("the audit log has no write of the managers: nothing was proven")
	}
	if unknown := w.cloud.Unknown(); len(unknown) > 0 {
		t.Errorf("the simulated cloud does not know %v", unknown)
	}
}
