package gcesim_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/provider/gce/inventory"
)

var every = flag.Bool("gce.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")

// TestTheLifeOfAClusterUnderTheProgram runs against the newest API server; with -gce.all against those of proven.VersionsOf.
func TestTheLifeOfAClusterUnderTheProgram(t *testing.T) {
	ccmtest.OnVersions(t, "gce", *every, clusterLives)
}

func startProgram(t *testing.T, version string, sim *gcesim.Cloud, config []byte, more ...string) *ccmtest.Program {
	t.Helper()
	build := func() (string, error) {
		return ccmtest.Build(t.Context(), ".", t.TempDir(), "gce-cloud-controller-manager")
	}
	return ccmtest.StartProgram(t, ccmtest.ProgramOptions{
		Version: version, Provider: "gce", Program: build, CloudConfig: config,
		Env: []string{"GCE_METADATA_HOST=" + sim.MetadataHost()}, Flags: more,
	})
}

func clusterLives(t *testing.T, version string) {
	t.Helper()
	sim := start(t, gcesim.Options{})
	ids, zones := map[string]string{}, map[string]string{}
	for i, name := range ccmtest.Machines {
		sim.AddInstance(gcesim.Instance{Name: name, IP: fmt.Sprintf("10.0.0.%d", i+1)})
		ids[name], zones[name] = idOf(gcesim.Zone, name), gcesim.Zone
	}
	life := ccmtest.Life{
		Program: startProgram(t, version, sim, sim.Config()), ProviderIDs: ids, Zones: zones, Internal: internal,
		Inventory: func(t *testing.T, nodes []v1.Node) {
			t.Helper()
			inventoried(t, sim, nodes)
		},
		PowerOff: func(name string) { sim.SetStatus(gcesim.Zone, name, "TERMINATED") },
		Delete:   func(name string) { sim.DeleteInstance(gcesim.Zone, name) },
		Objects:  sim.Objects, Routes: "/routes/",
	}
	life.Run(t)
}

// TestTheProgramTakesPodCIDRsFromAliasRanges runs node IPAM with CloudAllocator on a real API server, whose podCIDRs cannot be changed.
func TestTheProgramTakesPodCIDRsFromAliasRanges(t *testing.T) {
	sim := start(t, gcesim.Options{})
	sim.AddInstance(gcesim.Instance{Name: "has", IP: "10.0.0.1", AliasRanges: []string{"10.244.1.0/24"}})
	sim.AddInstance(gcesim.Instance{Name: "differs", IP: "10.0.0.2", AliasRanges: []string{"10.244.2.0/24"}})
	sim.AddInstance(gcesim.Instance{Name: "new", IP: "10.0.0.3", AliasRanges: []string{"10.244.3.0/24", "10.9.0.0/28"}})
	sim.AddInstance(gcesim.Instance{Name: "without", IP: "10.0.0.4"})
	s := startProgram(t, "", sim, sim.Config(), "--controllers=*,node-ipam-controller",
		"--cidr-allocator-type=CloudAllocator", "--configure-cloud-routes=false")
	for name, podCIDR := range map[string]string{"has": "10.244.1.0/24", "differs": "10.244.7.0/24", "new": "", "without": ""} {
		s.Join(t, name, podCIDR)
	}
	isReached := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated"
		})
	}
	hasRange := func(n *corev1.Node, podCIDR string) bool {
		return n.Spec.PodCIDR == podCIDR && slices.Equal(n.Spec.PodCIDRs, []string{podCIDR})
	}
	s.UntilNode(t, "new", "given the range of its instance", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.3.0/24") })
	s.UntilNode(t, "has", "reached", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.1.0/24") })
	untilEvent(t, s, "differs", "CIDRConflict", "10.244.2.0/24")
	untilEvent(t, s, "without", "CIDRNotAvailable", "gives its instance no IPv4 range")
	s.UntilNode(t, "differs", "left alone", func(n *corev1.Node) bool { return !isReached(n) && hasRange(n, "10.244.7.0/24") })
	s.UntilNode(t, "without", "left alone", func(n *corev1.Node) bool { return !isReached(n) && len(n.Spec.PodCIDRs) == 0 })
	sim.SetAliasRanges(gcesim.Zone, "without", "10.244.4.0/24")
	s.UntilNode(t, "without", "given the range that it has now", func(n *corev1.Node) bool { return isReached(n) && hasRange(n, "10.244.4.0/24") })
	for _, path := range sim.Objects() {
		t.Errorf("the program has made %s", path)
	}
}

func untilEvent(t *testing.T, s *ccmtest.Program, node, reason, part string) {
	t.Helper()
	poll.EventuallyComplete(t, "an event "+reason+" of node "+node, func(ctx context.Context) string {
		list, err := s.Admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + node})
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
func inventoried(t *testing.T, sim *gcesim.Cloud, nodes []v1.Node) {
	t.Helper()
	t.Setenv("GCE_METADATA_HOST", sim.MetadataHost())
	ccmtest.CheckInventory(
		t, inventoryOf(t, sim.Config(), nodes),
		"internal [80/TCP->80] with [cp-1 worker-1 worker-2]", "internet-facing [80-80/TCP->80-80] with [cp-1 worker-1 worker-2]",
		"machine cp-1 running "+gcesim.Zone, "machine worker-1 running "+gcesim.Zone, "machine worker-2 running "+gcesim.Zone,
		"route 10.244.0.0/24 to cp-1", "route 10.244.1.0/24 to worker-1", "route 10.244.2.0/24 to worker-2",
	)
	got := inventoryOf(t, elsewhere(sim), nodes)
	if len(got.Errors) != 3 || len(got.LoadBalancers)+len(got.Routes)+len(got.Instances) > 0 {
		t.Errorf("of a project that is not there: %+v", got)
	}
	for _, part := range got.Errors {
		if !strings.Contains(part, "another-project") {
			t.Errorf("of a project that is not there, the error is %q", part)
		}
	}
}

func inventoryOf(t *testing.T, config []byte, nodes []v1.Node) *v1.CloudInventory {
	t.Helper()
	file := ccmtest.WriteFile(t, t.TempDir(), "gce.conf", config)
	source, err := inventory.Open(t.Context(), map[string]string{"config": file})
	if err != nil {
		t.Fatal(err)
	}
	return source.Inventory(t.Context(), nodes)
}

// elsewhere is a cloud config with another project.
func elsewhere(sim *gcesim.Cloud) []byte {
	return []byte(strings.Replace(string(sim.Config()), gcesim.Project, "another-project", 1))
}

func TestTheProgramNamesAProjectThatIsNotThere(t *testing.T) {
	sim := start(t, gcesim.Options{})
	startProgram(t, "", sim, elsewhere(sim)).UntilLog(t, "another-project", "")
}
