package trial

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/gcelab"
)

const (
	// nextVersion is the minor after the lab's.
	nextVersion = "v1.27.4"
	// withoutInTree is the first minor that has no in-tree code of any cloud.
	withoutInTree = "v1.31.0"
)

// upgraded are the components whose version changes on the way.
var upgraded = []string{cluster.APIServer, cluster.ControllerManager, cluster.Scheduler}

// The control plane goes from the last version with the in-tree provider to the first without, in the restarts of the migration, and back. What each
// process is is asked of the process.
func TestAnUpgradeOnTheWayAndBack(t *testing.T) {
	long(t)
	lab := theLab(t)
	provide(t, lab, nextVersion)
	settled(t, lab) // where it was built first, the machine was busy for minutes
	before, kubeadm := facts(t, lab), kubeadmVersion(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	ofVersion(t, lab, cluster.Version)
	nodes, moving := identities(t, lab), []string{"service", "route", "cloud-node-lifecycle"}
	var s shown
	r := runOf(lab, planstep.LeaderMigration)
	r.upgradedTo(nextVersion)
	defer r.keep(t, moving, &s)

	cli(t, lab, 0, nil, append([]string{"check", "--cloud", Cloud, "--target-version", nextVersion}, MigrationFlags()...)...)
	judgement := watched(t, lab, func() { cli(t, lab, 0, nil, apply("--target-version", nextVersion)...) })
	s.noteThere(judgement)
	s.recreated = recreated(t, lab, nodes, cloud)
	assisted(t, lab, judgement)
	ofVersion(t, lab, nextVersion)
	if v := kubeadmVersion(t, lab); v != nextVersion {
		t.Errorf("kubeadm would go on with %s", v)
	}
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	checkReport(t, lab, readReport(t, lab))

	back := watched(t, lab, func() { cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud) })
	s.noteBack(back)
	s.recreated = max(s.recreated, recreated(t, lab, nodes, cloud))
	assisted(t, lab, back)
	ofVersion(t, lab, cluster.Version)
	if v := kubeadmVersion(t, lab); v != kubeadm {
		t.Errorf("kubeadm would go on with %s, before it was %s", v, kubeadm)
	}
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	asBefore(t, lab, before)
	s.isWhole = true
}

// TestAClusterOnGCEGoesToTheFirstVersionWithoutInTreeCode takes the last upgrade that KEP-2395 is about: of a control plane that could not start in the next
// version as it is, since its provider is not there and the gates that 1.30 needs are locked.
func TestAClusterOnGCEGoesToTheFirstVersionWithoutInTreeCode(t *testing.T) {
	long(t)
	of := onGCE(gcelab.Kind{}, "service", "route", "cloud-node-lifecycle")
	of.ControlPlanes, of.Workers = 2, 1
	lab := ownLab(t, of.Options)
	flags, verify := of.more(t, lab)
	flags = slices.Concat(verify, lab.flags, flags, []string{"--target-version", withoutInTree})
	op := newOperator(t, lab)
	op.awaitOwners(t, inTree(of.moving...))
	provide(t, lab, withoutInTree)
	op.awaitOwners(t, inTree(of.moving...)) // a busy machine may have cost it its lease
	before := kubeadmVersion(t, lab)
	nodes := identities(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}

	var s shown
	r := of.runOf(lab, planstep.LeaderMigration)
	r.upgradedTo(withoutInTree)
	defer r.keep(t, of.moving, &s)

	cli(t, lab, 0, nil, append([]string{"check"}, flags...)...)
	s.noteThere(watched(t, lab, func() { cli(t, lab, 0, nil, append([]string{"apply", "--yes"}, flags...)...) }))
	s.recreated = recreated(t, lab, nodes, cloud)
	ofVersion(t, lab, withoutInTree)
	if v := kubeadmVersion(t, lab); v != withoutInTree {
		t.Errorf("kubeadm would go on with %s", v)
	}
	op.awaitOwners(t, external(of.moving...))
	cli(t, lab, 0, nil, append([]string{"verify"}, verify...)...)
	nodesStay(t, lab, nodes, cloud)

	s.noteBack(watched(t, lab, func() { cli(t, lab, 0, nil, "rollback", "--yes") }))
	s.recreated = max(s.recreated, recreated(t, lab, nodes, cloud))
	ofVersion(t, lab, gcelab.Kind{}.Version())
	if v := kubeadmVersion(t, lab); v != before {
		t.Errorf("kubeadm would go on with %s, before it was %s", v, before)
	}
	op.awaitOwners(t, inTree(of.moving...))
	nodesStay(t, lab, nodes, cloud)
	s.isWhole = true
}

// A rollback out of the middle: API servers of both versions, and managers of both.
func TestAnUpgradeIsRolledBackFromItsMiddle(t *testing.T) {
	long(t)
	lab := theLab(t)
	provide(t, lab, nextVersion)
	settled(t, lab) // where it was built first, the machine was busy for minutes
	before := facts(t, lab)
	middle := ""
	for _, s := range steps(t, lab, "--target-version", nextVersion) {
		if strings.HasPrefix(s.ID, "external/"+cluster.ControllerManager) && middle == "" {
			middle = s.ID
		}
	}
	watched(t, lab, func() {
		cli(t, lab, -1, []string{"TRANSPLANT_TEST_KILL=during:" + middle}, apply("--target-version", nextVersion)...)
		cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	})
	ofVersion(t, lab, cluster.Version)
	asBefore(t, lab, before)
}

// provide gives another version to the lab's kubelets. It is built where the cache has not got it.
func provide(t *testing.T, lab *Trial, version string) {
	t.Helper()
	bins, err := build.Ensure(
		t.Context(),
		build.Options{Sets: []string{"kubernetes-" + version}, Progress: os.Stderr, Heartbeat: time.Minute, Background: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	lab.Provide(bins)
}

// ofVersion fails the test unless every component of the control plane says that it is of a version, and its mirror pod shows the image.
func ofVersion(t *testing.T, lab *Trial, want string) {
	t.Helper()
	client := recorder.NewClient(nil)
	defer client.CloseIdleConnections()
	for _, h := range lab.ControlPlanes() {
		for _, component := range upgraded {
			data, err := lab.Read(h.Name, "/etc/kubernetes/manifests/"+component+".yaml")
			if err != nil {
				t.Fatal(err)
			}
			m, err := controlplane.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			have, err := askedVersion(t.Context(), client, component, m.Address(), lab.MetricsToken())
			if err != nil || have != want {
				t.Errorf("%s on %s says that it is %q, not %s (%v)", component, h.Name, have, want, err)
			}
			pod, err := lab.Client().CoreV1().Pods("kube-system").Get(t.Context(), component+"-"+h.NodeName, metav1.GetOptions{})
			if err != nil || pod.Spec.Containers[0].Image != "registry.k8s.io/"+component+":"+want {
				t.Errorf("the mirror pod of %s on %s: %v %v", component, h.Name, err, pod.Spec.Containers)
			}
		}
	}
}

func askedVersion(ctx context.Context, client *http.Client, component, address, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if component == cluster.APIServer {
		return recorder.Version(ctx, client, address, token)
	}
	m, err := recorder.Scrape(ctx, client, address, token)
	return m.Version, err
}

var kubernetesVersion = regexp.MustCompile(`(?m)^kubernetesVersion: (\S+)$`)

func kubeadmVersion(t *testing.T, lab *Trial) string {
	t.Helper()
	c, err := lab.Client().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := kubernetesVersion.FindStringSubmatch(c.Data["ClusterConfiguration"])
	if found == nil {
		t.Fatalf("kubeadm-config says no version:\n%s", c.Data["ClusterConfiguration"])
	}
	return found[1]
}

// asBefore is unchanged, without the leases of API servers and the roles that API servers keep for the components of their own version: they add rules to them
// and never take any away again, so that those of a newer version stay behind.
func asBefore(t *testing.T, lab *Trial, before []string) {
	t.Helper()
	own := func(line string) bool {
		kind, rest, _ := strings.Cut(line, " ")
		_, name, _ := strings.Cut(rest, "/")
		if strings.HasPrefix(line, "lease kube-system/apiserver-") {
			return true // by which API servers identify themselves since 1.27; it expires after an hour
		}
		return slices.Contains([]string{"clusterrole", "clusterrolebinding", "role", "rolebinding"}, kind) &&
			(strings.HasPrefix(name, "system:") || slices.Contains([]string{"admin", "edit", "view"}, strings.Fields(name)[0]))
	}
	after := facts(t, lab)
	had, have := slices.DeleteFunc(slices.Clone(before), own), slices.DeleteFunc(slices.Clone(after), own)
	if diff := cmp.Diff(had, have); diff != "" {
		t.Errorf("the cluster is not as it was before (-before +after):\n%s", diff)
	}
	for _, line := range after {
		if own(line) && !slices.Contains(before, line) {
			t.Logf("left behind by the newer version: %s", fmt.Sprintf("%.120s", line))
		}
	}
}
