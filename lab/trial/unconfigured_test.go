package trial

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// unconfiguredFlags are MigrationFlags for a lab without a cloud config: the way to AWS that the in-tree managers have in their manifests.
func unconfiguredFlags(lab *Trial) []string {
	out := []string{"--ccm-env", "AWS_SHARED_CREDENTIALS_FILE=" + credentials}
	for _, e := range lab.InternetEnv() {
		out = append(out, "--ccm-env", e)
	}
	return out
}

// TestAClusterWithoutACloudConfigIsMigratedAndNodeIPAMWithIt has real managers with --cloud-provider=aws alone. They ask the metadata service who they are. The
// migration takes node IPAM along, and a node that joins gets a pod CIDR of its own from either manager.
func TestAClusterWithoutACloudConfigIsMigratedAndNodeIPAMWithIt(t *testing.T) {
	long(t)
	p, err := kubelet.ProfileByName(*profile)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := Start(t.Context(), Options{Dir: t.TempDir(), ControlPlanes: 2, Workers: 1, Profile: p, NoCloudConfig: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := lab.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	settled(t, lab)
	before := facts(t, lab)
	watched(t, lab, func() {
		cli(t, lab, 0, nil, append([]string{"apply", "--yes", "--cloud", Cloud, "--node-ipam", "move"}, unconfiguredFlags(lab)...)...)
	})
	newOperator(t, lab).awaitOwners(t, external("service", "route", "cloud-node-lifecycle", "nodeipam"))
	for _, h := range lab.ControlPlanes() {
		for _, component := range []string{cluster.ControllerManager, cluster.CloudControllerManager, cluster.APIServer} {
			text, err := lab.Read(h.Name, "/etc/kubernetes/manifests/"+component+".yaml")
			if err != nil || strings.Contains(string(text), "cloud-config") {
				t.Errorf("%s on %s has a cloud config that nobody has: %v\n%s", component, h.Name, err, text)
			}
		}
	}
	getsPodCIDR(t, lab, "joined-after")

	watched(t, lab, func() { cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud) })
	settled(t, lab)
	getsPodCIDR(t, lab, "joined-later")
	unchanged(t, lab, before)
}

// getsPodCIDR lets a node join, and fails the test unless it gets a pod CIDR that no other node has. The node is taken away again.
func getsPodCIDR(t *testing.T, lab *Trial, name string) {
	t.Helper()
	joinsWith(t, lab, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// joinsWith is getsPodCIDR for a Node that has more than a name. It returns the pod CIDR.
func joinsWith(t *testing.T, lab *Trial, joining *corev1.Node) string {
	t.Helper()
	name := joining.Name
	nodes := lab.Client().CoreV1().Nodes()
	// It is Ready: the in-tree manager deletes another one at its first look, since there is no instance, and may do so before it has a pod CIDR.
	joining.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
	}
	if _, err := nodes.Create(t.Context(), joining, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nodes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	given := ""
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		given = n.Spec.PodCIDR
		return given != "", nil
	})
	if err != nil {
		t.Fatalf("node %s got no pod CIDR: %v", name, err)
	}
	all, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParsePrefix(given)
	for _, n := range all.Items {
		if n.Name == name || n.Spec.PodCIDR == "" {
			continue
		}
		if netip.MustParsePrefix(n.Spec.PodCIDR).Overlaps(own) {
			t.Errorf("node %s got %s, and node %s has %s", name, given, n.Name, n.Spec.PodCIDR)
		}
	}
	t.Logf("node %s got %s", name, given)
	return given
}
